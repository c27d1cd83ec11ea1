"""What a range of commits is, and where its lines come from: plain values. [pure]"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from specify_cli.features.origin.writers import Writer
from specify_cli.features.search.edits import Came

# How agents sign commits: in trailers, and as authors.
_AGENTS = re.compile(
    r"noreply@anthropic\.com|noreply@openai\.com|cursoragent@cursor\.com|copilot@users\.noreply|"
    r"copilot-swe-agent|devin-ai-integration|gemini-code-assist|google-labs-jules|"
    r"^(claude|codex|cursor|copilot|gemini|qwen|opencode|aider)\b",
    re.I,
)


class Commit(NamedTuple):
    """One commit of the range. `agents` are the names and addresses in it that are an agent's; like
    the author, a commit claims them."""

    sha: str
    author: str
    at: str
    subject: str
    agents: tuple[str, ...]

    @property
    def author_names(self) -> set[str]:
        """Return the name and the address of the author."""
        name, _, address = self.author.rpartition(" <")
        return {name, address.removesuffix(">")}


def is_agents(signature: str) -> bool:
    """Return whether a name with an address, as `Claude <noreply@anthropic.com>`, is an agent's."""
    return any(map(_AGENTS.search, re.split("[<>]", signature)))


class ChangedFile(NamedTuple):
    """One file of the range, as it is at its end.

    `changed` are the numbers of its lines, from 0, that came in the range; `commits` names for some
    of them the commit, `stood` the path and the number they had there, where the file changed
    since, and `came` says when. `gone` are the lines that went, as far as they were read;
    `removed` counts them. `problem` says why its lines are not known. `brought` are the commits
    that brought its content, where no line changed.
    """

    path: str
    old_path: str | None
    kind: str
    blob: str
    lines: tuple[str, ...] = ()
    changed: tuple[int, ...] = ()
    commits: Mapping[int, str] = {}
    came: Mapping[int, Came] = {}
    removed: int = 0
    problem: str | None = None
    gone: tuple[str, ...] = ()
    stood: Mapping[int, tuple[str, int]] = {}
    brought: tuple[str, ...] = ()


class ChangeRange(NamedTuple):
    """The commits between `base` and `head`, the newest first, and the files that they changed.

    `paths` are all paths at the end of the range. `problems` say what was not looked at.
    """

    base: str
    head: str
    commits: tuple[Commit, ...]
    files: tuple[ChangedFile, ...]
    paths: frozenset[str]
    problems: tuple[str, ...] = ()


class Stretch(NamedTuple):
    """Lines `first` to `last` of a file, counted from 1, that came in one commit and from the same
    writers.

    `uris` name the lines of the records that tell it: none where no record does, several where
    each of them could have written it. `reformatted`: they were found in another form. `blank`: no
    word stands in them. `copied_by` are invocations whose records tell that they left the file with
    these lines, which anybody may have written elsewhere.
    """

    first: int
    last: int
    commit: str | None
    invocation_ids: tuple[str, ...]
    uris: tuple[str, ...]
    reformatted: bool = False
    blank: bool = False
    copied_by: tuple[str, ...] = ()

    @property
    def is_unknown(self) -> bool:
        """Whether words stand in the lines, and no record tells who wrote them."""
        return not self.invocation_ids and not self.blank

    @property
    def answered_by(self) -> tuple[str, ...]:
        """The invocations that are judged for the lines: who wrote them, otherwise who copied."""
        return self.invocation_ids or self.copied_by

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class LineCounts(NamedTuple):
    """How many lines came: from one invocation, one of several, or a person or unrecorded."""

    changed: int
    recorded: int
    several: int
    unrecorded: int


class TracedFile(NamedTuple):
    """One file of the range, and where its changed lines come from.

    `removed_by` are the invocations whose records tell of all that went, and `removed_in` the
    commits of the file; both are empty where something of it is not told. Of a file that is no text
    they are who left it so, and the commits that brought that.
    """

    path: str
    old_path: str | None
    kind: str
    removed: int
    problem: str | None
    stretches: tuple[Stretch, ...]
    removed_by: tuple[str, ...] = ()
    removed_in: tuple[str, ...] = ()


class Origin(NamedTuple):
    """Where the lines of a range come from. The JSON shape `docs/schemas/origin.json`.

    `not_known` says what could not be looked at.
    """

    base: str
    head: str
    lines: LineCounts
    commits: tuple[Commit, ...]
    writers: tuple[Writer, ...]
    files: tuple[TracedFile, ...]
    not_known: tuple[str, ...]


def count_lines(stretches: Iterable[Stretch]) -> LineCounts:
    """Return how many lines came from whom."""
    sizes = [0, 0, 0]
    for part in stretches:
        sizes[min(2, len(part.invocation_ids))] += part.size
    unrecorded, recorded, several = sizes
    return LineCounts(sum(sizes), recorded, several, unrecorded)


def count_by(stretches: Iterable[Stretch], key: Callable[[Stretch], Iterable[str]]) -> Counter[str]:
    """Return the number of lines by each key of a stretch."""
    sizes: Counter[str] = Counter()
    for part in stretches:
        for name in key(part):
            sizes[name] += part.size
    return sizes
