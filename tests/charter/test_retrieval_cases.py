"""What a request brings in, and what it must not: judged by people, run against the shipped doctrine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from charter.context import ContextInputs, assemble_context
from doctrine.load import shipped_bundle

CASES = [json.loads(line) for line in Path(__file__).with_name("retrieval_cases.jsonl").read_text().splitlines()]
INPUTS = ContextInputs.from_bytes(
    {".kittify/charter/charter.md": b"## Policy Summary\n\nNever on Friday.\n"}, bundle=shipped_bundle()
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["request"])
@pytest.mark.parametrize("first_load", [True, False], ids=["bootstrap", "compact"])
def test_a_request_brings_in_what_bears_on_it_and_nothing_else(case: dict[str, Any], first_load: bool) -> None:
    result = assemble_context(INPUTS, action=case["action"], request=case["request"], first_load=first_load)
    found = {hit["uri"].rsplit("/", 1)[-1] for hit in result.hits}

    assert [] == [name for name in case["must"] if name not in found]
    assert [] == [name for name in case["must_not"] if name in found]
