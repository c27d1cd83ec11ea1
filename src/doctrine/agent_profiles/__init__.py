"""Agent profiles: the identities a request can be routed to."""
