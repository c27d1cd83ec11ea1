"""What the application does where a real server cannot be made to: a storage that breaks, a body that never comes."""

from __future__ import annotations

import contextlib
import html
import io
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, cast

import anyio
import pytest
from starlette.types import ASGIApp, Message

from collecting import record_of
from envelopes import PROJECT, TOKEN, completed, id_of, started
from memory_storage import MemoryStorage
from specify_cli.features.collector.engines.sql_storage import SqlStorage
from specify_cli.features.collector.reception import cursor_of, read_list_request
from specify_cli.features.collector.server import pages
from specify_cli.features.collector.server.app import build_app
from specify_cli.features.collector.storage import Filter, ListPosition, StorageError
from specify_cli.features.collector.tokens import Token
from specify_cli.libraries.web.markup import display_value
from specify_cli.libraries.wire.contract import CONTENT_TYPE

NOW = "2026-11-21T12:00:00.000Z"


def app_over(storage: MemoryStorage, **options: Any) -> ASGIApp:
    return build_app(cast(SqlStorage, storage), {TOKEN: Token("1", "ada")}.get, clock=lambda: NOW, **options)


def ask(
    app: ASGIApp, method: str, path: str, body: list[bytes] | None = None, query: str = "", **headers: str
) -> tuple[int, bytes]:
    """One request. A chunk `more` is followed by others, or by silence; `gone` is the sender hanging up."""
    chunks = [b""] if body is None else body
    said: list[Message] = []

    async def receive() -> Message:
        if not chunks:
            await anyio.sleep_forever()
        chunk = chunks.pop(0)
        if chunk == b"gone":
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": chunk == b"more"}

    async def send(message: Message) -> None:
        said.append(message)

    given = {"authorization": f"Bearer {TOKEN}", "content-type": CONTENT_TYPE, **headers}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    anyio.run(app, scope, receive, send)
    return said[0]["status"], b"".join(message.get("body", b"") for message in said[1:])


def test_received_at_is_the_collectors_own_clock() -> None:
    app = app_over(MemoryStorage())
    ask(app, "POST", "/v1/events", [json.dumps([started(1)]).encode()])

    _, body = ask(app, "GET", f"/v1/invocations/{id_of(1)}")

    assert NOW == json.loads(body)["phases"]["started"]["received_at"]


def test_a_clock_that_is_ahead_heads_no_list() -> None:
    """The page says how many such there are and leads to them; where all are ahead they are shown."""
    day = 24 * 3600
    mine, ahead = started(1), started(73 * 365 * day, request_text="from 2099")
    mixed, alone = app_over(MemoryStorage()), app_over(MemoryStorage())
    ask(mixed, "POST", "/v1/events", [json.dumps([mine, ahead]).encode()])
    ask(alone, "POST", "/v1/events", [json.dumps([ahead]).encode()])

    page, only = (ask(app, "GET", "/")[1].decode() for app in (mixed, alone))
    link = re.search(r'<a href="/(\?[^"]*)">1 invocation</a> of clocks that are ahead stands at the end', page)
    later = ask(mixed, "GET", "/", query=html.unescape(link[1][1:]) if link else "")[1].decode()
    _, listed = ask(mixed, "GET", "/v1/invocations")

    assert (id_of(1) in page, "from 2099" in page) == (True, False)
    assert (id_of(1) in later, "from 2099" in later) == (False, True)
    assert "from 2099" in only and "clocks that are ahead" not in only
    assert json.loads(listed)["ahead"] == 1


def test_what_a_clock_ahead_sent_comes_last_and_once_on_every_way_through_the_list() -> None:
    app, day = app_over(MemoryStorage()), 24 * 3600
    begun = [started(n) for n in range(5)] + [started(73 * 365 * day + n) for n in range(3)]
    ask(app, "POST", "/v1/events", [json.dumps(begun).encode()])
    expected = [id_of(n) for n in (4, 3, 2, 1, 0)] + [id_of(73 * 365 * day + n) for n in (2, 1, 0)]
    walks: list[list[str]] = []
    for limit in (1, 2, 5, 8, 200):
        seen, cursor = [], ""
        while cursor is not None:
            _, body = ask(app, "GET", "/v1/invocations", query=f"limit={limit}&cursor={cursor}")
            page = json.loads(body)
            seen += [item["invocation_id"] for item in page["items"]]
            cursor = page["next"]
        walks.append(seen)
    _, until = ask(app, "GET", "/v1/invocations", query="until=9999-12-31")

    assert walks == [expected] * 5
    assert json.loads(until)["items"][0]["invocation_id"] == id_of(73 * 365 * day + 2)


def test_pages_of_many_say_that_older_whole_records_were_left_out() -> None:
    storage, bodies = MemoryStorage(), {}
    for number in (2, 1):
        piece, events = record_of(number)
        storage.accept(events, NOW)
        bodies[ListPosition(id_of(number), PROJECT)] = piece.body
    rows = storage.rows(Filter(), 9)

    def draw(room: int) -> list[str]:
        def hold() -> pages.RecordBodies:
            return pages.RecordBodies(lambda places: {one: bodies[one] for one in places}, list(bodies), room)

        today = date(2026, 11, 21)
        rules = pages.rules([], rows, hold(), lambda *_: b"")
        return [pages.report([], rows, hold(), lambda *_: b""), rules, pages.pictures([], rows, hold(), today)]

    said = "Older ones were left out"
    assert [True] * 3 == [said in page for page in draw(len(max(bodies.values(), key=len)))]
    assert [False] * 3 == [said in page for page in draw(pages.ROOM)]


def test_the_report_knows_the_charters_test_commands_and_whose_a_file_is() -> None:
    """As `report` does in the project: `tools/vet` is a test run where the charter says so."""
    storage, bodies = MemoryStorage(), {}
    other = "5b0e6a4e-3c1a-4b7e-9d55-6a2f3c7d8e90"
    call: dict[str, object] = {"event": "tool_call", "call_id": "c1", "tool": "Bash"}
    call["args"] = '{"command":"tools/vet"}'
    work: list[dict[str, object]] = [
        {"event": "patch_apply", "path": "src/a.py", "kind": "modify", "ok": True},
        call,
        {"event": "tool_result", "call_id": "c1", "status": "ok"},
    ]
    for number, project in ((1, PROJECT), (2, other)):
        piece, events = record_of(number, project=project, work=work)
        storage.accept(events, NOW)
        bodies[ListPosition(id_of(number), project)] = piece.body
    rows = storage.rows(Filter(), 9)

    def draw(context: str) -> str:
        hold = pages.RecordBodies(lambda places: {one: bodies[one] for one in places}, list(bodies))
        return pages.report([], rows, hold, lambda *_: context.encode())

    page = draw("## Testing\nRun `tools/vet` before handing over.\n")
    assert ("passed: tools/vet" in page, "not run" in page) == (True, False)
    assert "passed" not in draw("")
    assert [f"<bdi>{project}/src/a.py</bdi>" in page for project in (PROJECT, other)] == [True, True]


def test_a_body_that_does_not_come_is_a_408() -> None:
    status, body = ask(app_over(MemoryStorage(), body_seconds=0.05), "POST", "/v1/events", [b"more"])

    assert (408, "urn:spec-kitty:problem:too-slow") == (status, json.loads(body)["type"])


def test_a_sender_that_hangs_up_leaves_nothing_behind() -> None:
    storage = MemoryStorage()

    assert 400 == ask(app_over(storage), "POST", "/v1/events", [b"more", b"gone"])[0]
    assert 0 == storage.totals().events


class Broken(MemoryStorage):
    """A storage whose every answer is an error that quotes what it was given."""

    error: type[Exception] = RuntimeError

    def accept(self, events: Sequence[Mapping[str, object]], now: str, client: str = "") -> list[str]:
        raise self.error(f"could not store {events} of {client} at {now}")


@contextlib.contextmanager
def logged() -> Iterator[io.StringIO]:
    """Collect what is logged."""
    text, root = io.StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield text
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


@pytest.mark.parametrize(("error", "status"), [(RuntimeError, 500), (StorageError, 503), (KeyError, 500)])
def test_a_failure_inside_says_nothing_of_what_was_sent(error: type[Exception], status: int) -> None:
    storage = Broken()
    storage.error = error
    body = json.dumps([started(1, request_text="a planted text")]).encode()

    with logged() as log:
        found = ask(app_over(storage), "POST", "/v1/events", [body])

    assert status == found[0]
    assert b"planted" not in found[1]
    if error is not StorageError:
        assert "planted" not in log.getvalue()
        assert f"internal: {error.__name__} in Broken.accept:" in log.getvalue()


def test_a_conflict_is_logged_by_the_events_id() -> None:
    app = app_over(MemoryStorage())
    ask(app, "POST", "/v1/events", [json.dumps([completed(1)]).encode()])
    with logged() as log:
        status, _ = ask(app, "POST", "/v1/events", [json.dumps([completed(1, outcome="failed")]).encode()])

    assert 409 == status
    assert f"conflict {completed(1)['id']}" in log.getvalue()


def test_a_cursor_gives_back_its_place() -> None:
    place = ListPosition(id_of(7), PROJECT)

    assert place == read_list_request([("cursor", cursor_of(place))]).after


def test_half_of_a_character_anywhere_in_a_body_is_refused() -> None:
    piece, _ = record_of(1)
    log = {"start": 0, "leaves": "", "keys": "", "checkpoint": ""}
    order: dict[str, Any] = {"annex": "", "lines": {}, "objects": None}
    bodies: dict[str, dict[str, Any]] = {
        f"records/{piece.invocation_id}": json.loads(piece.body),
        "logs/1-0e7563e2": log,
        f"orders/{piece.invocation_id}/{id_of(2)}.jsonl": order,
        "objects": {"0" * 64: ""},
    }

    answers = {
        (path, member): ask(
            app_over(MemoryStorage()),
            "PUT",
            f"/v1/projects/{PROJECT}/{path}",
            [json.dumps({**body, member: "\ud800"}).encode()],
        )
        for path, body in bodies.items()
        for member in body
    }

    assert [] == [place for place, (status, _) in answers.items() if status != 422]
    assert all(b"half of a character" in said for _, said in answers.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("a\nb\tc", "a\nb\tc"),
        ("\u202e", '<span class="char">\\u202e</span>'),
        ("\x00", '<span class="char">\\x00</span>'),
        ("\U000e0041", '<span class="char">\\ue0041</span>'),
        ("שלום и 日本 \U0001f469\u200d\U0001f4bb", "שלום и 日本 \U0001f469\u200d\U0001f4bb"),
    ],
)
def test_recorded_text_keeps_its_letters_and_loses_its_powers(text: str, expected: str) -> None:
    assert expected == display_value(text)
