"""A package of somebody else that brings a room."""
