"""A gate rule of this room: a replay asks it again as it asks the shipped ones."""

from collections.abc import Mapping

from specify_cli.invocation import gates


def register() -> None:
    """Register the rule; registering it again changes nothing."""
    gates.RULES.register("extras-even", is_even)


def is_even(inputs: Mapping[str, object]) -> gates.Verdict:
    """Pass where the number is even."""
    return gates.Verdict("pass", "even") if int(str(inputs["number"])) % 2 == 0 else gates.Verdict("fail", "odd")
