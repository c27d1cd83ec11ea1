"""Where the schema changes of a repository lie, and how they are made there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from specify_cli.features.charter_setup.surveying.repository import (
    KNOWN,
    PLAIN_PATH,
    Names,
    Repository,
    is_aside,
)

_MIGRATION_FOLDERS = ("migrations", "migrate")
_NUMBERED = re.compile(r"[Vv]?(\d+)[_.-]")
# Their migrations say themselves how they are undone.
_UNDOING_TOOLS = ("alembic", "django", "rails", "knex")


class Data(NamedTuple):
    """Where schema changes live and how they are made here; an empty text is what is not known."""

    folders: Names = ()
    scripts: Names = ()
    tool: str = ""
    dialect: str = ""
    naming: str = ""
    ways_back: str = ""  # paired · none · ""


def find_data(repository: Repository, needs: set[str]) -> Data | None:
    """Return what a repository that depends on `needs` says of its database; None where it has
    none."""
    tool = _find_migration_tool(repository, needs)
    folders = sorted(set(_find_migration_folders(repository, tool)))
    holding = {
        path.rpartition("/")[0]
        for path in repository.files
        if path.endswith(".sql") and not is_aside(path)
    }
    if not folders and not holding and not tool:
        return None
    drivers = KNOWN["drivers"].items()
    dialects = (name for name, listed in drivers if needs.intersection(listed.split()))
    dialect = next(dialects, "") or _read_compose_file(repository)
    names = [name for folder in folders for name in repository.names(folder)]
    below = tuple(f"{folder}/" for folder in folders)
    scripts = [
        holder
        for holder in sorted(holding)
        if PLAIN_PATH.match(holder) and not f"{holder}/".startswith(below)
    ]
    return Data(
        folders=tuple(folders[:4]),
        scripts=tuple(scripts[:4]),
        tool=tool,
        dialect=dialect,
        naming=_describe_naming(names),
        ways_back="" if tool in _UNDOING_TOOLS else _judge_ways_back(names),
    )


def _read_compose_file(repository: Repository) -> str:
    """Return the database a compose file starts."""
    paths = ("docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml")
    match = re.search(
        r"image:\s*[\"']?(?:[\w./-]*/)?(postg|mysql|mariadb)",
        "\n".join(map(repository.text, paths)),
    )
    return "" if not match else "PostgreSQL" if match[1] == "postg" else "MySQL"


def _judge_ways_back(names: Iterable[str]) -> str:
    scripts = {
        name.removesuffix(".sql").replace("_", ".") for name in names if name.endswith(".sql")
    }
    forward = [name for name in scripts if not name.endswith(".down")]
    paired = forward and all(f"{name.removesuffix('.up')}.down" in scripts for name in forward)
    return "paired" if paired else "none" if scripts else ""


def _find_migration_folders(repository: Repository, tool: str) -> Iterator[str]:
    """Yield the folders that hold migrations: of that name, and with a tool, SQL or numbered files
    to show for it."""
    for path in repository.files:
        folder, _, name = path.rpartition("/")
        if is_aside(folder):
            continue
        parts = folder.split("/")
        versions = parts[-1] == "versions" and "alembic" in folder
        if (parts[-1] in _MIGRATION_FOLDERS or versions) and PLAIN_PATH.match(folder):
            shows = tool or name.endswith(".sql") or _NUMBERED.match(name)
            is_one = name.endswith((".sql", ".py", ".rb", ".ts", ".js")) and name != "__init__.py"
            if shows and is_one:
                yield folder
        elif (
            name == "migration.sql" and parts[-2:-1] == ["migrations"] and PLAIN_PATH.match(folder)
        ):
            yield "/".join(parts[:-1])


def _find_migration_tool(repository: Repository, needs: set[str]) -> str:
    if repository.has("alembic.ini") or "alembic" in needs:
        return "alembic"
    if repository.has("manage.py") and "django" in needs:
        return "django"
    if repository.has("prisma/schema.prisma"):
        return "prisma"
    if repository.has("Gemfile") and any(
        path.startswith("db/migrate/") for path in repository.files
    ):
        return "rails"
    return "knex" if "knex" in needs else ""


def _describe_naming(names: Iterable[str]) -> str:
    """Return how migrations are numbered, where all of them agree."""
    digits = {len(match[1]) for match in map(_NUMBERED.match, names) if match}
    width = digits.pop() if len(digits) == 1 else 0
    if width >= 12:
        return "named by timestamp"
    return f"numbered with {width} digits" if width > 1 else "numbered" if width else ""
