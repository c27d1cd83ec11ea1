"""Read everything that a gate judges: rules, keys and charter of the base; lines, records and
changed rules of the branch.

    judged = judge_project(project, index, GateRange("/srv/shop", "origin/main"), "2026-11-25")

What comes from the branch is data. Nothing of it is run, and what of it cannot be read, or is too
large, is named in `judged.origin.not_known`.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import islice, takewhile
from shlex import quote
from typing import Any, NamedTuple

from charter.inputs import CHARTER_MARKDOWN, ContextInputs
from doctrine.git import read_git
from doctrine.load import shipped_bundle
from doctrine.packs import LOCK_PATH, PackError, parse_lock, split_path
from doctrine.text import count, make_encodable
from doctrine.yaml_reader import YamlError, read_yaml
from specify_cli.cli.tables.points import call_fill, list_fills
from specify_cli.errors import InvocationError, StoredDataError
from specify_cli.features.gate.judging import (
    Evidence,
    Judged,
    Secret,
    Weakening,
    find_secret_names,
    find_secrets,
    judge_range,
)
from specify_cli.features.gate.rules import (
    DECIDING,
    GATE,
    GateFile,
    Packs,
    find_lost_packs,
    find_respelled,
    list_weaker,
    parse_gate,
    read_hooks,
    trusts_more,
)
from specify_cli.features.gate.waivers import apply_waivers, read_waivers
from specify_cli.features.origin.git_range import (
    find_commit,
    list_changed,
    list_paths,
    read_blobs,
    read_log,
    read_range,
)
from specify_cli.features.origin.origin import (
    Reading,
    drop_others,
    find_prefix,
    list_projects,
    spell_others,
    trace_range,
)
from specify_cli.features.origin.report import ChangeRange, Origin
from specify_cli.features.replay.replay import load_rules
from specify_cli.features.search.database import SearchIndex
from specify_cli.features.trail_ref.carrying import find_archive
from specify_cli.features.what_if.backtest import judge_place
from specify_cli.features.what_if.candidates import Sights, read_files
from specify_cli.features.witness.levels import TrailWatch
from specify_cli.features.witness.logs import Trust
from specify_cli.features.witness.sources import verify_export
from specify_cli.libraries.signed_log.notes import NoteError, Policy, parse_policy
from specify_cli.libraries.ssh.signatures import Signers
from specify_cli.libraries.work.records import verify_shared
from specify_cli.libraries.work.sharing import HERE
from specify_cli.project.config import Config, Project, parse_config
from specify_cli.project.protection import list_narrowed, resolve_protections
from specify_cli.record import layout
from specify_cli.record.ids import millis_of
from specify_cli.record.reading.checks import find_commands
from specify_cli.storage.index import Index
from specify_cli.storage.queries import read_record

# So many past records are asked again, and so many of a time are looked at for a missing trail.
_MOST_ASKED, _MOST_LOOKED_AT, _MOST_NAMED = 1_000, 2_000, 20
# So many settings files are read with one command, as each was and is: all that they may hold.
_AT_ONCE = 32
# So many bytes of a file of the base or the branch are read.
_MAX_FILE = 4 * 1024 * 1024
# Where programs of agents have their settings and plug-ins. Records are none of them.
_SETTINGS = re.compile(r"hooks|(^|/)\.(?!kittify/)[^/]+/")


class GateRange(NamedTuple):
    """What is judged: the top of the worktree, the branch to merge into, the end of the range."""

    top: str
    base: str
    head: str = "HEAD"


class _Base(NamedTuple):
    """What the base says: its rules, its config and whom it trusts."""

    tip: str
    paths: frozenset[str]
    gate: GateFile
    has_file: bool
    config: Config
    commands: tuple[str, ...]
    policy: Policy | None
    signers: Signers | None

    @property
    def reading(self) -> Reading:
        """Return how it has records read."""
        return Reading(self.commands, self.signers, self.config.project_uuid)


def judge_project(
    project: Project,
    index: SearchIndex,
    asked: GateRange,
    today: str,
    tell: Callable[[int, int], None] | None = None,
) -> Judged:
    """Return the verdict on a range, with its waivers applied. `today` is a day as `2026-11-25`;
    `tell` is told how many files are traced, and of how many.

    Raises CallerError INVALID_VALUE for what is no range, StoredDataError GATE_INVALID where the
    base's rules cannot be read, EnvironmentFault without ssh-keygen where signatures matter.
    """
    tip = find_commit(asked.top, asked.base)
    prefix = find_prefix(project.root, asked.top)
    with _read_base(asked.top, tip, prefix) as base:
        changes = read_range(asked.top, f"{tip}...{asked.head}")
        changes = drop_others(changes, list_projects(base.paths), prefix)
        branch = _Branch(project, asked.top, prefix, base, changes)
        evidence = _gather_evidence(branch, index, tell)
        waivers = list(read_waivers(asked.top, changes, prefix))
        return apply_waivers(
            judge_range(evidence),
            waivers,
            base.reading,
            today,
            # the names and addresses of who made the commits of a file in the range
            lambda path: set(read_log(asked.top, changes, path, "%an%n%ae") if path else ()),
        )


class _Branch(NamedTuple):
    """A branch that is judged: its project, which lies below `prefix` in the worktree, and what it
    changes on top of its base."""

    project: Project
    top: str
    prefix: str
    base: _Base
    changes: ChangeRange


def _gather_evidence(
    branch: _Branch, index: SearchIndex, tell: Callable[[int, int], None] | None
) -> Evidence:
    """Return what the rules look at."""
    base, changes = branch.base, branch.changes
    origin = trace_range(branch.project, index, changes, branch.top, base.reading, tell)
    unseen = (*_find_absent(branch), *_find_unpublished(branch, origin))
    origin = origin._replace(not_known=(*origin.not_known, *unseen))
    changed = list_changed(branch.top, changes)
    spelled, unread = spell_others(branch.top, changes)
    said = "it, or all such files together, are larger than is read, or git has lost it"
    files = {file.path for file in changes.files}
    named = {
        name
        for name, status in changed.items()
        if status == "A" and (name in files or name.startswith(f"{branch.prefix}{layout.KITTIFY}/"))
    }
    return Evidence(
        base.gate,
        base.has_file,
        base.tip,
        origin,
        _prove_records(branch, origin),
        base.policy is not None or base.signers is not None,
        frozenset(_find_published(branch, base.paths).values()),
        *_list_untold(branch),
        (
            *find_secrets((*changes.files, *spelled), base.config.redaction),
            *find_secret_names(named, base.config.redaction),
            *(Secret(make_encodable(path), None, said, known=False) for path in unread),
        ),
        _find_weakening(branch, changed),
        {make_encodable(file.path): file.blob for file in changes.files},
        dict(_ask_custom(base.gate, origin)),
        {
            item.approver: base.signers.list_names(item.approver)
            for writer in origin.writers
            for item in writer.approvals
            if base.signers is not None
        },
        make_encodable(branch.prefix),
    )


# --- the base


@contextmanager
def _read_base(top: str, tip: str, prefix: str) -> Iterator[_Base]:
    """Read what the base says; its files of signers lie in a folder of their own meanwhile."""
    paths = list_paths(top, tip)
    read = _Reader(top, tip, prefix, paths)
    paths_read = (GATE, layout.CONFIG, CHARTER_MARKDOWN)
    data, stated, charter = map(read.get_all(paths_read).get, paths_read)
    if data is None and f"{prefix}{GATE}" in paths:
        raise _refuse(f"it is no file of at most {_MAX_FILE} bytes")
    gate = parse_gate(data)
    config = _parse_config(stated) or parse_config({}, None)  # the defaults protect most
    said = find_commands((charter or b"").decode("utf-8", "replace"))
    commands = (*gate.rules.tests.commands, *said)
    policy = None
    if gate.keys.policy is not None:
        try:
            policy = parse_policy(read.require(gate.keys.policy))
        except NoteError as error:
            raise _refuse(f"keys.policy: {gate.keys.policy}: {error}") from error
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        files: list[str | None] = []
        for name in (gate.keys.allowed_signers, gate.keys.revoked):
            path = None if name is None else f"{folder}/{len(files)}"
            files.append(path)
            if name is not None and path is not None:
                with open(path, "wb") as file:
                    file.write(read.require(name))
        signers = None if files[0] is None else Signers(files[0], files[1])
        yield _Base(tip, paths, gate, data is not None, config, commands, policy, signers)


class _Reader(NamedTuple):
    """Reads files of the project in one commit, which has these paths."""

    top: str
    commit: str
    prefix: str
    paths: frozenset[str]

    def get(self, path: str) -> bytes | None:
        """Return the bytes of a file; None where it is not there or too large."""
        return self.get_all((path,)).get(path)

    def get_all(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes of files by their paths, without those that `get` has none of."""
        names = {
            f"{self.commit}:{self.prefix}{path}": path
            for path in paths
            if f"{self.prefix}{path}" in self.paths
        }
        data = read_blobs(self.top, names, _MAX_FILE, len(names) * _MAX_FILE)
        return {names[name]: found for name, found in data.items() if found is not None}

    def require(self, path: str) -> bytes:
        """Return the bytes of a file that gate.yaml names. Raises StoredDataError GATE_INVALID."""
        data = self.get(path)
        if data is None:
            raise _refuse(f"keys: {path} is not at the base ({self.commit[:12]})")
        return data


def _refuse(why: str) -> StoredDataError:
    return StoredDataError("GATE_INVALID", f"{GATE}: {why}", f"correct {GATE} at the base")


def _parse_config(data: bytes | None) -> Config | None:
    """Return a config; None where it cannot be used."""
    try:
        return parse_config(read_yaml(data or b"{}", name=layout.CONFIG) or {}, data)
    except (YamlError, StoredDataError):
        return None


# --- records


def _prove_records(branch: _Branch, origin: Origin) -> Mapping[str, str]:
    """Return how far the record of each writer is proven under the keys of the base, and those that
    tell how their work was tested."""
    project, base = branch.project, branch.base
    proofs = {writer.invocation_id: writer.proof for writer in origin.writers}
    for writer in origin.writers:
        if writer.tests.record is not None:
            proofs.setdefault(writer.tests.record, writer.proof)
    sealed = [name for name, proof in proofs.items() if proof == "sealed"]
    if not sealed or (base.policy is None and base.signers is None):
        return proofs
    uuid = base.config.project_uuid or "project"
    trust = Trust(base.policy, signers=base.signers, own=False, project=uuid)
    watch = TrailWatch(project, trust)
    reports = list(verify_shared(project, HERE))
    judged = watch.judge(reports)
    imported = {
        str(report.invocation_id): report.tip
        for report in reports
        if report.file.startswith(f"{layout.IMPORTED}/")
    }
    ranks = watch.rank_records([name for name in sealed if name not in imported], judged)
    for name in imported.keys() & sealed:
        if base.policy is not None and _is_logged(branch, name, imported[name], base.policy):
            ranks[name] = "logged"
    return proofs | {name: rank.replace("intact", "sealed") for name, rank in ranks.items()}


def _is_logged(branch: _Branch, invocation_id: str, tip: str | None, policy: Policy) -> bool:
    """Return whether an archive of the trail's ref proves that a trusted log holds the record with
    this tip, as it lies here."""
    with tempfile.TemporaryDirectory(prefix="spec-kitty-") as folder:
        for number, data in enumerate(find_archive(branch.project, branch.top, invocation_id)):
            path = f"{folder}/{number}.tar"
            with open(path, "wb") as file:
                file.write(data)
            try:
                examined = verify_export(path, Trust(policy))
            except InvocationError:
                continue
            same = any(report.tip == tip for report in examined.reports)
            if same and invocation_id in examined.proofs.trusted:
                return True
    return False


def _find_absent(branch: _Branch) -> Iterator[str]:
    """Yield how many published records of the head do not lie in the work tree, where records are
    read."""
    published = _find_published(branch, branch.changes.paths)
    if absent := sum(not os.path.lexists(os.path.join(branch.top, path)) for path in published):
        head = branch.changes.head[:10]
        yield f"not checked out: {count(absent, 'record')} of {head}: {_bring(branch)}"


def _bring(branch: _Branch) -> str:
    """Return the command that brings the records of the head into the work tree."""
    top, head = branch.top, branch.changes.head
    if find_commit(top, "HEAD") != head:
        return f"git switch --detach {head[:10]}"
    if (read_git(top, "config", "--bool", "core.sparseCheckout") or b"").strip() == b"true":
        return "git sparse-checkout disable"
    return f"git checkout HEAD -- {quote(f':/{branch.prefix}{layout.TRAIL}')}"


def _find_unpublished(branch: _Branch, origin: Origin) -> Iterator[str]:
    """Yield what a clone of the head will not see of a trail that is committed: closed records that
    are here and not in it."""
    if branch.project.config.trail != "committed":
        return
    closed = {writer.invocation_id for writer in origin.writers if writer.outcome != "open"}
    published = _find_published(branch, branch.changes.paths)
    if missing := sorted(closed.difference(published.values())):
        said = f"{count(len(missing), 'record')} of this work (first {missing[0]})"
        yield (
            f"a clone does not see {said}: git add "
            f"{quote(f':/{branch.prefix}{layout.TRAIL}')}, and commit"
        )


def _find_published(branch: _Branch, paths: Iterable[str]) -> dict[str, str]:
    """Return which of the paths of a commit are records of the trail, with their invocations."""
    trail = f"{branch.prefix}{layout.TRAIL}/"
    names = ((path, path.rpartition("/")[2]) for path in paths if path.startswith(trail))
    return {path: ids[1] for path, name in names if (ids := layout.parse_record_name(name))}


def _list_untold(branch: _Branch) -> tuple[tuple[str, ...], bool]:
    """Return the invocations between the base and the head of which only the fact is recorded, and
    whether there were more records of that time than are looked at."""
    words = ("log", "--no-walk=unsorted", "--format=%ct", branch.changes.base, branch.changes.head)
    moments = [int(end) * 1000 for end in (read_git(branch.top, *words, "--") or b"").split()]
    if len(moments) < 2:
        return (), False
    root = branch.project.root
    index = Index(root)
    since = takewhile(lambda key: millis_of(key.invocation_id) >= moments[0], index.newest())
    keys = (key for key in since if millis_of(key.invocation_id) < moments[1] + 1_000)
    untold: list[str] = []
    for key in islice(keys, _MOST_LOOKED_AT):
        place = index.place(key)
        try:
            record = None if place is None else read_record(root, place)
        except (OSError, InvocationError):
            continue  # `origin` and verify name what cannot be read
        if record is not None and record.started.get("tombstone") is True:
            untold.append(key.invocation_id)
    return tuple(untold), next(keys, None) is not None


# --- what the branch changes of the rules


def _find_weakening(branch: _Branch, changed: Mapping[str, str]) -> Weakening:
    """Return what the branch changes of the rules that it is under; `changed` are its files."""
    _, top, prefix, base, changes = branch
    below = f"{prefix}.kittify/"
    names = {path.removeprefix(below) for path in changed if path.startswith(below)}
    # What the base has decided since the branch left it stays when git merges the branch.
    paths = base.paths if changes.base == base.tip else list_paths(top, changes.base)
    before = _Reader(top, changes.base, prefix, paths)
    head = before._replace(commit=changes.head, paths=changes.paths)
    rules: list[tuple[str | None, str]] = []
    stood = base.gate
    with suppress(StoredDataError):
        stood = parse_gate(before.get(GATE))
    if "gate.yaml" in names:
        try:
            weaker = list_weaker(stood, parse_gate(head.get(GATE)))
            rules += [(GATE, text) for text in weaker]
        except StoredDataError as error:
            rules.append((GATE, f"the branch's file cannot be used: {error.message}"))
    # Where the base has moved a file of keys since, git carries the branch's lines there.
    rules += _find_other_keys({*base.gate.keys, *stood.keys}, before, head, changed)
    if "config.yaml" in names:
        config, lost = _parse_config(head.get(layout.CONFIG)), ["the branch's file cannot be used"]
        if config is not None:
            stated = (_parse_config(before.get(layout.CONFIG)) or base.config).stated
            lost = [*resolve_protections(config.stated, stated)[1]]
            lost += list_narrowed(config.stated, stated)
        rules += [(layout.CONFIG, f"config: {text}") for text in lost]
    rules += [(None, text) for text in _find_lost_hooks(top, changes, changed)]
    rules += [(None, text) for text in find_respelled(changes.paths, prefix)]
    if any(name.startswith("packs") for name in names):
        rules += [
            (None, text) for text in find_lost_packs(_read_packs(before), _read_packs(head), names)
        ]
    if not any(name.startswith(DECIDING) for name in names):
        return Weakening(tuple(rules))
    tip = before._replace(commit=base.tip, paths=base.paths)
    files = tip.get_all(path for path in _list_deciding(tip) if f"{prefix}{path}" not in changed)
    files |= head.get_all(path for path in _list_deciding(head) if f"{prefix}{path}" in changed)
    return Weakening(tuple(rules), *_ask_again(branch.project.root, files))


def _find_other_keys(
    keys: Iterable[tuple[str, str | None]], base: _Reader, head: _Reader, changed: Container[str]
) -> Iterator[tuple[str, str]]:
    """Yield the changed files of keys that trust more than those of the base, with what is said;
    each file comes with the member of `keys` that names it."""
    for name, path in keys:
        if path is None or f"{base.prefix}{path}" not in changed:
            continue
        if trusts_more(name, base.get(path), head.get(path)):
            yield path, f"keys: {path} says otherwise whom to trust"


def _read_packs(read: _Reader) -> Packs:
    """Return the packs of a commit; none where packs.lock cannot be read.

    A file that is not as pinned binds nothing, nor does a rule that another pack in front replaces.
    """
    lock = read.get(LOCK_PATH) or b'{"version": 1, "packs": []}'
    try:
        packs = parse_lock(lock)
    except PackError:
        return Packs()
    pins = {f"{pack.folder}/{path}": pin for pack in packs for path, pin in pack.files.items()}
    files = {
        path: data
        for path, data in read.get_all(pins).items()
        if sha256(data).hexdigest() == pins[path]
    }
    inputs = ContextInputs.from_bytes({**files, LOCK_PATH: lock}, bundle=shipped_bundle())
    artifacts = (*inputs.charter.sections, *inputs.artifacts)
    bound = {(split_path(one.path)[0], one.uri) for one in artifacts if one.binding}
    bound |= {(rule.pack, f"policy://{rule.id}") for rule in inputs.policy.rules if rule.binding}
    return Packs([pack.id for pack in packs], frozenset(pins.keys() - files), frozenset(bound))


def _find_lost_hooks(top: str, changes: ChangeRange, changed: Iterable[str]) -> Iterator[str]:
    """Yield which of the changed files are settings that run fewer of our hooks than before, or
    switch hooks off."""
    paths = list(filter(_SETTINGS.search, changed))
    for at in range(0, len(paths), _AT_ONCE):
        ends = [
            (path, f"{changes.base}:{path}", f"{changes.head}:{path}")
            for path in paths[at : at + _AT_ONCE]
        ]
        data = read_blobs(top, (name for _, *names in ends for name in names))
        for path, *names in ends:
            before, after = (read_hooks(path, data[name]) for name in names)
            kept = len(before.handlers & after.handlers)
            said = f"hooks: {make_encodable(path)}"
            if kept < len(before.handlers):
                yield f"{said} runs {kept} of {len(before.handlers)} handlers as before"
            for name in sorted(after.switches - before.switches):
                yield f"{said} sets {make_encodable(name)}"


def _ask_again(root: str, files: Mapping[str, bytes]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make past decisions again under the rules of these files: what would be allowed now, and what
    could not be asked."""
    try:
        sights = Sights(read_files(files))
    except (FileExistsError, NotADirectoryError):  # nor can git merge them
        return (), ("the branch and the base give one name to a file and a folder",)
    load_rules(None)
    index = Index(root)
    keys = list(islice(index.newest(), _MOST_ASKED + 1))
    allowed: dict[str, list[str]] = {}
    not_asked = ["older records were not asked"] * (len(keys) > _MOST_ASKED)
    for key in keys[:_MOST_ASKED]:
        place = index.place(key)
        answer = None if place is None else judge_place(root, place, sights)
        if answer is None:
            continue
        for item in answer.found:
            if item.kind in ("deny->allow", "redact->allow"):
                allowed.setdefault(f"{item.name} ({item.kind})", []).append(key.invocation_id)
        not_asked += [f"{item.invocation_id}: {item.reason}" for item in answer.skipped]
    said = (f"{name}, in {len(ids)} of {len(keys)} records, first {min(ids)}"
            for name, ids in sorted(allowed.items()))  # fmt: skip
    more = len(not_asked) - _MOST_NAMED
    left = (f"{more} more",) if more > 0 else ()
    return tuple(said), (*not_asked[:_MOST_NAMED], *left)


def _list_deciding(read: _Reader) -> Iterator[str]:
    """Yield the files that past decisions depend on, by their paths in the project."""
    below = f"{read.prefix}.kittify/"
    for path in sorted(read.paths):
        name = path.removeprefix(below)
        if name != path and name.startswith(DECIDING) and ".." not in path.split("/"):
            yield f".kittify/{name}"


def _ask_custom(
    gate: GateFile, origin: Origin
) -> Iterator[tuple[str, Sequence[Mapping[str, object]] | None]]:
    """Yield what the rules of other packages find, by their names; None of one that failed, or
    found what is no finding."""
    fills = {fill.name: fill for fill in list_fills("merge_rules")}
    for name in gate.rules.custom:
        answer: Any = call_fill(fills[name], origin) if name in fills else None
        known = isinstance(answer, list) and all(isinstance(item, dict) for item in answer)
        yield name, answer if known else None
