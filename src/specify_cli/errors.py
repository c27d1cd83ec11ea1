"""The errors of the invocation runtime: one base, three families by who must act, closed lists of
codes.

    InvocationError
    ├── CallerError        the request, id or option has to change
    ├── StoredDataError    something on disk has to be looked at or fixed
    └── EnvironmentFault   the machine, file system or permissions have to change

Every error says what is wrong (`message`) and the next step (`suggestion`); `candidates` are the
choices where there are some. `CODES` are the codes of the core; a room declares its own, and
docs/errors.md holds all of them.

    raise CallerError("INVALID_VALUE", "--limit: expected 1 or more, found 0", "--limit 20")

Programs go by `code`, which never changes its meaning; people read the message. An exception that
is none of these is a defect: the command line reports it as INTERNAL.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


CODES: Mapping[str, str] = {
    "USAGE": "The command line does not have the command's form.",
    "INTERRUPTED": "The user interrupted the command.",
    "EMPTY_REQUEST": "The request holds no words.",
    "REQUEST_INVALID": "The request holds a NUL character or a lone surrogate.",
    "REQUEST_TOO_LARGE": "The request is larger than 1 MiB.",
    "ROUTER_AMBIGUOUS": "The request can be read in two ways.",
    "ROUTER_NO_MATCH": "Nothing in the request names an action or a domain of a profile.",
    "PROFILE_NOT_FOUND": "No profile has this id.",
    "PROFILE_INVALID": "A profile file cannot be read.",
    "CONFIG_INVALID": "`.kittify/config.yaml` has a value the runtime does not know.",
    "ACCEPT_NEEDS_PERSON": "Only a person at a terminal may weaken what protects the user, not "
    "an agent or a script.",
    "FOREIGN_OWNER": "The project's files belong to another user and are not trusted.",
    "NOT_A_REPOSITORY": "The command keeps its answer in a git directory, and the folder is in "
    "no git repository.",
    "NOT_OURS": "A file in the git directory belongs to another user or can be written by others.",
    "NO_TRAIL_REFUSED": "An agent asked for no trail; `audit.no_trail: anyone`, accepted by a "
    "person, allows that.",
    "TRACKED_PRIVATE": "Git tracks files that hold private data; they are named and nothing was "
    "written.",
    "INVOCATION_NOT_FOUND": "No record has this id.",
    "INVOCATION_AMBIGUOUS": "Several records begin with this prefix.",
    "DUPLICATE_ID": "Several files hold the same invocation id.",
    "INVALID_ID": "The text is neither a ULID nor a part of one, or names another session's record "
    "by its place in the list.",
    "INVALID_VALUE": "An option has a value outside its closed set or form.",
    "PAYLOAD_INVALID": "A run event's payload is not JSON or lacks its event's form.",
    "CHAIN_BREAK": "A chain that was to be compared is not intact; nothing was compared.",
    "LABEL_TAKEN": "The record has a checkpoint with this label; `--force` makes another, found "
    "as the newest.",
    "RUN_BUSY": "Another process is at work on the run, or has gone on with it since it was read.",
    "RULE_NOT_FOUND": "No gate rule is registered under this name.",
    "EVIDENCE_NOT_FOUND": "The evidence file does not exist or is not a regular file.",
    "EVIDENCE_OUTSIDE": "The evidence lies outside the project and `--allow-outside` was not "
    "given.",
    "EVIDENCE_NOT_ALLOWED": "An advisory invocation carries no evidence.",
    "DOCTRINE_NOT_FOUND": "No charter section or artifact in force has this uri.",
    "WITHHELD": "The policy, or one that cannot be read, keeps this from being shown.",
    "ARTIFACT_NOT_FOUND": "An artifact does not exist or is not a regular file.",
    "ARTIFACT_OUTSIDE": "An artifact lies outside the project.",
    "FILE_TOO_LARGE": "A file is larger than what the object store takes.",
    "COMMIT_NOT_FOUND": "Git does not know this commit.",
    "ALREADY_COMPLETED": "The invocation is closed; nothing can follow its last line.",
    "OUTCOME_DIFFERS": "The invocation is closed with another outcome; nothing was changed.",
    "RECORD_DAMAGED": "A line inside the record does not match its seal; nothing can be appended.",
    "RECORD_UNSEALED": "The record was written by an older writer and is read-only.",
    "RECORD_IMPORTED": "The record was imported and is read-only; it goes on where it was written.",
    "EXPORT_INVALID": "A file is not a complete export, or what it holds does not verify; "
    "nothing was imported.",
    "COPIES_DIFFER": "A record of this id is here already and its bytes differ; nothing was "
    "imported.",
    "FILE_EXISTS": "The file to be written exists; nothing is overwritten.",
    "FORMAT_TOO_NEW": "A record, or another store, was begun by a newer version.",
    "NOT_A_REGULAR_FILE": "A symbolic link, FIFO, device or folder stands where a file is "
    "expected.",
    "UNSAFE_PATH": "A folder under `.kittify/` is a symbolic link or not a folder.",
    "OBJECT_CORRUPT": "An object's bytes do not hash to its name.",
    "SNAPSHOT_INVALID": "A stored snapshot or corpus does not have its form.",
    "OBJECT_MISSING": "The store does not hold an object a record names.",
    "COLD_DAMAGED": "The archive of a month is not whole, or differs from a file beside it.",
    "NOTHING_LOGGED": "This clone's log holds no leaf, or no signed checkpoint covers the "
    "record yet.",
    "LOG_DAMAGED": "The log of this clone is not as it was signed; nothing was signed.",
    "LOCK_TIMEOUT": "Another process held the record longer than the bounded wait.",
    "WRITE_FAILED": "The file system refused a write; nothing was kept, unless the message says "
    "so.",
    "CLOCK_INVALID": "This machine's clock is before 1970 or past 9999.",
    "DURABILITY_UNSUPPORTED": "The file system offers no way to create a file atomically.",
    "SYSTEM_UNTRIED": "Nobody has run this on the system yet, or it has no form for it.",
    "SHARED_ENVIRONMENT": "A warning: `spec-kitty-cli` is installed in this environment, too.",
    "ACCESS_FAILED": "A file, a folder or a standard stream cannot be read or written.",
    "SCHEMA_NOT_FOUND": "No JSON Schema has this name.",
    "LEAVES_SEALED": "What was said leaves encrypted, and the form would hold it in the clear.",
    "EXTRA_MISSING": "The command needs packages of an extra that is not installed.",
    "ENGINE_UNAVAILABLE": "The cluster of `--engine` cannot be reached, has no worker, or runs "
    "another version.",
    "ROOM_FAILED": "A room of another installed package failed, and recording goes on.",
    "INTERNAL": "A defect in spec-kitty.",
}


class InvocationError(Exception):
    """Base of every error the runtime raises on purpose. `code` is a key of CODES, or of a room's
    `errors`.

    `message` is a sentence: what was attempted, what was expected and what was found. `suggestion`
    is the next command, or what to do. `candidates` are choices, each a mapping of plain values.
    """

    def __init__(
        self,
        code: str,
        message: str,
        suggestion: str,
        *,
        candidates: Sequence[Mapping[str, object]] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.suggestion = suggestion
        self.candidates = None if candidates is None else tuple(dict(item) for item in candidates)

    def as_value(self) -> dict[str, object]:
        """Return the error as JSON: error_code, message, suggestion and, where there are some,
        candidates."""
        value: dict[str, object] = {
            "error_code": self.code,
            "message": self.message,
            "suggestion": self.suggestion,
        }
        if self.candidates is not None:
            value["candidates"] = [dict(item) for item in self.candidates]
        return value


class CallerError(InvocationError):
    """The caller can fix it: another request, id, option or file.

    Nothing was written, unless the message says so.
    """


class StoredDataError(InvocationError):
    """Something stored is damaged, foreign or misconfigured and has to be looked at.

    To run the same command again does not help: the suggestion names what shows or fixes it.
    """


class EnvironmentFault(InvocationError):
    """The disk, the file system or its permissions refused.

    The same command works once the machine is in order, so it is safe to run it again.
    """


def say_failure(error: Exception) -> str:
    """Return what the system says of an error without its number, else the error's own text."""
    return str(getattr(error, "strerror", None) or error)
