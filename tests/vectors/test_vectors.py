"""Every vector gives exactly its findings, and the generator still builds every vector byte for byte."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from specify_cli.record import layout
from specify_cli.record.verify import verify_record

HERE = Path(__file__).parent
NAMES = sorted(path.name.removesuffix(".jsonl") for path in HERE.glob("*.jsonl"))


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vector_generator", HERE / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_vectors() -> None:
    assert len(NAMES) >= 40


@pytest.mark.parametrize("name", NAMES)
def test_one_damage_gives_exactly_its_findings(name: str) -> None:
    expected = json.loads((HERE / f"{name}.expected.json").read_text())
    data = (HERE / f"{name}.jsonl").read_bytes()
    lines = [line + b"\n" for line in data.split(b"\n")[:-1]]
    if not data.endswith(b"\n") and data:
        lines.append(data.rsplit(b"\n", 1)[-1])

    report = verify_record(lines, file=name, name_ids=layout.parse_record_name(expected["file_name"]))

    found = [{"code": item.code, "seq": item.seq, "offset": item.offset} for item in report.findings]
    assert found == expected["findings"]


def test_the_generator_rebuilds_every_vector_byte_for_byte() -> None:
    documents = _generator().documents()

    on_disk = {path.name: path.read_bytes() for path in HERE.iterdir() if path.suffix in (".jsonl", ".json")}
    assert on_disk == documents
