"""What the rooms brought, for whoever asks: the functions at a point, and the first words that a room answers alone.

    for fill in list_fills("after"):
        load(fill.run)(root, git_dir)

Loads one compiled module. In a checkout it is made anew where a declaration has changed since.
"""

from __future__ import annotations

import os
import sys

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_HERE = os.path.dirname(__file__)
_FEATURES = f"{os.path.dirname(os.path.dirname(_HERE))}/features"
_DECLARATIONS = ("core_commands.py", "params.py", "assemble.py", "../../room.py")


class FoundFill(NamedTuple):
    """What fills a point: its name, the function `module:function`, and the path that has to be there, if any."""

    name: str
    run: str
    marker: str


def load_compiled(name: str) -> ModuleType:
    """Return a module of `cli/tables/compiled/` that holds what is declared now."""
    full = f"specify_cli.cli.tables.compiled.{name}"
    try:
        __import__(full)
    except ImportError:
        return _make_anew(full)
    module = sys.modules[full]
    return module if module.STAMP is None or module.STAMP == read_stamp() else _make_anew(full)


def read_stamp() -> tuple[tuple[str, int], ...]:
    """Return when each declaration of this checkout was written, in nanoseconds."""
    paths = [f"{_FEATURES}/{name}/feature.py" for name in sorted(os.listdir(_FEATURES))]
    paths += [f"{_HERE}/{name}" for name in _DECLARATIONS]
    stamp = []
    for path in paths:
        try:
            stamp.append((path.removeprefix(_FEATURES), os.stat(path).st_mtime_ns))
        except OSError:
            pass  # a folder without a declaration: it is no room
    return tuple(stamp)


def _make_anew(full: str) -> ModuleType:
    """Assemble the tables, write them where that is allowed, and return the module as it would be read."""
    from specify_cli.cli.tables import assemble  # reads every declaration: once after a change, in a checkout

    stamp = read_stamp()
    try:
        assemble.write_tables(stamp)
    except OSError:
        pass  # a folder that cannot be written: each command assembles for itself
    tables = assemble.assemble(assemble.read_rooms())
    module: Any = type(sys)(full)
    module.STAMP, module.GROUPS, module.COMMANDS = stamp, tables.groups, tables.commands
    module.POINTS, module.DIRECT = tables.points, tables.direct
    sys.modules[full] = module
    return module  # type: ignore[no-any-return]


def read_tables(name: str, *, look: bool) -> Any:
    """Return the tables `commands` or `points`, with what other installed packages bring.

    Without `look` those packages count only where they were looked for before (`strangers.py`).
    """
    from specify_cli.cli.tables.strangers import read_strangers  # a hook asks for no table but ours

    found = read_strangers(look=look)
    if found is None or found.tables is None:
        return load_compiled(name)
    tables: Any = type(sys)("specify_cli.cli.tables.together")
    vars(tables).update({key: _freeze(value) for key, value in found.tables.items()})
    return tables


def _freeze(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_freeze, value))
    return {key: _freeze(one) for key, one in value.items()} if isinstance(value, dict) else value


# Points of everyday commands: there, packages of others are not looked for.
_EVERYDAY = frozenset(("after", "opened", "closed", "list_filters"))


def list_fills(point: str, *, look: bool | None = None) -> list[FoundFill]:
    """Return what fills a point, in its order; none where no room does.

    Everyday points ask only what is kept of other packages; `look` says it for one call.
    """
    tables = read_tables("points", look=point not in _EVERYDAY if look is None else look)
    return [FoundFill(*row) for row in tables.POINTS.get(point, ())]


def call_fill(fill: FoundFill, *arguments: object) -> Any:
    """Call what fills a point; a room of another package that fails is named on stderr and returns None.

    Raises whatever a room of ours raises.
    """
    try:
        return load(fill.run)(*arguments)
    except Exception as error:
        if is_own(fill.run):
            raise
        text = f"warning: {fill.run} of another package failed: {type(error).__name__}: {error}\n"
        os.write(2, text.encode("utf-8", "replace"))
        return None


def is_own(run: str) -> bool:
    """Return whether a function is of spec-kitty itself."""
    return run.startswith("specify_cli.")


def find_direct(word: str) -> str | None:
    """Return the function that answers for a first word of the command line alone; None for every other word."""
    run: str | None = load_compiled("points").DIRECT.get(word)
    return run


def load(run: str) -> Any:
    """Return the function that `module:function` names. Raises ImportError where an extra is missing."""
    module, _, function = run.partition(":")
    __import__(module)
    return getattr(sys.modules[module], function)
