"""forget, hold and retention: parse, call, print."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Sequence

from doctrine.git import ask_git, find_worktree
from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.filters import read_filters
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_lines,
    write_note,
    write_warnings,
)
from specify_cli.cli.terminal.person import require_person
from specify_cli.durable import read_clock
from specify_cli.errors import CallerError, say_failure
from specify_cli.features.forget import erasing, finding
from specify_cli.features.forget.orders import (
    Order,
    compose_order,
    read_away,
    read_orders,
)
from specify_cli.features.forget.pending import plan_pending
from specify_cli.features.forget.targets import SHORTEST, Query, holds_any, spell_name
from specify_cli.libraries.archive.sealing import Keys, name_subject
from specify_cli.libraries.words.content_members import list_losable
from specify_cli.project.config import Project
from specify_cli.record.ids import new_ulid
from specify_cli.record.seal import Fields, read_fields
from specify_cli.record.verifying.erasures import list_in_force
from specify_cli.room import Values
from specify_cli.storage.index import Index
from specify_cli.storage.queries import Filters, list_invocations
from specify_cli.storage.store import FileRecordStore, Place
from specify_cli.trail.log.entries import write_annex

_MAX_TEXT = 1 << 20
_LINES_SHOWN = 12
_FILES_SHOWN = 20
_ALL = 2**31
# By what it writes.
_COMMANDS = {"held": "add", "released": "release"}


def forget(values: Values) -> int:
    """Show what a query would have erased; with a yes erase it, and say what is left."""
    project = shell.load_writable()
    query = _read_query(project, values)
    _say_finished(erasing.resume(project))
    order = _read_order(project, values)
    if query:
        for name, said, advice in (
            ("--reason", order.reason, "give a reason without it"),
            ("the name of who orders it", order.by, "let somebody else order it"),
        ):
            if holds_any(said.encode("utf-8", "surrogatepass"), query.needles):
                what = f"{name} holds what is to be forgotten, and an order is never erased"
                raise CallerError("USAGE", what, advice)
        plan = finding.make_plan(project, query)
        return show_and_erase(project, plan, values, order, query.needles)
    plan, waiting = plan_pending(project)
    if not plan.records:
        plan, waiting = plan._replace(held=tuple(waiting)), []
    for one in waiting:
        write_note(f"{one} is held: what was ordered of it waits until somebody releases it")
    return show_and_erase(project, plan, values, order) or int(bool(waiting))


def _say_finished(paths: Sequence[str]) -> None:
    for path in paths:
        write_note(f"an erasure that was cut short was finished: {path}")


def _read_query(project: Project, values: Values) -> Query | None:
    """Return what is asked for; None: carry out what is pending. Raises CallerError."""
    names = ("text_file", "subject", "path", "invocation_id")
    criteria = [name for name in names if values[name] is not None]
    is_of_record = criteria == ["invocation_id"]
    if len(criteria) + bool(values["resume"]) != 1 or (values["member"] and not is_of_record):
        raise CallerError(
            "USAGE",
            "forget takes one of --text-file, --subject, --path, --invocation-id and --resume, "
            "and --member with --invocation-id alone",
            "spec-kitty forget --help",
        )
    if values["resume"]:
        return None
    member_names = tuple(shell.get_texts(values, "member"))
    if unknown := {*member_names} - list_losable():
        raise CallerError(
            "INVALID_VALUE",
            f"--member: expected a member that a line can lose, found {min(unknown)!r}",
            "the members of a line: spec-kitty show-uri inv://ID/event/SEQ",
        )
    if is_of_record:
        place = Index(project.root).resolve(str(values["invocation_id"]))
        if place.profile_id is None:
            raise CallerError(
                "INVALID_VALUE",
                f"--invocation-id {place.invocation_id}: expected a sealed record, found one of an "
                "older writer, of which nothing is erased",
                f"remove its file: rm {shlex.quote(f'{project.root}/{place.path}')}",
            )
        return Query(invocation_id=place.invocation_id, members=member_names)
    if values["path"] is not None:
        return Query(path=str(values["path"]))
    name = values["subject"]
    if name is None:
        query = Query(texts=(_read_text(str(values["text_file"])),))
    else:
        name, keys = str(name), Keys(project.git_dir)
        subject = name_subject(name)
        of_subject = frozenset(keys.list_subjects().get(subject, ()))
        query = Query(
            spell_name(name), of_subject=of_subject, key=keys.locate(subject), folded=True
        )
    if len(query.texts[0].encode("utf-8", "surrogatepass")) >= SHORTEST:
        return query
    if query.key is None:
        raise CallerError(
            "INVALID_VALUE",
            f"expected a text of at least {SHORTEST} bytes: a shorter one stands everywhere",
            "give more of it",
        )
    return query._replace(texts=())


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_TEXT + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise CallerError(
            "INVALID_VALUE",
            f"--text-file {path}: {say_failure(error)}",
            "name a file of UTF-8 text",
        ) from error
    if len(text) > _MAX_TEXT:
        what = f"--text-file {path}: expected at most {_MAX_TEXT} characters, found more"
        raise CallerError("INVALID_VALUE", what, "give a part of the text that stands in it alone")
    return text.rstrip("\r\n")


def _read_order(project: Project, values: Values) -> Order:
    reason = shell.get_text(values, "reason")
    key, actor = shell.get_text(values, "key"), shell.caller().actor.actor_id
    top = find_worktree(project.root)
    if key is not None and top is not None:
        actor = (ask_git(top, "config", "user.email") or "").strip() or actor
    return Order(actor, reason or "no reason given", key)


def show_and_erase(
    project: Project,
    plan: finding.Plan,
    values: Values,
    order: Order,
    needles: tuple[bytes, ...] = (),
) -> int:
    """Show a plan, ask, erase, and return the exit code; `needles` must be nowhere afterwards.

    Raises CallerError HELD, and what an erasure raises.
    """
    as_json, result = bool(values["json"]), _describe_plan(plan)
    in_work_trees = finding.find_in_work_trees(project, needles) if needles else []
    result["work_tree"] = in_work_trees
    if not as_json:
        write_lines(_render_plan(plan, in_work_trees))
    is_due = bool(plan.records or plan.objects or plan.files)
    if plan.held:
        raise erasing.refuse_held(project, plan.held, order, read_clock(time.time_ns))
    if is_due and not values["yes"] and not shell.asks_yes("Erase this for good?", as_json=as_json):
        write_answer(values, result, ["nothing was erased; --yes does it"])
        return 1
    if is_due:
        require_person(shell.caller().actor, "an erasure", "spec-kitty forget … --yes")
        now = read_clock(time.time_ns)
        result |= {"done": True, "certificate": erasing.erase(project, plan, order, now)}
    result["left"] = left = finding.find_left(project, needles) if needles else []
    said = [f"left in {path}" for path in left]
    if is_due:
        said.insert(0, f"erased: {erasing.count_values(plan)}")
        said.append(f"certificate: {result['certificate']}")
    else:
        why = "no command reaches what holds it" if left else "nothing in reach holds it"
        said.insert(0, f"{'nothing is due' if order.rule else why}, so nothing was erased")
    write_answer(values, result, said)
    return 1 if left else 0


def _describe_plan(plan: finding.Plan) -> dict[str, object]:
    """Return what is printed of a plan that is not carried out."""
    return {
        "done": False,
        "records": [
            {
                "invocation_id": one.invocation_id,
                "values": one.values,
                "objects": list(one.objects),
                "files": [f"{copy.root}/{copy.place.path}" for copy in one.copies],
            }
            for one in plan.records
        ],
        "objects": list(plan.objects),
        "files": list(plan.files),
        "held": list(plan.held),
        "certificate": None,
        "left": [],
        "not_reached": list(erasing.NOT_REACHED),
    }


def _render_plan(plan: finding.Plan, in_work_trees: Sequence[str]) -> Iterator[str]:
    """Yield what goes of each record: how many values, and of which lines which members. Then the
    objects and files that go whole, and what stays out of reach, where one decides."""
    for one in plan.records:
        yield f"{one.invocation_id}: {count(one.values, 'value')}"
        for seq, members in sorted(one.lines.values())[:_LINES_SHOWN]:
            yield f"  line {seq}: {', '.join(map(one_line, members))}"
        if len(one.lines) > _LINES_SHOWN:
            yield f"  and {len(one.lines) - _LINES_SHOWN} more lines"
    yield from (f"object {digest}" for digest in plan.objects)
    yield from (f"file {path}" for path in plan.files)
    if plan.records or plan.objects or plan.files or in_work_trees:
        yield "not reached:"
        yield from (f"  file of the work tree: {path}" for path in in_work_trees[:_FILES_SHOWN])
        if len(in_work_trees) > _FILES_SHOWN:
            yield f"  and {len(in_work_trees) - _FILES_SHOWN} more files: --json names them"
        yield from (f"  {what}" for what in erasing.NOT_REACHED)


# --- holds


def add_hold(values: Values) -> int:
    """Hold records."""
    return _order_each(values, "held")


def release_hold(values: Values) -> int:
    """Release records."""
    return _order_each(values, "released")


def _order_each(values: Values, event: str) -> int:
    project = shell.load_writable()
    ids = shlex.join(shell.get_texts(values, "ids")) or "ID"
    command = f'spec-kitty hold {_COMMANDS[event]} {ids} --reason "…"'
    require_person(shell.caller().actor, "a hold", command)
    order = _read_order(project, values)
    if values["reason"] is None:
        raise CallerError("USAGE", "--reason is missing", command)
    index, records = Index(project.root), FileRecordStore(project.root, project.config.trail)
    rows = []
    roots, away = finding.list_roots(project), read_away(project)
    places = _list_places(project, index, values, command)
    for place in places:
        one = place.invocation_id
        with erasing.lock(project):
            _say_finished(erasing.finish_each(project))
            now = read_clock(time.time_ns)
            orders = read_orders(roots, one, away)
            for content in _list_contents(event, orders):
                line = compose_order(place, records.read(place), content, order, now, orders)
                write_annex(project, records, one, new_ulid(now, os.urandom(10)), line)
                line_fields = {**read_fields(line[:-1]), "~": line[-67:-3].decode()}
                orders.append(line_fields)
                seal = str(content.get("hold", line_fields["~"]))
                rows.append(_describe_hold(one, seal, line_fields, event == "held"))
    why = "it was held already" if event == "held" else "it was not held"
    why = why if places else "no record fits what was asked for"
    lines = [f"{row['invocation_id']} {event} {_say_row(row)}" for row in rows[:_LINES_SHOWN]]
    if more := len(rows) - len(lines):
        lines.append(f"and {more} more ({len(rows)} in all): spec-kitty hold list")
    write_answer(values, rows, lines or [f"nothing changed: {why}"])
    return 0


def _list_contents(event: str, orders: Sequence[Fields]) -> list[dict[str, object]]:
    """Return what is to be ordered of a record: one hold where none is in force, or the end of each
    that is: clones that did not know of each other can have held it twice."""
    holds = list_in_force(orders)
    if event == "held":
        return [] if holds else [{"event": event}]
    return [{"event": event, "hold": hold["~"]} for hold in holds]


def _list_places(project: Project, index: Index, values: Values, command: str) -> list[Place]:
    """Return the records that a command names, or asks for as `invocations list` does."""
    ids = values["ids"]
    if isinstance(ids, list) and ids:
        return [index.resolve(str(one)) for one in ids]
    filters = read_filters(values)._replace(replays=True)
    if filters == Filters() and not values["all"]:
        raise CallerError("USAGE", "name records, a filter or --all", command)
    listing = list_invocations(project, filters, _ALL)
    write_warnings(listing.problems)
    return [index.resolve(row.invocation_id) for row in listing.rows]


def _describe_hold(
    invocation_id: str, seal: str, order: Fields, in_force: bool
) -> dict[str, object]:
    return {
        "invocation_id": invocation_id,
        "hold": seal,
        "ordered_by": str(order.get("ordered_by")),
        "reason": str(order.get("reason")),
        "at": str(order.get("clock", order.get("at"))),
        "in_force": in_force,
    }


def list_holds(values: Values) -> int:
    """Print every hold that was put on a record here, and who released it."""
    project = shell.read_project()
    rows = []
    lines = []
    for one, orders in finding.find_orders(project, sorted(finding.list_copies(project))).items():
        ends = {order.get("hold"): order for order in orders if order.get("event") == "released"}
        for hold in (order for order in orders if order.get("event") == "held"):
            seal, end = str(hold["~"]), ends.get(hold["~"])
            row = _describe_hold(one, seal, hold, end is None)
            over = f", released {_say_row(end)}" if end else ""
            rows.append(row)
            lines.append(f"{one} held {_say_row(row)}{over}")
    write_answer(values, rows, lines or ["nothing was ever held here"])
    return 0


def _say_row(row: Fields) -> str:
    """Return who ordered something, when by their clock, and why, of an order or what is printed of
    one."""
    return f"{row.get('clock', row['at'])} by {row['ordered_by']}: {row['reason']}"
