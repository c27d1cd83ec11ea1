"""What can be compared gets its right verdict, what cannot is never a match: random runs, one thing planted in each."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doctrine.light_imports import hash_bytes
from replaying import Lines, lines_of, project_of, ran, reseal
from specify_cli.features.programs.run import Run
from specify_cli.features.replay.replay import Options, replay
from specify_cli.invocation.gates import RuleRegistry, Verdict
from specify_cli.libraries.comparison.chains import run_chain
from specify_cli.libraries.comparison.compare import ReplayResult, verify_replay
from support import FULL

CASES = range(200 if FULL else 7)
Plant = Callable[[Lines, random.Random], int]
RULES = RuleRegistry()


@RULES.rule("tests-green")
def no_test_failed(inputs: Any) -> Verdict:
    return Verdict("pass" if inputs["failed"] == 0 else "fail", "TESTS_RUN")


def program_of(dice: random.Random) -> Callable[[Run], None]:
    """Return a program of a few steps that calls tools and models, asks a gate and changes a file."""
    plan = [[dice.choice(("tool", "model", "patch", "gate")) for _ in range(dice.randrange(1, 4))] for _ in range(3)]
    plan[0] += ["tool", "model", "patch", "gate"]
    words = [f"word-{dice.randrange(1000)}" for _ in range(3)]

    def work(run: Run) -> None:
        kinds = itertools.chain(["create"], itertools.repeat("modify"))
        texts: list[str | None] = [None]
        look = run.tool("grep", side_effect="none")(lambda text: f"found {text}")

        def do(number: int) -> str:
            for kind in plan[number]:
                if kind == "tool":
                    look(words[number])
                elif kind == "model":
                    run.model_call("small-1", f"what of {words[number]}?", f"nothing of {words[number]}")
                elif kind == "patch":
                    run.patch("a.py", next(kinds), before=texts[-1], after=f"{words[number]}\n")
                    texts.append(f"{words[number]}\n")
                else:
                    run.gate("tests", "tests-green", {"failed": 0})
            return words[number]

        for number in range(3):
            run.step(f"part-{number}", do, number)

    return work


def compared(root: Path, one: str, two: str) -> ReplayResult:
    project = project_of(root)
    return verify_replay(run_chain(project, one, "original"), run_chain(project, two, "replay"))


def change(root: Path, invocation_id: str, plant: Plant, dice: random.Random) -> int:
    """Plant something in a record and return the number of the line it is in."""
    found: list[int] = []
    reseal(root, invocation_id, lambda lines: found.append(plant(lines, dice)))
    return found[0]


def one_of(lines: Lines, dice: random.Random, *events: str) -> int:
    return dice.choice([at for at, line in enumerate(lines) if line["event"] in events])


ANSWERS = {"tool_result": "output_hash", "step_completed": "output_hash", "model_call": "response_hash"}


def other_answer(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, *ANSWERS)
    member, text = ANSWERS[lines[at]["event"]], f'"{dice.getrandbits(256):064x}"'
    lines[at] |= {member: hash_bytes(text.encode()), member.removesuffix("_hash"): text}
    return at


def other_decision(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "step_completed", "gate_decision", "tool_result")
    changed = {
        "step_completed": ("decision", "WARN"),
        "gate_decision": ("outcome", "fail"),
        "tool_result": ("status", "error"),
    }
    key, value = changed[lines[at]["event"]]
    lines[at][key] = value
    return at


def one_call_less(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "model_call")
    del lines[at]
    return at


def other_end(lines: Lines, _: random.Random) -> int:
    lines[-1]["outcome"] = "failed"
    return len(lines) - 1


def no_answer(lines: Lines, dice: random.Random) -> int:
    return drop_answer(lines, one_of(lines, dice, *ANSWERS))


def drop_answer(lines: Lines, at: int) -> int:
    del lines[at][ANSWERS[lines[at]["event"]]]
    return at


def other_key(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, *ANSWERS)
    member = ANSWERS[lines[at]["event"]]
    lines[at].pop(member.removesuffix("_hash"))
    lines[at] |= {"digest_key": "k" * 16, member: f"{dice.getrandbits(256):064x}"}
    return at


def twins(root: Path, seed: int) -> tuple[str, str, random.Random]:
    """Return two runs of one random program."""
    dice = random.Random(seed)
    program = program_of(dice)
    one, two = (ran(root, program, rules=RULES) for _ in range(2))
    return one, two, dice


@pytest.mark.stress
def test_what_can_be_compared_is_judged_rightly(chartered: Path) -> None:
    root, plants = chartered, (other_answer, other_decision, one_call_less, other_end)
    for seed in CASES:
        one, two, dice = twins(root, seed)
        same = compared(root, one, two)
        assert (same.match, same.details["mismatches"], same.warnings) == (True, [], ()), seed
        again = replay(project_of(root), one, Options(rules=RULES))
        assert (again.match, again.not_evaluated) == (True, ()), seed

        plant = dice.choice(plants)
        change(root, two, plant, dice)
        differs = compared(root, one, two)

        assert differs.match is False, (seed, plant)
        codes = {item["code"] for item in differs.details["mismatches"]}
        expected = {"other_answer": "OUTPUT_MISMATCH", "one_call_less": "STEP_COUNT_MISMATCH"}
        expected |= {"other_decision": "DECISION_MISMATCH", "other_end": "OUTCOME_MISMATCH"}
        assert expected[plant.__name__] in codes, (seed, plant, codes)


@pytest.mark.stress
def test_what_cannot_be_compared_is_never_a_match(chartered: Path) -> None:
    root = chartered
    for seed in CASES:
        one, two, dice = twins(root, 1000 + seed)
        plant = dice.choice((no_answer, other_key))
        at = change(root, two, plant, dice)
        if plant is no_answer and dice.random() < 0.5:
            # Neither side has it: they are equal, and still nobody knows.
            reseal(root, one, functools.partial(drop_answer, at=at))

        found = compared(root, one, two)

        assert found.match is None, (seed, plant)
        unknown = [item for item in found.warnings if item.code == "NOT_COMPARABLE"]
        (warned,) = (item for item in unknown if item.step is not None)
        # With another key the prompt of that call cannot be held against the other one either.
        assert all(item is warned or item.message.startswith("prompts of 1 event") for item in unknown)
        before = [
            line
            for line in lines_of(root, two)[:at]
            if line["event"] in (*ANSWERS, "gate_decision", "retrieval_response")
        ]
        assert warned.step == len(before), (seed, plant)


def unknown_event(lines: Lines, dice: random.Random) -> int:
    at = dice.randrange(4, len(lines) - 1)
    lines.insert(at, {"event": "from_the_future", "at": lines[at].get("at", lines[-1]["completed_at"])})
    return at


def rule_without_digest(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "gate_decision")
    del lines[at]["rule_digest"]
    return at


def unknown_rule(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "gate_decision")
    lines[at]["rule_ref"] = "nobody-has-it"
    return at


def patch_not_kept(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "patch_apply")
    lines[at].pop("after", None)
    lines[at].pop("before", None)
    return at


def call_in_doubt(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "tool_result")
    call = next(place for place, line in enumerate(lines) if line.get("call_id") == lines[at]["call_id"])
    del lines[at]
    return call


def output_as_hash(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "tool_result", "step_completed")
    lines[at].pop("output", None)
    return at


def prompt_as_hash(lines: Lines, dice: random.Random) -> int:
    at = one_of(lines, dice, "model_call")
    lines[at].pop("prompt", None)
    return at


NOT_EVALUATED = (
    *(unknown_event, rule_without_digest, unknown_rule, patch_not_kept, call_in_doubt, output_as_hash, prompt_as_hash),
)


@pytest.mark.stress
def test_what_cannot_be_asked_again_is_never_a_match(chartered: Path) -> None:
    root = chartered
    for seed in CASES:
        one, _, dice = twins(root, 2000 + seed)
        plant = NOT_EVALUATED[seed % len(NOT_EVALUATED)]
        at = change(root, one, plant, dice)

        found = replay(project_of(root), one, Options(rules=RULES))

        named = {item.seq for item in found.not_evaluated} | {fields["seq"] for fields, gaps in found.models if gaps}
        assert (found.match, at in named) == (None, True), (seed, plant, named, at)
