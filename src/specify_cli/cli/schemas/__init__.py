"""The JSON Schemas of what the commands print: `shapes` makes them, `make docs` writes them, `schema` shows them.

`DOCUMENTS` is the folder they lie in: a wheel carries docs/schemas, a checkout has it. Nothing here loads pydantic.
"""

from __future__ import annotations

from pathlib import Path

_PACKED = Path(__file__).with_name("documents")
DOCUMENTS = _PACKED if _PACKED.is_dir() else Path(__file__).parents[4] / "docs/schemas"


def list_schemas() -> list[str]:
    """Return the names of the schemas, sorted."""
    return sorted(path.stem for path in DOCUMENTS.glob("*.json"))
