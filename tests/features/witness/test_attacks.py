"""Every attack on a signed trail is named with its own code, and a clean trail raises no alarm."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from specify_cli.features.witness.logs import Trust
from specify_cli.libraries.signed_log.notes import Checkpoint
from specify_cli.record import layout
from specify_cli.record.findings import SetReport
from support import FULL
from trails import ATTACKS, Clock, closed_records, grow, make_repository, rewrite, sign, verify

TRAILS = 1000 if FULL else 1
CLEAN = 10_000 if FULL else 4


def _make_trail(folder: Path, seed: int) -> tuple[Path, random.Random, Checkpoint]:
    """Return a trail that was signed twice, with a backup beside it that was made in between."""
    dice = random.Random(seed)
    trail = make_repository(folder / "trail")
    clock = Clock(dice)
    grow(trail, dice, dice.randrange(2, 5), clock)
    while not closed_records(trail):
        grow(trail, dice, 1, clock)
    sign(trail)
    shutil.copytree(trail, folder / "backup")
    grow(trail, dice, dice.randrange(2, 5), clock)
    return trail, dice, sign(trail)


def _all_codes(report: SetReport) -> set[str]:
    return {item.code for item in report.findings}


@pytest.mark.stress
def test_every_attack_is_named(tmp_path: Path) -> None:
    done = Counter[str]()
    named = {name: Counter[str]() for name in ATTACKS}
    seed = 0
    while min(done[name] for name in ATTACKS) < TRAILS:  # not every trail offers what each attack needs
        seed += 1
        trail, dice, seen = _make_trail(tmp_path, seed)
        for name, attack in ATTACKS.items():
            if done[name] == TRAILS:
                continue
            copy = tmp_path / "copy"
            shutil.copytree(trail, copy)
            if attack.act(copy, dice):
                done[name] += 1
                found = verify(
                    copy, Trust(remembered=(seen,), memory=str(tmp_path / "seen")) if attack.remembering else Trust()
                )
                named[name].update(_all_codes(found))
                assert not attack.found or _all_codes(found) & attack.found, f"{name}, seed {seed}: {_all_codes(found)}"
                lowered = found.level in ("none", "intact", "linked")
                warned = attack.found & {"CLOCK_WENT_BACK", "LOG_RESTARTED"}
                assert lowered or warned, f"{name}, seed {seed}: {found.level}"
            shutil.rmtree(copy)
        shutil.rmtree(trail)
        shutil.rmtree(tmp_path / "backup")
    for name, counted in named.items():
        print(f"{name:45} {done[name]:5} done  {', '.join(f'{code} {n}' for code, n in counted.most_common(4))}")


@pytest.mark.stress
def test_a_clean_trail_raises_no_alarm(tmp_path: Path) -> None:
    alarms = Counter[str]()
    for seed in range(CLEAN):
        trail, _, seen = _make_trail(tmp_path, 1_000_000 + seed)
        found = verify(trail, Trust(remembered=(seen,), memory=str(tmp_path / "seen")))
        assert found.level == "witnessed", seed
        alarms.update(_all_codes(found))
        shutil.rmtree(trail)
        shutil.rmtree(tmp_path / "backup")
    print(f"{CLEAN} clean trails: {sum(alarms.values())} findings")

    assert not alarms


def test_a_forged_record_among_the_imported_ones_is_named_and_proves_nothing_more(tmp_path: Path) -> None:
    """Nothing distinguishes it from a record that an archive brought; no log of this clone holds either."""
    trail, _, _ = _make_trail(tmp_path, 7)
    before = verify(trail)
    path = closed_records(trail)[0]
    old = path.name[-32:-6]
    new = f"{old[:-4]}ZZZZ"
    forged = trail / layout.IMPORTED / path.name.replace(old, new)
    forged.parent.mkdir()
    forged.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
    rewrite(forged, lambda bodies: bodies[0].update(request_text="something else"))
    after = verify(trail)

    assert [(item.code, item.file) for item in after.findings] == [
        ("NOT_OF_THIS_CLONE", f"{layout.IMPORTED}/{forged.name}")
    ]
    assert (before.level, before.findings) == (after.level, ())
    assert any("what was imported (1 record)" in text for text in after.not_proven)
