"""Write import-linter's contracts out of what the rooms declare: `python tests/contracts.py FILE`.

What may import what is stated once, by `needs` and `libraries` of each room; `make lint` checks the code against it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import specify_cli
from specify_cli.cli.tables.assemble import read_rooms

# From the top: each layer knows only those below it.
LAYERS = (
    "specify_cli.features",
    "specify_cli.libraries",
    "specify_cli.cli",
    "specify_cli.invocation",
    "specify_cli.trail",
    "specify_cli.storage",
    "specify_cli.project",
    "specify_cli.routing",
    "specify_cli.redaction",
    "specify_cli.durable",
    "specify_cli.record",
    "specify_cli.errors",
    "charter",
    "doctrine",
)
# Core modules that do no I/O and read no clock; those of rooms say [pure] at the end of their first paragraph.
PURE = (
    "specify_cli.record",
    "specify_cli.redaction",
    "specify_cli.routing.router",
    "specify_cli.routing.parser",
    "specify_cli.invocation.events.event_body",
    "specify_cli.invocation.gates",
    "specify_cli.libraries.story.story",
    "specify_cli.libraries.story.summary",
    "specify_cli.libraries.timeline",
    "specify_cli.libraries.wire.contract",
    "specify_cli.libraries.wire.validation",
    "specify_cli.libraries.signed_log.merkle",
    "specify_cli.libraries.signed_log.notes",
    "specify_cli.libraries.words",
    "charter.model",
    "charter.parse",
    "charter.retrieval",
    "doctrine.agent_profiles.profile",
    "doctrine.agent_profiles.capabilities",
    "doctrine.artifact",
    "doctrine.graph",
    "doctrine.languages",
    "doctrine.text",
)
OUTSIDE = (
    "specify_cli.durable",
    "specify_cli.storage.store",
    "specify_cli.project.config",
    "doctrine.load",
    "os",
    "io",
    "pathlib",
    "subprocess",
    "socket",
    "random",
    "secrets",
)
# What speaks to other machines, serves pages or holds a database: the core has none of it.
NETWORK = (
    "httpx",
    "tenacity",
    "standardwebhooks",
    "spec_kitty_events",
    "sqlite3",
    "socket",
    "ssl",
    "starlette",
    "uvicorn",
    "jinja2",
)


def compose_contracts() -> str:
    """Return the configuration of import-linter."""
    rooms = {room.feature.name: room for room in read_rooms() if room.feature.name != "core"}
    needs = {
        name: _close(name, {key: room.feature.needs for key, room in rooms.items()}) for name, room in rooms.items()
    }
    libraries = _list_packages("libraries")
    parts = [
        "[importlinter]\nroot_packages =\n    doctrine\n    charter\n    specify_cli\ninclude_external_packages "
        "= True\n",
        _contract("layers", "one direction: each layer knows only those below it", "layers", layers=LAYERS),
        _contract(
            "cycles",
            "no cycles inside a package",
            "acyclic_siblings",
            ancestors=("specify_cli", "charter", "doctrine"),
        ),
        _contract(
            "pure",
            "pure modules do no I/O: no " + ", ".join(OUTSIDE),
            "forbidden",
            source_modules=(*PURE, *_list_pure()),
            forbidden_modules=OUTSIDE,
        ),
        _contract(
            "core", "the core knows no network", "forbidden", source_modules=LAYERS[3:], forbidden_modules=NETWORK
        ),
    ]
    for name, room in rooms.items():
        others = [other.package for key, other in rooms.items() if key != name and key not in needs[name]]
        of_needs = {library for key in needs[name] for library in rooms[key].feature.libraries}
        closed = _close_libraries({*room.feature.libraries, *of_needs})
        others += [f"specify_cli.libraries.{library}" for library in libraries if library not in closed]
        about = f"the room {name} knows only what it says it needs"
        parts.append(_contract(name, about, "forbidden", source_modules=(room.package,), forbidden_modules=others))
    return "\n".join(parts)


def _close(name: str, needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Return what a room needs, and what that needs in turn."""
    found: set[str] = set()
    waiting = [*needs[name]]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += needs[one]
    return found


def _close_libraries(names: set[str]) -> set[str]:
    """Return libraries with those they stand on, as their sources import them."""
    found: set[str] = set()
    waiting = [*names]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            folder = Path(specify_cli.__file__).parent / "libraries" / one
            text = "\n".join(path.read_text("utf-8") for path in folder.rglob("*.py"))
            waiting += [other for other in _list_packages("libraries") if f"specify_cli.libraries.{other}." in text]
    return found


def _list_pure() -> list[str]:
    """Return the modules of rooms that say of themselves that they do no I/O."""
    src = Path(specify_cli.__file__).parent
    return [
        ".".join(("specify_cli", *path.relative_to(src).with_suffix("").parts))
        for path in sorted((src / "features").rglob("*.py"))
        if "[pure]" in path.read_text("utf-8").partition("\n\n")[0]
    ]


def _list_packages(folder: str) -> list[str]:
    parent = Path(specify_cli.__file__).parent / folder
    return sorted(path.parent.name for path in parent.glob("*/__init__.py"))


def _contract(key: str, name: str, kind: str, **lists: Iterable[str]) -> str:
    def lines() -> Iterator[str]:
        yield f"[importlinter:contract:{key}]\nname = {name}\ntype = {kind}"
        for option, values in lists.items():
            yield f"{option} =" + "".join(f"\n    {value}" for value in values)

    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(compose_contracts(), encoding="utf-8")
