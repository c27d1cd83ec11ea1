"""A harness that cannot even be imported."""

raise RuntimeError("flightless has no wings")
