"""What the replay tests share: records to replay, and records rewritten as a forger with our own tools would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doctrine.light_imports import hash_bytes
from specify_cli.features.programs.run import Run, open_invocation
from specify_cli.invocation.executor import ProfileInvocationExecutor
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.record import chain, genesis_tip
from specify_cli.record.seal import canonical
from specify_cli.storage.objects import FileObjectStore

POLICY = """rules:
  - id: no-repro
    match: {uri: doctrine://tactic/minimal-reproduction}
    action: deny
    reason: it takes too long here
"""
NOTE = """kind: directive
id: note-{name}
title: About the login {name}
body: The login test fails where the {name} is missing. Fix the login {name} first.
keywords: [login, {name}]
"""
Lines = list[dict[str, Any]]


def project_of(root: Path) -> Project:
    return load_project(str(root))[0]


def write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def policy(root: Path, text: str = POLICY) -> None:
    write(root, ".kittify/charter/policy.yaml", text)


def note(root: Path, name: str) -> str:
    """Give the project a directive that bears on the login; its uri."""
    write(root, f".kittify/doctrine/directives/note-{name}.yaml", NOTE.format(name=name))
    return f"doctrine://directive/note-{name}"


def invoked(root: Path, request: str = "fix the failing login test", *, verb: str = "do", close: bool = True) -> str:
    executor = ProfileInvocationExecutor(root)
    profile = "critic-cato" if verb == "ask" else None
    payload = executor.invoke(request, verb=verb, profile=profile)
    if close:
        executor.complete(payload.invocation_id)
    return payload.invocation_id


def ran(root: Path, work: Callable[[Run], object], **given: Any) -> str:
    given.setdefault("capture", {"tool": "full", "llm": "full"})
    with open_invocation(root, "fix the failing login test", **given) as run:
        work(run)
    return run.invocation_id


def record_path(root: Path, invocation_id: str) -> Path:
    (path,) = (root / layout.RECORDS).glob(f"*-{invocation_id}.jsonl")
    return path


def lines_of(root: Path, invocation_id: str) -> Lines:
    """Return the lines of a record; what a killed write left of one counts only where a `recovered` line says so."""
    lines: Lines = []
    torn = False
    for raw in record_path(root, invocation_id).read_bytes().split(b"\n")[:-1]:
        try:
            line = json.loads(raw)
        except ValueError:
            assert not torn, "two torn lines one after the other"
            torn = True
            continue
        assert not torn or line["event"] == "recovered", "a torn line that nobody recovered"
        torn = False
        lines.append(line)
    assert not torn
    return lines


def reseal(root: Path, invocation_id: str, edit: Callable[[Lines], object]) -> None:
    """Rewrite a record with every seal right, so that only a replay can tell."""
    lines = lines_of(root, invocation_id)
    edit(lines)
    bodies = [
        {key: value for key, value in line.items() if key not in ("v", "seq", "invocation_id", "prev", "~")}
        for line in lines
    ]
    data, _ = chain(genesis_tip(), invocation_id, bodies)
    record_path(root, invocation_id).write_bytes(data)


def edit_manifest(root: Path, invocation_id: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Give a record another snapshot, stored under its own name, with every seal right."""
    objects = FileObjectStore(str(root))

    def change(lines: Lines) -> None:
        manifest = json.loads(objects.get(lines[0]["snapshot"]))
        edit(manifest)
        data = canonical(manifest)
        objects.put((), (data,))
        lines[0]["snapshot"] = hash_bytes(data)

    reseal(root, invocation_id, change)


def object_path(root: Path, name: str) -> Path:
    return root / layout.OBJECTS / name[:2] / name[2:]


def manifest_of(root: Path, invocation_id: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(object_path(root, lines_of(root, invocation_id)[0]["snapshot"]).read_bytes())
    return value


def files_below(root: Path, *but: str) -> dict[str, bytes]:
    """Every file of a folder with its bytes, some subfolders left out."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not any(str(path.relative_to(root)).startswith(name) for name in (*but, ".git/"))
    }
