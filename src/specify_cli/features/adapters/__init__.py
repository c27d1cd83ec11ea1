"""Record what agents on other people's frameworks do: one module for each, loaded where it is used (docs/agents.md)."""
