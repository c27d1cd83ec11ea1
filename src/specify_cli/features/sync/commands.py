"""sync: agree to an endpoint, deliver, see how delivery stands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING

from doctrine import os
from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_error,
    write_json,
    write_lines,
    write_note,
    write_text,
)
from specify_cli.cli.terminal.person import require_person
from specify_cli.cli.terminal.render import progress_at_terminal
from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.features.sync import consent as consents
from specify_cli.features.sync.offer import Offer, accept, make_offer
from specify_cli.features.sync.sending.outbox import Members, Outbox
from specify_cli.features.sync.status import SyncStatus, advise_failing, token_state, waiting
from specify_cli.features.sync.status import status as standing
from specify_cli.features.sync.trigger import is_running, sync_folder
from specify_cli.libraries.wire.contract import (
    FIELDS,
    GAPS,
    LEVELS,
    MAX_EVENTS,
    RECORDS,
    flat,
)
from specify_cli.project.config import Project
from specify_cli.project.root import find_root
from specify_cli.redaction.json_values import ForeignError, parse_foreign
from specify_cli.room import Values

if TYPE_CHECKING:
    from specify_cli.features.sync.sending.push import PushResult


# More lines of a record are counted by their events.
_MAX_LINES = 200
# Of an object so many members or lines are displayed, and so many characters of each.
_MAX_MEMBERS, _MAX_CHARACTERS = 40, 200


def enable(values: Values) -> int:
    """Show what would leave, ask, and remember the answer in the git directory."""
    project = shell.load_writable()
    _load_sender()
    agreed = bool(values["yes"])
    token_file = values["token_file"]
    offer = make_offer(
        project,
        os.environ,
        endpoint=shell.get_text(values, "endpoint"),
        level=shell.get_text(values, "level"),
        token=None if token_file is None else _read_token_file(str(token_file)),
        proposed=not agreed,
    )
    if not values["json"]:
        where = "stdin" if token_file == "-" else str(token_file or "")
        write_text(_describe_offer(offer) + _describe_credential(offer, where))
    if offer.token is not None and offer.bound_to and agreed and not values["reuse_token"]:
        consents.check_binding(offer.folder, offer.token, offer.endpoint)
    command = f"spec-kitty sync enable --endpoint {quote(offer.endpoint)} --level {offer.level}"
    command += f" --token-file {quote(str(token_file))}" if token_file else ""
    question = f"Send this to {offer.endpoint} from now on?"
    if not agreed and not shell.asks_yes(question, as_json=bool(values["json"])):
        raise CallerError(
            "CONSENT_NEEDED",
            "nobody agreed, so nothing is sent and nothing was changed",
            f"{command} --yes",
        )
    require_person(shell.caller().actor, f"sending to {offer.endpoint}", command)
    consent = accept(offer)
    shell.note_decision(project.git_dir, f"sync enable ({consent.endpoint}, {consent.level})")
    state = token_state(offer.folder, os.environ)
    if values["json"]:
        write_json(
            {
                **consent._asdict(),
                "enabled": True,
                "token": state,
                "records": offer.records,
                "preview": offer.events,
                "preview_is_real": offer.real,
                "preview_record": offer.lines,
                "preview_objects": offer.objects,
                "gaps": GAPS,
            }
        )
        return 0
    write_text(
        f"enabled: {consent.endpoint} at level {consent.level}; `spec-kitty sync disable` ends "
        "it at once"
    )
    if state in ("missing", "unusable"):
        write_note(
            f"warning: the token is {state}, so nothing can be delivered yet; set "
            f"{consents.TOKEN_VARIABLE}, or keep one: spec-kitty sync enable --token-file FILE"
        )
    return 0


def disable(values: Values) -> int:
    """Withdraw consent; what was delivered stays known, for the day it is given again."""
    # Whatever the project's files say by now: what was agreed to can be withdrawn.
    folder = sync_folder(find_root(shell.here(), shell.home())[0])
    was = folder is not None and consents.withdraw(folder)
    said = "disabled: nothing leaves this project" if was else "sync was not enabled"
    write_answer(values, {"enabled": False, "was_enabled": was}, [said])
    return 0


def status(values: Values) -> int:
    """Show how delivery stands."""
    project, _ = shell.reading_project()
    sync_status = standing(project, os.environ)
    write_answer(values, sync_status, _render_status(sync_status).split("\n"))
    return 0


def push(values: Values) -> int:
    """Deliver what is due, or show it."""
    project = shell.load_writable()
    sender = _load_sender()
    if values["dry_run"]:
        folder, consent = sender.agreed(project)
        events, counts = waiting(project, folder, consent, MAX_EVENTS)
        if values["json"]:
            write_json(
                {
                    "endpoint": consent.endpoint,
                    "level": consent.level,
                    "pending": counts.pending,
                    "records": counts.records,
                    "events": events,
                }
            )
            return 0
        going = f"{len(events)} envelopes would go to {consent.endpoint} next"
        lines = [f"{going}; {counts.pending} are pending"]
        if counts.records is not None:
            whole = count(counts.records, "whole record")
            lines.append(f"{whole} would follow, with the objects they lead to")
        if orders := standing(project, os.environ).orders_pending:
            lines.append(f"{count(orders, 'erasure or hold', 'erasures and holds')} would go too")
        for event in events:
            lines += ["", *_render_event(event)]
        write_lines(lines)
        return 0
    return _push(project, values)


def retry(values: Values) -> int:
    """Make what was refused due again, then push."""
    project = shell.load_writable()
    folder, consent = _load_sender().agreed(project)
    with closing(Outbox(project, folder, consent.endpoint)) as outbox:
        again = outbox.retry_refused()
    if not values["json"]:
        write_note(f"{again} refused envelopes are tried again")
    return _push(project, values)


def _push(project: Project, values: Values) -> int:
    sender = _load_sender()
    if is_running(sender.agreed(project)[0], project.root):
        write_note("another push is under way; waiting for it")
    with progress_at_terminal("delivering", quiet=bool(values["json"])) as progress:
        done = sender.push(project, os.environ, progress=progress)
    write_answer(values, done, _describe_push(done).split("\n"))
    refused = done.left.refused or (done.records and done.records.refused)
    orders = done.orders and (done.orders.refused or done.orders.unpurged)
    if done.state == "delivered":
        return 1 if refused or orders else 0
    if not values["json"]:
        write_error(
            EnvironmentFault(
                "DELIVERY_FAILED",
                f"{done.state}: {done.why}; everything that is left is kept",
                advise_failing(standing(project, os.environ), done.why),
            ),
            as_json=False,
        )
    return 1


def _describe_push(done: PushResult) -> str:
    line = f"{done.delivered} delivered, {done.refused} refused, {done.left.pending} left"
    blocked = done.left.held
    line += f", {blocked} wait behind a refused Started" if blocked else ""
    line += f"\nnote: {done.why}" if done.state == "delivered" and done.why else ""
    line += "" if done.witness is None else f"\nlog: {done.witness}"
    if done.orders and done.orders.delivered + done.orders.refused:
        orders = done.orders
        line += f"\nerasures and holds: {orders.delivered} delivered, {orders.refused} refused"
        if orders.unpurged:
            line += f"; of {orders.unpurged} the collector may hold something until the next push"
    if not done.records:
        return line
    records = done.records
    return (
        f"{line}\nwhole records: {records.records} delivered, {records.refused} refused, "
        f"{done.left.records or 0} left;"
        f" {count(records.objects, 'object')}; {count(records.leaves, 'leaf', 'leaves')} of the log"
    )


def _load_sender() -> ModuleType:
    """Return `sending.push`, which needs the extra `sync`; who only asks how delivery stands does
    not."""
    return import_module("specify_cli.features.sync.sending.push")


def _read_token_file(path: str) -> str:
    if path == "-":
        data, where = shell.stdin_bytes(64 * 1024), "stdin"
    else:
        with open(path, "rb") as file:
            data, where = file.read(64 * 1024), path
    return consents.checked_token(data.decode("ascii", "replace").strip(), where)


def _describe_credential(offer: Offer, where: str) -> str:
    """Return the end of the offer: which credential goes there, and who counts as the receiver
    on this machine."""
    if offer.token is None:
        lines = ["credential: none is set yet"]
    elif where or consents.TOKEN_VARIABLE not in os.environ:
        lines = [f"credential: the token of {where or f'{offer.folder}/{consents.TOKEN}'}"]
    else:
        lines = [f"credential: the token in {consents.TOKEN_VARIABLE}"]
    if offer.bound_to:
        others = " and ".join(offer.bound_to)
        lines.append(
            f"  this token belongs to {others}; a yes sends it to the endpoint above as well"
        )
    if offer.listener and offer.listener != str(os.geteuid()):
        lines.append(
            f"receiver: the program of user {offer.listener} that listens there now, and nobody "
            "else's"
        )
    return "\n".join(lines) + "\n"


def _describe_offer(offer: Offer) -> str:
    """Return the page a person decides by: where to, what leaves, what stays."""
    leaves = {field.path for field in FIELDS if offer.level in field.levels}
    stays = sorted({field.path for field in FIELDS} - leaves)
    lines = [
        f"endpoint: {offer.endpoint}",
        f"level: {offer.level}",
        f"when: each as it happens; of the {offer.records} invocations recorded so far, with the "
        "next command, what this endpoint does not hold yet",
        "the log: where the endpoint is a witness, the log's public keys and its state (name, "
        "number of leaves, root hash), for a cosignature",
    ]
    if offer.level != LEVELS[0]:
        lines.append("orders: erasures and holds of records, with who ordered them and why")
    example = "no record yet; what would leave for one such as this:"
    lines += ["", "what would leave for your newest record:" if offer.real else example]
    for event in offer.events:
        lines += ["", *_render_event(event)]
    lines += _describe_records(offer)
    lines += ["", f"what stays here at this level: {', '.join(stays) or 'no member of an event'}"]
    return "\n".join(lines) + "\n"


def _describe_records(offer: Offer) -> Iterator[str]:
    """Yield what leaves of a whole record, line by line and member by member, and of the log."""
    if offer.level != RECORDS:
        return
    yield ""
    yield (
        "each record whole, open ones as they are so far, replays and imported sessions too, "
        "with its annexes and its"
    )
    yield (
        "objects (charter, doctrine, context, long outputs); and the log: a line for each "
        "start, close and annex"
    )
    yield (
        "of a record, what redaction would mask today or was captured in full stays here; its "
        "seal leaves"
    )
    yield (
        "of the objects stay here: what redaction would mask today, what policy denies or "
        "redacts, what is no text"
    )
    yield "what stays here: records that others made and you imported"
    if not offer.lines:
        yield "no record is closed yet; the first one leaves as soon as it is"
        return
    yield "what would leave of your newest closed record:"
    for number, line in enumerate(offer.lines[:_MAX_LINES]):
        yield ""
        yield f"line {number}: {one_line(line.get('event') or 'withheld')}"
        yield from (
            f"  {name} = {json.dumps(value, ensure_ascii=False)}" for name, value in line.items()
        )
    if len(offer.lines) > _MAX_LINES:
        rest = Counter(str(line.get("event") or "withheld") for line in offer.lines[_MAX_LINES:])
        yield ""
        yield "and " + ", ".join(
            f"{number} more {one_line(name)}" for name, number in sorted(rest.items())
        )
    yield ""
    yield (
        f"it leads to {count(len(offer.objects), 'object')}, whole texts with --json "
        "(preview_objects):"
    )
    for item in offer.objects:
        yield ""
        yield from _describe_object(item)


def _describe_object(item: Members) -> Iterator[str]:
    """Yield an object as its members, or as its lines where it is no JSON object, each by its
    beginning."""
    title, text = f"object {item['digest']}: {one_line(item['field'])}", item["text"]
    if not isinstance(text, str):
        yield f"{title}, stays here: {one_line(item['withheld'])}"
        return
    yield f"{title}, {item['size']} bytes"
    try:
        value = parse_foreign(text)
    except ForeignError:
        value = None
    members = [("", line) for line in text.splitlines()]
    if isinstance(value, dict):
        members = [
            (f"{name} = ", json.dumps(inner, ensure_ascii=False)) for name, inner in value.items()
        ]
    for label, content in members[:_MAX_MEMBERS]:
        rest = f"… ({len(content)} characters)" if len(content) > _MAX_CHARACTERS else ""
        yield f"  {one_line(f'{label}{content[:_MAX_CHARACTERS]}{rest}')}"
    if len(members) > _MAX_MEMBERS:
        yield f"  and {len(members) - _MAX_MEMBERS} more"


def _render_event(event: Members) -> Iterator[str]:
    """Yield one event as the members it is made of, a line each."""
    yield f"{event['type']}"
    for path, value in flat(event).items():
        if path != "type":
            yield f"  {path} = {json.dumps(value, ensure_ascii=False)}"


def _describe_uncovered(status: SyncStatus) -> str | None:
    """Return what a consent of before does not cover, and how it is given."""
    missing = []
    if status.level == RECORDS and not status.whole:
        missing.append("objects, open records, replays and imported sessions")
    if status.level not in (None, LEVELS[0]) and not status.orders:
        missing.append("erasures and holds")
    if not missing:
        return None
    return f"{'; '.join(missing)}; sync enable --level {status.level} shows them and asks"


def _render_status(state: SyncStatus) -> str:
    if state.endpoint is None:
        lines = ["sync is off: nothing leaves this project"]
        if state.proposal is not None:
            lines.append(
                f"the project proposes {one_line(state.proposal)}; see it with: spec-kitty sync "
                "enable"
            )
        return "\n".join(lines)
    left_out = ", ".join(f"{number} {why}" for why, number in (state.excluded or {}).items())
    oldest = f", oldest {state.oldest_pending}" if state.oldest_pending else ""
    see = f", see {state.propagation_errors}" if state.refused else ""
    whole = f"{state.records} pending, with their objects"
    orders = f"{state.orders_pending} pending: erasures and holds" if state.orders_pending else None
    if orders and not state.orders:
        orders += f", which do not go at level {state.level}: sync enable --level metadata"
    rows = [
        ("endpoint", f"{state.endpoint} at level {state.level}, agreed {state.consented_at}"),
        ("token", state.token),
        ("pending", f"{state.pending}{oldest}"),
        ("whole records", None if state.records is None else whole),
        ("orders", orders),
        ("not agreed", _describe_uncovered(state)),
        ("delivered", state.delivered),
        ("refused", f"{state.refused}{see}"),
        ("held", f"{state.held} behind a refused Started" if state.held else None),
        ("excluded", left_out or "0"),
        ("last success", state.last_success or "never"),
        ("failing since", state.failing_since),
        ("why", state.why),
        ("paused until", state.paused_until),
        ("now", "a push is under way" if state.running else None),
    ]
    lines = [f"{name + ':':<15}{one_line(value)}" for name, value in rows if value is not None]
    if not state.enabled:
        lines.append(
            "off: consent was given for another project.uuid; agree again with: spec-kitty sync "
            "enable"
        )
    return "\n".join(lines)
