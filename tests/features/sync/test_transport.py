"""What each answer means, and that nothing an endpoint does reaches the caller as an exception."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from receiving import Answer, Receiver
from specify_cli.features.sync.sending.transport import Endpoint, Problem, failed, judge, stop_after
from support import wait_behind_a_destroyed_object

TOKEN = "tok-0123456789abcdef"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENTS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as found:
        yield found


def results(*statuses: str) -> bytes:
    named = zip("ab", statuses, strict=False)
    return json.dumps({"results": [{"id": key, "status": status} for key, status in named]}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (200, results("stored", "duplicate"), "answered"),
        (200, results("stored"), "answered"),
        (200, results("stored", "lost"), "later"),
        (200, b"", "later"),
        (200, b"<html>please log in</html>", "later"),
        (200, b'{"results": []}', "later"),
        (200, b'{"results": [{"id": "z", "status": "stored"}]}', "later"),
        (200, b'{"results": [{"id": "a", "status": "stored"}, {"id": "a", "status": "refused"}]}', "later"),
        (202, b"", "later"),
        (204, b"", "later"),
        (301, b"", "stop"),
        (304, b"", "stop"),
        (307, b"", "stop"),
        (400, b"", "halve"),
        (401, b"", "stop"),
        (403, b"", "stop"),
        (404, b"", "stop"),
        (405, b"", "stop"),
        (408, b"", "later"),
        (409, b"", "halve"),
        (410, b"", "stop"),
        (413, b"", "halve"),
        (415, b"", "halve"),
        (418, b"", "stop"),
        (422, b"", "halve"),
        (425, b"", "later"),
        (429, b"", "later"),
        (500, b"", "later"),
        (502, b"\xff\xfe", "later"),
        (503, b"[" * 100_000, "later"),
        (599, b"", "later"),
    ],
)
def test_each_answer_to_a_batch_has_one_meaning(status: int, body: bytes, kind: str) -> None:
    assert judge(status, {}, body, ["a", "b"], 0.0).kind == kind


def test_only_what_an_answer_names_is_acknowledged() -> None:
    verdict = judge(200, {}, results("stored"), ["a", "b"], 0.0)
    assert verdict.results == {"a": "stored"}


def test_a_refused_event_carries_the_members_at_fault() -> None:
    problem = {
        "title": "Invalid",
        "status": 422,
        "errors": [{"pointer": "/data/payload/action", "detail": "too short"}],
    }
    body = json.dumps({"results": [{"id": "a", "status": "refused", "problem": problem}]}).encode()
    for verdict in (judge(200, {}, body, ["a"], 0.0), judge(422, {}, json.dumps(problem).encode(), ["a"], 0.0)):
        found = verdict.results["a"]
        assert isinstance(found, Problem)
        assert (found.status, found.errors) == (422, (("/data/payload/action", "too short"),))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("999999999", 86400.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("1e9", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_never_more_than_a_day(header: str, seconds: float | None) -> None:
    assert judge(429, {"retry-after": header}, b"", ["a"], 10.0).retry_after == seconds


@given(st.integers(100, 999), st.binary(max_size=300), st.text(max_size=40))
def test_no_answer_raises_and_none_but_a_named_acknowledgement_settles_anything(
    status: int, body: bytes, retry_after: str
) -> None:
    verdict = judge(status, {"retry-after": retry_after}, body, ["a", "b"], 0.0)
    assert verdict.kind in ("answered", "halve", "stop", "later")
    assert verdict.kind != "answered" or 200 <= status < 300


def test_a_request_is_what_the_contract_says(receiver: Receiver) -> None:
    endpoint = Endpoint(receiver.url, TOKEN, Webhook(SECRET))
    first = endpoint.post(EVENTS)
    endpoint.post(EVENTS)
    endpoint.post(EVENTS[:1])
    endpoint.close()
    assert first.results == {"a": "stored", "b": "stored"}
    one, again, other = receiver.requests
    assert one.headers["content-type"] == "application/cloudevents-batch+json"
    assert one.headers["authorization"] == f"Bearer {TOKEN}"
    assert one.headers["idempotency-key"] == again.headers["idempotency-key"] != other.headers["idempotency-key"]
    assert one.body == again.body
    assert Webhook(SECRET).verify(one.body, one.headers) == EVENTS


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x16\x03\x01garbage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 OK\r\n\r\n",
        b"220 smtp ready\r\n",
    ],
)
def test_garbage_on_the_wire_is_tried_again_later(receiver: Receiver, raw: bytes) -> None:
    receiver.answer = lambda _: Answer(raw=raw)
    endpoint = Endpoint(receiver.url, TOKEN)
    assert endpoint.post(EVENTS).kind == "later"
    endpoint.close()


def test_an_endless_answer_is_not_read_to_its_end(receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(200, b"x" * (2 * 1024 * 1024))
    endpoint = Endpoint(receiver.url, TOKEN)
    verdict = endpoint.post(EVENTS)
    endpoint.close()
    assert (verdict.kind, "over 1 MiB" in verdict.why) == ("later", True)


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    with Receiver().serving() as elsewhere:
        receiver.answer = lambda _: Answer(307, headers={"Location": elsewhere.url})
        endpoint = Endpoint(receiver.url, TOKEN)
        assert endpoint.post(EVENTS).kind == "stop"
        endpoint.close()
        assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("status", "is_unsure"),
    [(200, True), (204, True), (500, True), (502, True), (408, False), (429, False), (503, False)],
)
def test_what_may_have_been_taken_is_unsure(status: int, is_unsure: bool) -> None:
    """An endpoint that says it took nothing is believed; whatever its answer's words are."""
    body = json.dumps({"detail": "Connect: status 503"}).encode()

    assert judge(status, {}, body, ["a"], 0.0).is_unsure == is_unsure


def test_nobody_there_and_no_such_name_are_later() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for url in (f"http://127.0.0.1:{unused.getsockname()[1]}/", "https://no-such-host.invalid/"):
            endpoint = Endpoint(url, TOKEN)
            assert endpoint.post(EVENTS).kind == "later"
            endpoint.close()


def test_a_plain_server_behind_an_https_url_is_later(receiver: Receiver) -> None:
    endpoint = Endpoint(receiver.url.replace("http:", "https:"), TOKEN)
    verdict = endpoint.post(EVENTS)
    endpoint.close()
    assert (verdict.kind, receiver.requests) == ("later", [])


# An alarm can fall into a destructor of what another test left (the next test).
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=", b"y"),
        (b"", b""),
    ],
    ids=["body", "header", "early hints", "chunk extension", "silence"],
)
def test_an_answer_that_drips_is_given_up_on(begin: bytes, drip: bytes) -> None:
    """However a server keeps the line busy, the request ends with the time for an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def serve() -> None:
            held, _ = server.accept()
            with held:
                held.sendall(begin)
                while not over.wait(0.02):
                    try:
                        held.sendall(drip)
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        endpoint = Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}/", TOKEN)
        verdict = endpoint.post(EVENTS, seconds=0.3)
        over.set()
        thread.join()
        endpoint.close()
        assert (verdict.kind, "no whole answer" in verdict.why) == ("later", True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_end_that_is_dropped_comes_again() -> None:
    """Else a request whose alarm falls there, or into the callback of a weak reference, would never end."""
    with pytest.raises(TimeoutError, match="the time for this request is over"), stop_after(0.1):
        wait_behind_a_destroyed_object()


def test_a_compressed_answer_is_not_unpacked(receiver: Receiver) -> None:
    """A bomb of some kilobytes is not asked for and not opened."""
    bomb = gzip.compress(gzip.compress(bytes(50_000_000)))
    receiver.answer = lambda _: Answer(200, bomb, {"Content-Encoding": "gzip, gzip"})
    endpoint = Endpoint(receiver.url, TOKEN)
    verdict = endpoint.post(EVENTS)
    endpoint.close()
    assert (verdict.kind, "compressed" in verdict.why) == ("later", True)
    assert receiver.requests[0].headers["accept-encoding"] == "identity"


def test_an_event_refused_for_a_passing_reason_stays_due() -> None:
    refused = {"id": "b", "status": "refused", "problem": {"status": 503}}
    body = json.dumps({"results": [{"id": "a", "status": "stored"}, refused]}).encode()
    assert judge(200, {}, body, ["a", "b"], 0.0).results == {"a": "stored"}
    assert judge(200, {}, json.dumps({"results": [refused]}).encode(), ["b"], 0.0).kind == "later"


@pytest.mark.parametrize(
    "detail", ["x" * (500 - len(TOKEN) + 6) + TOKEN, f"a\ud800b {TOKEN}", f"line\nbreak\x1b[31m {TOKEN}"]
)
@pytest.mark.parametrize("status", [401, 422, 500])
def test_what_an_endpoint_says_is_masked_before_it_is_cut_and_shown_on_one_line(detail: str, status: int) -> None:
    verdict = judge(status, {}, json.dumps({"detail": detail, "title": detail}).encode(), ["a"], 0.0, TOKEN)
    said = verdict.why + "".join(f"{problem}" for problem in verdict.results.values())
    assert said.isprintable()
    said.encode("utf-8")
    assert TOKEN[:8] not in said


@pytest.mark.parametrize("status", [200, 401, 422, 500])
def test_a_token_sent_back_is_masked_wherever_it_stands(receiver: Receiver, status: int) -> None:
    problem = {"title": TOKEN, "detail": f"bad {TOKEN}", "errors": [{"pointer": TOKEN, "detail": TOKEN}]}
    value: dict[str, object] = {**problem, "results": [{"id": "a", "status": "refused", "problem": problem}]}
    receiver.answer = lambda _: Answer(status, json.dumps(value).encode())
    endpoint = Endpoint(receiver.url, TOKEN)
    verdict = endpoint.post(EVENTS[:1])
    endpoint.close()
    assert TOKEN not in repr(verdict)
    assert "⟦token⟧" in repr(verdict)


def test_a_proxy_of_the_environment_is_respected(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes to the proxy with the whole URL."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{receiver.port}")
    endpoint = Endpoint("http://collector.invalid/v1/events", TOKEN)
    assert endpoint.post(EVENTS).kind == "answered"
    endpoint.close()
    assert receiver.requests[0].path == "http://collector.invalid/v1/events"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_what_is_meant_for_this_machine_goes_through_no_proxy(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    with Receiver().serving() as proxy:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        endpoint = Endpoint(f"http://{host}:{receiver.port}/v1/events", TOKEN)
        verdict = endpoint.post(EVENTS)
        endpoint.close()
        assert proxy.requests == []
        assert verdict.kind == "answered" or host == "127.0.0.2"


def test_a_short_header_does_not_hide_the_reason_and_a_long_one_stands_nowhere() -> None:
    headers = {"x-tenant": "e", "x-zone": "he", "authorization": f"Bearer {TOKEN}"}

    assert failed("http://127.0.0.1/x", f"the header {TOKEN} expired", headers).message == (
        "http://127.0.0.1/x did not take what was sent: the header ⟦header⟧ expired"
    )
