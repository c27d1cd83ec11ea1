"""spec-kitty: a flight recorder for AI agents' governed work."""

VERSION = "0.1.0"
