"""Deliver what is due: single-flight, in order, bounded in time, stopped by withdrawn consent at
the next request."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from httpx import InvalidURL
from standardwebhooks.webhooks import Webhook
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_before_delay,
)
from tenacity.wait import wait_random_exponential

from doctrine import os
from specify_cli import durable
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError, StoredDataError
from specify_cli.features.sync import consent as consents
from specify_cli.features.sync.consent import Consent
from specify_cli.features.sync.sending.cosigning import ask_cosignature
from specify_cli.features.sync.sending.outbox import Counts, Due, Outbox
from specify_cli.features.sync.sending.transport import (
    Endpoint,
    PostVerdict,
    Problem,
    body_of,
    is_passing,
)
from specify_cli.features.sync.trigger import (
    LONGEST_PAUSE,
    lock_path,
    open_lock,
    unpause,
    wanted_path,
)
from specify_cli.libraries.wire.contract import (
    MAX_BODY,
    MAX_EVENTS,
    RECORDS,
    key_of,
)
from specify_cli.libraries.wire.validation import faults
from specify_cli.project.config import Project, load_project
from specify_cli.record import layout
from specify_cli.record.ids import rfc3339
from specify_cli.redaction.redact import RedactionError

if TYPE_CHECKING:
    from specify_cli.features.sync.sending.orders import OrdersDelivered
    from specify_cli.features.sync.sending.records import RecordsDelivered

# A push behind a command gives up early and is started again by a later one; a push somebody asked
# for insists.
BACKGROUND_SECONDS, BACKGROUND_TRIES = 60.0, 3
FOREGROUND_TRIES = 4
REQUEST_PAUSE = wait_random_exponential(multiplier=0.25, max=5)
# What an endpoint may ask a push to wait for; with more the push ends and a later one goes on.
_PATIENCE = 10.0
_SHORTEST_PAUSE, _GROWN_PAUSE = 15.0, 3600.0
_BUSY_SECONDS = BACKGROUND_SECONDS + 15.0
_MAX_LOG = 4 * 1024 * 1024


class Pushed(NamedTuple):
    """What one push did. `state` is delivered (nothing is left to try), partial, unreachable,
    stopped or disabled.

    `witness` says what became of the log's state, where consent covers that and the endpoint is a
    witness; `records` of whole records, where they leave.
    """

    state: str
    delivered: int
    refused: int
    left: Counts
    why: str | None
    witness: str | None = None
    records: RecordsDelivered | None = None
    orders: OrdersDelivered | None = None


class RetryTerms(NamedTuple):
    """How long a push insists: tries for a request, seconds in all (None without end)."""

    tries: int = FOREGROUND_TRIES
    seconds: float | None = None
    wait_for_other: float = _BUSY_SECONDS


class _Halt(Exception):
    """The push ends here; what is left stays due."""

    def __init__(self, state: str, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.state = state
        self.why = why
        self.retry_after = retry_after


def agreed(project: Project) -> tuple[str, Consent]:
    """Return the project's sync folder and the consent that holds for it now.

    Raises CallerError SYNC_DISABLED, PROJECT_UNNAMED, StoredDataError CONSENT_INVALID,
    EnvironmentFault SYNC_UNAVAILABLE.
    """
    folder = consents.folder_of(project)
    consent = consents.read_consent(folder)
    if consent is None:
        raise CallerError(
            "SYNC_DISABLED",
            "nothing leaves this project: nobody agreed to an endpoint",
            "spec-kitty sync enable --endpoint https://…",
        )
    uuid = consents.project_uuid(project)
    if uuid != consent.project_uuid:
        raise StoredDataError(
            "CONSENT_INVALID",
            f"consent was given for project {consent.project_uuid}; .kittify/config.yaml now "
            f"says {uuid}",
            "put project.uuid right, or agree again: spec-kitty sync enable",
        )
    return folder, consent


def push(
    project: Project,
    environment: Mapping[str, str],
    terms: RetryTerms = RetryTerms(),
    progress: Callable[[int, int], None] | None = None,
    held: int | None = None,
) -> Pushed:
    """Deliver everything that is due. `progress` is told (phases done, phases in all).

    `held` is a descriptor that holds the lock already.

    Raises InvocationError where nothing can be tried: no consent, no token, a cursor that cannot be
    written, or SYNC_BUSY after waiting for another push.
    """
    folder, consent = agreed(project)
    token = consents.read_token(folder, environment)
    secret = consents.read_secret(folder, environment)
    consents.check_binding(folder, token, consent.endpoint)
    wanted_mark = wanted_path(folder, project.root)
    deadline = None if terms.seconds is None else time.monotonic() + terms.seconds
    delivered = refused = 0
    while True:
        with _hold_flight(lock_path(folder, project.root), terms.wait_for_other, held):
            with suppress(FileNotFoundError):
                os.unlink(wanted_mark)
            done = _Push(project, folder, consent, terms, deadline, progress).run(token, secret)
        delivered, refused = delivered + done.delivered, refused + done.refused
        # A command that found the lock held has left its wish before it tried it.
        if done.state != "delivered" or not os.path.exists(wanted_mark):
            return done._replace(delivered=delivered, refused=refused)
        held = None


@contextmanager
def _hold_flight(path: str, wait: float, held: int | None) -> Iterator[None]:
    """Hold the one push of a worktree. Raises EnvironmentFault SYNC_BUSY, SYNC_UNAVAILABLE."""
    fd = _take_lock(path, wait) if held is None else held
    try:
        yield
    finally:
        os.close(fd)


def _take_lock(path: str, wait: float) -> int:
    try:
        fd = open_lock(path)
    except OSError as error:
        raise consents.unavailable(path, error) from error
    try:
        durable.lock(fd, path, wait)
    except EnvironmentFault as error:
        os.close(fd)
        raise EnvironmentFault(
            "SYNC_BUSY", f"another push has been under way for {wait:g} s", "spec-kitty sync status"
        ) from error
    return fd


class _Push:
    """One pass over what is due, under the lock."""

    def __init__(
        self,
        project: Project,
        folder: str,
        consent: Consent,
        terms: RetryTerms,
        deadline: float | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._project = project
        self._folder = folder
        self._consent = consent
        self._terms = terms
        self._deadline = deadline
        self._progress = progress
        self._delivered = self._refused = 0

    def run(self, token: str, secret: str | None) -> Pushed:
        outbox = Outbox(self._project, self._folder, self._consent.endpoint)
        try:
            endpoint = _make_endpoint(self._consent.endpoint, token, secret)
            try:
                outbox.scan()
                total = outbox.counts().pending
                self._tell(total)
                while due := outbox.due(MAX_EVENTS):
                    events = self._compose_events(outbox, due)
                    if events:
                        self._send(endpoint, outbox, events)
                    self._tell(total)
                witness = ask_cosignature(self._project, self._consent, endpoint)
                orders = self._deliver_orders(endpoint, outbox)
                records = self._deliver_records(endpoint, outbox)
            except _Halt as halt:
                self._note_failure(outbox, halt)
                return Pushed(
                    halt.state, self._delivered, self._refused, self._count(outbox), halt.why
                )
            finally:
                endpoint.close()
            self._note_success(outbox)
            return Pushed(
                "delivered",
                self._delivered,
                self._refused,
                self._count(outbox),
                None,
                witness,
                records,
                orders,
            )
        finally:
            outbox.close()

    def _count(self, outbox: Outbox) -> Counts:
        return outbox.counts(
            records=self._consent.level == RECORDS, whole=bool(self._consent.whole)
        )

    def _deliver_orders(self, endpoint: Endpoint, outbox: Outbox) -> OrdersDelivered | None:
        """Deliver what was ordered of records, to a receiver of whole projects; ids alone, which a
        seal stands for, are never erased."""
        annexes = f"{self._project.root}/{layout.ANNEXES}"
        if not self._consent.orders or self._find_base() is None or not os.path.isdir(annexes):
            return None
        # Loads what a safe export needs, where something was ordered.
        from specify_cli.features.sync.sending.orders import deliver_orders

        done = deliver_orders(
            self._project,
            outbox,
            f"{self._find_base()}/v1/projects/{self._consent.project_uuid}",
            self._make_exchange(endpoint),
            self._note_refused,
            lines=self._consent.level == RECORDS,
            objects=self._consent.level == RECORDS and bool(self._consent.whole),
        )
        if done.why is not None:
            raise _Halt("unreachable", done.why)
        return done

    def _find_base(self) -> str | None:
        base = self._consent.endpoint.removesuffix("/v1/events")
        return None if base == self._consent.endpoint else base

    def _deliver_records(self, endpoint: Endpoint, outbox: Outbox) -> RecordsDelivered | None:
        """Deliver whole records and their log, where consent covers that; it is asked for before
        each request."""
        if self._consent.level != RECORDS:
            return None
        base = self._find_base()
        if base is None:
            raise _Halt("stopped", "whole records go to an endpoint that ends in /v1/events alone")
        # Loads what a safe export needs, which no other level does.
        from specify_cli.features.sync.sending.records import deliver_records

        url, whole = f"{base}/v1/projects/{self._consent.project_uuid}", bool(self._consent.whole)
        exchange = self._make_exchange(endpoint)
        done = deliver_records(
            self._project, outbox, url, exchange, self._note_refused, objects=whole
        )
        if done.why is not None:
            raise _Halt("unreachable", done.why)
        return done

    def _make_exchange(self, endpoint: Endpoint) -> Callable[[str, str, bytes], tuple[int, bytes]]:
        """Return what sends one request and comes again while its failure may pass."""

        def exchange(method: str, url: str, content: bytes) -> tuple[int, bytes]:
            def ask() -> tuple[int, bytes]:
                self._require_agreement()
                return endpoint.exchange(method, url, content)

            retrying = Retrying(
                retry=retry_if_result(lambda found: is_passing(found[0])),
                stop=stop_after_attempt(self._terms.tries)
                | stop_before_delay(self._measure_rest()),
                wait=REQUEST_PAUSE,
                retry_error_callback=_get_answer,
            )
            return retrying(ask)

        return exchange

    def _note_refused(self, name: str, what: str, status: int, why: str) -> None:
        self._write_refusal(name, what, None, Problem(status, f"the {what} was refused", why))

    def _require_agreement(self) -> None:
        """Raise _Halt where consent does not hold any more, or somebody else listens at the
        endpoint."""
        if consents.read_consent(self._folder) != self._consent:
            raise _Halt("disabled", "consent was withdrawn or changed meanwhile")
        try:
            consents.check_listener(self._consent)
        except EnvironmentFault as error:
            raise _Halt("stopped", f"{error.code}: {error.message}") from error

    def _tell(self, total: int) -> None:
        if self._progress is not None:
            self._progress(self._delivered + self._refused, total)

    def _compose_events(self, outbox: Outbox, due: Sequence[Due]) -> list[dict[str, object]]:
        """Return the events of the next request: what the contract allows, at most a request's
        size."""
        events: list[dict[str, object]] = []
        size = 0
        for item in due:
            try:
                event = outbox.event(item, self._consent.project_uuid, self._consent.level)
            except (InvocationError, RedactionError) as error:
                self._refuse(outbox, item, None, Problem(None, "cannot be composed", str(error)))
                continue
            if event is None:
                continue
            wrong = faults(event)
            if wrong:
                detail = "it is not what the contract says; nothing was sent"
                self._refuse(outbox, item, event, Problem(None, "invalid", detail, tuple(wrong)))
                continue
            size += len(body_of([event]))
            if events and size > MAX_BODY:
                break
            events.append(event)
        return events

    def _send(
        self, endpoint: Endpoint, outbox: Outbox, events: Sequence[Mapping[str, object]]
    ) -> None:
        verdict = self._send_post(endpoint, events)
        if verdict.kind == "halve":
            middle = len(events) // 2
            self._send(endpoint, outbox, events[:middle])
            self._send(endpoint, outbox, events[middle:])
            return
        if verdict.kind != "answered":
            state = "stopped" if verdict.kind == "stop" else "unreachable"
            raise _Halt(state, verdict.why, verdict.retry_after)
        accepted = [
            event for event in events if verdict.results.get(str(event["id"]), event) is None
        ]
        outbox.settle((*key_of(event), "delivered") for event in accepted)
        self._delivered += len(accepted)
        for event in events:
            problem = verdict.results.get(str(event["id"]))
            if problem is not None:
                self._refuse(outbox, Due(key_of(event)[0], "", key_of(event)[1]), event, problem)

    def _send_post(self, endpoint: Endpoint, events: Sequence[Mapping[str, object]]) -> PostVerdict:
        """Return the last verdict after as many tries as the terms allow; consent is asked for
        before each of them."""
        rest = self._measure_rest()

        def post() -> PostVerdict:
            self._require_agreement()
            return endpoint.post(events)

        def pause(state: RetryCallState) -> float:
            return max(REQUEST_PAUSE(state), _judge_state(state).retry_after or 0.0)

        retrying = Retrying(
            retry=retry_if_result(
                lambda found: found.kind == "later" and (found.retry_after or 0.0) <= _PATIENCE
            ),
            stop=stop_after_attempt(self._terms.tries) | stop_before_delay(rest),
            wait=pause,
            retry_error_callback=_judge_state,
        )
        return retrying(post)

    def _measure_rest(self) -> float:
        """Return the seconds this push may still take. Raises _Halt where there are none."""
        rest = _GROWN_PAUSE if self._deadline is None else self._deadline - time.monotonic()
        if rest <= 0:
            raise _Halt(
                "partial", "the time for this push is over; the rest follows with the next one"
            )
        return rest

    def _refuse(
        self, outbox: Outbox, due: Due, event: Mapping[str, object] | None, problem: Problem
    ) -> None:
        """Note what was refused and why before it is passed over, so nothing is passed over
        unsaid."""
        self._write_refusal(due.invocation_id, due.phase, event, problem)
        outbox.settle([(due.invocation_id, due.phase, "refused")])
        self._refused += 1

    def _write_refusal(
        self, invocation_id: str, phase: str, event: Mapping[str, object] | None, problem: Problem
    ) -> None:
        line = {
            "at": _read_now(),
            "invocation_id": invocation_id,
            "phase": phase,
            "event_id": None if event is None else event["id"],
            "endpoint": self._consent.endpoint,
            "level": self._consent.level,
            "status": problem.status,
            "title": problem.title,
            "detail": problem.detail,
            "errors": [
                {"pointer": pointer, "detail": detail} for pointer, detail in problem.errors
            ],
            "retry": "spec-kitty sync retry",
        }
        append_line(f"{self._folder}/{consents.ERRORS}", line)

    def _note_failure(self, outbox: Outbox, halt: _Halt) -> None:
        if halt.state in ("disabled", "partial"):
            return
        facts = outbox.facts()
        failures = int(facts.get("failures", "0")) + 1
        now = _read_now()
        outbox.note(
            {
                "failures": str(failures),
                "last_failure": now,
                "failing_since": facts.get("failing_since", now),
                "why": halt.why,
            }
        )
        consents.pause_for(self._folder, pause_after(failures, halt.retry_after), halt.why)

    def _note_success(self, outbox: Outbox) -> None:
        # Also where no event was due: what failed may have been a whole record, or another push
        # delivered it.
        outbox.note({"failures": None, "failing_since": None, "why": None})
        if self._delivered:
            outbox.note({"last_success": _read_now()})
        unpause(self._folder)


def _get_answer(state: RetryCallState) -> tuple[int, bytes]:
    assert state.outcome is not None
    answer: tuple[int, bytes] = state.outcome.result()
    return answer


def _judge_state(state: RetryCallState) -> PostVerdict:
    assert state.outcome is not None
    verdict: PostVerdict = state.outcome.result()
    return verdict


def _make_endpoint(url: str, token: str, secret: str | None) -> Endpoint:
    try:
        return Endpoint(url, token, None if secret is None else Webhook(secret))
    except (ValueError, ImportError, OSError, InvalidURL) as error:
        # The text of the other two may hold a proxy's password.
        why = f": {error}" if isinstance(error, ImportError | OSError) else ""
        raise EnvironmentFault(
            "SYNC_UNAVAILABLE",
            f"no connection can be prepared: {type(error).__name__}{why}",
            "look at HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE",
        ) from error


def pause_after(failures: int, asked: float | None) -> float:
    """Return the seconds until a command may start a push again: what the endpoint asks, else
    growing and jittered."""
    grown: float = min(_GROWN_PAUSE, _SHORTEST_PAUSE * 2.0 ** min(failures - 1, 16))
    return min(LONGEST_PAUSE, max(asked or 0.0, random.uniform(grown / 2, grown)))


def append_line(path: str, value: object) -> None:
    """Append one JSON line to a private file, which is begun anew when it is long. Raises
    SYNC_UNAVAILABLE."""
    try:
        if os.path.exists(path) and os.path.getsize(path) > _MAX_LOG:
            os.replace(path, f"{path}.1")
        fd = os.open(
            path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            os.write(
                fd,
                json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n",
            )
        finally:
            os.close(fd)
    except OSError as error:
        raise consents.unavailable(path, error) from error


def background(root: str, folder: str, environment: Mapping[str, str], held: int) -> None:
    """Run the push behind a command's answer: short, quiet, and what stopped it is where `sync
    status` shows it."""
    try:
        project, _ = load_project(root)
        push(project, environment, RetryTerms(BACKGROUND_TRIES, BACKGROUND_SECONDS, 0.0), held=held)
    except InvocationError as error:
        if error.code not in ("SYNC_BUSY", "SYNC_DISABLED"):
            consents.pause_for(folder, pause_after(5, None), f"{error.code}: {error.message}")
    except Exception as error:
        consents.pause_for(folder, pause_after(5, None), f"{type(error).__name__}: {error}")
        raise


def _read_now() -> str:
    return rfc3339(durable.read_clock(time.time_ns))
