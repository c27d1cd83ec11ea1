"""One request to the endpoint and what its answer means (docs/sync-contract.md §4).

`judge` decides, from values alone; `Endpoint` does the network, bounded in time and in what it
reads.
"""

from __future__ import annotations

import email.utils
import json
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
from standardwebhooks.webhooks import Webhook

from doctrine.light_imports import hash_bytes
from doctrine.text import as_object, get_object
from specify_cli import VERSION
from specify_cli.errors import EnvironmentFault
from specify_cli.features.sync.consent import is_loopback
from specify_cli.libraries.wire.contract import CONTENT_TYPE, canonical
from specify_cli.record.reading.views import list_objects

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
MAX_ANSWER = 1024 * 1024
MAX_RETRY_AFTER = 24 * 3600.0

Headers = Mapping[str, str]
Answer = tuple[int, bytes]
"""The status of an answer, or 0 for none, and its body."""
_AGAIN = frozenset({408, 425, 429})
_AT_FAULT = frozenset({400, 409, 413, 415, 422})
_BARRED = frozenset({401, 403})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_TEXT = 500
# A value of a header with fewer letters is no secret, and stands in many words.
_LEAST_SECRET = 4


class Problem(NamedTuple):
    """Why an envelope was refused: the RFC 9457 members that a person needs, cut to a readable
    length.

    `is_early` says that somebody else has yet to send what goes before.
    """

    status: int | None
    title: str
    detail: str
    errors: tuple[tuple[str, str], ...] = ()
    is_early: bool = False


class PostVerdict(NamedTuple):
    """What an answer means.

    `kind` is `answered` (`results` tells for each id `stored` or `duplicate` where the endpoint has
    it, or why not), `halve` (the batch holds an event at fault), `stop` (the endpoint or the token
    is at fault) or `later`; of that `is_unsure` says that the endpoint may have taken events.
    """

    kind: str
    results: Mapping[str, Problem | str]
    why: str
    retry_after: float | None = None
    is_unsure: bool = False


def judge(
    status: int,
    headers: Headers,
    body: bytes,
    ids: Sequence[str],
    now: float,
    token: str = "",
) -> PostVerdict:
    """Return the verdict on one answer; `headers` have lowercase names, `now` is in seconds since
    1970.

    No text of it holds the `token`, should the endpoint have sent it back, nor anything a line
    cannot show.
    """
    if 200 <= status < 300:
        results = _read_results(body, ids, token)
        refused = [one for one in results.values() if isinstance(one, Problem)]
        barred = [one for one in refused if one.status in _BARRED]
        if 0 < len(barred) == len(results):  # the token is at fault, and no event
            return PostVerdict("stop", {}, f"status {barred[0].status}: {barred[0].detail}")
        if results:
            return PostVerdict("answered", results, "")
        why = f"status {status}, but the answer acknowledges none of the events"
        return PostVerdict("later", {}, why, is_unsure=True)
    problem = _read_problem(parse_answer(body), status, token)
    if status in _AT_FAULT:
        if len(ids) > 1:
            return PostVerdict("halve", {}, f"status {status} for {len(ids)} events")
        return PostVerdict("answered", {ids[0]: problem}, "")
    what = f"status {status}" + (f": {problem.detail}" if problem.detail else "")
    if is_passing(status):
        is_unsure = status not in _AGAIN | {503}
        return PostVerdict("later", {}, what, _retry_after(headers, now), is_unsure)
    if status in _REDIRECTS:
        what = f"status {status}: the endpoint redirects; data goes nowhere but where consent says"
    return PostVerdict("stop", {}, what)


def _read_results(body: bytes, ids: Sequence[str], token: str) -> dict[str, Problem | str]:
    """Return the events an answer names, each once and with a known status; nothing where it has
    another form.

    One that is refused for a reason that passes is not among them: it stays due.
    """
    listed = parse_answer(body).get("results")
    results: dict[str, Problem | str] = {}
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict) or item.get("id") not in ids or item["id"] in results:
            return {}
        if item.get("status") in ("stored", "duplicate"):
            results[item["id"]] = item["status"]
        elif item.get("status") == "refused":
            problem = _read_problem(get_object(item, "problem"), None, token)
            if problem.status is None or not is_passing(problem.status):
                results[item["id"]] = problem
        else:
            return {}
    return results


def _read_problem(value: Mapping[str, object], status: int | None, token: str) -> Problem:
    def text(found: object) -> str:
        return mask_answer(found, token) if isinstance(found, str) else ""

    own = value.get("status")
    return Problem(
        own if type(own) is int else status,
        text(value.get("title")),
        text(value.get("detail")),
        tuple(
            (text(item.get("pointer")), text(item.get("detail")))
            for item in list_objects(value.get("errors"))[:20]
        ),
        str(value.get("type")).endswith(":unknown-invocation"),
    )


def is_passing(status: int) -> bool:
    """Return whether a status, or none (0), says that the same request may be answered later."""
    return status in _AGAIN or status >= 500 or status < 200


def mask_answer(text: str, token: str) -> str:
    """Return what somebody else said, as one line for display: the token is masked before
    anything is cut."""
    masked = text.replace(token, "⟦token⟧") if token else text
    line = " ".join(masked.split())
    return "".join(character if character.isprintable() else "\ufffd" for character in line)[
        :_MAX_TEXT
    ]


def parse_answer(body: bytes) -> dict[str, object]:
    """Return the JSON object of an answer; empty where it is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return as_object(value)


def _retry_after(headers: Headers, now: float) -> float | None:
    """Seconds the endpoint asks for, as a number or a date (RFC 9110 §10.2.3), within a day."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), MAX_RETRY_AFTER)
    try:
        seconds = email.utils.parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)


class Endpoint:
    """The one place data goes to. Proxies of the environment are respected, redirects are not
    followed.

    What is meant for this machine goes through no proxy: plain http is agreed to for it alone.
    Raises ValueError, ImportError, OSError and httpx.InvalidURL for settings no connection can be
    made with.
    """

    def __init__(self, url: str, token: str, signer: Webhook | None = None) -> None:
        self._url = url
        self._token = token
        self._signer = signer
        self._client = open_client(
            url,
            {
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, application/problem+json",
            },
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def exchange(self, method: str, url: str, content: bytes = b"") -> Answer:
        """Return status and body of one small request; 0 and why where there was no whole answer,
        or one that names the body of another request. Never raises."""
        headers = {"Content-Type": "text/plain; charset=utf-8"} if content else {}
        try:
            response, answer = _request(self._client, method, url, content, headers, ANSWER_SECONDS)
        except _NoAnswerError as error:
            return 0, mask_answer(str(error), self._token).encode()
        of = hash_bytes(content)
        if parse_answer(answer).get("of", of) != of:
            return 0, b"the answer is to another request"
        return response.status_code, answer

    def post(
        self, events: Sequence[Mapping[str, object]], seconds: float = ANSWER_SECONDS
    ) -> PostVerdict:
        """Send one batch and judge the answer. Never raises for what the network or the endpoint
        does.

        It is over after `seconds`, whatever drips in; outside the main thread a drip before the
        body is not bounded.
        """
        ids = [str(event["id"]) for event in events]
        body = body_of(events)
        key = hash_bytes(body)
        headers = {"Content-Type": CONTENT_TYPE, "Idempotency-Key": f'"{key}"'}
        if self._signer is not None:
            moment = datetime.now(tz=UTC)
            headers |= {
                "webhook-id": key,
                "webhook-timestamp": str(int(moment.timestamp())),
                "webhook-signature": self._signer.sign(key, moment, body.decode()),
            }
        try:
            response, answer = _request(self._client, "POST", self._url, body, headers, seconds)
        except _NoAnswerError as error:
            is_unsure = not isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
            why = mask_answer(str(error), self._token)
            return PostVerdict("later", {}, why, is_unsure=is_unsure)
        named = {name.lower(): value for name, value in response.headers.items()}
        return judge(response.status_code, named, answer, ids, time.time(), self._token)


class _NoAnswerError(Exception):
    """A request without a whole answer; the text says why, and may quote what was sent."""


def _request(
    client: httpx.Client,
    method: str,
    url: str,
    content: bytes,
    headers: Headers,
    seconds: float,
) -> tuple[httpx.Response, bytes]:
    """Return the answer to one request with its body. Raises _NoAnswerError."""
    end = time.monotonic() + seconds
    late = f"no whole answer within {seconds:g} s"
    answer = b""
    try:
        with (
            stop_after(seconds),
            client.stream(method, url, content=content, headers=dict(headers)) as response,
        ):
            status = f"status {response.status_code}"
            if response.headers.get("content-encoding", "identity") != "identity":
                raise _NoAnswerError(f"{status} and a compressed answer nobody asked for")
            for piece in response.iter_raw():
                answer += piece
                if len(answer) > MAX_ANSWER:
                    raise _NoAnswerError(f"{status} and an answer of over 1 MiB")
                if time.monotonic() > end:
                    raise _NoAnswerError(late)
            return response, answer
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        # ValueError: what h11, ssl and the codecs raise for answers that are none.
        if time.monotonic() > end:
            raise _NoAnswerError(late) from error
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise _NoAnswerError(what) from error


def open_client(url: str, headers: Headers, seconds: float = ANSWER_SECONDS) -> httpx.Client:
    """Return a client for one endpoint, which follows no redirect and reaches this machine through
    no proxy."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    direct = f"all://[{host}]" if ":" in host else f"all://{host}"
    is_plain = parts.scheme == "http" and is_loopback(host)
    return httpx.Client(
        follow_redirects=False,
        verify=not is_plain,  # reading the authorities takes 20 ms, and nothing here would ask them
        timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
        mounts={direct: None} if is_loopback(host) else None,
        headers={"User-Agent": f"spec-kitty/{VERSION}", "Accept-Encoding": "identity", **headers},
    )


def post_json(url: str, headers: Headers, body: bytes, *, seconds: float = ANSWER_SECONDS) -> bytes:
    """Send one request once and return its answer. Raises EnvironmentFault DELIVERY_FAILED, which
    names no header."""
    typed = {"Content-Type": "application/json"}
    try:
        with open_client(url, {"Accept": "application/json", **headers}, seconds) as client:
            response, answer = _request(client, "POST", url, body, typed, seconds)
    except (_NoAnswerError, httpx.InvalidURL, OSError, ValueError) as error:
        raise failed(url, str(error), headers) from error
    if not response.is_success:
        text = answer[:300].decode("utf-8", "replace")
        raise failed(url, f"status {response.status_code} {text}", headers)
    return answer


def failed(url: str, why: str, headers: Headers) -> EnvironmentFault:
    """Return the error for a request that was not accepted, without what its headers hold."""
    parts = {part for value in headers.values() for part in (value, value.rpartition(" ")[2])}
    secrets = [part for part in parts if len(part) >= _LEAST_SECRET]
    if secrets:  # a whole value before a part of it, and none within a mask
        secrets.sort(key=len, reverse=True)
        why = re.sub("|".join(map(re.escape, secrets)), "⟦header⟧", why)
    return EnvironmentFault(
        "DELIVERY_FAILED",
        f"{url} did not take what was sent: {mask_answer(why, '')}",
        "correct that, then run it again",
    )


@contextmanager
def stop_after(seconds: float) -> Iterator[None]:
    """End whatever blocks inside by a TimeoutError after some seconds.

    It works in the main thread, which has the signals; Windows has no alarm.
    """
    alarm = getattr(signal, "SIGALRM", None)
    if alarm is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise TimeoutError("the time for this request is over")

    before = signal.signal(alarm, over)
    # Again each second: Python drops what is raised in a destructor.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(alarm, before)


def body_of(events: Sequence[Mapping[str, object]]) -> bytes:
    """Return the bytes of a batch: the same events give the same bytes."""
    return canonical(events).encode()
