"""Nothing but a valid id becomes part of a path."""

from __future__ import annotations

import pytest

from specify_cli.record import layout
from specify_cli.record.layout import PathError

ID = "01JD4Q3S0000000000000000A1"
BAD_IDS = ["", "..", "../x", ID.lower(), ID + "0", "8" + ID[1:], ID[:-1] + "/", ID + "\n"]


def test_ids_give_every_path() -> None:
    assert layout.record_name("implementer", ID) == f"implementer-{ID}.jsonl"
    assert layout.trail_folder(ID) == ".kittify/trail/2024-11"
    assert layout.evidence_folder(ID) == f".kittify/evidence/{ID}"
    assert layout.object_parts("ab" + "0" * 62) == ("ab", "0" * 62)


@pytest.mark.parametrize("bad", BAD_IDS)
def test_no_other_id_becomes_part_of_a_path(bad: str) -> None:
    for make in (layout.trail_folder, layout.evidence_folder, lambda one: layout.record_name("implementer", one)):
        with pytest.raises(PathError):
            make(bad)


@pytest.mark.parametrize("bad", ["", "-a", "A", "a/b", "a.b", "ü", "a" * 65, "a\n"])
def test_no_other_profile_becomes_part_of_a_path(bad: str) -> None:
    with pytest.raises(PathError):
        layout.record_name(bad, ID)


@pytest.mark.parametrize("bad", ["", "AB" + "0" * 62, "0" * 63, "0" * 65, "../" + "0" * 61, "g" * 64])
def test_no_other_digest_becomes_part_of_a_path(bad: str) -> None:
    with pytest.raises(PathError):
        layout.object_parts(bad)


@pytest.mark.parametrize("profile", ["implementer", "a", "0", "a-b_c", "a" * 64, "x-01jd4q3s0000000000000000a1"])
def test_a_record_name_reads_back_as_its_ids(profile: str) -> None:
    assert layout.parse_record_name(layout.record_name(profile, ID)) == (profile, ID)


def test_an_older_name_has_no_profile() -> None:
    assert layout.parse_record_name(f"{ID}.jsonl") == (None, ID)
    assert layout.parse_record_name("notes.jsonl") is None
