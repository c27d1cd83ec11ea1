"""invocations export --format testimony: the decisions and approvals of one record, for a validator
of others."""

from __future__ import annotations

from doctrine.light_imports import hash_bytes
from doctrine.text import count
from specify_cli.cli.terminal.output import one_line, write_answer, write_note
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.features.approvals.approvals import judge_approvals
from specify_cli.features.witness.testimony import make_testimony
from specify_cli.libraries.archive import archive
from specify_cli.libraries.archive.options import open_export, require_one
from specify_cli.libraries.ssh.options import read_signers
from specify_cli.room import Values
from specify_cli.storage.checking import verify_place
from specify_cli.storage.index import Index
from specify_cli.storage.queries import read_record


def export_testimony(values: Values) -> int:
    """Write the decisions and approvals of one record in the form that a validator of others
    reads."""
    if values["format"] != "testimony":
        what = "--allowed-signers and --revoked go with --format testimony"
        raise CallerError("USAGE", what, "spec-kitty invocations export --help")
    project, _ = open_export(values, "output")
    place = Index(project.root).resolve(require_one(values, "--format testimony", "safe", "proofs"))
    archive.require_whole(verify_place(project, place), place)
    record = read_record(project.root, place)
    if not record or not record.sealed:
        raise StoredDataError(
            "RECORD_UNSEALED",
            f"{place.path} carries no seals, so it cannot be vouched for",
            "export it as an archive",
        )
    signers = read_signers(values)
    judged = list(judge_approvals(list(record.entries), signers)) if signers else []
    data = make_testimony(record, judged).encode()
    output = str(values["output"])
    archive.create_file(output, data)
    valid = sum(item.problem is None and item.signed for item in judged)
    value = {
        "path": output,
        "invocation_id": place.invocation_id,
        "approvals": valid,
        "sha256": hash_bytes(data),
    }
    line = f"{one_line(output)}: {place.invocation_id} with {count(valid, 'signed approval')}"
    write_answer(values, value, [line])
    if not signers:
        write_note("no approval counts without --allowed-signers FILE: it says whose keys do")
    return 0
