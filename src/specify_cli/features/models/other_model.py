"""Ask another model what a run asked its own, and hold the answers against each other
(docs/replay.md).

    address = "https://…/v1/chat/completions"
    found = ask_other_model(project, "01J…", "small-1", address, send, caller=caller)
    found.match  # True, False, or None where something could not be evaluated and nothing differs

Guarantees: nothing is sent but to an endpoint that a person accepted; what was masked, cut or not
captured is not asked but listed as not evaluated; a failed request ends the asking. Sending is an
argument.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from specify_cli.errors import CallerError, InvocationError
from specify_cli.features.models.dialects import (
    CHAT,
    MESSAGES,
    Answer,
    UnknownFormError,
    find_dialect,
    list_calls,
    name_other_model,
    read_answer,
    read_error,
    read_question,
    write_question,
)
from specify_cli.features.programs.history import History
from specify_cli.features.programs.resume import open_child
from specify_cli.features.programs.run import Run
from specify_cli.features.replay.opening import read_intact
from specify_cli.features.sync.consent import checked_endpoint
from specify_cli.invocation.caller import Caller
from specify_cli.project.config import Project
from specify_cli.record.reading.views import fields_of
from specify_cli.record.record import Record
from specify_cli.redaction.json_values import foreign_text, parse_foreign
from specify_cli.redaction.redact import RuleSet, redact
from specify_cli.storage.index import Index
from specify_cli.storage.objects import FileObjectStore

SAME, DIFFERS, NOT_EVALUATED = "same", "differs", "not_evaluated"
_DIFF_LINES = 200
Send = Callable[[bytes], bytes]


class AnswerDiff(NamedTuple):
    """Two answers against each other; where a part is the same its diff is empty and both sides are
    null."""

    text: list[str]
    recorded_calls: list[dict[str, object]] | None
    answered_calls: list[dict[str, object]] | None
    recorded_decision: str | None
    answered_decision: str | None


class AnswerCompared(NamedTuple):
    """One model call: its verdict (same, differs, not_evaluated), and why or how it differs."""

    seq: int
    model: str
    verdict: str
    reason: str | None
    child_seq: int | None = None
    diff: AnswerDiff | None = None


class ModelReplay(NamedTuple):
    """How another model answered what a run had asked; no child where nothing could be asked."""

    original_invocation_id: str
    replay_invocation_id: str | None
    model: str
    endpoint: str
    match: bool | None
    calls: tuple[AnswerCompared, ...]

    def count(self, verdict: str) -> int:
        """Return how many calls have a verdict."""
        return sum(call.verdict == verdict for call in self.calls)


class _RecordedCall(NamedTuple):
    """A recorded call that can be asked again."""

    prompt: object
    body: bytes
    recorded: Answer


def ask_other_model(
    project: Project,
    invocation_id: str,
    model: str,
    endpoint: str,
    send: Send,
    *,
    events: Sequence[int],
    home: str | None,
    caller: Caller,
) -> ModelReplay:
    """Ask each captured model call of a record, or of these seqs, anew; record a child of it.

    Raises CallerError CONSENT_NEEDED, ENDPOINT_INVALID, INVALID_VALUE before anything is sent or
    written, and what reading a record that is not intact raises.
    """
    # 1. Where it may go, and what is asked.
    dialect = _find_dialect(project, endpoint)
    place = Index(project.root).resolve(invocation_id)
    _, record = read_intact(project.root, place)
    history, rules = History((), FileObjectStore(project.root).get), project.config.redaction
    run: Run | None = None
    compared = []
    stopped = ""
    # 2. One question after another; the child begins with the first that can be asked.
    for fields in _select_calls(record, events, place.invocation_id):
        seq, name = int(str(fields.get("seq"))), str(fields.get("model"))
        due = stopped or _prepare(fields, history, model, dialect, rules)
        if isinstance(due, str):
            compared.append(AnswerCompared(seq, name, NOT_EVALUATED, due))
            continue
        if run is None:
            asked = project.root, record.started, place.invocation_id
            run = Run(*open_child(*asked, caller=caller, home=home))
        began = time.monotonic()
        answered = _ask(due, send, rules)
        if isinstance(answered, str):
            compared.append(AnswerCompared(seq, name, NOT_EVALUATED, answered))
            stopped = f"not asked, for the endpoint failed at seq {seq}"
            continue
        answer, masked = answered
        tokens = dict(answer.tokens)
        payload = {"model": name, "prompt": due.prompt, "response": masked, "tokens": tokens}
        other = name_other_model(masked, model)
        child_seq = _record(run, payload, f"{other or model} at {endpoint}", began)
        if other is not None:
            named = redact(other[:200], rules).text
            why = f"the answer names another model than the one asked: {named}"
            compared.append(AnswerCompared(seq, name, NOT_EVALUATED, why, child_seq))
            continue
        diff = compare_answers(due.recorded, answer)
        verdict = DIFFERS if diff else SAME
        compared.append(AnswerCompared(seq, name, verdict, None, child_seq, diff))
    # 3. What all of it comes to.
    if run is not None:
        run.close("failed" if stopped else "done")
    verdicts = {call.verdict for call in compared}
    match = False if DIFFERS in verdicts else True if verdicts == {SAME} else None
    child = None if run is None else run.invocation_id
    return ModelReplay(place.invocation_id, child, model, endpoint, match, tuple(compared))


def compare_answers(recorded: Answer, answered: Answer) -> AnswerDiff | None:
    """Return how two answers differ; None where text, tool calls and decision are the same.
    Pure."""
    then, now = list_calls(recorded.calls), list_calls(answered.calls)
    before, after = (answer.text.strip().splitlines() for answer in (recorded, answered))
    text = list(difflib.unified_diff(before, after, "recorded", "answered", lineterm=""))
    if len(text) > _DIFF_LINES:
        text[_DIFF_LINES:] = [f"… {len(text) - _DIFF_LINES} more lines"]
    calls = (None, None) if then == now else (then, now)
    decisions: tuple[str | None, str | None] = (None, None)
    if recorded.decision != answered.decision:
        decisions = recorded.decision, answered.decision
    diff = AnswerDiff(text, calls[0], calls[1], *decisions)
    return diff if any(diff) else None


def judge_endpoints(stated: Mapping[str, Sequence[str]] | None) -> None:
    """Raise CallerError ENDPOINT_INVALID where nobody could be asked at a URL that the
    config accepts."""
    for endpoint in (stated or {}).get("endpoints") or ():
        _require_dialect(checked_endpoint(endpoint, _CORRECT), _CORRECT)


_CORRECT = "correct replay.endpoints in .kittify/config.yaml"


def _require_dialect(endpoint: str, advice: str) -> str:
    dialect = find_dialect(endpoint)
    if dialect is None:
        raise CallerError(
            "ENDPOINT_INVALID",
            f"{endpoint}: its path tells no form; expected one that ends in {CHAT} or {MESSAGES}",
            advice,
        )
    return dialect


def _find_dialect(project: Project, endpoint: str) -> str:
    """Return how an endpoint is spoken to, by its path, if a person accepted it for this clone."""
    dialect = _require_dialect(
        endpoint, "name one: --endpoint https://models.example.org/v1/chat/completions"
    )
    if endpoint not in project.config.endpoints:
        raise CallerError(
            "CONSENT_NEEDED",
            f"nobody accepted that what models were asked is sent to {endpoint}; nothing was sent",
            "name it in .kittify/config.yaml (replay: {endpoints: [URL]}), then in a terminal: "
            "spec-kitty config accept",
        )
    return dialect


def _select_calls(
    record: Record, events: Sequence[int], invocation_id: str
) -> list[Mapping[str, object]]:
    """Return the model calls of a record, or those of these seqs. Raises CallerError
    INVALID_VALUE."""
    lines = [fields for fields in fields_of(record) if fields.get("event") == "model_call"]
    known = [fields.get("seq") for fields in lines]
    unknown = sorted(seq for seq in events if seq not in known)
    if unknown:
        listed = ", ".join(map(str, known[:20])) or "none"
        raise CallerError(
            "INVALID_VALUE",
            f"--event: expected the seq of a model call ({listed}), found {unknown[0]}",
            f"spec-kitty invocations show {invocation_id}",
        )
    return [fields for fields in lines if not events or fields.get("seq") in events]


def _prepare(
    fields: Mapping[str, object], history: History, model: str, dialect: str, rules: RuleSet
) -> _RecordedCall | str:
    """Return a recorded call ready to be asked, or why it cannot be."""
    if fields.get("ok") is False:
        return "the model gave no answer then"
    try:
        prompt = history.value(fields, "prompt")
        recorded = read_answer(history.value(fields, "response"))
        question = read_question(prompt)
    except InvocationError as error:
        return error.message
    except UnknownFormError as error:
        return str(error)
    except (TypeError, AttributeError, KeyError):
        return "its prompt or answer has a form that is not known"
    if recorded.calls and not question.tools:
        return "it answered with tool calls, and the tools it was offered are not on the record"
    body = foreign_text(write_question(question, model, dialect), rules)
    if body.counts:
        return f"today's rules mask something in it: {', '.join(sorted(body.counts))}"
    return _RecordedCall(prompt, body.text.encode(), recorded)


def _ask(due: _RecordedCall, send: Send, rules: RuleSet) -> tuple[Answer, object] | str:
    """Return an endpoint's answer, masked, and its body; or why there is none."""
    try:
        masked: Any = parse_foreign(foreign_text(json.loads(send(due.body)), rules).text)
        if (error := read_error(masked)) is not None:
            why = f"the endpoint answered with an error: {error[:400]}"
        elif not isinstance(masked, dict):
            why = "the endpoint answered with no message"
        else:
            return read_answer(masked), masked
    except InvocationError as fault:
        why = fault.message
    except UnknownFormError as fault:
        why = str(fault)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        why = "the endpoint answered with no message of a known form"
    return redact(why, rules).text


def _record(run: Run, payload: dict[str, object], answered_by: str, began: float) -> int:
    """Record one answer in the child and return the seq of its line."""
    took = {"duration_ms": int(1000 * (time.monotonic() - began)), "ok": True}
    composed = run.compose("model_call", payload | took)
    composed.body["answered_by"] = answered_by
    run.append(composed)
    return run.state.seq
