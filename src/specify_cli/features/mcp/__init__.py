"""A server of the Model Context Protocol: agents ask, search and close without a shell."""
