"""What this room looks for in a project."""

from collections.abc import Iterator

from specify_cli.project.checks import Finding
from specify_cli.project.config import Project
from specify_cli.storage.index import Index


def check_requests(project: Project, _: str | None) -> Iterator[Finding]:
    """Yield a finding while the project has no record."""
    if not list(Index(project.root).places()):
        yield Finding("NO_RECORD_YET", "info", ".kittify/events", "nothing was recorded yet", 'spec-kitty do "…"')


def fail(project: Project, home: str | None) -> Iterator[Finding]:
    """Fail: a check that breaks costs only itself."""
    raise RuntimeError(f"no luck with {project.root} and {home}")
    yield
