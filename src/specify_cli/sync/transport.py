"""One request to the endpoint and what its answer means (docs/sync-contract.md §4).

`judge` decides, from values alone; `Endpoint` does the network, bounded in time and in what it reads.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import httpx
from standardwebhooks.webhooks import Webhook

from specify_cli import VERSION
from specify_cli.sync.contract import CONTENT_TYPE

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
MAX_ANSWER = 1024 * 1024
MAX_RETRY_AFTER = 24 * 3600.0

_AGAIN = frozenset({408, 425, 429})
_AT_FAULT = frozenset({400, 409, 413, 415, 422})
_MAX_TEXT = 500


class Problem(NamedTuple):
    """Why an envelope was refused: the RFC 9457 members that a person needs, cut to a readable length."""

    status: int | None
    title: str
    detail: str
    errors: tuple[tuple[str, str], ...] = ()


class Verdict(NamedTuple):
    """What an answer means.

    `kind` is `answered` (`results` tells for each id whether it is held, None, or why not), `halve` (the batch
    holds an event at fault), `stop` (the endpoint or the token is at fault) or `later`.
    """

    kind: str
    results: Mapping[str, Problem | None]
    why: str
    retry_after: float | None = None


def judge(status: int, headers: Mapping[str, str], body: bytes, ids: Sequence[str], now: float) -> Verdict:
    """The verdict on one answer; `headers` have lowercase names, `now` is in seconds since 1970."""
    if 200 <= status < 300:
        results = _results(body, ids)
        if results:
            return Verdict("answered", results, "")
        return Verdict("later", {}, f"status {status}, but the answer acknowledges none of the events")
    if status in _AT_FAULT:
        if len(ids) > 1:
            return Verdict("halve", {}, f"status {status} for {len(ids)} events")
        return Verdict("answered", {ids[0]: _problem(status, body)}, "")
    problem = _problem(status, body)
    what = f"status {status}" + (f": {problem.detail}" if problem.detail else "")
    if status in _AGAIN or status >= 500 or status < 200:
        return Verdict("later", {}, what, _retry_after(headers, now))
    if 300 <= status < 400:
        what = f"status {status}: the endpoint redirects; data goes nowhere but where consent says"
    return Verdict("stop", {}, what)


def _results(body: bytes, ids: Sequence[str]) -> dict[str, Problem | None]:
    """The events an answer names, each once and with a known status; nothing where it has another form."""
    value = _object(body)
    listed = value.get("results")
    found: dict[str, Problem | None] = {}
    for item in listed if isinstance(listed, list) else []:
        if not isinstance(item, dict) or item.get("id") not in ids or item["id"] in found:
            return {}
        if item.get("status") in ("stored", "duplicate"):
            found[item["id"]] = None
        elif item.get("status") == "refused":
            problem = item.get("problem")
            found[item["id"]] = _problem_of(problem if isinstance(problem, dict) else {}, None)
        else:
            return {}
    return found


def _problem(status: int, body: bytes) -> Problem:
    return _problem_of(_object(body), status)


def _problem_of(value: Mapping[str, object], status: int | None) -> Problem:
    def text(name: str) -> str:
        found = value.get(name)
        return found[:_MAX_TEXT] if isinstance(found, str) else ""

    own = value.get("status")
    listed = value.get("errors")
    errors = tuple(
        (str(item.get("pointer", ""))[:_MAX_TEXT], str(item.get("detail", ""))[:_MAX_TEXT])
        for item in (listed if isinstance(listed, list) else [])[:20]
        if isinstance(item, dict)
    )
    return Problem(own if type(own) is int else status, text("title"), text("detail"), errors)


def _object(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the endpoint asks for, as a number or a date (RFC 9110 §10.2.3), within a day."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), MAX_RETRY_AFTER)
    try:
        wanted = email.utils.parsedate_to_datetime(text).timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(wanted, 0.0), MAX_RETRY_AFTER)


class Endpoint:
    """The one place data goes to. Proxies of the environment are respected, redirects are not followed."""

    def __init__(self, url: str, token: str, signer: Webhook | None = None) -> None:
        self._url = url
        self._token = token
        self._signer = signer
        self._client = httpx.Client(
            follow_redirects=False,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            headers={
                "Authorization": f"Bearer {token}",
                "User-Agent": f"spec-kitty/{VERSION}",
                "Accept": "application/json, application/problem+json",
            },
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def post(self, events: Sequence[Mapping[str, object]], seconds: float = ANSWER_SECONDS) -> Verdict:
        """Send one batch and judge the answer. Never raises for what the network or the endpoint does."""
        ids = [str(event["id"]) for event in events]
        body = body_of(events)
        key = hashlib.sha256(body).hexdigest()
        headers = {"Content-Type": CONTENT_TYPE, "Idempotency-Key": f'"{key}"'}
        if self._signer is not None:
            moment = datetime.now(tz=UTC)
            headers |= {
                "webhook-id": key,
                "webhook-timestamp": str(int(moment.timestamp())),
                "webhook-signature": self._signer.sign(key, moment, body.decode("utf-8")),
            }
        deadline = time.monotonic() + seconds
        answer = b""
        try:
            with self._client.stream("POST", self._url, content=body, headers=headers) as response:
                for piece in response.iter_bytes():
                    answer += piece
                    if len(answer) > MAX_ANSWER:
                        return Verdict("later", {}, f"status {response.status_code} and an answer of over 1 MiB")
                    if time.monotonic() > deadline:
                        return Verdict("later", {}, f"no whole answer within {seconds:g} s")
                named = {name.lower(): value for name, value in response.headers.items()}
                return self._masked(judge(response.status_code, named, answer, ids, time.time()))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            # ValueError: what h11, ssl and the codecs raise for answers that are none.
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return self._masked(Verdict("later", {}, what[:_MAX_TEXT]))

    def _masked(self, verdict: Verdict) -> Verdict:
        """The verdict without the token, should the endpoint have sent it back."""

        def clean(text: str) -> str:
            return text.replace(self._token, "⟦token⟧")

        return verdict._replace(
            why=clean(verdict.why),
            results={
                key: problem
                and problem._replace(
                    title=clean(problem.title),
                    detail=clean(problem.detail),
                    errors=tuple((clean(pointer), clean(detail)) for pointer, detail in problem.errors),
                )
                for key, problem in verdict.results.items()
            },
        )


def body_of(events: Sequence[Mapping[str, object]]) -> bytes:
    """The bytes of a batch: the same events give the same bytes."""
    return json.dumps(events, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode("utf-8")
