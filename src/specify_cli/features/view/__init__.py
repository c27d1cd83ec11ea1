"""A viewer for the records of one project, on this machine alone: list, search, pages, pictures, comparison."""
