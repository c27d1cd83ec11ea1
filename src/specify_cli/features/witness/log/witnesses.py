"""The keys of witnesses that this clone has asked, remembered in the git directory: a line
`<endpoint> <key>` each."""

from __future__ import annotations

from shlex import quote

from specify_cli import durable
from specify_cli.errors import StoredDataError
from specify_cli.libraries.signed_log.notes import NoteError, VerifierKey

_FILE = "witnesses"
_MAX = 64 * 1024


def read_witnesses(home: str) -> dict[str, VerifierKey]:
    """Return the witnesses' keys by the endpoint they belong to. Raises StoredDataError NOT_OURS,
    LOG_DAMAGED."""
    data = durable.read_own(home, _FILE, _MAX) or b""
    try:
        lines = (line.split(" ") for line in data.decode("utf-8", "replace").splitlines())
        return {endpoint: VerifierKey.parse(key) for endpoint, key in lines}
    except (NoteError, ValueError) as error:
        path = f"{home}/{_FILE}"
        raise StoredDataError(
            "LOG_DAMAGED", f"{path} is not what sync wrote: {error}", f"rm {quote(path)}"
        ) from error


def pin_witness(home: str, endpoint: str, key: VerifierKey) -> None:
    """Remember a witness's key. Raises StoredDataError LOG_DAMAGED where the endpoint had another
    one before."""
    known = read_witnesses(home)
    if known.setdefault(endpoint, key) != key:
        raise StoredDataError(
            "LOG_DAMAGED",
            f"the witness at {endpoint} has another key than before "
            f"({key.name}+{key.key_id.hex()})",
            f"ask who runs it; then remove its line from {home}/{_FILE}",
        )
    with durable.folder(home) as fd:
        data = "".join(f"{name} {one}\n" for name, one in sorted(known.items())).encode()
        durable.replace(fd, _FILE, data, durable.PRIVATE)
