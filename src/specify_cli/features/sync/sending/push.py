"""Deliver what is due: single-flight, in order, bounded in time, stopped by withdrawn consent at
the next request."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
from specify_cli.features.sync.sending.cosigning import REFUSED, ask_cosignature
from specify_cli.features.sync.sending.orders_due import UNTIL
from specify_cli.features.sync.sending.outbox import (
    ASKED,
    Counts,
    DuePhase,
    Members,
    Outbox,
)
from specify_cli.features.sync.sending.transport import (
    Answer,
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
    request_path,
    unpause,
)
from specify_cli.libraries.wire.contract import (
    COMPLETED,
    MAX_BODY,
    MAX_EVENTS,
    RECORDS,
    key_of,
)
from specify_cli.libraries.wire.validation import faults
from specify_cli.project.config import Project, load_project
from specify_cli.record.ids import rfc3339
from specify_cli.redaction.redact import RedactionError
from specify_cli.storage.checking import list_annexed

if TYPE_CHECKING:
    from specify_cli.features.sync.sending.orders import OrdersDelivered
    from specify_cli.features.sync.sending.records import Receiver, RecordsDelivered

_Result = TypeVar("_Result")
_Done = TypeVar("_Done", "RecordsDelivered", "OrdersDelivered")
# A push after a command gives up early and is started again by a later one; a push somebody asked
# for insists.
BACKGROUND_SECONDS, BACKGROUND_TRIES = 60.0, 3
FOREGROUND_TRIES = 4
REQUEST_PAUSE = wait_random_exponential(multiplier=0.25, max=5)
# What an endpoint may ask a push to wait for; with more the push ends and a later one goes on.
_PATIENCE = 10.0
_SHORTEST_PAUSE, _GROWN_PAUSE = 15.0, 3600.0
_BUSY_SECONDS = BACKGROUND_SECONDS + 15.0
_MAX_LOG = 4 * 1024 * 1024
_LOST = (
    "the endpoint held less than it acknowledged, as after a backup was restored: everything was "
    "delivered again"
)


class PushResult(NamedTuple):
    """What one push did. `state` is delivered (nothing is left to try), partial, unreachable,
    stopped or disabled; `why` says why, and of delivered why everything was delivered again.

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
    if not consent:
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
    environment: consents.Environment,
    terms: RetryTerms = RetryTerms(),
    progress: Callable[[int, int], None] | None = None,
    lock: int | None = None,
) -> PushResult:
    """Deliver everything that is due. `progress` receives (phases, orders and whole
    records done, of how many at least).

    `lock` is a descriptor that holds the lock already.

    Raises InvocationError where nothing can be tried: no consent, no token, a cursor that cannot be
    written, or SYNC_BUSY after waiting for another push.
    """
    folder, consent = agreed(project)
    token = consents.read_token(folder, environment)
    secret = consents.read_secret(folder, environment)
    consents.check_binding(folder, token, consent.endpoint)
    request_file = request_path(folder, project.root)
    deadline = None if terms.seconds is None else time.monotonic() + terms.seconds
    delivered, refused, why = 0, 0, None
    while True:
        with _hold_flight(lock_path(folder, project.root), terms.wait_for_other, lock):
            with suppress(FileNotFoundError):
                os.unlink(request_file)
            with (
                closing(Outbox(project, folder, consent.endpoint)) as outbox,
                closing(_make_endpoint(consent.endpoint, token, secret)) as endpoint,
            ):
                done = _Push(
                    project, folder, consent, terms, deadline, progress, outbox, endpoint, why
                ).run()
        delivered, refused = delivered + done.delivered, refused + done.refused
        lock = None
        # What an endpoint lost goes again at once; what it loses each time waits for a new push.
        is_lost = outbox.is_anew and why is None
        why = _LOST if outbox.is_anew else why
        # A command that found the lock in use has left its wish before it tried it.
        if done.state != "delivered" or not (is_lost or os.path.exists(request_file)):
            return done._replace(delivered=delivered, refused=refused)


@contextmanager
def _hold_flight(path: str, wait: float, lock: int | None) -> Iterator[None]:
    """Hold the one push of a worktree. Raises EnvironmentFault SYNC_BUSY, SYNC_UNAVAILABLE."""
    try:
        fd = open_lock(path) if lock is None else lock
    except OSError as error:
        raise consents.unavailable(path, error) from error
    try:
        try:
            if lock is None:
                durable.lock(fd, path, wait)
        except EnvironmentFault as error:
            raise EnvironmentFault(
                "SYNC_BUSY",
                f"another push has been under way for {wait:g} s",
                "spec-kitty sync status",
            ) from error
        yield
    finally:
        os.close(fd)


@dataclass
class _Push:
    """One pass over what is due, under the lock."""

    project: Project
    folder: str
    consent: Consent
    terms: RetryTerms
    deadline: float | None
    progress: Callable[[int, int], None] | None
    outbox: Outbox
    endpoint: Endpoint
    why: str | None = None
    delivered: int = 0
    refused: int = 0
    whole: int = 0
    total: int = 0
    answered: int = 0
    is_unsure: bool = False

    def run(self) -> PushResult:
        try:
            self.outbox.scan()
            left = self.outbox.count_left(self.consent)
            self.total = left.pending + (left.records or 0)
            self._tell()
            # First, so that what an endpoint still holds is as it is here when its envelopes come,
            # which leave also where an order does not.
            orders = self._deliver_orders()
            if not (orders and orders.why) and self._has_lost():
                self.outbox.begin_anew()
                return self._sum_up("delivered", self.why)
            while due := self.outbox.due(MAX_EVENTS):
                events = self._compose_events(due)
                if events:
                    self._send(events)
                self._tell()
            witness = ask_cosignature(self.project, self.consent, self.endpoint)
            self._note_witness(witness)
            if orders:
                self._require_end(orders)
            records = self._deliver_records()
        except _Halt as halt:
            self._note_failure(halt)
            return self._sum_up(halt.state, None if halt.state == "delivered" else halt.why)
        # Also where no event was due: what failed may have been a whole record, or another push
        # delivered it.
        self.outbox.note({"failures": None, "failing_since": None, "why": self.why})
        if (records and records.records) or (orders and orders.delivered):
            self.outbox.note({"last_success": _read_now()})
        unpause(self.folder)
        return self._sum_up("delivered", self.why)._replace(
            witness=witness, records=records, orders=orders
        )

    def _note_witness(self, said: str | None) -> None:
        """Keep that a witness has seen another state of the log, which somebody has to look at."""
        refused = said if said and said.startswith(REFUSED) else None
        if self.outbox.facts().get("refused witness") != refused:
            if refused:
                self._write_refusal("", "log", None, Problem(409, "the log was refused", refused))
            self.outbox.note({"refused witness": refused})

    def _sum_up(self, state: str, why: str | None) -> PushResult:
        left = self.outbox.count_left(self.consent)
        return PushResult(state, self.delivered, self.refused, left, why)

    def _deliver_orders(self) -> OrdersDelivered | None:
        """Return what became of what was ordered of records."""
        base = self.consent.base
        if not self.consent.carries_orders or not base:
            return None
        if UNTIL not in self.outbox.facts():  # from now on orders concern what is there
            self.outbox.note({UNTIL: "0"})
        if not list_annexed(self.project.root):
            return None
        # Loads what a safe export needs, where something was ordered.
        from specify_cli.features.sync.sending.orders import deliver_orders

        return deliver_orders(self._make_receiver(base))

    def _deliver_records(self) -> RecordsDelivered | None:
        """Deliver whole records and their log, where consent covers that; it is asked for before
        each request."""
        if self.consent.level != RECORDS:
            return None
        base = self.consent.base
        if base is None:
            raise _Halt("stopped", "whole records go to an endpoint that ends in /v1/events alone")
        # Loads what a safe export needs, which no other level does.
        from specify_cli.features.sync.sending.records import deliver_records

        return self._require_end(deliver_records(self._make_receiver(base)))

    def _make_receiver(self, base: str) -> Receiver:
        """Return where records and orders go. What may pass is sent again."""
        from specify_cli.features.sync.sending.records import Receiver

        def send(path: str, content: bytes) -> Answer:
            url = f"{base}/v1/projects/{self.consent.project_uuid}/{path}"
            answer = self._insist(
                lambda: self.endpoint.exchange("PUT", url, content),
                lambda answer: is_passing(answer[0]),
            )
            self.answered = answer[0]
            self.whole += path.startswith(("records/", "orders/"))
            self._tell()
            return answer

        whole = self.consent.level == RECORDS
        objects = whole and bool(self.consent.whole)
        return Receiver(self.project, self.outbox, send, self._note_refused, whole, objects)

    def _require_end(self, done: _Done) -> _Done:
        """Return what was delivered. Raises _Halt where something ended it."""
        if done.why is not None:
            stopped = self.answered >= 300 and not is_passing(self.answered)
            raise _Halt("stopped" if stopped else "unreachable", done.why)
        return done

    def _insist(
        self,
        ask: Callable[[], _Result],
        is_later: Callable[[_Result], bool],
        tell_pause: Callable[[_Result], float | None] = lambda _: None,
    ) -> _Result:
        """Return the last answer after as many tries as the terms allow; consent is asked for
        before each of them, and the endpoint may ask for a longer pause."""

        def try_once() -> _Result:
            # Raise _Halt where consent does not hold any more, or somebody else listens at the
            # endpoint.
            if consents.read_consent(self.folder) != self.consent:
                raise _Halt("disabled", "consent was withdrawn or changed meanwhile")
            try:
                consents.check_listener(self.consent)
            except EnvironmentFault as error:
                raise _Halt("stopped", f"{error.code}: {error.message}") from error
            return ask()

        def read_answer(state: RetryCallState) -> _Result:
            assert state.outcome is not None
            answer: _Result = state.outcome.result()
            return answer

        return Retrying(
            retry=retry_if_result(is_later),
            stop=stop_after_attempt(self.terms.tries) | stop_before_delay(self._measure_rest()),
            wait=lambda state: max(REQUEST_PAUSE(state), tell_pause(read_answer(state)) or 0.0),
            retry_error_callback=read_answer,
        )(try_once)

    def _note_refused(self, name: str, what: str, status: int, why: str) -> None:
        self._write_refusal(name, what, None, Problem(status, f"the {what} was refused", why))

    def _tell(self) -> None:
        if self.progress is not None:
            done = self.delivered + self.refused + self.whole
            self.progress(done, max(done, self.total))  # an order makes its record due again

    def _compose_events(self, due: Sequence[DuePhase]) -> list[Members]:
        """Return the events of the next request: what the contract allows, at most a request's
        size."""
        events: list[Members] = []
        size = 0
        for item in due:
            try:
                event = self.outbox.event(item, self.consent.project_uuid, self.consent.level)
            except (InvocationError, RedactionError) as error:
                self._refuse(item, None, Problem(None, "cannot be composed", str(error)))
                continue
            if event is None:
                continue
            wrong = faults(event)
            if wrong:
                detail = "it is not what the contract says; nothing was sent"
                self._refuse(item, event, Problem(None, "invalid", detail, tuple(wrong)))
                continue
            size += len(body_of([event]))
            if events and size > MAX_BODY:
                break
            events.append(event)
        return events

    def _has_lost(self) -> bool:
        """Return whether an endpoint has to store again what it acknowledged last, as after a
        backup was restored. One that says so of whatever comes is not believed.

        A request without an answer may have stored what it asked after. So the next one asks after
        the phase that was acknowledged before those as well; with none left, it has lost them.
        Others that hold this clone's records may have delivered those again, so it also asks after
        what they can hardly have.
        """
        asked = int(self.outbox.facts().get(ASKED, "0"))
        while events := self._read_acknowledged(min(asked + 1, MAX_EVENTS - 2)):
            if len(events) <= asked:
                return True
            asked += 1
            self.outbox.note({ASKED: str(asked)})  # whatever becomes of this process
            self.is_unsure = False
            try:
                verdict = self._post(events)
                is_stored = "stored" in verdict.results.values()
                self.is_unsure |= is_stored  # what is stored again says nothing any more
                is_lost = is_stored and "duplicate" in self._post(events).results.values()
            except _Halt as halt:
                if not self.is_unsure:
                    self.outbox.note({ASKED: str(asked - 1)})
                if halt.state == "unreachable" and not self.total:
                    halt.state = "delivered"  # nothing is due, so nobody waits for the endpoint
                raise
            if is_stored or not self.is_unsure:
                self.outbox.note({ASKED: None})
                return is_lost
        return False

    def _read_acknowledged(self, count: int) -> list[Members]:
        """Return the events of so many phases, those acknowledged last, and of those that this
        clone alone has."""
        events: list[Members] = []
        for phases, most in ((self.outbox.list_last(), count), (self.outbox.list_own(), count + 2)):
            for last in phases:
                with suppress(InvocationError, RedactionError):  # then the scan says what is wrong
                    event = self.outbox.event(last, self.consent.project_uuid, self.consent.level)
                    events += [event] if event and event not in events else []
                if len(events) == most:
                    break
        return events

    def _post(self, events: Sequence[Members]) -> PostVerdict:
        """Return what an endpoint answered to a request; `is_unsure` is set where it may have taken
        one before. Raises _Halt where it answered nothing."""

        def is_later(found: PostVerdict) -> bool:
            self.is_unsure |= found.is_unsure
            return found.kind == "later" and (found.retry_after or 0.0) <= _PATIENCE

        verdict = self._insist(
            lambda: self.endpoint.post(events),
            is_later,
            lambda found: found.retry_after,
        )
        if verdict.kind not in ("answered", "halve"):
            state = "stopped" if verdict.kind == "stop" else "unreachable"
            raise _Halt(state, verdict.why, verdict.retry_after)
        return verdict

    def _send(self, events: Sequence[Members]) -> None:
        verdict = self._post(events)
        if verdict.kind == "halve":
            middle = len(events) // 2
            self._send(events[:middle])
            self._send(events[middle:])
            return
        accepted = [
            event for event in events if isinstance(verdict.results.get(str(event["id"])), str)
        ]
        self.outbox.settle((*key_of(event), "delivered") for event in accepted)
        self.delivered += len(accepted)
        if accepted:  # also where the next request is not answered, or this push is ended
            self.outbox.note({"failures": None, "failing_since": None, "last_success": _read_now()})
        for event in events:
            problem = verdict.results.get(str(event["id"]))
            if isinstance(problem, Problem):
                invocation_id, phase = key_of(event)
                self._refuse(DuePhase(invocation_id, "", phase), event, problem)

    def _measure_rest(self) -> float:
        """Return the seconds this push may still take. Raises _Halt where there are none."""
        rest = _GROWN_PAUSE if self.deadline is None else self.deadline - time.monotonic()
        if rest <= 0:
            raise _Halt(
                "partial", "the time for this push is over; the rest follows with the next one"
            )
        return rest

    def _refuse(self, due: DuePhase, event: Members | None, problem: Problem) -> None:
        """Note what was refused and why before it is passed over, so nothing is passed over
        unsaid. An end that its owner has yet to send is no refusal, and is due with the next
        push."""
        if problem.is_early and due.phase == COMPLETED:
            self.outbox.look_again(due.invocation_id, None)
            return
        self._write_refusal(due.invocation_id, due.phase, event, problem)
        self.outbox.settle([(due.invocation_id, due.phase, "refused")])
        self.refused += 1

    def _write_refusal(
        self, invocation_id: str, phase: str, event: Members | None, problem: Problem
    ) -> None:
        line = {
            "at": _read_now(),
            "invocation_id": invocation_id,
            "phase": phase,
            "event_id": None if event is None else event["id"],
            "endpoint": self.consent.endpoint,
            "level": self.consent.level,
            "status": problem.status,
            "title": problem.title,
            "detail": problem.detail,
            "errors": [{"pointer": place, "detail": said} for place, said in problem.errors],
            "retry": "spec-kitty sync retry",
        }
        append_line(f"{self.folder}/{consents.ERRORS}", line)

    def _note_failure(self, halt: _Halt) -> None:
        if halt.state in ("disabled", "partial"):
            return
        facts = self.outbox.facts()
        failures = int(facts.get("failures", "0")) + 1
        now = _read_now()
        self.outbox.note(
            {
                "failures": str(failures),
                "last_failure": now,
                "failing_since": facts.get("failing_since", now),
                "why": halt.why,
            }
        )
        consents.pause_for(self.folder, pause_after(failures, halt.retry_after), halt.why)


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
        with open(fd, "ab", buffering=0) as file:
            text = json.dumps(value, ensure_ascii=False)
            file.write(text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError as error:
        raise consents.unavailable(path, error) from error


def background(root: str, folder: str, environment: consents.Environment, lock: int) -> None:
    """Run the push after a command's answer: short, quiet, and what stopped it is where `sync
    status` shows it."""
    try:
        project, _ = load_project(root)
        push(project, environment, RetryTerms(BACKGROUND_TRIES, BACKGROUND_SECONDS, 0.0), lock=lock)
    except InvocationError as error:
        if error.code not in ("SYNC_BUSY", "SYNC_DISABLED"):
            consents.pause_for(folder, pause_after(5, None), f"{error.code}: {error.message}")
    except Exception as error:
        consents.pause_for(folder, pause_after(5, None), f"{type(error).__name__}: {error}")
        raise


def _read_now() -> str:
    return rfc3339(durable.read_clock(time.time_ns))
