"""Did who is named order what the annexes of a record say: erasures, holds and their ends
(docs/format.md §13).

    report = check_orders(report, root, Signers("allowed_signers"))
"""

from __future__ import annotations

from collections.abc import Iterator

from specify_cli.features.approvals.findings import finding
from specify_cli.libraries.ssh.signatures import Signers, holds_by_itself
from specify_cli.record.event_table import ORDERS
from specify_cli.record.findings import Finding, RecordReport
from specify_cli.record.seal import Fields, canonical, open_line
from specify_cli.storage.checking import read_annex_files

NAMESPACE = "spec-kitty-order"
_HEAD = "spec-kitty order v1\n"
_UNSIGNED = frozenset(("v", "salt", "seq", "prev", "signature", "~"))


def make_order_statement(fields: Fields) -> str:
    """Return what is signed of an order's line: its kind, record, time and content."""
    signed = {key: value for key, value in fields.items() if key not in _UNSIGNED}
    return f"{_HEAD}{canonical(signed).decode('utf-8')}\n"


def check_orders(report: RecordReport, root: str, signers: Signers | None) -> RecordReport:
    """Return a record's report with what speaks against who ordered what its annexes say.

    With signers each order of a person has to be signed by one of them; without, a signature has to
    hold by the key it names. Raises EnvironmentFault without ssh-keygen, where signers are given.
    """
    if not report.trail.annexes or report.invocation_id is None:
        return report
    wrong = list(_find_unsigned(root, report.invocation_id, signers))
    return report._replace(findings=(*report.findings, *wrong)) if wrong else report


def _find_unsigned(root: str, invocation_id: str, signers: Signers | None) -> Iterator[Finding]:
    for file, data in read_annex_files(root, invocation_id):
        line = open_line(data.rstrip(b"\n"))
        if line.problems or line.fields is None:
            continue  # damage, which is a finding of its own
        fields = line.fields
        is_order = fields.get("event") in ORDERS and fields.get("identity") != "rule"
        if is_order and not _is_signed(fields, signers):
            who = f"{fields.get('ordered_by')}"
            yield finding("ORDER_UNVERIFIED", file, None, 0, who)


def _is_signed(fields: Fields, signers: Signers | None) -> bool:
    signature, text = str(fields.get("signature", "")), make_order_statement(fields)
    if not signers:
        claimed = fields.get("identity") != "ssh"
        return claimed or holds_by_itself(signature, NAMESPACE, text) is not False
    at = "".join(filter(str.isdecimal, str(fields.get("at"))[:19]))
    return signers.has_signed(str(fields.get("ordered_by")), signature, NAMESPACE, text, at)
