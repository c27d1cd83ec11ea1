"""Put the gate in place: the workflow, the template and the hook, filled from `templates/`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

from doctrine import os
from doctrine.git import ask_git
from specify_cli import VERSION, durable
from specify_cli.errors import CallerError

_TEMPLATES = Path(__file__).parent / "templates"
_PLACES = {
    "github": ".github/workflows/spec-kitty-gate.yml",
    "gitlab": ".gitlab/spec-kitty-gate.yml",
}
# Approvals and proofs need the keys' library.
DEFAULT_PACKAGE = f"spec-kitty-recorder[trail]=={VERSION}"


def install_files(top: str, kinds: Sequence[str], package: str | None) -> list[tuple[str, str]]:
    """Write the files of some kinds: `github`, `gitlab`, `pre_push`; return each with what became
    of it.

    Raises CallerError FILE_EXISTS where another file is there, and writes nothing then.
    """
    planned = [(kind, _find_place(top, kind), compose_file(kind, package)) for kind in kinds]
    present = [path for _, path, data in planned if _is_there(path, data)]
    written: list[tuple[str, str]] = []
    for kind, path, data in planned:
        name = os.path.relpath(path, top)
        if path in present:
            written.append((name, "there already"))
            continue
        mode = 0o755 if kind == "pre_push" else durable.SHARED
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with durable.folder(os.path.dirname(path)) as fd:
                durable.create_exclusive(fd, os.path.basename(path), data, mode)
        except OSError as error:
            raise durable.write_failed(path, error) from error
        written.append((name, "written"))
    return written


def compose_file(kind: str, package: str | None = None) -> bytes:
    """Return the file of a kind, with the package that it installs."""
    name = "pre-push.sh" if kind == "pre_push" else f"{kind}.yml"
    text = (_TEMPLATES / name).read_text(encoding="utf-8")
    text = text.replace("@PACKAGE@", json.dumps(package or DEFAULT_PACKAGE))
    for part in ("judge", "comment", "projects"):  # the first has the last in it
        steps = (_TEMPLATES / f"{part}.sh").read_text(encoding="utf-8")
        before, mark, after = text.partition(f"@{part.upper()}@\n")
        margin = before[before.rfind("\n") + 1 :]
        text = before + indent(steps, margin).removeprefix(margin) + after if mark else text
    return text.encode()


def _find_place(top: str, kind: str) -> str:
    if kind in _PLACES:
        return os.path.join(top, _PLACES[kind])
    hooks = ask_git(top, "rev-parse", "--git-path", "hooks")
    return os.path.join(top, (hooks or ".git/hooks").strip(), "pre-push")


def _is_there(path: str, data: bytes) -> bool:
    """Return whether a file is there as we would write it. Raises CallerError for any other."""
    try:
        with open(path, "rb") as file:
            same = file.read(len(data) + 1) == data
    except FileNotFoundError:
        return False
    except OSError as error:
        raise durable.write_failed(path, error) from error
    if not same:
        raise CallerError(
            "FILE_EXISTS",
            f"{path} is there and is not what this version writes; nothing was written",
            "move it aside, or add `spec-kitty gate` to it by hand",
        )
    return True
