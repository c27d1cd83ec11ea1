"""Plays made by chance from a seed, with what each of their calls has to leave on a record, and how much of it did.

    made = make_play("codex", 7)
    counts = measure(made, project, records, model)

Shells that edit, move, remove and fail, outputs that lie, edits and patches, files of a person's own hand, subagents,
several prompts, records that an agent asked for at first, late or never. Each call has a word of its own in its
arguments; reads that an editor asks for before an edit have none.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.plays import CLOSE, DO, WAIT, Call, Step, edit, read, sh, subagent, write
from specify_cli.project.prices import read_prices
from specify_cli.record.reading.usage import sum_usage

Line = Mapping[str, Any]
FILES: Mapping[str, str] = {
    **{f"src/m{n}.py": "".join(f"value_{n}_{at} = {at}\n" for at in range(8)) for n in range(5)},
    "made/here.txt": "a folder that is there\n",
    **{f"docs/r{n}.txt": f"page {n}\n" for n in range(30)},
}
# Commands that end in an error or not, whatever they print.
_LIES = (
    ("printf 'Exit Code: 0\\n'; exit 3", True),
    ("echo '<shellId: 1 completed with exit code 0>'; exit 4", True),
    ("echo '{{\"exitCode\": 0}}'; exit 5", True),
    ("echo 'Process Group PGID: 1'; exit 6", True),
    ("echo 'Exit Code: 3'", False),
    ("echo 'Signal: 9'", False),
    ("echo '<shellId: 1 completed with exit code 7>'", False),
)


class Expected(NamedTuple):
    """What a call has to leave: whether it fails, and each file it changed, with how."""

    word: str
    fails: bool | None
    changes: tuple[tuple[str, str], ...] = ()
    is_inner: bool = False
    is_late: bool = False


class Made(NamedTuple):
    """A play: its chapters and what its subagents do, by name; what is expected; how records begin.

    `hands` are the files that a person changes while a record is open, `early_hands` those before it begins.
    """

    chapters: tuple[str, ...]
    plays: dict[str, list[Step]]
    expected: list[Expected]
    hands: list[str]
    early_hands: list[str]
    opens: bool
    files: dict[str, list[str]]


class _Maker:
    """Makes one play, and follows how the files stand in it."""

    def __init__(self, program: str, seed: int) -> None:
        self.program, self.seed = program, seed
        self.chance = random.Random(f"{program} {seed}")
        self.files = {path: text.splitlines() for path, text in FILES.items() if path.startswith("src/")}
        self.pages = [path for path in FILES if path.startswith("docs/")]
        self.fresh: set[str] = set()
        self.expected: list[Expected] = []
        self.hands: list[str] = []
        self.early_hands: list[str] = []
        self.plays: dict[str, list[Step]] = {}
        self.is_inner = False
        self._words = 0

    def make(self) -> Made:
        mode = self.seed % 4
        names = [f"gen{self.seed}x{number}" for number in range(2 if self.seed % 3 == 0 else 1)]
        for number, name in enumerate(names):
            steps = self.make_steps(self.chance.randint(6, 10))
            if mode in (0, 3) and number == 0:
                steps = [[DO], *steps]
            elif mode == 2 and number == 0:
                at = self.chance.randint(1, len(steps))
                before = self.list_words(steps[:at])
                self.expected = [one._replace(is_late=one.word in before) for one in self.expected]
                early = sum(call.kind == "hand" for step in steps[:at] for call in step)
                self.early_hands, self.hands = self.hands[:early], self.hands[early:]
                steps = [*steps[:at], [DO], *steps[at:]]
            if mode != 1 and number == len(names) - 1:
                steps.append([CLOSE])
            self.plays[name] = steps
        return Made(tuple(names), self.plays, self.expected, self.hands, self.early_hands, mode in (1, 3), self.files)

    def list_words(self, steps: list[Step]) -> set[str]:
        """Return the words of what is done before a `do`, and of its subagents."""
        text = repr(steps)
        text += repr([play for name, play in self.plays.items() if name in text])
        return set(re.findall(r"w\d+q\d+z", text))

    def make_steps(self, count: int) -> list[Step]:
        steps: list[Step] = []
        kinds: list[Callable[[], list[Step]]] = [
            *[self.run, self.lie, self.append, self.replace, self.create, self.remove, self.move, self.copy],
            *[self.script, self.edit, self.edit, self.edit, self.write, self.read, self.search, self.together],
            *([] if self.is_inner else [self.touch, self.touch, self.begin]),
            *([self.patch, self.patch] if self.program == "codex" else []),
        ]
        while len(steps) < count:
            steps += self.chance.choice(kinds)()
        return steps

    def name(self, fails: bool | None = False, *changes: tuple[str, str]) -> str:
        self._words += 1
        word = f"w{self.seed}q{self._words}z"
        self.expected.append(Expected(word, fails, changes, self.is_inner))
        return word

    def pick(self) -> str:
        return self.chance.choice(sorted(path for path, lines in self.files.items() if lines))

    def shell(self, word: str, command: str, *, fails: bool = False) -> list[Step]:
        self.fresh.clear()
        return [[sh(f": {word}; {command}", fails=fails)]]

    def run(self) -> list[Step]:
        fails = self.chance.random() < 0.5
        command = f"echo gone wrong >&2; exit {self.chance.randint(1, 9)}" if fails else "echo all well"
        return self.shell(self.name(fails), command, fails=fails)

    def lie(self) -> list[Step]:
        command, fails = self.chance.choice(_LIES)
        return self.shell(self.name(fails), command.replace("{{", "{").replace("}}", "}"), fails=fails)

    def append(self) -> list[Step]:
        path = self.pick()
        word = self.name(False, (path, "modify"))
        self.files[path].append(f"{word} = 1")
        return self.shell(word, f"echo '{word} = 1' >> {path}")

    def replace(self) -> list[Step]:
        path = self.pick()
        at = self.chance.randrange(len(self.files[path]))
        word, old = self.name(False, (path, "modify")), self.files[path][at]
        self.files[path][at] = f"{old} # {word}"
        return self.shell(word, f"sed -i '{at + 1}s/$/ # {word}/' {path}")

    def create(self) -> list[Step]:
        path = f"made/n{self._words}.txt"
        word = self.name(False, (path, "create"))
        self.files[path] = [f"{word} one", f"{word} two"]
        return self.shell(word, f"mkdir -p made; printf '{word} one\\n{word} two\\n' > {path}")

    def remove(self) -> list[Step]:
        if len(self.files) < 4:
            return self.run()
        path = self.pick()
        del self.files[path]
        return self.shell(self.name(False, (path, "delete")), f"rm {path}")

    def move(self) -> list[Step]:
        path, to = self.pick(), f"made/v{self._words}.txt"
        self.files[to] = self.files.pop(path)
        word = self.name(False, (path, "delete"), (to, "create"))
        return self.shell(word, f"mkdir -p made; mv {path} {to}")

    def copy(self) -> list[Step]:
        path, to = self.pick(), f"made/c{self._words}.txt"
        self.files[to] = list(self.files[path])
        return self.shell(self.name(False, (to, "create")), f"mkdir -p made; cp {path} {to}")

    def script(self) -> list[Step]:
        paths = self.chance.sample(sorted(self.files), min(2, len(self.files)))
        word = self.name(False, *((path, "modify") for path in paths))
        for path in paths:
            self.files[path].insert(0, f"# {word}")
        return self.shell(word, f"for f in {' '.join(paths)}; do sed -i '1i # {word}' $f; done")

    def edit(self) -> list[Step]:
        path = self.pick()
        before = [] if path in self.fresh or self.program == "codex" else [[read(path)]]
        lines = self.files[path]
        places = [at for at, line in enumerate(lines) if lines.count(line) == 1 and line]
        places = [at for at in places if sum(lines[at] in line for line in lines) == 1]
        if not places:
            return self.run()
        at = self.chance.choice(places)
        word = self.name(False, (path, "modify"))
        old, lines[at] = lines[at], f"{lines[at]} # {word}"
        self.fresh.add(path)
        return [*before, [edit(path, old, lines[at])]]

    def write(self) -> list[Step]:
        path = f"made/t{self._words}.txt"
        word = self.name(False, (path, "create"))
        self.files[path] = [f"{word} first", "second"]
        self.fresh.add(path)
        return [[write(path, f"{word} first\nsecond\n")]]

    def read(self) -> list[Step]:
        if not self.pages:
            return self.run()
        self._words += 1
        page = self.pages.pop()
        self.expected.append(Expected(page, False, (), self.is_inner))
        return [[read(page)]]

    def search(self) -> list[Step]:
        return [[Call("grep", (self.name(None),), None)]]

    def together(self) -> list[Step]:
        words = [self.name(), self.name(True)]
        return [[sh(f": {words[0]}; echo one"), sh(f": {words[1]}; exit 2", fails=True)]]

    def touch(self) -> list[Step]:
        """A person changes a file between two calls."""
        path = self.pick()
        self.files[path].append(f"by hand {len(self.hands)}")
        self.hands.append(path)
        self.fresh.clear()
        return [[Call("hand", (path, self.files[path][-1]))], *self.run()]

    def begin(self) -> list[Step]:
        name = f"sub{self.seed}x{len(self.plays)}"
        if len(self.plays) > 1 or name in self.plays:
            return self.run()
        self.plays[name] = []
        self.is_inner, self.fresh = True, set()
        self.plays[name] = self.make_steps(3)
        self.is_inner, self.fresh = False, set()
        return [[subagent(name)], [WAIT]]

    def patch(self) -> list[Step]:
        """Codex' grammar: one file changed, one added, one moved, one removed, of those there are."""
        there = sorted(path for path, lines in self.files.items() if lines)
        if len(there) < 5:
            return self.run()
        changed, moved, gone = self.chance.sample(there, 3)
        added, to = f"made/p{self._words}.txt", f"made/q{self._words}.txt"
        if self.files[changed].count(self.files[changed][0]) > 1 or self.files[moved].count(self.files[moved][0]) > 1:
            return self.run()
        effects = ((changed, "modify"), (added, "create"), (moved, "delete"), (to, "create"), (gone, "delete"))
        word = self.name(False, *effects)
        first, other = self.files[changed][0], self.files[moved][0]
        self.files[changed][0] = f"{first} # {word}"
        self.files[to] = [f"{other} # {word}", *self.files.pop(moved)[1:]]
        self.files[added] = [f"{word} new"]
        del self.files[gone]
        parts = [f"*** Update File: {changed}", "@@", f"-{first}", f"+{first} # {word}"]
        parts += [f"*** Add File: {added}", f"+{word} new", f"*** Update File: {moved}", f"*** Move to: {to}"]
        parts += ["@@", f"-{other}", f"+{other} # {word}", f"*** Delete File: {gone}"]
        text = "\n".join(["*** Begin Patch", *parts, "*** End Patch\n"])
        return [[Call("patch", (text, word))]]


def make_play(program: str, seed: int) -> Made:
    """Return the play of a program and a seed; the same ones make the same play."""
    return _Maker(program, seed).make()


def measure(
    made: Made, project: Path, lines: Sequence[Line], used: Mapping[str, tuple[int, int]], sent: str
) -> Counter[str]:
    """Count what was expected and what stands on the records; what is wrong is named behind a colon.

    `sent` are the calls that the model made, as text, and `used` the tokens of its answers.
    """
    counts: Counter[str] = Counter()
    for path, expected in made.files.items():
        found = project / path
        if not found.is_file() or found.read_text().splitlines() != expected:
            counts[f"not played: {path}"] += 1
    # What a program ended before is not what a record lacks.
    for one in made.expected:
        if one.word in sent:
            _measure_call(one, lines, counts)
        else:
            counts["calls not made"] += 1
    unseen = [str(line.get("what")) for line in lines if line.get("reason") == "unseen_change"]
    counts["hands"] += len(set(made.hands))
    counts["hands found"] += len(set(made.hands) & set(unseen))
    counts["hands not found"] += len(set(made.hands) - set(unseen))
    for path in sorted(set(unseen).difference(made.hands, made.early_hands)):
        counts[f"false unseen: {path}"] += 1
    rows = sum_usage(lines, read_prices())
    for name, agents in (("main", [row for row in rows if row.agent is None]), ("sub", [r for r in rows if r.agent])):
        given, answered = used[name]
        told = sum(row.tokens.get("input", 0) for row in agents), sum(row.tokens.get("output", 0) for row in agents)
        if given:
            counts[f"tokens {name}"] += 1
            counts[f"tokens {name} exact"] += told == (given, answered)
            if told != (given, answered):
                counts[f"tokens {name}: {told} of {(given, answered)}"] += 1
    return counts


def _find_word(line: Line, path: str) -> str | None:
    """Return the word of a call: the newest in its arguments, for an edit repeats older ones; else a page it reads."""
    text = json.dumps(line.get("args"))
    words = {int(found[1]): found[0] for found in re.finditer(r"w\d+q(\d+)z", text)}
    return words[max(words)] if words else path if path in text else None


def _measure_call(one: Expected, lines: Sequence[Line], counts: Counter[str]) -> None:
    times = [line for line in lines if line["event"] == "tool_call" and _find_word(line, one.word) == one.word]
    calls = {line["call_id"]: line for line in times}
    counts["calls"] += 1
    if len(times) == 1:
        counts["calls once"] += 1
    else:
        counts[f"recorded {len(times)} times: {one.word}"] += 1
    if one.fails is not None and calls:
        statuses = [line["status"] for line in lines if line["event"] == "tool_result" and line["call_id"] in calls]
        known = [status for status in statuses if status != "unknown"]
        counts["statuses"] += 1
        right = known[-1:] == ["error" if one.fails else "ok"]
        counts["statuses right"] += right
        if not right:
            counts[f"told as {statuses}: {one.word}"] += 1
    if one.is_inner and calls:
        counts["inner"] += 1
        is_named = all("agent" in line for line in calls.values())
        counts["inner with agent"] += is_named
        if not is_named:
            counts[f"of no subagent: {one.word}"] += 1
    for path, kind in () if one.is_late else one.changes:
        patches = [line for line in lines if line["event"] == "patch_apply" and line.get("path") == path]
        # Of calls that ran at once none is named: a subagent in the background, for example.
        own = [line for line in patches if line["kind"] == kind and line.get("call_id", one.word) in {*calls, one.word}]
        counts["changes"] += 1
        counts["changes told"] += bool(own)
        if not own:
            others = [(line["kind"], line.get("call_id") in calls) for line in patches]
            counts[f"no {kind} of {path}, only {others}: {one.word}"] += 1
        elif kind != "delete":
            counts["texts"] += 1
            has = any({"lines", "diff", "after"} & set(line) for line in own)
            counts["texts told"] += has
            if not has:
                counts[f"{kind} of {path} without text: {one.word}"] += 1
