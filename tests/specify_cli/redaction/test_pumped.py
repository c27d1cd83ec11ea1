"""What a tool prints never keeps masking busy for ever: each text is masked in another process, which has to come to
its end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from secret_contexts import plant_all
from specify_cli.redaction.redact import redact, shipped_rule_set
from support import PATIENCE, draws

PUMPED = (
    "a |",
    "| a ",
    " ",
    "\t",
    "a,",
    "a;",
    "\\",
    '"',
    "'",
    '\\"',
    "=",
    "=a",
    ": ",
    "- ",
    "\n",
    "\n  a: b",
    "<",
    "(",
)
ENDS = ("", "?\n", "\x00", '"', "(", "\nx | y\n")


def pump_texts(number: int) -> list[str]:
    """Return texts with secrets, some place of which is there again and again, and which end as nothing does."""
    dice = random.Random(20)
    places = [planted.text for planted in plant_all()]
    texts = ["password | " + "a | " * 40 + "?\n"]
    for _ in range(number):
        text = dice.choice(places)
        at = dice.randrange(len(text))
        piece = dice.choice((text[at : at + dice.choice((1, 3, 8, 20))], dice.choice(PUMPED)))
        texts.append(text[:at] + piece * dice.choice((30, 60, 400)) + dice.choice((text[at:], "")) + dice.choice(ENDS))
    return texts


@pytest.mark.stress
def test_masking_ends_however_often_a_piece_of_a_text_comes_again() -> None:
    """A Markdown row of 30 columns that ends in a sign which no header has took minutes, and each column twice that."""
    done = subprocess.run(
        [sys.executable, __file__, str(draws(5_000))],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        text=True, capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("all masked\n", "")


if __name__ == "__main__":
    rules = shipped_rule_set()
    for each in pump_texts(int(sys.argv[1])):
        redact(each, rules)
    print("all masked")
