"""invocations compare --html: two runs on one page, from where they part."""

from __future__ import annotations

from pathlib import Path

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError
from specify_cli.features.compare.parting import part_stories
from specify_cli.libraries.archive.archive import create_file
from specify_cli.libraries.comparison.chains import run_both
from specify_cli.libraries.comparison.compare import verify_replay
from specify_cli.libraries.story.stored import tell_invocation
from specify_cli.libraries.web.markup import STYLE, build_environment
from specify_cli.room import Values
from specify_cli.storage.queries import view_invocation

_PAGES = build_environment(Path(__file__).parent / "templates", "spec-kitty compare")


def write_page(values: Values) -> int:
    """Write the page of two records; 1 where they differ."""
    targets, output = shell.get_texts(values, "targets"), str(values["html"])
    if len(targets) != 2:
        raise CallerError(
            "USAGE",
            "--html takes the ids of two records",
            "spec-kitty invocations compare A B --html FILE",
        )
    project = shell.read_project()
    one, two = run_both(project, targets)
    tolerance = values["tolerance_ms"]
    result = verify_replay(one, two, tolerance if isinstance(tolerance, int) else None)
    stories = [tell_invocation(project, view_invocation(project, target)) for target in targets]
    parted = part_stories(*stories)
    page = _PAGES.get_template("parting.html").render(
        stories=stories, parted=parted, verdict=result.message, match=result.match,
        style=STYLE.decode(),
    ).encode("utf-8", "surrogateescape")  # fmt: skip
    create_file(output, page)
    alike = f"{count(len(parted.alike), 'group')} alike"
    if parted.one or parted.two:
        one_side, other = len(parted.one), len(parted.two)
        alike += f", then {one_side} in the first run and {other} in the second"
    said = f"{one_line(output)}: {one_line(result.message)}; {alike}"
    write_answer(values, result.as_value(), [said])
    return shell.judge_exit(result.match, values)
