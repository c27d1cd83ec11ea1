"""A room that cannot even be imported."""

raise RuntimeError("this room is broken")
