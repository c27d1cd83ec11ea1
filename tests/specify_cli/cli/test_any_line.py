"""Command lines made by chance from the table of commands: each is answered or refused in a sentence of ours."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from gating import Shop
from specify_cli.cli.tables.command_table import Command, list_commands
from specify_cli.room import Param
from support import FULL, Cli

# They serve or follow until somebody ends them.
UNENDING = ("view", "mcp serve", "collector serve", "invocations tail")
# What a person would hardly type, and a program might; no path that leads out of the folder of the test.
ODD = (
    "", " ", "-", "..", "src", "a" * 5000, "\udcff", "\u2603", "a\x1b[31mb", "a\nb", "%s", "{}", "[]",
    "null", "0", "-1", "1e9", "**", "[", "(", "..:..", "main..HEAD", "@{", "#1", "http://127.0.0.1:9/x", "sqlite:///x",
    "postgresql://127.0.0.1:1/x", ".kittify", ".git", "src/login.py:99", "src/login.py:x", "os:system", "0" * 64,
    "2026-13-45", "99999d", '{"a":1}', "true", "last", "start", "latest",
)  # fmt: skip
PLAIN: dict[str, tuple[str, ...]] = {
    "TIME": ("1d", "yesterday", "2026-11-01"),
    "DIR": (".", "..", ".kittify"),
    "FILE": ("src/login.py", ".kittify/config.yaml", "nope", "out.json"),
    "REF": ("main", "HEAD", "HEAD~1", "nope"),
    "URI": ("charter://section/policy-summary", f"obj://sha256/{'a' * 64}", "x"),
}
Draw = Callable[[random.Random, Param], str]


def draw_line(dice: random.Random, command: Command, draw: Draw) -> list[str]:
    """Draw the words of a command line: most of what is required, some of what is not, with values of all kinds."""
    words = list(command.path)
    for param in command.params:
        if param.kind == "argument":
            if dice.random() < (0.93 if param.required else 0.5):
                words += [draw(dice, param) for _ in range(dice.randint(1, 3) if param.multiple else 1)]
        elif dice.random() < (0.9 if param.required else 0.7 if param.name in ("yes", "json") else 0.18):
            words.append(param.option if param.kind == "flag" else f"{param.option}={draw(dice, param)}")
    return words


@pytest.mark.stress
def test_every_command_line_is_answered_or_refused(cli: Cli, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    ids = [shop.begin(), shop.begin("review the change")]
    shop.edit(ids[0])
    shop.test(ids[0])
    shop.end(ids[0])
    shop.commit()

    def draw(dice: random.Random, param: Param) -> str:
        kind = param.metavar or param.name.upper()
        plain = next((values for key, values in PLAIN.items() if key in kind), ("last", *ids) if "ID" in kind else ())
        choice = dice.random()
        if param.choices and choice < 0.85:
            return dice.choice(param.choices)
        if param.integer and choice < 0.7:
            return dice.choice(("0", "1", "10", "999999999"))
        return dice.choice(plain if plain and choice < 0.75 else ODD)

    commands = [one for one in list_commands() if " ".join(one.path) not in UNENDING]
    for seed in range(3000 if FULL else 12):
        dice = random.Random(seed)
        words = draw_line(dice, dice.choice(commands), draw)
        ran = cli(*words, cwd=shop.root)

        assert ran.code in (0, 1, 2, 3, 4), (seed, words, ran)
        assert not any(code in ran.err for code in ("INTERNAL", "ROOM_FAILED", "Traceback")), (seed, words, ran)
        if "--json" in words and ran.code == 0 and ran.out:
            json.loads(ran.out)
