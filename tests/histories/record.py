"""Record a history: run a program in a fresh project and keep the project's `.kittify/` as it left it.

    python tests/histories/record.py agent-loop

A history is recorded once and never changes; a new one gets a new name.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))


def main(name: str) -> None:
    from histories.programs import PROGRAMS
    from support import CHARTER

    target = HERE / name
    if target.exists():
        raise SystemExit(f"{target} exists; a history never changes")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        (project / ".kittify/charter").mkdir(parents=True)
        (project / ".kittify/charter/charter.md").write_text(CHARTER, encoding="utf-8")
        PROGRAMS[name](project)
        ignored = shutil.ignore_patterns(".gitignore", ".gitattributes", "local", "invocation-index.*")
        shutil.copytree(project / ".kittify", target / ".kittify", ignore=ignored)


if __name__ == "__main__":
    main(sys.argv[1])
