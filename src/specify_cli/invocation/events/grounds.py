"""What holds at a point of a run: the charter as it is then, kept for a replay as of that point."""

from __future__ import annotations

from charter.inputs import ContextInputs, load_inputs
from doctrine.light_imports import NamedTuple
from doctrine.load import ParseCache
from specify_cli.invocation.events.settings import find_corpus_secret
from specify_cli.project.config import Project
from specify_cli.record.snapshot import corpus_object, policy_digests
from specify_cli.storage.store import ObjectStore, digest


class Grounds(NamedTuple):
    """What holds at a checkpoint: the corpus and the policy, as digests of stored objects.

    `error` is the policy's, where it cannot be read; then `policy_hash` is None. `inputs` are for
    whoever searches next.
    """

    corpus: str
    bundle: str | None
    policy_hash: str | None
    error: str | None
    inputs: ContextInputs


def read_grounds(project: Project, cache: ParseCache | None, objects: ObjectStore) -> Grounds:
    """Read the charter as it is now and store what a replay as of this point needs.

    The objects are durable on return. `cache` may be None. Raises what writing an object raises; a
    charter that cannot be read is no error but part of the answer.
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
    return Grounds(digest(corpus), bundle, policy_hash, inputs.policy_error, inputs)
