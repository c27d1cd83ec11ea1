"""trail checkpoint, proof and export: what others need to see that the trail is complete."""

from __future__ import annotations

from doctrine.text import count
from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_answer, write_json, write_text
from specify_cli.errors import CallerError
from specify_cli.features.witness import enrollment
from specify_cli.features.witness.log.tiles import export_tiles
from specify_cli.libraries.signed_log.notes import Checkpoint, encode
from specify_cli.libraries.signed_log.signing import (
    Logged,
    find_signed,
    make_checkpoint,
    prove,
    read_keys,
)
from specify_cli.room import Values
from specify_cli.storage.index import Index
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import CLOSE, START
from specify_cli.trail.log.published import find_difference


def checkpoint(values: Values) -> int:
    """Sign the state of the log and print the checkpoint."""
    project = shell.load_writable()
    for generation in open_log(project).generations() if values.get("restored") else ():
        if find_difference(project.root, generation) is not None:
            generation.disown()
    signed = make_checkpoint(project)
    keys = [str(key) for key, _ in read_keys(find_signed(project, signed))]
    value = {**_describe(signed), "keys": keys, "checkpoint": str(signed)}
    lines = [f"log: {signed.origin}", f"leaves: {signed.size}", f"root: {encode(signed.root)}"]
    write_answer(values, value, [*lines, f"verifier key: {keys[0]}"])
    return 0


def enroll(values: Values) -> int:
    """Have a person's SSH key vouch for the keys of the log."""
    enrolled = enrollment.enroll(shell.load_writable(), str(values["key"]))
    value = {"keys": [str(key) for key in enrolled.keys], "enrollment": str(enrolled)}
    write_answer(values, value, [f"{values['key']} vouches for {enrolled.keys[0].name}"])
    return 0


def proof(values: Values) -> int:
    """Print one proof: that the close of a record, or while it is open its start, is a leaf of the
    signed log."""
    project = shell.load_writable()
    place = Index(project.root).resolve(str(values["invocation_id"]))
    make_checkpoint(project)
    matching = [
        item
        for generation in open_log(project).generations()
        for item in prove(generation, {place.invocation_id})
    ]
    chosen: Logged | None = next(
        (item for kind in (CLOSE, START) for item in matching if item.kind == kind), None
    )
    if not chosen:
        raise CallerError(
            "NOTHING_LOGGED",
            f"{place.invocation_id} is in no log of this clone: another clone wrote it, or it "
            "is older than the log",
            "ask the clone that wrote it for the proof",
        )
    if values["json"]:
        proof_bytes = chosen.proof
        write_json(
            {
                **_describe(proof_bytes.checkpoint),
                "invocation_id": place.invocation_id,
                "kind": chosen.kind,
                "seal": chosen.seal,
                "number": proof_bytes.number,
                "proof": str(proof_bytes),
            }
        )
    else:
        write_text(str(chosen.proof).removesuffix("\n"))
    return 0


def export(values: Values) -> int:
    """Write the log that was signed last as tiles."""
    project = shell.load_writable()
    signed = make_checkpoint(project)
    folder = str(values["folder"])
    files = export_tiles(find_signed(project, signed), signed, folder)
    leaves = count(signed.size, "leaf", "leaves")
    said = f"{leaves} of {signed.origin} in {folder}, {count(files, 'file')}"
    write_answer(values, {**_describe(signed), "folder": folder, "files": files}, [said])
    return 0


def _describe(signed: Checkpoint) -> dict[str, object]:
    return {"origin": signed.origin, "size": signed.size, "root": signed.root.hex()}
