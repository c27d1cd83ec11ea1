"""The harnesses whose hooks fill the record: one module each, in the order of its program's own
documentation.

    from specify_cli.features.hooks.harnesses import translate
    payload = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Read"}
    translate("claude-code", payload).events

`codex.py` says what Codex sends and how its payloads are read, as a `Dialect` under the name
HARNESS; `codex.json` next to it says where its settings are and what is put there
(`settings/harnesses.py`). What programs have in common stands in `payload/`. A hook loads the
module of its own harness and no other: the name says which.

A package of others brings a harness in the same way: `Fill("harness", "tern:HARNESS", "tern")` in
its declaration, a module with a HARNESS, and the JSON file of the same name next to it. Only a name
that is none of ours is searched there. Where such a harness fails, ROOM_FAILED says whose it is;
nothing else is touched.
"""

from __future__ import annotations

import sys

from doctrine.light_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from specify_cli.features.hooks.payload.dialect import Dialect
    from specify_cli.features.hooks.payload.values import HookInput


def translate(harness: str, payload: object, *, briefly: bool = False) -> HookInput:
    """Return the events that a hook call stands for, none where it stands for nothing.

    With `briefly` another package has a few seconds.

    Raises EnvironmentFault ROOM_FAILED where the harness is another package's and fails.
    """
    dialect = find_dialect(harness)
    if _is_own(dialect):
        return dialect.translate(payload)
    # harnesses of other packages alone
    from specify_cli.features.hooks.strangers import translate_foreign

    return translate_foreign(dialect, payload, briefly=briefly)


def find_sender(harness: str, payload: object) -> str:
    """Return the harness that a payload comes from: several read one settings file and run what is
    installed there."""
    dialect = find_dialect(harness)
    return dialect.find_sender(payload) if _is_own(dialect) else harness


def find_dialect(harness: str) -> Dialect:
    """Return how the payloads of a harness are read; those of an unknown one in the words that
    programs share.

    Raises EnvironmentFault ROOM_FAILED where the harness is another package's and cannot be
    imported.
    """
    words = harness.split("-")
    if all(word.isidentifier() and "_" not in word for word in words):
        module = f"{__name__}.{'_'.join(words)}"
        try:
            __import__(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
        else:
            dialect: Dialect = sys.modules[module].HARNESS
            return dialect
    from specify_cli.features.hooks.strangers import find_foreign  # as above

    return find_foreign(harness)


def _is_own(dialect: Dialect) -> bool:
    return type(dialect).__module__.startswith("specify_cli.")
