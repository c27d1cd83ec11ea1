"""The JSON Schemas of what the commands print: `make docs` writes them, the command `schema` shows
them.

    from specify_cli.cli.schemas import list_schemas
    list_schemas()

Reading order: `shapes.py` (schemas out of the values that the library returns), `core_shapes.py`
(the shapes of the core's commands); each room states its own in a `shapes.py`.

`DOCUMENTS` is the folder they lie in: a wheel carries docs/schemas, a checkout has it. Nothing here
loads pydantic; the two modules do, so that only making schemas and tests import them. Tests
validate what every command prints.
"""

from __future__ import annotations

from pathlib import Path

_PACKED = Path(__file__).with_name("documents")
DOCUMENTS = _PACKED if _PACKED.is_dir() else Path(__file__).parents[4] / "docs/schemas"


def list_schemas() -> list[str]:
    """Return the names of the schemas, sorted."""
    return sorted(path.stem for path in DOCUMENTS.glob("*.json"))
