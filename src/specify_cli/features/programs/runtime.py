"""The name that existing programs import the Python API by; it lives in `specify_cli.features.programs.run`."""

from specify_cli.features.programs.run import GateResult, LimitExceeded, Past, Run, ToolCall, open_invocation

__all__ = ["GateResult", "LimitExceeded", "Past", "Run", "ToolCall", "open_invocation"]
