"""The receiver `spec-kitty sync` is tested against and a team can start with (docs/collector.md)."""
