"""What can be wrong with an approval."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from specify_cli.record.findings import ERROR, WARNING, make_finding

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
        "a call ran that had been denied",
        "ask why the harness did not wait",
    ),
    "APPROVAL_UNVERIFIED": (
        ERROR,
        "an approval is not signed as it stands, or by no allowed signer",
        "it was changed, or signed by another key: count the call as not approved",
    ),
    "APPROVAL_ERASED": (
        WARNING,
        "something that was signed of an approval was erased, so nobody can check its signature",
        "count the call as not approved, unless you know it otherwise",
    ),
    "ORDER_UNVERIFIED": (
        ERROR,
        "an erasure or hold is not signed as it stands, or by no allowed signer",
        "ask who ordered it",
    ),
}

finding = partial(make_finding, FINDINGS)
