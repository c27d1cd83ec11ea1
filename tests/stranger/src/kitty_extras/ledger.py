"""A store of records beside the files: a copy of each, in the git directory."""

import shutil
from pathlib import Path

from specify_cli.project.config import load_project


def keep(root: str) -> None:
    """Copy what the ledger does not hold yet, for `memory_backend: extras-ledger`."""
    project, _ = load_project(root)
    if project.config.document.get("memory_backend") == "extras-ledger":
        for path in (Path(root) / ".kittify/events/profile-invocations").glob("*.jsonl"):
            shutil.copy(path, Path(str(project.git_dir)) / "kittify/extras" / path.name)
