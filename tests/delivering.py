"""What the tests of whole records share: a project that delivers to a real collector, and what that collector says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from envelopes import TOKEN
from specify_cli.features.sync.consent import TOKEN_VARIABLE
from support import Cli

if TYPE_CHECKING:
    from collecting import Collector

ENV = {TOKEN_VARIABLE: TOKEN}


def endpoint(collector: Collector) -> str:
    return f"http://{collector.host}:{collector.port}/v1/events"


def enable(cli: Cli, collector: Collector, level: str = "records") -> None:
    argv = ("sync", "enable", "--endpoint", endpoint(collector), "--level", level, "--yes")
    assert cli(*argv, env=ENV).code == 0


def run(cli: Cli, request: str = "implement WP01") -> str:
    """Open and close one record."""
    invocation_id = str(cli("do", request, "--json").json()["invocation_id"])
    assert cli("profile-invocation", "complete", "--invocation-id", invocation_id).code == 0
    return invocation_id


def push(cli: Cli) -> Any:
    return cli("sync", "push", "--json", env=ENV).json()


def project_of(collector: Collector) -> Any:
    [found] = collector.get("/v1/projects").json()["items"]
    return found


def lines_of(project: Path) -> list[Path]:
    return sorted((project / ".kittify/events/profile-invocations").glob("*.jsonl"))
