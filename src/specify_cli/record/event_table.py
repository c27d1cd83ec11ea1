"""What an event is: the one table that writers, verify, models, schemas, pages and docs are derived
from. [pure]

    EVENTS["tool_call"].members["args"].side     # "tool_args"
    list_members("object")["started"]  # ("governance_context_hash", "snapshot", "request_object")

An event that is added here has a schema, is checked when it is recorded, followed by verify, shown
and documented (`make docs`). What it does to the state of a run stands in `state`.

How one row is used. `members` in order give the row of docs/format.md §4 and the fields of the
model. A payload is checked against `recordable`, and `side` says which capture mode a member
obeys. `list_members` tells verify where digests of objects stand. `durable` decides
whether an append waits for the disk.
"""

from __future__ import annotations

from functools import cached_property

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Member(NamedTuple):
    """One member of an event.

    `kind` says what the line holds and how a payload's value is checked. A payload can give: name ·
    path · digest · message · note · choice · integer · positive · boolean · counts · captured (as
    its capture `side` says, docs/format.md §4) · digested (of captured, digest and size alone) ·
    object (kept whole) · source (it is not in the line itself). The recorder computes the other
    kinds; `event_models` maps each kind to its type. `presence` says whether a payload must give
    the member (required), can give it (optional), or cannot (empty: the recorder writes it). A
    member that stands in `every` line may be `nullable`. `note` is what the documentation adds.
    """

    kind: str
    presence: str = ""
    every: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    default: object = None
    side: str = ""
    media_type: str = "application/json"
    note: str = ""

    @property
    def required(self) -> bool:
        """Return whether a payload has to give it."""
        return self.presence == "required"


class EventType:
    """One event: what it says, its members, and how it is treated.

    `make_members` returns the members by name. They are made when `members` is first asked for,
    because a hook needs those of one or two events, and all of them cost it 4 % of its time.

    `durable`: the line is on stable storage before the program goes on (docs/format.md §6).
    `compared`: a run that is resumed or executed again must write an equal line. `highlights` are
    the members that a timeline shows. `command` is what writes an event that no payload can give.
    `annex` is `also` or `only` where the event can stand, or must stand, in an annex of a closed
    record, and `witness` where only the program's transcript adds it there.
    """

    def __init__(
        self,
        about: str,
        make_members: Callable[[], Mapping[str, Member]],
        highlights: tuple[str, ...],
        known_as: str,
        command: str = "",
        durable: bool = False,
        compared: bool = False,
        annex: str = "",
    ) -> None:
        self.about, self._make_members, self.highlights = about, make_members, highlights
        self.known_as, self.command = known_as, command
        self.durable, self.compared, self.annex = durable, compared, annex

    @cached_property
    def members(self) -> Mapping[str, Member]:
        """The members that a line of this event can have besides those of every line."""
        return self._make_members()

    @cached_property
    def recordable(self) -> Mapping[str, Member]:
        """The members that a payload can give; each event that is recorded asks for them."""
        return {name: member for name, member in self.members.items() if member.presence}


_JSON = "application/json"


def _required(kind: str, choices: tuple[str, ...] = (), note: str = "") -> Member:
    """Return a member that every payload gives."""
    return Member(kind, "required", True, False, choices, None, "", _JSON, note)


def _optional(
    kind: str,
    default: object = None,
    side: str = "",
    choices: tuple[str, ...] = (),
    note: str = "",
    every: bool = False,
    media_type: str = _JSON,
) -> Member:
    """Return a member that a payload may give; with a default it stands in every line."""
    return Member(
        kind,
        "optional",
        every or default is not None,
        False,
        choices,
        default,
        side,
        media_type,
        note,
    )


def _computed(
    kind: str, nullable: bool = False, choices: tuple[str, ...] = (), note: str = ""
) -> Member:
    """Return a member that the recorder writes into every line."""
    return Member(kind, "", True, nullable, choices, None, "", _JSON, note)


_MAYBE = Member("text")
_DECISIONS = ("PASS", "FAIL", "WARN", "SKIP", "PENDING")
_SEVERITIES = ("error", "warning", "info")
_DURATION = {"duration_ms": _optional("integer")}
_AGENT = {"agent": _optional("name")}
_REDACTIONS = {"redactions": Member("counts")}
# `beside` marks an event of a thread or task that ran beside other work: the order of the lines
# says nothing about it. `within` is the call (its id) that such an event was made by, or its step
# (`name ordinal`) where no `step` says so.
_BESIDE = {"beside": Member("true"), "within": _MAYBE}
_CITED = {
    "after": Member("seals", note="(§11)"),
    "after_of": Member("ulids"),
}
# What the recorder adds to any run event.
_MARKS = {
    **_REDACTIONS,
    **_BESIDE,
    "export_safe": Member("false"),
    "digest_key": Member("text"),
    "truncated": Member("true"),
    # Who says so, where that is not the writer itself (docs/format.md §4).
    "witness": Member("choice", choices=("transcript", "tree")),
    "claimed_at": Member("time"),
}
_INSIDE = {"step": _optional("name"), "ordinal": _optional("positive"), **_AGENT, **_MARKS}
_STEP = {
    "step": _required("name"),
    "ordinal": _optional("positive", every=True),
    "step_type": _optional("name", default="step"),
}
_ERROR = {
    "error_code": _required("name"),
    "message": Member("message", "optional", default="", side="tool_output"),
}

# Who ordered that something is erased, held or released, and why.
_ORDER = {
    "reason": _computed("text"),
    "ordered_by": _computed("name"),
    "identity": _computed("choice", choices=("ssh", "claim", "rule")),
    "signature": Member("text", note="(§13)"),
}

EVENTS: Mapping[str, EventType] = {
    "started": EventType(
        "The record opens.",
        lambda: {
            "started_at": _computed("time"),
            "profile_id": _computed("profile"),
            "action": _computed("text"),
            "request_text": _computed("text", nullable=True),
            "request_object": Member("object"),
            "tombstone": Member("true"),
            "governance_context_hash": _computed(
                "object",
                nullable=True,
                note="(SHA-256 of the returned text's UTF-8 bytes; of no bytes without a charter)",
            ),
            "governance_context_available": _computed("boolean"),
            "actor": _computed(
                "actor",
                note="{`actor_id`, `actor_type` human·llm·service, `provider`?, `model`?, `tool`?}",
            ),
            "mode_of_work": _computed("choice", choices=("advisory", "task_execution")),
            "router_confidence": _computed(
                "choice", choices=("exact", "canonical_verb", "domain_keyword")
            ),
            "match_reason": _computed("text", nullable=True),
            "trace_id": _computed("hex32", note="(32 hex)"),
            "run_kind": _computed("choice", choices=("live", "as_of_replay", "reexecution")),
            "verb": _computed("choice", choices=("advise", "ask", "do")),
            "parent_invocation_id": Member("ulid"),
            "requested_profile": _MAYBE,
            "mission": Member("text", note="(the folder of `kitty-specs/` it is part of)"),
            "work_package": Member("text", note="(`WP03`; several are joined by commas)"),
            "first_load": _computed("boolean"),
            "snapshot": _computed("object", nullable=True),
            "execution_hash": _computed("digest", nullable=True),
            "capture": _computed(
                "capture",
                note="{`prompt`, `response`, `tool_args`, `tool_output`: off·hash·summary·full}",
            ),
            "redaction_rules": Member("digest", note="(of the rules in force)"),
            "narrowed": Member(
                "text", note="(by what the config had less recorded than a person accepted)"
            ),
            "decisions": Member(
                "text", note="(what was decided for this clone since the record before it)"
            ),
            "limits": Member("limits", note="{`steps`, `tool_calls`, `tokens`, `seconds`}"),
            "tools": Member("digests", note="{name: digest}"),
            "program": Member("digest"),
            "session": Member("texts"),
            "printed": Member(
                "json",
                note="(what was printed of the context, where that was not all of it: {`form` "
                "titles·new, `held`? [{`uri`, `invocation_id`}], `hash`? of the text})",
            ),
            "opened_by": Member(
                "text", note="(hook: it began its record for a session that had asked for none)"
            ),
            "imported": Member(
                "texts",
                note="(made of a transcript {`at`, `harness`, `transcript`: its SHA-256, "
                "`subagents`?: a digest of theirs, "
                "`version`?, "
                "`continues`?: the record of the session until then}: every time in the record "
                "but this `at` is the "
                "transcript's claim)",
            ),
            **_CITED,
            **_REDACTIONS,
        },
        ("verb", "action", "request_text"),
        "run start, InvocationRecord v1",
        "spec-kitty do REQUEST",
        durable=True,
    ),
    "policy_snapshot_ref": EventType(
        "Which policy was in force.",
        lambda: {
            "bundle": _computed("object", nullable=True, note="(null: no policy)"),
            "bundle_hash": _computed("digest", nullable=True, note="(its bytes)"),
            "policy_hash": _computed(
                "digest",
                nullable=True,
                note="(JCS of the parse; null also where it cannot be parsed)",
            ),
            "reason": _computed(
                "choice",
                choices=("start", "drift", "manual"),
                note="(drift: before a checkpoint or retrieval where the policy has changed "
                "since the last reference)",
            ),
            "replaces": Member(
                "digest",
                note="(with drift: the previous `policy_hash`, else its `bundle_hash`, else null)",
            ),
            "error": _MAYBE,
        },
        ("reason", "policy_hash"),
        "policy bundle reference",
        "spec-kitty profile-invocation commit --invocation-id ID",
    ),
    "retrieval_request": EventType(
        "What was asked of the corpus.",
        lambda: {
            "request_id": _computed("text"),
            "query": _computed("text"),
            "query_hash": _computed("digest"),
            "config": _computed("json"),
            "corpus": _computed("object"),
            **_BESIDE,
        },
        ("query",),
        "retrieval query, memory read",
        "the Python API: run.retrieve(query, k)",
        compared=True,
    ),
    "retrieval_response": EventType(
        "What came back, why, and what policy took away.",
        lambda: {
            "request_id": _computed("text"),
            "hits": _computed(
                "hits",
                note="[{`uri`, `digest`, `rank`, `score`, `explain`, `shown`?, `because`?}]",
            ),
            "filters_applied": _computed("filters", note="[{`rule_id`, `uri`, `action`}]"),
            "result_hash": _computed("digest", note="(JCS of {`filters_applied`, `hits`})"),
            "error": _MAYBE,
            **_BESIDE,
        },
        (),
        "retrieval result, selected entries",
        "the Python API: run.retrieve(query, k)",
        compared=True,
    ),
    "stage_transition": EventType(
        "The work goes from one stage to the next.",
        lambda: {
            "to": _required("name"),
            "from": _optional("name", note="(or null; a `checkpoint` follows in the same write)"),
            **_AGENT,
            "step": Member("name"),
            "ordinal": Member("positive"),
            **_MARKS,
        },
        ("from", "to"),
        "StageTransition",
        durable=True,
        compared=True,
    ),
    "checkpoint": EventType(
        "A point to replay against.",
        lambda: {
            "label": _MAYBE,
            "manual": _computed("boolean"),
            "state_hash": _computed("digest", note="(of the execution state before this line)"),
            "corpus": _computed("object"),
            **_BESIDE,
        },
        ("label", "state_hash"),
        "savepoint, replay point",
        "spec-kitty profile-invocation commit --invocation-id ID",
        durable=True,
    ),
    "step_started": EventType(
        "A unit of work begins.",
        lambda: {**_STEP, "input": _optional("captured", side="tool_args"), **_AGENT, **_MARKS},
        ("step", "ordinal"),
        "WorkflowStep begin, span start",
        compared=True,
    ),
    "step_completed": EventType(
        "A unit of work ended and decided.",
        lambda: {
            **_STEP,
            "decision": _optional("choice", choices=_DECISIONS, default="PASS"),
            "output": _optional("captured", side="tool_output"),
            **_DURATION,
            **_AGENT,
            **_MARKS,
        },
        ("step", "ordinal", "decision"),
        "WorkflowStep end, span end",
        durable=True,
        compared=True,
    ),
    "step_failed": EventType(
        "A unit of work ended in an error.",
        lambda: {
            **_STEP,
            **_ERROR,
            "attempt": _optional("integer", default=1),
            "retryable": _optional("boolean", default=False),
            **_DURATION,
            **_AGENT,
            **_MARKS,
        },
        ("step", "ordinal", "error_code", "message"),
        "ErrorEvent of a step",
        durable=True,
        compared=True,
    ),
    "tool_call": EventType(
        "A tool is about to run.",
        lambda: {
            "call_id": _optional("name", every=True),
            "tool": _required("name"),
            "args": _optional("captured", side="tool_args"),
            "side_effect": _optional(
                "choice", choices=("none", "idempotent", "external"), default="external"
            ),
            "idempotency_key": _optional("name", every=True),
            "cwd": _optional("path", note="(where it lies outside the record's project)"),
            "permission_mode": _optional("name", note="(by which the harness asked, or did not)"),
            **_INSIDE,
        },
        ("tool", "side_effect", "args"),
        "ToolCall, function call",
        compared=True,
        annex="witness",
    ),
    "tool_result": EventType(
        "What a tool gave.",
        lambda: {
            "call_id": _required("name"),
            "tool": _optional("name"),
            "status": _optional(
                "choice",
                choices=("ok", "error", "denied", "unknown", "replayed"),
                default="ok",
                note="(unknown: nothing says how it ended)",
            ),
            "inferred": _optional("boolean"),
            "background": _optional("boolean", note="(it goes on until a later result)"),
            "output": _optional("captured", side="tool_output"),
            "source": Member(
                "text",
                note="(of a re-execution: the URI of the recorded result)",
            ),
            **_DURATION,
            **_INSIDE,
        },
        ("tool", "status", "output"),
        "ToolResult, observation",
        compared=True,
        annex="witness",
    ),
    "patch_apply": EventType(
        "A file was made, changed or deleted.",
        lambda: {
            "path": _required("path"),
            "kind": _required("choice", choices=("create", "modify", "delete")),
            "before": _optional("captured", side="tool_args", media_type="text/plain"),
            "after": _optional("captured", side="tool_args", media_type="text/plain"),
            "diff": _optional("captured", side="tool_args", media_type="text/x-diff"),
            "ok": _optional("boolean", default=True),
            "call_id": _optional("name"),
            "mode": Member("text"),
            "lines": Member("text"),
            **_INSIDE,
        },
        ("kind", "path"),
        "PatchApply, file edit",
        compared=True,
        annex="witness",
    ),
    "gate_decision": EventType(
        "A rule was asked and answered.",
        lambda: {
            "gate": _required("name"),
            "rule_ref": _required("name"),
            "rule_digest": _optional("digest"),
            "rule_source": _optional(
                "object", side="tool_args", note="(the rule as it was written)"
            ),
            "inputs": _optional("object", side="tool_args"),
            "outcome": _required("choice", choices=("pass", "fail", "warn", "skip")),
            "blocking": _optional("boolean", default=True),
            "reason_code": _required("name"),
            "override": _optional("name"),
            **_INSIDE,
        },
        ("gate", "outcome", "reason_code", "override"),
        "GateDecision, guardrail",
        durable=True,
        compared=True,
    ),
    "approval": EventType(
        "Somebody allowed or denied a call, a gate or the request.",
        lambda: {
            "decision": _required("choice", ("allow", "deny")),
            "refers_to": _required("choice", ("call", "gate", "request")),
            "call_id": _optional("name"),
            "gate": _optional("name"),
            "args": _optional("captured", side="tool_args"),
            "approver": _optional("name"),
            "identity": _computed("choice", choices=("ssh", "git", "claim")),
            "reason": _optional("note"),
            "single_use": _optional("boolean", default=True),
            "of": Member("digest", note="(§12)"),
            "project": Member("name", note="(§12)"),
            "signed_at": Member("time"),
            "expires_at": Member("time"),
            "signature": Member("text", note="(§12)"),
            **_INSIDE,
        },
        ("decision", "refers_to", "call_id", "approver", "identity", "reason"),
        "approval, permission, human in the loop",
        durable=True,
    ),
    "prompt": EventType(
        "What a person asked the agent.",
        lambda: {"text": _optional("captured", side="prompt", media_type="text/plain"), **_INSIDE},
        ("text",),
        "user message",
        annex="witness",
    ),
    "turn": EventType(
        "The agent's turn is over: what it answered at its end, and what its model used.",
        lambda: {
            "text": _optional("captured", side="response", media_type="text/plain"),
            "thinking": _optional("digested", side="response", media_type="text/plain"),
            "model": _optional("name"),
            "tokens": _optional("counts", note="{kind: count}"),
            "requests": _optional("integer", note="(answers of the model in this turn)"),
            "cost": _optional("name", note="(US dollars as a decimal)"),
            **_INSIDE,
        },
        ("text", "model", "tokens"),
        "assistant message, usage",
        annex="also",
    ),
    "session_change": EventType(
        "The session the record belongs to began, went on, was compacted or ended, or works with "
        "something else.",
        lambda: {
            "change": _required(
                "choice",
                (
                    *("started", "compacted", "interrupted", "ended"),
                    *("model_switched", "folder_changed", "folder_added", "settings_changed"),
                    *("instructions_loaded", "question_answered", "session_deleted"),
                ),
            ),
            "reason": _optional("name"),
            "detail": _optional("name", note="(the model, folder, file, server or session)"),
            **_INSIDE,
        },
        ("change", "reason"),
        "session lifecycle",
        annex="witness",
    ),
    "model_call": EventType(
        "The host asked its model.",
        lambda: {
            "call_id": _optional("name", every=True),
            "model": _required("name"),
            "prompt": _optional("captured", side="prompt"),
            "response": _optional("captured", side="response"),
            "tokens": _optional("counts", note="{kind: count}"),
            **_DURATION,
            "ok": _optional("boolean", default=True),
            "source": Member("text", note="(of a re-execution: the URI of the recorded answer)"),
            "answered_by": Member(
                "text",
                note="(of a re-execution: the function, or MODEL at URL, that answered for the "
                "model)",
            ),
            **_INSIDE,
        },
        ("model", "prompt", "response"),
        "ModelCallEnvelope, generation",
        compared=True,
    ),
    "error": EventType(
        "Something went wrong outside any one step.",
        lambda: {
            **_ERROR,
            "severity": _optional("choice", choices=_SEVERITIES, default="error"),
            **_INSIDE,
        },
        ("severity", "error_code", "message"),
        "ErrorEvent",
        compared=True,
        annex="witness",
    ),
    "policy_violation": EventType(
        "A rule or limit was broken; for a limit nothing runs after it.",
        lambda: {
            "rule_id": _required("name", note="(`limit:<name>` for a limit)"),
            "message": _optional("note", default=""),
            "severity": _optional("choice", choices=_SEVERITIES, default="error"),
            "allowed": _optional("integer"),
            "found": _optional("integer"),
            **_INSIDE,
        },
        ("rule_id", "message"),
        "PolicyViolation, budget stop",
        durable=True,
    ),
    "reconciled": EventType(
        "What another witness tells was held against the record.",
        lambda: {
            "witness": _computed("choice", choices=("transcript",)),
            "until": _computed("time", note="(what it tells up to then, by its own claim)"),
            "calls": _computed("integer", note="(that it tells since the last such line)"),
            "confirmed": _computed("integer", note="(of these: the record held them)"),
            "added": _computed("integer", note="(of these: the record did not)"),
            "filled": _computed("integer", note="(lines of which it said more)"),
            "contradicted": _computed("integer", note="(of which it said otherwise)"),
            "agents": Member(
                "texts",
                note="(subagents that no hook named, with the `seq` or seal of their lines)",
            ),
        },
        ("witness", "confirmed", "added", "filled", "contradicted"),
        "reconciliation",
        "the end of a turn, `import sessions`, `doctor --sweep`",
        annex="witness",
    ),
    "capture_gap": EventType(
        "What could not be written, and why.",
        lambda: {
            "reason": _required("name"),
            "what": _required("name"),
            "count": _optional("integer", default=1),
            "message": _optional("note", default=""),
            **_INSIDE,
        },
        ("reason", "what", "count", "message"),
        "dropped events",
        annex="witness",
    ),
    "recovered": EventType(
        "A writer crashed before this line; the next one went on.",
        lambda: {
            "skipped_bytes": _computed("positive"),
            "skipped_sha256": _computed("digest", note="(§7)"),
        },
        ("skipped_bytes",),
        "tail repair",
        "the next append, which writes it where it is due",
    ),
    "resumed": EventType(
        "The seam where a later process went on with an unfinished run.",
        lambda: {
            "from_seq": _computed("integer"),
            "state_hash": _computed("digest"),
            "program": _MAYBE,
            "in_doubt": _computed("names", note="[call ids]"),
            "rerun": _computed("names", note="[call ids]"),
        },
        ("from_seq",),
        "resume marker",
        "spec-kitty resume ID",
        durable=True,
    ),
    "artifact_link": EventType(
        "A file the work made or changed.",
        lambda: {
            "path": Member("source", "required"),
            "ref": _computed("text", note="(path below the root)"),
            "digest": _computed("digest"),
            **_BESIDE,
            **_REDACTIONS,
        },
        ("ref",),
        "artifact reference",
        annex="also",
    ),
    "commit_link": EventType(
        "The commit that holds the work.",
        lambda: {
            "commit": Member("source", "required"),
            "sha": _computed("sha", note="(full commit id)"),
            **_BESIDE,
        },
        ("sha",),
        "commit reference",
        annex="also",
    ),
    "completed": EventType(
        "The last line, for good.",
        lambda: {
            "completed_at": _computed("time"),
            "outcome": _computed("choice", choices=("done", "failed", "abandoned")),
            "closed_by": _computed("choice", choices=("agent", "person", "hook", "doctor")),
            "evidence_ref": _computed("object", nullable=True),
            "evidence_name": _MAYBE,
            "evidence_size": Member("integer"),
            **_CITED,
            **_REDACTIONS,
        },
        ("outcome", "closed_by", "evidence_ref"),
        "run end, InvocationRecord close",
        "spec-kitty profile-invocation complete --invocation-id ID",
        durable=True,
    ),
    "exported": EventType(
        "An annex: the record left in a portable file.",
        lambda: {"object": _computed("object"), "safe": _computed("boolean")},
        ("object",),
        "disclosure note",
        "spec-kitty invocations export ID",
        annex="only",
    ),
    "replayed": EventType(
        "An annex: the record was replayed, and this report came of it.",
        lambda: {
            "object": _computed("object"),
            "match": _computed(
                "boolean",
                nullable=True,
                note="(or null: nothing differs, not everything was evaluated)",
            ),
            "page": Member("blob"),
        },
        ("match", "object"),
        "replay receipt",
        "spec-kitty replay ID --record",
        annex="only",
    ),
    "erased": EventType(
        "An annex: members of lines, or whole objects, were erased.",
        lambda: {
            "lines": _computed("erasures", note="(§13)"),
            "objects": _computed("seals", note="(that were erased whole)"),
            "rule": Member("text", note="(of the project's config, that ordered it)"),
            "sealed": Member(
                "json",
                note="{`key`, `object`}: what it holds, encrypted, of a copy that left (§13)",
            ),
            **_ORDER,
        },
        ("ordered_by", "reason"),
        "erasure note",
        "spec-kitty forget",
        annex="only",
    ),
    "held": EventType(
        "An annex: nothing of the record may be erased until it is released.",
        lambda: {**_ORDER},
        ("ordered_by", "reason"),
        "legal hold",
        "spec-kitty hold add",
        annex="only",
    ),
    "released": EventType(
        "An annex: a hold is over.",
        lambda: {"hold": _computed("digest", note="(the seal of its annex)"), **_ORDER},
        ("ordered_by", "reason"),
        "end of a legal hold",
        "spec-kitty hold release",
        annex="only",
    ),
}


def list_members(kind: str) -> dict[str, tuple[str, ...]]:
    """Return the names of the members of a kind by their events; events without one are left out.

    `object` gives where a line names objects, each by its digest, and `captured` where it holds
    what was captured.
    """
    return {
        name: members
        for name, event in EVENTS.items()
        if (members := tuple(member for member, of in event.members.items() if of.kind == kind))
    }


# Events that can stand in a record, and also in an annex once the record is closed.
LATE = tuple(name for name, event in EVENTS.items() if event.annex == "also")
DURABLE = frozenset(name for name, event in EVENTS.items() if event.durable)
# Events that can be added to a closed record, each as one sealed line in a file of its own. These
# and `ORDERS` are tuples: what a stranger sent may be a list, and no set can be asked for one.
ANNEX_EVENTS = tuple(name for name, event in EVENTS.items() if event.annex)
ANNEX_ONLY = frozenset(name for name, event in EVENTS.items() if event.annex == "only")
# Annexes that a person or a rule orders. They can also belong to an open record.
ORDERS = ("erased", "held", "released")
# The events that a payload can give.
RECORDABLE = tuple(name for name, event in EVENTS.items() if not event.command)
