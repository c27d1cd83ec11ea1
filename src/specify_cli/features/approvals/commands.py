"""approve: a person allows or denies under their own name."""

from __future__ import annotations

import shlex

from specify_cli.cli import shell
from specify_cli.cli.commands.record import write_batch
from specify_cli.cli.terminal.person import require_person
from specify_cli.errors import CallerError
from specify_cli.features.approvals.approving import Wish
from specify_cli.features.approvals.approving import approve as append_approval
from specify_cli.room import Values


def approve(values: Values) -> int:
    """Append one approval."""
    call, minutes = shell.get_text(values, "call"), values["minutes"]
    if not isinstance(minutes, int) or not 0 < minutes <= 60 * 24 * 366:
        raise CallerError(
            "INVALID_VALUE", f"--minutes: expected 1 to 527040, found {minutes}", "--minutes 60"
        )
    wish = Wish(
        "request" if call is None else "call",
        call,
        not values["deny"],
        shell.get_text(values, "reason"),
        minutes,
        None if values["unsigned"] else str(values["key"]),
    )
    about = f" --call {shlex.quote(call)}" if call else ""
    about += " --deny" if values["deny"] else ""
    command = f"spec-kitty approve {values['invocation_id']}{about}"
    require_person(shell.caller().actor, "an approval", command)
    project = shell.load_writable()
    batch = append_approval(project, str(values["invocation_id"]), shell.caller(), wish)
    write_batch(batch, as_json=bool(values["json"]), dry_run=False)
    return 0
