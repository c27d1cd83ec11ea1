"""Read the charter at a point of a run and store it, for a replay as of that point.

    grounds = read_grounds(project, cache, objects)
    grounds.policy_hash                 # compared with the last reference of the record

A run can take days, and its rules can change meanwhile. So each checkpoint names the charter of its
own moment (docs/format.md §4, `checkpoint`), and where the policy has changed a reference to it
stands before the checkpoint.
"""

from __future__ import annotations

from charter.inputs import ContextInputs, load_inputs
from doctrine.light_imports import NamedTuple, hash_bytes
from doctrine.load import ParseCache
from specify_cli.invocation.events.settings import find_corpus_secret
from specify_cli.project.config import Project
from specify_cli.record.snapshot import corpus_object, policy_digests
from specify_cli.storage.store import ObjectStore


class Grounds(NamedTuple):
    """The corpus and the policy at a checkpoint, as digests of stored objects.

    `error` says why the policy cannot be read; then `policy_hash` is None. `inputs` are for the
    next retrieval.
    """

    corpus: str
    bundle: str | None
    policy_hash: str | None
    error: str | None
    inputs: ContextInputs


def read_grounds(project: Project, cache: ParseCache | None, objects: ObjectStore) -> Grounds:
    """Read the charter as it is now, and store the objects that a replay as of this point needs.

    The objects are durable on return. `cache` may be None. Raises the errors of writing an object.
    A charter that cannot be read is no error; the result says so.
    """

    inputs = load_inputs(project.root, cache, settings=project.config.document)
    corpus = corpus_object(
        shipped=inputs.bundle.digest,
        corpus=inputs.corpus,
        files=inputs.files,
        unreadable=inputs.unreadable,
        secret=find_corpus_secret(inputs, project.git_dir),
    )
    objects.put({**inputs.blobs, inputs.bundle.digest: inputs.bundle.data}, (corpus,))
    bundle, policy_hash = policy_digests(
        inputs.policy_bytes, inputs.policy_state, inputs.policy_document
    )
    return Grounds(hash_bytes(corpus), bundle, policy_hash, inputs.policy_error, inputs)
