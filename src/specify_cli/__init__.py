"""spec-kitty: a flight recorder for AI agents' governed work.

    from specify_cli.invocation.executor import ProfileInvocationExecutor
    ProfileInvocationExecutor(root).invoke("fix the login test").invocation_id

Reading order: `record/` (the format), `storage/` (files), `routing/`, `redaction/`, `project/`,
`trail/` and `invocation/` (a request from its opening to its close) are the core; `cli/` is the
command line without any feature, `room.py` what a feature declares, `libraries/` what features
share, `features/` the features. docs/architecture.md walks through them.

Nothing is answered before its record is durable, nothing leaves the machine without consent, and no
model is called. `specify_cli.api` is what programs of others import; the rest may change.
"""

VERSION = "0.1.0"
