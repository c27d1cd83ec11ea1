"""Gate rules: pure functions with a name and a digest, by which a run decides and a replay decides
again.

Nothing that a record names is ever imported: a rule is one of these, or one that the program
registered itself. The digest of its source distinguishes a rule from an older one of its name.

    @RULES.rule("few-changes")
    def few_changes(inputs):
        return Verdict("pass", "few") if inputs["count"] < 5 else Verdict("warn", "many")

A record keeps a gate's inputs whole, the rule's name, digest and source. A replay asks the rule of
that name again, if its digest is the recorded one, and compares the verdicts. So a rule must not
look at anything but its inputs: no clock, no file, no global that changes. The digest is over the
source as written, docstring and comments included: to change one word of a rule is to make another
rule.
"""

from __future__ import annotations

import inspect
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from doctrine.light_imports import hash_text
from specify_cli.errors import CallerError

OUTCOMES = ("pass", "fail", "warn", "skip")


class Verdict(NamedTuple):
    """The answer of a rule about its inputs: pass, fail, warn or skip, and the reason as a code.

    The reason is for programs, such as `below_minimum`; it must not be empty.
    """

    outcome: str
    reason_code: str


Rule = Callable[[Any], Verdict]


class GateRule(NamedTuple):
    """A registered rule; `source` is its text, None where that is gone.

    `digest` is the SHA-256 of `source`, in hex; where the source is gone, of the compiled code.
    """

    name: str
    digest: str
    decide: Rule
    source: str | None

    def describe(self) -> dict[str, object]:
        """Return the members of a `gate_decision` that identify the rule."""
        return {
            "rule_digest": self.digest,
            **({} if self.source is None else {"rule_source": self.source}),
        }

    def __call__(self, inputs: object) -> Verdict:
        """Return the verdict of the rule. Raises TypeError if it returns anything else."""
        verdict = self.decide(inputs)
        if (
            not isinstance(verdict, Verdict)
            or verdict.outcome not in OUTCOMES
            or not verdict.reason_code
        ):
            raise TypeError(
                f"gate rule {self.name}: expected a Verdict({', '.join(OUTCOMES)}; reason), "
                f"found {verdict!r}"
            )
        return verdict


class RuleRegistry:
    """Rules by name. A name means one rule.

    `RULES` is the one that commands and programs share; `copy` makes one that others cannot
    change.
    """

    def __init__(self) -> None:
        self._rules: dict[str, GateRule] = {}

    def register(self, name: str, decide: Rule) -> GateRule:
        """Take a rule under a name. Raises ValueError where another one has it.

        Registering the same function again, as a reloaded module does, changes nothing.

        Return the registered rule. `decide` must be a pure function of its inputs: nothing checks
        that here, and a replay that gets another verdict reports it.
        """
        source = read_source(decide)
        rule = GateRule(name, _digest_rule(decide, source), decide, source)
        if self._rules.setdefault(name, rule).digest != rule.digest:
            raise ValueError(f"gate rule {name!r} is registered already, with other source")
        return rule

    def rule(self, name: str) -> Callable[[Rule], Rule]:
        """Register the decorated function under a name, and return it unchanged.

        Raises ValueError as `register` does.
        """

        def take(decide: Rule) -> Rule:
            self.register(name, decide)
            return decide

        return take

    def get(self, name: str) -> GateRule:
        """Return the rule of a name. Raises CallerError RULE_NOT_FOUND."""
        if name not in self._rules:
            raise CallerError(
                "RULE_NOT_FOUND",
                f"no gate rule {name!r} is registered; there are {', '.join(sorted(self._rules))}",
                'register it: @gates.RULES.rule("name") above a pure function of its inputs',
            )
        return self._rules[name]

    def find(self, name: str) -> GateRule | None:
        """Return the rule of a name, or None. A replay asks so: a rule that is gone is a
        finding, no error."""
        return self._rules.get(name)

    def copy(self) -> RuleRegistry:
        """Return a registry of its own with the same rules."""
        registry = RuleRegistry()
        registry._rules = dict(self._rules)
        return registry

    def __iter__(self) -> Iterator[GateRule]:
        return iter(self._rules.values())


def source_digest(function: Callable[..., object]) -> str:
    """Return the SHA-256 of a function's source as written, its decorators left out; of its code
    where the source is gone.

    It is how a run's tools and program are known (docs/format.md §4, `tools`): one changed word is
    another digest.
    """
    return _digest_rule(function, read_source(function))


def _digest_rule(function: Callable[..., object], source: str | None) -> str:
    """Return the digest of a rule's source, or of its compiled code where the source is gone."""
    text = _read_code(getattr(function, "__code__", None)) if source is None else source
    return hash_text(text)


def read_source(function: Callable[..., object]) -> str | None:
    """Return a function's source as written, its decorators left out; None where the source is
    gone.

    The source of what was typed into an interpreter, or came from an archive without sources, is
    gone.
    """

    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return None
    lines = source.splitlines()
    start = next(
        (
            number
            for number, line in enumerate(lines)
            if line.startswith(("def ", "lambda", "class "))
        ),
        0,
    )
    return "\n".join(lines[start:])


def _read_code(code: Any) -> str:
    """Return what a code object does, as text without addresses or line numbers."""
    if not hasattr(code, "co_code"):
        return repr(code)
    constants = [_read_code(item) for item in code.co_consts]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, constants))


# Records name a rule by the digest of its source, so also a change that decides the same makes it
# another rule, which no replay takes for the recorded one.
RULES = RuleRegistry()


@RULES.rule("all-true")
def all_true(inputs: Mapping[str, object]) -> Verdict:
    """Return every member of the inputs is true; the reason names the first that is not."""
    wrong = sorted(name for name, value in inputs.items() if value is not True)
    return Verdict("fail", f"not_true:{wrong[0]}") if wrong else Verdict("pass", "all_true")


@RULES.rule("at-least")
def at_least(inputs: Mapping[str, int]) -> Verdict:
    """`found` is not below `minimum`, both whole numbers."""
    enough = inputs["found"] >= inputs["minimum"]
    return Verdict("pass", "enough") if enough else Verdict("fail", "below_minimum")


@RULES.rule("at-most")
def at_most(inputs: Mapping[str, int]) -> Verdict:
    """`found` is not above `maximum`, both whole numbers."""
    within = inputs["found"] <= inputs["maximum"]
    return Verdict("pass", "within") if within else Verdict("fail", "above_maximum")


@RULES.rule("paths-within")
def paths_within(inputs: Mapping[str, list[str]]) -> Verdict:
    """Return every one of `paths` lies in one of the folders `allowed`, given as relative names."""
    for path in inputs["paths"]:
        parts = path.split("/")
        if ".." in parts or not any(
            path == top or path.startswith(top.rstrip("/") + "/") for top in inputs["allowed"]
        ):
            return Verdict("fail", "path_outside")
    return Verdict("pass", "paths_within")
