"""What can be wrong with an approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from specify_cli.record.findings import ERROR, Finding, make_finding
from specify_cli.record.findings import FINDINGS as OF_THE_CORE

if TYPE_CHECKING:
    from specify_cli.record.findings import FindingKind

# code → (severity, what it means, what to do)
FINDINGS: Mapping[str, FindingKind] = {
    "APPROVAL_INVALID": (
        ERROR,
        "an approval does not fit the line it is for",
        "it was moved, changed or used before: count the call as not approved",
    ),
    "APPROVAL_EXPIRED": (
        ERROR,
        "an approval is used before or after its time",
        "count the call as not approved",
    ),
    "APPROVAL_BY_PROPOSER": (
        ERROR,
        "an approval is by whoever proposed it",
        "count the call as not approved",
    ),
    "APPROVAL_IGNORED": (
        ERROR,
        "a call ran that a person had denied",
        "ask why the harness did not wait",
    ),
    "APPROVAL_UNVERIFIED": (
        ERROR,
        "an approval is not signed as it stands, or by no allowed signer",
        "it was changed, or signed by another key: count the call as not approved",
    ),
}


def finding(code: str, file: str, seq: int | None, offset: int, detail: str = "") -> Finding:
    """Return a finding of a code of this room or of the core; `detail` says what was expected and
    found here."""
    kind = FINDINGS[code] if code in FINDINGS else OF_THE_CORE[code]
    return make_finding(kind, code, file, seq, offset, detail)
