"""Whether what an archive brings is here already.

is_here(root, name, data)                 # an annex, maybe with other values erased
raise refuse_copy(path, here, one, False)  # a record that differs from the one here
extend(root, file, late)                  # a record that went on where it was written
"""

from __future__ import annotations

from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.record import layout
from specify_cli.record.seal import seal_at_end
from specify_cli.storage.checking import annex_files
from specify_cli.storage.store import Place


def refuse_copy(path: str, here: Place, one: str, is_same: bool) -> StoredDataError:
    """Return the error for the record `one` of the archive `path` that is here with other bytes;
    with `is_same` only values that were erased differ."""
    detail, step = "", f"spec-kitty invocations verify {one}"
    if is_same:
        detail = ", by erased values alone"
        step = "take it in by itself: its sender runs "
        step += f"spec-kitty invocations export {one} -o FILE"
    return StoredDataError(
        "COPIES_DIFFER",
        f"{here.path} is here already and differs from the one in {path}{detail}; "
        "nothing was imported",
        step,
    )


def is_here(root: str, name: str, data: bytes) -> bool:
    """Return whether an annex is here, maybe with other values erased. Raises StoredDataError
    COPIES_DIFFER."""
    here = dict(annex_files(root, name.split("/")[-2])).get(name)
    if here is None or (isinstance(here, bytes) and seal_at_end(here) == seal_at_end(data)):
        return here is not None
    raise StoredDataError(
        "COPIES_DIFFER",
        f"{name} is here already and differs; nothing was imported",
        f"ls -l {name}",
    )


def extend(root: str, file: str, late: bytes) -> None:
    """Replace an imported record by its later bytes, if it is still the begin of them: an erasure,
    or another import, may have changed it since it was compared. Raises EnvironmentFault."""
    name = f"{layout.IMPORTED}/{file}"
    with durable.Writing(name), durable.opened(root, name) as here:
        durable.lock(here, name)
        with durable.folder(root, layout.IMPORTED) as folder:
            if late.startswith(durable.read_below(root, name)):
                durable.replace(folder, file, late, durable.PRIVATE)
