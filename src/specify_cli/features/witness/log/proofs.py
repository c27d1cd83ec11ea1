"""Proofs that the lines of records are leaves of a signed log: taken along by an export, and
checked where it arrives.

archive.export(project, ids, "run.tar", prove=partial(collect_proofs, project))
checked = check_proofs(contents, reports, policy)
print(checked.findings, checked.proven)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from doctrine.text import count
from specify_cli import durable
from specify_cli.errors import CallerError
from specify_cli.features.witness.findings import finding
from specify_cli.libraries.archive.unpacking import Contents
from specify_cli.libraries.signed_log.merkle import hash_leaf, verify_inclusion
from specify_cli.libraries.signed_log.notes import (
    NoteError,
    Policy,
    Proof,
    parse_proof,
    signed_at,
)
from specify_cli.libraries.signed_log.signing import make_checkpoint, prove, require_cryptography
from specify_cli.project.config import Project
from specify_cli.record import layout
from specify_cli.record.findings import LAST_OPENING_SEQ, Finding, RecordReport
from specify_cli.record.record import split_lines
from specify_cli.record.seal import seal_at_end
from specify_cli.trail.log.entries import open_log
from specify_cli.trail.log.leaves import ANNEX, CLOSE, FIXED, START, Leaf

_MAX_PROOF = 512 * 1024
_UNCHECKED = (
    "that the log's other signatures hold (the policy does not name each of its keys, Ed25519 and "
    "ML-DSA-44; trail checkpoint --json prints them)"
)


class Checked(NamedTuple):
    """What the proofs of an export show, as a clause, what is wrong with them, and which
    invocations a log holds whole that a trusted key has signed; what they leave open, as sentences'
    ends."""

    findings: tuple[Finding, ...]
    proven: str
    trusted: frozenset[str] = frozenset()
    not_proven: tuple[str, ...] = ()


def collect_proofs(
    project: Project, invocation_ids: Set[str], annexed: Set[str | None]
) -> Mapping[str, bytes]:
    """Sign the log; return the proof of each leaf of some invocations, by its path in an export.

    Of annexes only those count whose seals are given.

    Raises CallerError NOTHING_LOGGED where there is none of one, EXTRA_MISSING, StoredDataError,
    EnvironmentFault.
    """
    make_checkpoint(project)
    proofs: dict[str, bytes] = {}
    for generation in open_log(project).generations():
        for item in prove(generation, invocation_ids):
            if item.kind == FIXED or (item.kind == ANNEX and item.seal not in annexed):
                continue  # a fixed tip tells whoever has the record nothing that its close does not
            name = (
                f"{layout.PROOFS}/{item.invocation_id}/{item.kind}-{item.proof.number}.tlog-proof"
            )
            proofs.setdefault(name, str(item.proof).encode())
    for invocation_id in sorted(invocation_ids):
        if not any(f"/{invocation_id}/" in name for name in proofs):
            raise CallerError(
                "NOTHING_LOGGED",
                f"{invocation_id} is in no log of this clone",
                "export it where it was written",
            )
    return proofs


def check_proofs(
    contents: Contents, reports: Iterable[RecordReport], policy: Policy | None
) -> Checked:
    """Check the proofs in an export against its records, and their logs' signatures against a
    verifier's policy."""
    if not contents.proofs:
        return Checked((), "")
    by_id = {str(report.invocation_id): report for report in reports}
    findings = []
    pairs = set()
    trusted = set()
    unchecked: tuple[str, ...] = ()
    known = {(key.name, key.key_id) for key in policy.logs} if policy else set()
    for path, invocation_id, kind in contents.proofs:
        data = durable.read_below(contents.project.root, path, _MAX_PROOF)
        try:
            proof = parse_proof(data)
            seals = _list_seals(contents, by_id[invocation_id], kind)
            if not _fits(proof, kind, invocation_id, seals):
                raise NoteError(
                    f"it does not lead from the {kind} of {invocation_id} to the root it names"
                )
            if _is_trusted(proof, policy):
                trusted.add((invocation_id, kind))
                checkpoint = proof.checkpoint
                if any(
                    item.name == checkpoint.origin and (item.name, item.key_id) not in known
                    for item in checkpoint.signatures
                ):
                    unchecked = (_UNCHECKED,)
            pairs.add((invocation_id, kind))
        except NoteError as error:
            findings.append(finding("PROOF_INVALID", path, str(error)))

    def list_whole(proven: set[tuple[str, str]]) -> frozenset[str]:
        return frozenset(
            key
            for key, report in by_id.items()
            if (key, START) in proven and (report.status == "open" or (key, CLOSE) in proven)
        )

    whole, signed, of = list_whole(pairs), list_whole(trusted), count(len(by_id), "record")
    claim = f"that a log holds {len(whole)} of {of}, signed by a key nobody vouches for (--policy)"
    if signed:
        claim = f"that a log signed by a trusted key holds {len(signed)} of {of}"
    return Checked(tuple(findings), claim, signed, unchecked)


def _is_trusted(proof: Proof, policy: Policy | None) -> bool:
    """Return whether a key of the policy signed the log's state, and its quorum has seen it. Raises
    NoteError."""
    if not policy:
        return False
    require_cryptography()
    keys = [key for key in policy.logs if key.name == proof.checkpoint.origin]
    signed = [key for key in keys if signed_at(key, proof.checkpoint) is not None]
    seen = {
        name
        for name, key in policy.witnesses.items()
        if signed_at(key, proof.checkpoint) is not None
    }
    return bool(signed) and policy.is_reached(seen)


def _list_seals(contents: Contents, report: RecordReport, kind: str) -> list[str]:
    """Return the seals that a leaf of a kind can hold; those of withheld lines are there too."""
    if kind == ANNEX:
        return list(report.trail.annexes)
    data = durable.read_below(contents.project.root, report.file)
    seals = [str(seal_at_end(raw + b"\n")) for _, raw in split_lines(data)]
    return (
        seals[-1:]
        if kind == CLOSE
        else [*seals[:1], *seals[LAST_OPENING_SEQ : LAST_OPENING_SEQ + 1]]
    )


def _fits(proof: Proof, kind: str, invocation_id: str, seals: Iterable[str]) -> bool:
    """Return whether a proof is of the leaf of one of these seals."""
    state = proof.checkpoint
    expected = {Leaf(kind, invocation_id, seal).entry for seal in seals}
    return proof.extra in expected and verify_inclusion(
        hash_leaf(proof.extra), proof.number, state.size, proof.path, state.root
    )
