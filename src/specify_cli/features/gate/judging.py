"""What the rules of a gate say of a range. [pure]

judged = judge_range(evidence)
print(judged.verdict)        # pass, fail or damaged
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from doctrine.text import count, make_encodable
from specify_cli.features.gate.findings import KINDS, GateFinding
from specify_cli.features.gate.rules import LEVELS, GateFile, Level, Rule, place_rules
from specify_cli.features.origin.report import ChangedFile, Origin, Stretch, TracedFile
from specify_cli.features.origin.writers import PROOFS, Writer
from specify_cli.redaction.redact import RuleSet, find_spans, redact

Findings = Iterator[GateFinding]
# A place in a range: path, first and last line, invocation.
# The code of a finding, and what it says.
_Fault = tuple[str, str]
_Place = tuple[str | None, int | None, int | None, str | None]
# How many files a finding of an invocation names.
_MOST_NAMES = 3
# So many lines around one say what its value is of: a private key has some fifty.
_AROUND = 100
_NOWHERE: _Place = (None, None, None, None)


class Secret(NamedTuple):
    """A line that holds what redaction masks, by which rule; without a line it is the name of the
    file, or where it is not `known`, that the file was not read."""

    path: str
    line: int | None
    said: str
    known: bool = True


class Weakening(NamedTuple):
    """What the branch changes of the rules: what is weaker, each with its file where that is one;
    past decisions that would be allowed now, and why not every one could be asked."""

    rules: tuple[tuple[str | None, str], ...] = ()
    allowed: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()


class Evidence(NamedTuple):
    """Everything that the gate looks at.

    `proofs` names for each invocation how far its record is proven under the keys of the base.
    `older` are invocations whose records the base has already. `untold` are those of this time
    without a trail; `more_untold` says that not every record of it was looked at. `blobs` are the
    ids of the files' contents. `custom` are findings of other packages, by the name of their rule;
    None where the rule could not be asked. `names` are all names, in lower case, that the base
    gives to the keys of whoever approved. `prefix` stands before the project's paths in those of
    the repository.
    """

    gate: GateFile
    from_base: bool
    base_tip: str
    origin: Origin
    proofs: Mapping[str, str]
    has_keys: bool
    older: frozenset[str] = frozenset()
    untold: tuple[str, ...] = ()
    more_untold: bool = False
    secrets: tuple[Secret, ...] = ()
    weakening: Weakening = Weakening()
    blobs: Mapping[str, str] = {}
    custom: Mapping[str, Sequence[Mapping[str, object]] | None] = {}
    names: Mapping[str, frozenset[str]] = {}
    prefix: str = ""


class WaiverUsed(NamedTuple):
    """A waiver that answers for findings: who signed it, why, until when, for how many."""

    rule: str
    by: str
    reason: str
    until: str
    findings: int


class Judged(NamedTuple):
    """The verdict. The JSON shape `docs/schemas/gate.json`.

    `proven` says of each invocation of the range how far its record is proven; `claims` is the
    sentence that says what that means.
    """

    verdict: str
    base: str
    head: str
    base_tip: str
    rules_from: str
    claims: str
    proven: Mapping[str, str]
    findings: tuple[GateFinding, ...]
    waivers: tuple[WaiverUsed, ...]
    refused_waivers: tuple[str, ...]
    origin: Origin

    def count(self, level: str) -> int:
        """Return how many findings of a level nobody answers for."""
        return sum(item.level == level and item.waived_by is None for item in self.findings)


def judge_range(evidence: Evidence) -> Judged:
    """Return what the rules say. Waivers are applied afterwards, by `waivers.apply_waivers`."""
    finder = _Finder(evidence)
    findings = sorted(
        (item for judge in _JUDGES for item in judge(finder)),
        key=lambda item: (item.level != "fail", item.rule, item.place, item.code, item.message),
    )
    origin = evidence.origin
    proven = {name: evidence.proofs.get(name, "damaged") for name in sorted(finder.paths)}
    return settle(
        Judged(
            "",
            origin.base,
            origin.head,
            evidence.base_tip,
            ".kittify/gate.yaml at the base" if evidence.from_base else "the defaults, which warn",
            _say_claims(evidence, proven),
            proven,
            tuple(findings),
            (),
            (),
            origin,
        )
    )


def settle(judged: Judged) -> Judged:
    """Return the same with the verdict that its findings give."""
    damaged = any(item.code == "RECORD_DAMAGED" for item in judged.findings)
    verdict = "damaged" if damaged else "fail" if judged.count("fail") else "pass"
    return judged._replace(verdict=verdict)


def _say_claims(evidence: Evidence, proven: Mapping[str, str]) -> str:
    """Return what is proven, and what only says so."""
    number = len(proven)
    if not number:
        return "no recorded invocation wrote a line of this range"
    if not evidence.has_keys:
        return (
            f"nothing is proven: the base names no keys, so what {count(number, 'record')} "
            f"{'says' if number == 1 else 'say'} is the word of whoever made the branch"
        )
    vouched = sum(proof in ("logged", "witnessed") for proof in proven.values())
    return f"keys that the base trusts vouch for {vouched} of {count(number, 'record')}" + (
        "" if vouched == number else "; what the others say is a claim"
    )


class _Finder:
    """Makes findings of one range."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rules = place_rules(evidence.gate.rules, evidence.prefix)
        self.origin = evidence.origin
        self.writers = {writer.invocation_id: writer for writer in self.origin.writers}
        self.commits = {commit.sha: commit for commit in self.origin.commits}
        self.paths: dict[str, list[str]] = {}
        self.authors: dict[str, set[str]] = {}
        for file, part in self.iter_stretches():
            for name in part.answered_by:
                self.paths.setdefault(name, []).append(file.path)
                if part.commit in self.commits:
                    names = self.commits[part.commit].author_names
                    self.authors.setdefault(name, set()).update(names)
        for file in self.origin.files:
            for name in file.removed_by:
                self.paths.setdefault(name, []).append(file.path)
                commits = (self.commits[sha] for sha in file.removed_in if sha in self.commits)
                self.authors.setdefault(name, set()).update(*(one.author_names for one in commits))

    def iter_stretches(self) -> Iterator[tuple[TracedFile, Stretch]]:
        """Yield the files with their stretches of lines."""
        return ((file, part) for file in self.origin.files for part in file.stretches)

    def list_writers(self, rule: Rule) -> Iterator[Writer]:
        """Yield the invocations that wrote a file which a rule is about."""
        for writer in self.origin.writers:
            if any(rule.covers(path) for path in self.paths.get(writer.invocation_id, ())):
                yield writer

    def find_unmet(self, rule: Rule, find_fault: Callable[[Writer], _Fault | None]) -> Findings:
        """Yield the faults of invocations that wrote a file which a rule is about.

        Where several may have written the same lines, as where a first try was undone, one is
        enough that is proven no less, that the base does not have already, and that no rule of
        these which counts as much finds a fault of: whoever of them wrote, nothing is wrong.
        """
        faults = {writer.invocation_id: find_fault(writer) for writer in self.list_writers(rule)}
        good = {name for name, fault in faults.items() if fault is None} - self.evidence.older
        good = {name for name in good if not self._is_at_fault(self.writers[name], rule.level)}
        judged: set[str] = set()
        for file, part in self.iter_stretches():
            for name in part.answered_by if rule.covers(file.path) else ():
                others = good.intersection(part.answered_by)
                if all(self.is_proven_less(other, name) for other in others):
                    judged.add(name)
        for file in self.origin.files:
            judged.update(file.removed_by if rule.covers(file.path) else ())
        for name, fault in faults.items():
            if fault and name in judged:
                yield from _find_of(fault[0], rule, name, fault[1])

    def _is_at_fault(self, writer: Writer, level: Level) -> bool:
        """Return whether tests or end of an invocation are a finding of this level or more."""
        faults = (
            (self.rules.tests, _find_untested(self, writer)),
            (self.rules.ended, _find_bad_end(writer)),
        )
        return any(
            fault is not None
            and LEVELS.index(rule.get_level(known=KINDS[fault[0]].known)) >= LEVELS.index(level)
            and any(map(rule.covers, self.paths.get(writer.invocation_id, ())))
            for rule, fault in faults
        )

    def is_proven_less(self, name: str | None, than: str) -> bool:
        """Return whether one record is proven less than another; False without a name."""
        proofs = self.evidence.proofs
        return name is not None and (
            PROOFS.index(proofs.get(name, "claimed")) < PROOFS.index(proofs.get(than, "claimed"))
        )

    def find_in_lines(
        self, code: str, rule: Rule, file: TracedFile, part: Stretch | None, detail: str = ""
    ) -> Findings:
        """Yield a finding of some lines of a file, where the rule counts."""
        first, last = (None, None) if part is None else (part.first, part.last)
        subject = f"{file.path}@{self.evidence.blobs.get(file.path, '')}"
        yield from _make(code, rule, subject, (file.path, first, last, None), detail)


def _find_of(code: str, rule: Rule, name: str, detail: str) -> Findings:
    """Yield a finding of an invocation, where the rule counts."""
    yield from _make(code, rule, name, (None, None, None, name), detail)


def _make(
    code: str,
    rule: Rule,
    subject: str,
    place: _Place,
    detail: str,
) -> Findings:
    kind = KINDS[code]
    level = rule.get_level(known=kind.known)
    if level != "off":
        message = f"{kind.meaning}: {detail}" if detail else kind.meaning
        said = (message, detail, kind.next, subject)
        yield GateFinding(code, kind.rule, level, kind.known, *place, *said)


def _judge_records(finder: _Finder) -> Findings:
    """Every line that an agent wrote has a record."""
    rule = finder.rules.records
    signed = {one.sha for one in finder.origin.commits if one.agents}
    for file in finder.origin.files:
        is_told = file.problem is None or (file.removed_by and not file.stretches)
        commits = (not file.stretches and file.removed_in) or signed
        is_asked = rule.of == "all" or not signed.isdisjoint(commits)
        if is_asked and not is_told and rule.covers(file.path):
            yield from finder.find_in_lines("LINES_NOT_KNOWN", rule, file, None, f"{file.problem}")
    for file, part in finder.iter_stretches():
        if part.answered_by or part.blank or not rule.covers(file.path):
            continue
        commit = finder.commits.get(part.commit or "")
        if commit is not None and commit.agents:
            said = f"commit {commit.sha[:8]} names {commit.agents[0]}"
        elif rule.of == "all":
            said = "every line has to have a record here"
        else:
            continue
        yield from finder.find_in_lines("LINES_UNRECORDED", rule, file, part, said)
    yield from _find_unlooked(finder, "LINES_NOT_KNOWN", rule)


def _find_unlooked(
    finder: _Finder, code: str, rule: Rule, said: str = "were not looked at"
) -> Findings:
    """Yield what of the range is beyond what is looked at."""
    for text in finder.origin.not_known:
        if said in text:
            yield from _make(code, rule, "the range", _NOWHERE, text)


def _find_untested(finder: _Finder, writer: Writer) -> _Fault | None:
    """Return why it is not known that the tests passed behind an invocation's last edit."""
    state, command = writer.tests.state, writer.tests.command
    if writer.invocation_id in finder.evidence.older:
        return "TESTS_NOT_KNOWN", "the base has its record, so its tests ran on another state"
    if finder.is_proven_less(writer.tests.record, writer.invocation_id):
        said = f"that of {writer.tests.record}, which says so, is proven less than its own"
        return "TESTS_NOT_KNOWN", said
    if state == "not known":
        return "TESTS_NOT_KNOWN", command or "not kept"
    if state in ("failed", "not run"):
        return "TESTS_NOT_GREEN", f"{state} ({command})" if command else state
    return None


def _find_bad_end(writer: Writer) -> _Fault | None:
    """Return how an invocation ended that is not closed as done."""
    if writer.outcome == "open":
        return "INVOCATION_OPEN", f"begun at {writer.started_at}"
    if writer.outcome != "done":
        return "INVOCATION_FAILED", f"ended as {writer.outcome}"
    return None


def _judge_approvals(finder: _Finder) -> Findings:
    """Somebody else than who asked has approved each invocation, for all files or for some."""
    for rule in finder.rules.approval:
        for writer in finder.list_writers(rule):
            asked = {writer.asked_by or ""} | finder.authors.get(writer.invocation_id, set())
            said = _find_fault(writer, rule.by, set(map(str.casefold, asked)), finder.evidence)
            if said is not None:
                yield from _find_of("APPROVAL_MISSING", rule, writer.invocation_id, said)
        for file, part in finder.iter_stretches():
            if not part.answered_by and not part.blank and rule.covers(file.path):
                yield from finder.find_in_lines("APPROVAL_NOT_KNOWN", rule, file, part)
        for file in finder.origin.files:
            said = _say_untold(file, finder.evidence.older, rule)
            if said is not None:
                yield from finder.find_in_lines("APPROVAL_NOT_KNOWN", rule, file, None, said)


def _say_untold(file: TracedFile, older: frozenset[str], rule: Rule) -> str | None:
    """Return what befell a file that a rule is about, beside the lines that came, and no record of
    this range tells; None where that is nothing."""
    left = file.old_path is not None and rule.covers(file.old_path) and not rule.covers(file.path)
    if left and file.stretches:
        return f"it was {file.old_path}"
    if not (left or rule.covers(file.path)) or set(file.removed_by) - older:
        return None
    # Where lines came, blank ones that went are no matter.
    is_blank = file.removed_in and not file.removed_by
    if file.stretches and (not file.removed or is_blank):
        return None
    gone = (
        f"{count(file.removed, 'line')} went"
        if file.removed
        else "its name, mode or last end of line changed"
    )
    said = {"deleted": "it was deleted", "created": "it is empty"}.get(file.kind, gone)
    return file.problem or said


def _find_fault(
    writer: Writer, by: Sequence[str], asked: set[str], evidence: Evidence
) -> str | None:
    """Return why no approval of an invocation counts; None where one does. `asked` is in lower
    case. What a person says of the whole request counts, and of that their last word."""
    said, allowing = "there is none", set[str]()
    for item in writer.approvals:
        whole = item.refers_to == "request"
        if item.problem is not None:
            said = f"that of {item.approver}: {item.problem}"
        elif not item.signed:
            said = f"that of {item.approver} is signed by no key that the base trusts"
        elif not item.allows:
            said = f"that of {item.approver}: it denies"
            allowing -= {item.approver} if whole else set()
        elif not whole:
            said = f"that of {item.approver} is of a {item.refers_to}, not of the request"
        elif not evidence.names[item.approver].isdisjoint(asked):
            said = f"{item.approver} asked for it or made its commit"
        elif by and item.approver not in by:
            said = f"{item.approver} is not one of {', '.join(by)}"
        else:
            allowing.add(item.approver)
    return None if allowing else said


def _judge_unseen(finder: _Finder) -> Findings:
    """No file of the range changed while no recorded tool ran."""
    rule = finder.rules.unseen
    prefix = finder.evidence.prefix
    files = {file.path.removeprefix(prefix): file for file in finder.origin.files}
    for writer in finder.origin.writers:
        for what in writer.unseen:
            path = next(
                (path for path in files if what == path or what.startswith(f"{path}:")), None
            )
            if path is not None and rule.covers(files[path].path):
                said = f"{what}, in the session of {writer.invocation_id}"
                yield from finder.find_in_lines("CHANGE_UNSEEN", rule, files[path], None, said)


def _judge_proofs(finder: _Finder) -> Findings:
    """Each record is whole, and reaches a level of proof."""
    rule = finder.rules.proof
    damaged = Rule(level="fail")
    for name in sorted(finder.paths):
        if name not in finder.writers:
            yield from _find_of("RECORD_DAMAGED", damaged, name, f"that of {name} cannot be read")
    for writer in finder.origin.writers:
        proof = finder.evidence.proofs.get(writer.invocation_id, "claimed")
        if proof == "damaged":
            said = ", ".join(writer.findings)
            yield from _find_of("RECORD_DAMAGED", damaged, writer.invocation_id, said)
        elif PROOFS.index(proof) < PROOFS.index(rule.reach) and any(
            map(rule.covers, finder.paths.get(writer.invocation_id, ()))
        ):
            said = f"{proof}, where {rule.reach} is asked"
            yield from _find_of("PROOF_TOO_LOW", rule, writer.invocation_id, said)


def _judge_trail(finder: _Finder) -> Findings:
    """No record of the time of the range was made without a trail."""
    for name in finder.evidence.untold:
        yield from _find_of("NO_TRAIL", finder.rules.trail, name, "")
    if finder.evidence.more_untold:
        yield from _make("TRAIL_NOT_KNOWN", finder.rules.trail, "the range", _NOWHERE, "")


def _judge_secrets(finder: _Finder) -> Findings:
    """Nothing that is masked as a secret was written into a file."""
    rule = finder.rules.secrets
    for item in finder.evidence.secrets:
        if rule.covers(item.path):
            code = "SECRET_WRITTEN" if item.known else "SECRETS_NOT_KNOWN"
            subject = f"{item.path}@{finder.evidence.blobs.get(item.path, '')}"
            yield from _make(
                code, rule, subject, (item.path, item.line, item.line, None), item.said
            )
    yield from _find_unlooked(finder, "SECRETS_NOT_KNOWN", rule, "files were not looked at")


def _judge_weakening(finder: _Finder) -> Findings:
    """No rule became weaker: of the gate, and of what past invocations were denied."""
    rule, weakening = finder.rules.weakened, finder.evidence.weakening
    for path, text in weakening.rules:
        yield from _make("RULES_WEAKENED", rule, text, (path, None, None, None), text)
    for code, texts in (
        ("DENY_BECAME_ALLOW", weakening.allowed), ("WEAKENING_NOT_KNOWN", weakening.not_asked),
    ):  # fmt: skip
        for text in texts:
            yield from _make(code, rule, text, _NOWHERE, text)


def _judge_allowed(finder: _Finder) -> Findings:
    """Only allowed harnesses, models and profiles wrote a file."""
    for rule in finder.rules.allowed:
        for writer in finder.list_writers(rule):
            wrote = dict.fromkeys(filter(rule.covers, finder.paths[writer.invocation_id]))
            more = f" and {len(wrote) - _MOST_NAMES} more" if len(wrote) > _MOST_NAMES else ""
            files = ", ".join(list(wrote)[:_MOST_NAMES]) + more
            for what, allowed, own in (
                ("harness", rule.harnesses, writer.harness),
                ("model", rule.models, writer.model),
                ("profile", rule.profiles, writer.profile_id),
            ):
                if allowed and own not in allowed:
                    may = f"{what} {own or 'unknown'}, where {', '.join(allowed)} may"
                    said = f"{files}, {may}"
                    yield from _find_of("NOT_ALLOWED", rule, writer.invocation_id, said)


def _judge_custom(finder: _Finder) -> Findings:
    """What the rules of other packages say."""
    for name, rule in sorted(finder.rules.custom.items()):
        answer = finder.evidence.custom.get(name)
        if answer is None:
            said = f"{name}: it is not installed, or it failed"
            yield from _make("CUSTOM_NOT_KNOWN", rule, name, _NOWHERE, said)
            continue
        for item in answer:
            path, line = item.get("path"), item.get("line")
            where = path if isinstance(path, str) else None
            number = line if isinstance(line, int) and where is not None else None
            owner = item.get("invocation_id")
            of = owner if isinstance(owner, str) else None
            subject = of or f"{where}@{finder.evidence.blobs.get(where or '', '')}"
            said = f"{name}: {item.get('message', '')}"
            yield from _make("CUSTOM_RULE", rule, subject, (where, number, number, of), said)


_JUDGES: tuple[Callable[[_Finder], Findings], ...] = (
    _judge_records,
    # tests ran green after the last edit of each invocation, and none is open or ended as failed
    lambda finder: finder.find_unmet(finder.rules.tests, partial(_find_untested, finder)),
    lambda finder: finder.find_unmet(finder.rules.ended, _find_bad_end),
    _judge_approvals,
    _judge_unseen,
    _judge_proofs,
    _judge_trail,
    _judge_secrets,
    _judge_weakening,
    _judge_allowed,
    _judge_custom,
)


def find_secrets(files: Sequence[ChangedFile], rules: RuleSet) -> Iterator[Secret]:
    """Yield the lines of a range that hold what records mask, alone or beside the lines around
    them: a name can stand in one line, also one that did not change, and its value in the next."""
    for file in files:
        places: set[tuple[int, str]] = set()
        changed = alone = frozenset(file.changed)
        for start, stop in _list_windows(file.changed, len(file.lines)):
            lines = file.lines[start:stop]
            ends = list(accumulate(len(line) + 1 for line in lines))
            for first, end, _, rule_id in find_spans("\n".join(lines), rules):
                rows = range(bisect_right(ends, first), bisect_right(ends, end - 1) + 1)
                masked = frozenset(start + row for row in rows)
                if masked & changed:
                    places.add((min(masked & changed), rule_id))  # a key of many lines once
                alone -= masked
        # what stands around a line can hide nothing that it tells alone
        places.update((at, one) for at in alone for one in redact(file.lines[at], rules).counts)
        for at, rule_id in sorted(places):
            yield Secret(make_encodable(file.path), at + 1, rule_id)


def find_secret_names(names: Iterable[str], rules: RuleSet) -> Iterator[Secret]:
    """Yield the names of files that hold what records mask."""
    for name in sorted(names):
        for one in redact(name, rules).counts:
            yield Secret(make_encodable(name), None, f"{one}, in the file's name")


def _list_windows(changed: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """Yield where the changed lines of a file stand with the lines around them, none twice."""
    start = stop = 0
    for at in changed:
        if at - _AROUND > stop:
            if stop > start:
                yield start, stop
            start = at - _AROUND
        stop = min(size, at + _AROUND + 1)
    if stop > start:
        yield start, stop
