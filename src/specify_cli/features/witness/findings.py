"""What can be wrong with the links between records, with logs, and with proofs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from specify_cli.record.findings import make_finding

if TYPE_CHECKING:
    from specify_cli.record.findings import Finding, FindingKind

# code → (severity, what it means, what to do)
with open(__file__.removesuffix("py") + "json", encoding="utf-8") as _file:
    FINDINGS: Mapping[str, FindingKind] = {
        code: tuple(row) for code, row in json.load(_file).items()
    }


def finding(code: str, file: str, detail: str, seq: int | None = None) -> Finding:
    """Return a finding of this room, about a file or a line of it."""
    return make_finding(FINDINGS, code, file, seq, 0, detail)
