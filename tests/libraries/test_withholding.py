"""What must not leave: judged together and once, and found as if each text were judged by itself."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secrets_corpus import pem
from specify_cli.features.programs.run import open_invocation
from specify_cli.libraries.archive import archive
from specify_cli.libraries.archive.unpacking import import_file, unpacked
from specify_cli.libraries.archive.withholding import REDACTION, Search, Withheld, stand_ins, withhold_lines
from specify_cli.project.config import load_project
from specify_cli.record.record import chain, genesis_tip
from specify_cli.redaction.redact import rule_set, shipped_rule_set

ID = "01JD4Q3S0000000000000000A1"
NAMES = ("event", "text", "password", "idempotency_key", "head", "call_id", "message", "api_key", "a=b", "token")
SECRETS = (
    *("password=hunter2xyz9", "AKIAIOSFODNN7EXAMPLF", "postgres://u:s3cr3tPw9@host/db", "ORCHID-17", "session expiry"),
    *(
        "Authorization: Bearer abcDEF123ghiJKL456mnoPQR",
        "key: 9f1c2b7e4d3a4c558e210b6f7a9d1c34",
        "ghp_" + "a1B2c3D4e5" * 4,
    ),
    "\n".join(("ghp_a1B2c3D4e5F6", "g7H8i9J0k1L2m3N4", "o5P6q7R8")),
)
PLAIN = (
    "fix the login",
    "\n",
    "\\n",
    '\\"',
    "{",
    "a b",
    "é",
    "\x1b[31mred\x1b[0m",
    "&quot;",
    "x" * 64,
    "=",
    "01JD4Q3S",
)


def make_text(dice: random.Random, depth: int = 0) -> str:
    if dice.random() < 0.2 and depth < 2:
        text = json.dumps(make_value(dice, depth + 1), ensure_ascii=dice.random() < 0.5)
        return text[: dice.randint(len(text) // 2, len(text))] if dice.random() < 0.3 else text
    return "".join(dice.choice(SECRETS if dice.random() < 0.2 else PLAIN) for _ in range(dice.randint(0, 3)))


def make_value(dice: random.Random, depth: int = 0) -> Any:
    if dice.random() < 0.6 or depth > 2:
        return make_text(dice, depth)
    if dice.random() < 0.5:
        return [make_value(dice, depth + 1) for _ in range(dice.randint(0, 3))]
    return {dice.choice(NAMES): make_value(dice, depth + 1) for _ in range(dice.randint(0, 3))}


def iter_members(value: Any) -> Iterator[Any]:
    """Yield the texts of a value, each alone or alone beside its name."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str):
                yield {name: inner}
            else:
                yield [name]
                yield from iter_members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from iter_members(inner)
    else:
        yield [value]


@pytest.mark.parametrize("own", [False, True])
def test_a_text_is_found_whatever_stands_beside_it_and_was_judged_before(own: bool) -> None:
    rules = rule_set([("code-name", "ORCHID-[0-9]+")], ["re:hunter2x[a-z]+9"]) if own else shipped_rule_set()
    dice, search = random.Random(17), Search(rules)
    withheld = 0
    for _ in range(150):
        line = {dice.choice(NAMES): make_value(dice) for _ in range(dice.randint(1, 9))}
        expected: dict[str, int] = {}
        for member in iter_members(line):
            for rule, count in (
                Search(rules).judge_line({"alone": member} if isinstance(member, list) else member)[1]
            ).items():
                expected[rule] = expected.get(rule, 0) + count

        found = search.judge_line(line)
        again = search.judge_line(line)

        assert found == again == ((REDACTION, expected) if expected else (None, {})), line
        withheld += bool(expected)
    assert 30 < withheld < 140


def test_what_is_said_of_withheld_lines_takes_little_memory() -> None:
    pem_text, _ = pem(random.Random(1))
    bodies: list[dict[str, object]] = [{"event": "started", "profile_id": "implementer"}]
    bodies += [{"event": "error", "message": pem_text if n % 2 else "plain"} for n in range(600)]
    data, _ = chain(genesis_tip(), ID, bodies)
    search = Search(shipped_rule_set())
    for _ in withhold_lines(b"".join(data.splitlines(keepends=True)[:3]), search, Withheld()):
        pass  # the libraries are loaded, and the rules compiled
    withheld = Withheld()

    tracemalloc.start()
    kept = b"".join(withhold_lines(data, search, withheld))
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - len(kept)
    tracemalloc.stop()

    assert list(stand_ins(kept)) == [(seq, REDACTION) for seq in range(2, 601, 2)]
    assert [row["seq"] for row in withheld.rows] == list(range(2, 601, 2))
    assert withheld.rows[0] == {"seq": 2, "event": "error", "why": REDACTION, "rules": {"private-key": 1}, "file": None}
    assert used < 40 * len(withheld.rows)


@pytest.mark.usefixtures("collects_often")
def test_an_archive_with_many_withheld_lines_is_read_in_little_memory(chartered: Path, tmp_path: Path) -> None:
    with open_invocation(chartered, "implement WP03", capture={"llm": "full"}) as run:
        for number in range(1_500):
            run.model_call("small-1", f"what of step {number}?", f"nothing of note in {number} " * 20)
    path = str(chartered / "safe.tar")
    archive.export(load_project(str(chartered))[0], [run.invocation_id], path, safe=True)
    with unpacked(path) as contents:
        (row,) = contents.records.values()
        assert len(row["withheld"]) == 1_500 and row["withheld"][7]["why"] == "captured-in-full"
    (tmp_path / "elsewhere").mkdir()
    project, _ = load_project(str(tmp_path / "elsewhere"))

    tracemalloc.start()
    import_file(project, path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # Read as a whole, manifest, findings and record took 3.5 MB.
    assert most < 2 << 20, most
