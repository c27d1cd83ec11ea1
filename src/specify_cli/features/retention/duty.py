"""What laws and auditors ask of the records, compared with what this project does. [pure]

    judge_duties(facts)[0].state                     # met, not met, not known, not ours

Facts from the records and the config, no legal advice. Sources: Regulation (EU) 2024/1689 (AI Act),
Regulation (EU) 2016/679 (GDPR), International Standards on Auditing 500 and 530.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from doctrine.text import count
from specify_cli.features.retention.rules import PARTS, Rule
from specify_cli.record.findings import LEVELS

# Six months, whichever they are.
_SIX_MONTHS = 184
_AI_ACT, _GDPR = "Regulation (EU) 2024/1689", "Regulation (EU) 2016/679"


class ProjectFacts(NamedTuple):
    """What the project's files say. `verdict` and `level` are of all records, `not_proven` are ends
    of sentences ("that …"); `capture` holds a mode for each side. `erasures` are those that
    somebody ordered, and `erased_under_hold` says which were made of records under a hold."""

    rules: Sequence[Rule]
    contradictions: Sequence[str]
    capture: Mapping[str, str]
    records: int
    open: int
    oldest: str | None
    newest: str | None
    verdict: str
    level: str
    not_proven: Sequence[str]
    erasures: int
    unfinished: int
    holds: Sequence[str]
    erased_under_hold: Sequence[str] = ()
    is_sealed: bool = False


class Duty(NamedTuple):
    """One duty, where it is written, whether it is met, and the facts that say so."""

    source: str
    asks: str
    state: str
    facts: tuple[str, ...]


def judge_duties(facts: ProjectFacts) -> list[Duty]:
    """Return each duty with its state and the facts for it."""
    return [
        _judge_recording(facts),
        _judge_six_months(facts),
        Duty(
            f"{_AI_ACT}, Article 18",
            "Providers keep the technical documentation for ten years.",
            "not ours",
            ("records are logs; the documentation of a system lies elsewhere",),
        ),
        Duty(
            f"{_GDPR}, Article 5(1)(c)",
            "Personal data are limited to what is necessary.",
            "not known",
            (
                "whether less would do is for a person to say",
                "secrets are masked before anything is recorded",
                *(f"{side} is kept {mode}" for side, mode in sorted(facts.capture.items())),
            ),
        ),
        _judge_storage_limit(facts),
        _judge_erasure(facts),
        _judge_holds(facts),
        Duty(
            f"{_GDPR}, Article 19",
            "Whoever received the data is told of an erasure.",
            "not ours",
            (
                "exports do not stand on the records: whoever was given one must be told",
                "sync push tells a collector what was erased; which it is: spec-kitty sync status",
                "copies leave encrypted, and forget destroys the keys of those that left so"
                if facts.is_sealed
                else "copies leave in the clear; capture.sealed has them leave encrypted",
            ),
        ),
        _judge_sampling(facts),
    ]


def _judge_recording(facts: ProjectFacts) -> Duty:
    span = f"from {facts.oldest} to {facts.newest}" if facts.records else "none"
    return Duty(
        f"{_AI_ACT}, Article 12(1)",
        "A high-risk system records events automatically over its lifetime.",
        "met" if facts.records else "not known",
        (
            f"{count(facts.records, 'record')}, {span}; {facts.open} open",
            "sessions of agents that no record covers: spec-kitty doctor",
        ),
    )


def _judge_six_months(facts: ProjectFacts) -> Duty:
    ends = {
        f"rule {rule.name} erases {', '.join(rule.keep)} after {rule.at_most} days": rule.at_most
        for rule in facts.rules
        if rule.at_most is not None
    }
    short = [what for what, days in ends.items() if days < _SIX_MONTHS]
    long = [
        f"rule {rule.name} keeps {', '.join(rule.keep)} for {rule.at_least} days"
        for rule in facts.rules
        if (rule.at_least or 0) >= _SIX_MONTHS
    ]
    return Duty(
        f"{_AI_ACT}, Articles 19(1) and 26(6)",
        "Providers and deployers of high-risk systems keep the logs at least six months.",
        "not met" if short else "met",
        tuple(short or [*long, *ends] or ["no rule erases anything"]),
    )


def _judge_storage_limit(facts: ProjectFacts) -> Duty:
    ends = [rule for rule in facts.rules if rule.at_most is not None]
    everywhere = [rule for rule in ends if rule[4:] == (None, None, None)]
    endless = [part for part in PARTS[:-1] if not any(part in rule.covered for rule in everywhere)]
    said = [f"rule {rule.name}: {', '.join(rule.keep)}, {rule.at_most} days" for rule in ends]
    return Duty(
        f"{_GDPR}, Article 5(1)(e)",
        "Personal data are kept no longer than necessary.",
        "not met" if endless or facts.contradictions else "met",
        (
            *said,
            *facts.contradictions,
            *((f"no rule ends for all records: {', '.join(endless)}",) if endless else ()),
        ),
    )


def _judge_erasure(facts: ProjectFacts) -> Duty:
    return Duty(
        f"{_GDPR}, Article 17(1)",
        "Personal data are erased without undue delay when somebody asks for it.",
        "not met" if facts.unfinished else "met" if facts.erasures else "not known",
        (
            f"on the records: {count(facts.erasures, 'erasure')} that somebody ordered",
            f"{facts.unfinished} unfinished"
            + (": spec-kitty forget --resume" if facts.unfinished else ""),
            "to erase, and to see what cannot be reached: spec-kitty forget --subject NAME",
        ),
    )


def _judge_holds(facts: ProjectFacts) -> Duty:
    return Duty(
        f"{_GDPR}, Article 17(3)(b) and (e)",
        "What a law or a legal claim needs is kept in spite of a request.",
        "not met" if facts.erased_under_hold else "met",
        (
            *(f"erased while it was held: {what}" for what in facts.erased_under_hold),
            *(facts.holds or ("nothing is held; spec-kitty hold add holds a record",)),
        ),
    )


def _judge_sampling(facts: ProjectFacts) -> Duty:
    proven = facts.verdict == "intact" and LEVELS.index(facts.level) >= LEVELS.index("logged")
    return Duty(
        "ISA 500 and ISA 530",
        "An auditor draws a sample from a population that is known to be complete and unaltered.",
        "met" if proven else "not met" if facts.verdict == "not_intact" else "not known",
        (
            f"{count(facts.records, 'record')}: {facts.verdict}, {facts.level}",
            *(f"not proven: {what}" for what in facts.not_proven),
            f"the population: spec-kitty invocations list --all --limit {facts.records} --json",
        ),
    )
