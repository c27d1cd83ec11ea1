"""packs: add, list, update, remove, verify, build."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from doctrine.load import read_folder, replace_file, shipped_bundle
from doctrine.packs import LOCK_PATH, MANIFEST, PACKS_FOLDER, SIGNATURE, Pack, classify_file
from doctrine.text import count, make_encodable
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import (
    one_line,
    write_answer,
    write_lines,
    write_note,
)
from specify_cli.durable import Writing
from specify_cli.errors import CallerError
from specify_cli.features.packs.content import (
    Change,
    Content,
    Rule,
    compare_rules,
    list_rules,
    read_content,
    refuse_pack,
    write_manifest,
)
from specify_cli.features.packs.fetching import (
    SUFFIXES,
    Fetched,
    PackLocation,
    fetch_pack,
    refetch_pack,
)
from specify_cli.features.packs.verifying import (
    NAMESPACE,
    PackState,
    describe_weaker,
    require_signature,
    verify_packs,
)
from specify_cli.features.packs.writing import drop_pack, find_loose, read_pinned, write_pack
from specify_cli.features.what_if.backtest import Row, backtest, tabulate
from specify_cli.features.what_if.candidates import read_project
from specify_cli.libraries.ssh.options import read_signers
from specify_cli.libraries.ssh.signatures import sign_text
from specify_cli.project.config import Project
from specify_cli.room import Values

_MOST_ROWS = 20
# What a decision depends on, below `.kittify/`.
_RULES = {"charter", "doctrine", "profiles", "packs", "packs.lock", "config.yaml"}


class PackView(NamedTuple):
    """A pinned pack as it is listed."""

    id: str
    version: str
    licence: str
    source: Mapping[str, object]
    rules: tuple[Rule, ...]
    binding: tuple[str, ...]
    tokens: int
    problem: str | None


class PackList(NamedTuple):
    """The pinned packs, the strongest first."""

    packs: tuple[PackView, ...]


class PackStates(NamedTuple):
    """How the pinned packs stand; `intact` is false where one is not as pinned or signed."""

    intact: bool
    packs: tuple[PackState, ...]


class PackChange(NamedTuple):
    """What adding or updating a pack does: `written` is false where it was only shown.

    `decided_otherwise` is what past records would decide otherwise by it, as `backtest` counts; not
    what they would by what else the project changed since.
    """

    id: str
    version: str
    licence: str
    source: Mapping[str, object]
    signature: str
    signers: tuple[str, ...]
    changes: tuple[Change, ...]
    tokens: int
    passed_over: Mapping[str, int]
    records: int
    decided_otherwise: tuple[Row, ...]
    written: bool


class Removed(NamedTuple):
    """A pack that is gone, and the rules that went with it."""

    id: str
    rules: tuple[Rule, ...]


class Built(NamedTuple):
    """A manifest that was written, of how many files, and whether it is signed."""

    manifest: str
    files: int
    signed: bool


def add(values: Values) -> int:
    """Pin a pack."""
    root = shell.load_writable().root
    place = PackLocation(
        str(values["source"]), shell.get_text(values, "rev"), shell.get_text(values, "path")
    )
    fetched = fetch_pack(place, root)
    change, content = _describe(fetched, values, ())
    if any(pack.id == change.id for pack in read_pinned(root)):
        raise refuse_pack(
            f"a pack {change.id} is pinned already",
            f"spec-kitty packs update {change.id}",
        )
    loose = find_loose(root, content.pack, fetched.files)
    if loose:
        raise CallerError(
            "FILE_EXISTS",
            f"{make_encodable(loose)} is there and no file of this pack; nothing was written",
            f"move it out of {content.pack.folder}, then add the pack again",
        )
    if not values["dry_run"]:
        write_pack(root, None, content.pack, fetched.files)
        change = change._replace(written=True)
    write_answer(values, change, _render_taken(change))
    return 0


def update(values: Values) -> int:
    """Bring a pack up to date; 1 where a person did not agree."""
    project = shell.load_writable()
    pack = _find(project.root, str(values["id"]))
    files = _read_files(project.root, pack)
    before = list_rules(pack, files, shipped_bundle())
    fetched = refetch_pack(pack.source, shell.get_text(values, "rev"), project.root)
    change, content = _describe(fetched, values, before)
    if content.pack.id != pack.id:
        raise refuse_pack(
            f"what lies there now is the pack {content.pack.id}, not {pack.id}",
            f"add it anew after this: spec-kitty packs remove {pack.id}",
        )
    wrong = any(one.problems for one in verify_packs(project.root, None) if one.id == pack.id)
    if content.pack == pack and not (values["yes"] or wrong):
        said = f"{pack.id} {one_line(pack.version, 40)}: nothing to take, it is pinned as it is"
        write_answer(values, change, [said])
        return 0
    pinned_signature = files.get(SIGNATURE, b"") if SIGNATURE in pack.files else None
    weaker = describe_weaker(pinned_signature, fetched.files.get(SIGNATURE))
    if weaker and change.signature != "valid":
        if values["yes"]:
            raise CallerError(
                "PACK_UNSIGNED",
                f"{pack.id}: {weaker}; nothing was written",
                "name the keys you accept with --allowed-signers, or answer without --yes",
            )
        write_note(f"warning: {weaker}")
    if content.pack.files != pack.files:
        change = _ask_past(project, pack, change, (content.pack, fetched.files))
    is_json, agreed = bool(values["json"]), bool(values["yes"])
    asked = not (values["dry_run"] or agreed)
    if asked:
        if not is_json:
            write_answer(values, change, _render_taken(change))
        agreed = shell.asks_yes(f"Take {pack.id} {one_line(change.version, 40)}?", as_json=is_json)
    if agreed and not values["dry_run"]:
        write_pack(project.root, pack, content.pack, fetched.files)
        change = change._replace(written=True)
    if is_json or not asked:
        write_answer(values, change, _render_taken(change))
    elif not agreed:
        write_lines(["nothing was changed: answer y, or give --yes"])
    return 0 if agreed or values["dry_run"] else 1


def list_packs(values: Values) -> int:
    """List the pinned packs."""
    root = shell.read_project().root
    states = {state.id: state for state in verify_packs(root, None)}
    views = []
    for pack in read_pinned(root):
        problems, source = states[pack.id].problems, {**pack.source, "path": pack.id}
        content = Content(pack, (), 0, {})
        if not problems:
            try:
                content = read_content(_read_files(root, pack), (), source, shipped_bundle())
            except CallerError as error:
                problems = (error.message,)
        views.append(
            PackView(
                *pack[:4],
                content.rules,
                tuple(rule.uri for rule in content.rules if rule.binding),
                content.tokens,
                problems[0] if problems else None,
            )
        )
    write_answer(values, PackList(tuple(views)), _render_list(views, every=bool(values["rules"])))
    return 0


def remove(values: Values) -> int:
    """Take a pack out."""
    root = shell.load_writable().root
    pack = _find(root, str(values["id"]))
    rules = list_rules(pack, _read_files(root, pack), shipped_bundle())
    drop_pack(root, pack)
    went = f"{count(len(rules), 'rule')}, {sum(rule.binding for rule in rules)} binding"
    said = f"{pack.id}: removed, with {went if rules else 'no rule that was in use'}"
    write_answer(values, Removed(pack.id, rules), [said])
    return 0


def verify(values: Values) -> int:
    """Verify all packs; 1 where one is not as pinned, or not signed by a key that was named."""
    root = shell.read_project().root
    signers = read_signers(values | {"revoked": None})
    states = verify_packs(root, signers)
    wrong = any(
        state.problems or state.signature == "invalid" or (signers and state.signature != "valid")
        for state in states
    )
    lines = _render_states(states) if states else ["no packs are pinned"]
    write_answer(values, PackStates(not wrong, states), lines)
    return int(wrong)


def build(values: Values) -> int:
    """Write, and sign, the manifest of a pack."""
    folder = os.path.abspath(str(values["folder"]))
    fetched = fetch_pack(PackLocation(folder), folder)
    files = {path: data for path, data in fetched.files.items() if classify_file(path) != "seal"}
    source = {**fetched.source, "path": os.path.basename(folder)}
    content = read_content(files, fetched.passed_over, source, shipped_bundle())
    manifest, key = write_manifest(content.pack), shell.get_text(values, "key")
    signature = None if key is None else sign_text(key, NAMESPACE, manifest.decode())
    with Writing(folder):
        replace_file(f"{folder}/{MANIFEST}", manifest, 0o644)
        if signature is not None:
            replace_file(f"{folder}/{SIGNATURE}", signature.encode(), 0o644)
        elif SIGNATURE in fetched.files:
            os.unlink(f"{folder}/{SIGNATURE}")  # it is of the manifest before
    built = Built(MANIFEST, len(files), signature is not None)
    signed = "signed" if built.signed else "not signed: --key signs it"
    write_answer(values, built, [f"{MANIFEST} of {count(built.files, 'file')}, {signed}"])
    return 0


# --- steps


def _find(root: str, name: str) -> Pack:
    packs = {pack.id: pack for pack in read_pinned(root)}
    if name in packs:
        return packs[name]
    raise CallerError(
        "PACK_NOT_FOUND",
        f"no pack {name} is pinned (pinned: {', '.join(packs) or '-'})",
        "spec-kitty packs list",
    )


def _describe(
    fetched: Fetched, values: Values, before: Sequence[Rule]
) -> tuple[PackChange, Content]:
    """Return what taking these files would do, once they are signed as asked."""
    content = read_content(fetched.files, fetched.passed_over, fetched.source, shipped_bundle())
    pack = content.pack
    return PackChange(
        *pack[:4],
        *require_signature(
            fetched.files.get(MANIFEST),
            fetched.files.get(SIGNATURE),
            read_signers(values | {"revoked": None}),
            pack.id,
        ),
        tuple(compare_rules(before, content.rules)),
        content.tokens,
        content.passed_over,
        0,
        (),
        False,
    ), content


def _ask_past(
    project: Project, pack: Pack, change: PackChange, new: tuple[Pack, Mapping[str, bytes]]
) -> PackChange:
    """Return the change with what past records would decide otherwise by the new pack, and not as
    the project is without it."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        top = f"{project.root}/.kittify"
        with suppress(shutil.Error):  # of what cannot be read, once all else is copied
            shutil.copytree(
                top,
                f"{folder}/.kittify",
                symlinks=True,
                ignore=lambda at, names: {*names} - _RULES if at == top else (),
            )
        write_pack(folder, pack, *new)
        report = backtest(project, read_project(folder))
    if report.not_evaluated:
        others = count(len({one.invocation_id for one in report.not_evaluated}), "record")
        write_note(f"{others} could not be asked in full; what names them: spec-kitty backtest")
    found = report.transitions
    anyway = {*backtest(project, read_project(project.root)).transitions} if found else ()
    table = tabulate(one for one in found if one not in anyway)
    return change._replace(records=report.records, decided_otherwise=tuple(table))


def _read_files(root: str, pack: Pack) -> dict[str, bytes]:
    """Return the bytes of the files of a pack that packs.lock names."""
    read, _ = read_folder(root, pack.folder, SUFFIXES)
    files = {source.path.removeprefix(f"{pack.folder}/"): source.data for source in read}
    return {path: data for path, data in files.items() if path in pack.files}


# --- what a person reads


def _render_taken(new: PackChange) -> Iterator[str]:
    done = "pinned" if new.written else "not written yet"
    yield f"{new.id} {one_line(new.version, 40)} (licence: {one_line(new.licence)}): {done}"
    yield f"from {_describe_source(new.source)}; {_describe_signature(new)}"
    if not new.changes:
        yield "no rule differs"
    for change in new.changes[:_MOST_ROWS]:
        yield f"  {change.what:<8} {change.uri}  {one_line(change.title, 60)}"
    if len(new.changes) > _MOST_ROWS:
        yield f"  … and {len(new.changes) - _MOST_ROWS} more; --json lists them"
    if new.tokens:
        yield f"what it binds takes {new.tokens} tokens of every request it is for"
    if new.passed_over:
        said = ", ".join(f"{one_line(name)} {n}" for name, n in new.passed_over.items())
        yield f"passed over, nothing reads it: {said}"
    if new.records:
        yield f"of {count(new.records, 'past record')}:"
        for row in new.decided_otherwise:
            yield f"  {row.kind} ({one_line(row.cause)}): {count(row.records, 'record')}"
        if not new.decided_otherwise:
            yield "  none comes out otherwise by it"
    if new.written:
        yield f"commit {LOCK_PATH} and {PACKS_FOLDER}/{new.id}/; `charter lint` checks the whole"


def _describe_source(source: Mapping[str, object]) -> str:
    words = (str(source.get(key) or "") for key in ("url", "name", "distribution", "path", "rev"))
    commit = str(source.get("commit") or "")[:12]
    return one_line(" ".join(filter(None, (*words, commit and f"({commit})"))))


def _describe_signature(state: PackChange | PackState) -> str:
    return {
        "none": "not signed",
        "unknown": "signed; whose key it is, --allowed-signers says",
        "invalid": "the signature is not of this manifest, or by no key that was named",
        "valid": f"signed by {', '.join(one_line(name) for name in state.signers)}",
    }[state.signature]


def _render_list(views: Sequence[PackView], *, every: bool) -> Iterator[str]:
    if not views:
        yield "no packs are pinned: spec-kitty packs add SOURCE"
    for view in views:
        yield f"{view.id} {one_line(view.version, 40)} (licence: {one_line(view.licence)})"
        yield f"  from {_describe_source(view.source)}"
        if view.problem:
            yield f"  NOT USED AS PINNED: {one_line(view.problem)}"
            continue
        bound = f", {len(view.binding)} binding ({view.tokens} tokens)" if view.binding else ""
        yield f"  {count(len(view.rules), 'rule')}{bound}"
        for rule in view.rules if every else ():
            mark = " (binding)" if rule.binding else ""
            yield f"    {rule.uri}{mark}  {one_line(rule.title, 60)}"


def _render_states(states: Sequence[PackState]) -> Iterator[str]:
    for state in states:
        if state.id:
            how = "not as pinned" if state.problems else "as pinned"
            yield f"{state.id} {one_line(state.version, 40)}: {how}; {_describe_signature(state)}"
        yield from (f"  {one_line(problem)}" for problem in state.problems)
