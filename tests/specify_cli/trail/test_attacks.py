"""Every attack on a signed trail is named with its own code, and a clean trail raises no alarm."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from support import FULL
from trails import ATTACKS, codes, grow, make_repository, sign, verify

TRAILS = 1000 if FULL else 20


@pytest.mark.stress
def test_every_attack_is_named(memory_path: Path) -> None:
    done = dict.fromkeys(ATTACKS, 0)
    for seed in range(TRAILS):
        dice = random.Random(seed)
        trail = make_repository(memory_path / "trail")
        grow(trail, dice, dice.randrange(4, 9))
        sign(trail)
        clean = verify(trail)
        assert (clean.level, clean.findings) == ("logged", ()), seed
        for name, attack in ATTACKS.items():
            copy = memory_path / "copy"
            shutil.copytree(trail, copy)
            if attack.act(copy, dice):
                done[name] += 1
                found = verify(copy)
                assert codes(found) & attack.found, f"{name}, seed {seed}: {codes(found)}"
                assert found.level in ("none", "intact", "linked"), f"{name}, seed {seed}"
            shutil.rmtree(copy)
        shutil.rmtree(trail)

    assert min(done.values()) >= TRAILS // 10, done
