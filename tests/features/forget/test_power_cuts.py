"""Power is cut while something is erased, or a month is moved: it is not begun or done after the next run."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from disk import Event
from planting import NAME, plant
from power import MISSING, SYSTEMS, Work, do_work
from specify_cli.features.forget import erasing
from support import FULL
from trails import RECORDS, codes, load, verify

CUTS = 120 if FULL else 3
pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(bool(MISSING), reason=f"power cannot be cut here without {', '.join(MISSING)}"),
]
FORGET = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, sys.argv[3])
    from disk import write_mark
    from planting import NAME
    from specify_cli.features.forget import erasing, finding
    from specify_cli.features.forget.orders import Order
    from specify_cli.features.forget.targets import Query
    from trails import load
    project = load(Path(sys.argv[1]))
    plan = finding.make_plan(project, Query(texts=(NAME,)))
    journal = erasing.write_journal(project, plan, Order("ada", "asked for it"), time.time_ns() // 1_000_000)
    write_mark(Path(sys.argv[2]), b"begun")
    erasing.finish(project, journal)
    write_mark(Path(sys.argv[2]), b"done")
"""
PACK = """
    import sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[3])
    from disk import write_mark
    from specify_cli.features.cold.packing import pack_months, survey, unpack_month
    from trails import load
    project = load(Path(sys.argv[1]))
    months = survey(project, 1_794_700_800_000)
    assert [packed.records for packed in pack_months(project, months)] == [len(month.loose) for month in months]
    write_mark(Path(sys.argv[2]), b"packed")
    for month in months:
        unpack_month(project.root, month.month)
    write_mark(Path(sys.argv[2]), b"unpacked")
"""


def holds_name(root: Path) -> bool:
    found = [*(root / ".kittify").rglob("*"), *(root / ".git/kittify").rglob("*")]
    return any(path.is_file() and NAME.encode() in path.read_bytes() for path in found)


def read_marks(events: list[Event]) -> list[str]:
    return [event.data.decode() for event in events if event.kind == "m"]


def judge_erasure(work: Work, folder: Path, dice: random.Random) -> str:
    """Cut the power, go on as the next run does, and return how the erasure ended."""
    marks = read_marks(work.events[: work.cut(folder, dice)])
    with work.mounted(folder) as root:
        project = load(root)
        certificates = root / ".kittify/local/forget/certificates"
        assert not (list(certificates.glob("*.json")) and holds_name(root)), "half erased with a certificate"
        erasing.resume(project)
        done = [json.loads(path.read_text()) for path in certificates.glob("*.json")]
        assert codes(verify(root)) == set()
        assert holds_name(root) is (not done)
        assert done or "begun" not in marks
    return "done" if done else "not begun"


@pytest.mark.parametrize("system", SYSTEMS)
def test_after_a_power_cut_an_erasure_is_not_begun_or_done(tmp_path: Path, system: str) -> None:
    work = do_work(tmp_path, system, lambda root: plant(root, records=4), FORGET)
    dice = random.Random(system)
    ends = [judge_erasure(work, tmp_path, dice) for _ in range(CUTS)]
    print(f"{system}: {CUTS} cuts, {ends.count('done')} done, {ends.count('not begun')} not begun")

    assert read_marks(work.events) == ["begun", "done"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_after_a_power_cut_every_record_of_a_month_is_there(tmp_path: Path, system: str) -> None:
    work = do_work(tmp_path, system, lambda root: plant(root, records=6), PACK)
    dice = random.Random(system)
    for _ in range(CUTS):
        work.cut(tmp_path, dice)
        with work.mounted(tmp_path) as root:
            report = verify(root)
            assert (report.records, codes(report)) == (6, set())
    assert read_marks(work.events) == ["packed", "unpacked"]
    assert not list((tmp_path / "mnt").glob(f"project/{RECORDS}/cold/*.cold"))
