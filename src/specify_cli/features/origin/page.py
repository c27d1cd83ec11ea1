"""The origin of a range as one page with pictures, which asks nobody for anything.

text = make_page(report)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from specify_cli.features.origin.rendering import (
    NOBODY,
    name_source,
    say_approvals,
    say_lines,
    say_proof,
    say_tests,
)
from specify_cli.features.origin.report import Origin, Stretch
from specify_cli.libraries.web.markup import STYLE, build_environment
from specify_cli.libraries.web.pictures import draw_parts

_PAGES = build_environment(Path(__file__).parent / "templates", "spec-kitty origin")
# What the colours of the pictures say, as `name_source` names it.
_KINDS = {"done": "recorded", "abandoned": "one of several", "open": "unrecorded"}


def make_page(report: Origin) -> str:
    """Return the page: the sentence, the pictures, the invocations and the files."""
    writers = {writer.invocation_id: writer for writer in report.writers}
    days = {commit.sha: commit.at[:10] for commit in report.commits}
    parts = [part for file in report.files for part in file.stretches]

    def describe(part: Stretch, member: str) -> str:
        names = {
            str(getattr(writers[name], member) or "unknown")
            for name in part.invocation_ids
            if name in writers
        }
        return " or ".join(sorted(names)) or NOBODY

    shares = [
        ("Lines by agent", _count(parts, lambda part: describe(part, "harness"))),
        ("Lines by profile", _count(parts, lambda part: describe(part, "profile_id"))),
        (
            "Lines by day of the commit",
            _count(parts, lambda part: days.get(part.commit or "", "earlier")),
        ),
    ]
    return _PAGES.get_template("origin.html").render(
        report=report,
        style=STYLE.decode(),
        sentence=say_lines(report.lines),
        kinds=_KINDS,
        pictures=[
            (title, draw_parts(rows, "lines added or changed", words=_KINDS))
            for title, rows in shares
        ],
        writers=[
            (writer, say_tests(writer), say_approvals(writer), say_proof(writer))
            for writer in report.writers
        ],
        source=name_source,
        nobody=NOBODY,
    )


def _count(
    parts: Iterable[Stretch], name: Callable[[Stretch], str]
) -> list[tuple[str, dict[str, int]]]:
    """Return the rows of a picture: lines by name, each in parts by how much is known."""
    kinds = {words: kind for kind, words in _KINDS.items()}
    rows: dict[str, dict[str, int]] = {}
    for part in parts:
        counts = rows.setdefault(name(part), dict.fromkeys(kinds.values(), 0))
        counts[kinds[name_source(part)]] += part.size
    return sorted(rows.items())
