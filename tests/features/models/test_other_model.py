"""`replay ID --ab MODEL`: what a run asked its model is asked of another one, at a real endpoint on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.models import Model, Turn, _Handler
from specify_cli.cli.schemas.shapes import read_shapes
from specify_cli.features.models.dialects import Answer
from specify_cli.features.models.other_model import compare_answers
from specify_cli.features.programs.run import open_invocation
from support import Cli

KEY = {"MODEL_KEY": "sk-other-0123456789abcdef"}
LOOK = {"name": "look", "description": "Look at a file.", "parameters": {"type": "object"}}
ASKED = {
    "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "what of the login?"}],
    "tools": [{"type": "function", "function": LOOK}],
}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"path": "a.py"}'}}],
}
PYDANTIC_AI = [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "and now?"}]}]
LANGCHAIN = [{"type": "human", "data": {"content": "and then?"}}]


class Scripted(Model):
    """The scripted model of the harness, saying what a test tells it to; `seen` are its requests."""

    def __init__(self, turns: list[Turn]) -> None:
        super().__init__("claude", "")
        self.RequestHandlerClass = _Noting
        self.turns = turns
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def decide(self, kind: str, body: Mapping[str, Any]) -> Turn:
        del kind, body
        return self.turns.pop(0)


class _Noting(_Handler):
    def _read_body(self) -> dict[str, Any]:
        body = super()._read_body()
        assert isinstance(self.server, Scripted)
        self.server.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        return body


@pytest.fixture
def model() -> Iterator[Scripted]:
    server = Scripted([])
    server.start()
    yield server
    server.shutdown()
    server.server_close()


def play(project: Path) -> str:
    with open_invocation(project, "implement WP03", capture={"llm": "full"}) as run:
        run.model_call("old-1", ASKED, CALLED)  # seq 4
        run.model_call("old-1", "say it in one line", "the login expires")
        run.model_call("old-1", PYDANTIC_AI, {"parts": [{"part_kind": "text", "content": "nothing"}]})
        run.model_call("old-1", LANGCHAIN, {"type": "ai", "data": {"content": "done"}})
        run.model_call("old-1", "the key is sk-live-" + "a1B2" * 8, "thanks")
        run.model_call("old-1", [{"role": "user", "content": [{"type": "image"}]}], "a cat")
        return run.invocation_id


def accept(project: Path, cli: Cli, *endpoints: str) -> None:
    (project / ".kittify/config.yaml").write_text(
        f"audit: {{capture_llm_io: full}}\nreplay: {{endpoints: {json.dumps(endpoints)}}}\n"
    )
    assert cli("config", "accept", "--yes").code == 0


TOOLS, TEXT = Turn("", [("look", {"path": "a.py"})]), Turn("the session expires", [])


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_another_model_answers_and_every_answer_has_one_of_three_verdicts(
    cli: Cli, chartered: Path, model: Scripted, path: str
) -> None:
    endpoint = f"http://127.0.0.1:{model.port}{path}"
    accept(chartered, cli, endpoint)
    run = play(chartered)
    model.turns += [TOOLS, TEXT, Turn("nothing", []), Turn("done", [])]
    line = ("replay", run, "--ab", "new-2", "--endpoint", endpoint, "--key-variable", "MODEL_KEY", "--json")
    ran = cli(*line, env=KEY)
    value = ran.json()
    read_shapes()["model-replay"].model_validate_json(ran.out)
    child = cli("invocations", "show", value["replay_invocation_id"], "--json").json()
    calls = [event for event in child["events"] if event["event"] == "model_call"]

    assert [call["verdict"] for call in value["calls"]] == ["same", "differs", "same", "same", *["not_evaluated"] * 2]
    assert (ran.code, value["match"]) == (1, False)
    assert value["calls"][1]["diff"]["text"][-2:] == ["-the login expires", "+the session expires"]
    assert "a secret in it was masked" in value["calls"][4]["reason"]
    assert value["calls"][5]["reason"] == "a message holds image, not only text"
    assert len(model.seen) == 4 and {body["model"] for _, _, body in model.seen} == {"new-2"}
    assert "Be short." in json.dumps(model.seen[0][2]) and "look" in json.dumps(model.seen[0][2]["tools"])
    assert KEY["MODEL_KEY"] in model.seen[0][1]["x-api-key"] and KEY["MODEL_KEY"] in model.seen[0][1]["authorization"]
    assert all(("anthropic-version" in headers) == path.endswith("messages") for _, headers, _ in model.seen)
    assert child["events"][0]["parent_invocation_id"] == run
    assert [call["seq"] for call in calls] == [call["child_seq"] for call in value["calls"][:4]]
    assert {call["answered_by"] for call in calls} == {f"new-2 at {endpoint}"}
    assert not any(KEY["MODEL_KEY"].encode() in file.read_bytes() for file in chartered.rglob("*") if file.is_file())
    assert cli("invocations", "verify", value["replay_invocation_id"]).code == 0


def test_nothing_is_sent_where_no_person_accepted_the_endpoint(cli: Cli, chartered: Path, model: Scripted) -> None:
    endpoint = f"http://127.0.0.1:{model.port}/v1/messages"
    run = play(chartered)
    (chartered / ".kittify/config.yaml").write_text(f"replay: {{endpoints: ['{endpoint}']}}\n")
    before = cli("invocations", "list").out
    line = ("replay", run, "--ab", "new-2", "--json", "--endpoint")
    proposed = cli(*line, endpoint)
    plain = cli(*line, "http://models.example.org/v1/messages")
    agent = cli("config", "accept", "--yes", "--json", env={"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s"})

    assert '"CONSENT_NEEDED"' in proposed.err
    assert '"ENDPOINT_INVALID"' in plain.err
    assert endpoint in agent.error()["message"] and agent.error()["error_code"] == "ACCEPT_NEEDS_PERSON"
    assert (model.seen, cli("invocations", "list").out) == ([], before)


def test_one_call_can_be_chosen_and_a_failure_ends_the_asking(cli: Cli, chartered: Path, model: Scripted) -> None:
    endpoint = f"http://127.0.0.1:{model.port}/v1/chat/completions"
    accept(chartered, cli, endpoint)
    run = play(chartered)
    line = ("replay", run, "--ab", "new-2", "--endpoint", endpoint)
    model.turns += [Turn("the login expires", [])]
    one = cli(*line, "--event", "5")
    model.turns += [TOOLS, Turn("", [], 529)]
    ended = cli(*line, "--json").json()
    asked = len(model.seen)
    wrong = cli(*line, "--event", "0", "--json")
    unset = cli(*line, "--key-variable", "NO_SUCH_KEY", "--json")

    assert (one.code, one.out.splitlines()[1:]) == (0, ["same  seq 5 old-1"])
    assert [call["verdict"] for call in ended["calls"]] == ["same", *["not_evaluated"] * 5]
    assert "status 529" in ended["calls"][1]["reason"]
    assert ended["calls"][2]["reason"] == "not asked, for the endpoint failed at seq 5"
    assert ended["match"] is None and asked == 3
    assert wrong.error()["error_code"] == "INVALID_VALUE" and unset.error()["error_code"] == "TOKEN_MISSING"


def test_an_answer_is_masked_like_everything_that_is_printed(cli: Cli, chartered: Path, model: Scripted) -> None:
    endpoint = f"http://127.0.0.1:{model.port}/v1/messages"
    accept(chartered, cli, endpoint)
    run = play(chartered)
    model.turns += [Turn("use ghp_" + "a1B2c3D4e5" * 4, [])]
    ran = cli("replay", run, "--ab", "new-2", "--endpoint", endpoint, "--event", "5", "--json")

    assert ran.code == 1 and "⟦" in ran.out and "ghp_a1B2" not in ran.out
    assert not any(b"ghp_a1B2" in file.read_bytes() for file in chartered.rglob("*") if file.is_file())


def test_a_key_that_an_endpoint_sends_back_stands_nowhere(cli: Cli, chartered: Path, model: Scripted) -> None:
    endpoint = f"http://127.0.0.1:{model.port}/v1/messages"
    accept(chartered, cli, endpoint)
    run = play(chartered)
    key = "kf-0123456789-abcdef"  # no form that a rule of redaction knows
    model.turns += [Turn(f"you came with {key}", [])]
    line = ("replay", run, "--ab", "new-2", "--endpoint", endpoint, "--key-variable", "MODEL_KEY", "--event", "5")
    ran = cli(*line, env={"MODEL_KEY": key})

    assert ran.code == 1 and "you came with" in ran.out and key not in ran.out
    assert not any(key.encode() in file.read_bytes() for file in chartered.rglob("*") if file.is_file())


def test_a_word_that_a_local_server_takes_for_a_key_stays_in_its_answers(
    cli: Cli, chartered: Path, model: Scripted
) -> None:
    endpoint = f"http://127.0.0.1:{model.port}/v1/messages"
    accept(chartered, cli, endpoint)
    run = play(chartered)
    model.turns += [Turn("the text is empty", [])]
    line = ("replay", run, "--ab", "new-2", "--endpoint", endpoint, "--key-variable", "MODEL_KEY", "--event", "5")

    assert "the text is empty" in cli(*line, env={"MODEL_KEY": "text"}).out


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_difference_reads_as_a_diff_of_calls_and_words(cli: Cli, chartered: Path, model: Scripted, path: str) -> None:
    endpoint = f"http://127.0.0.1:{model.port}{path}"
    accept(chartered, cli, endpoint)
    with open_invocation(chartered, "implement WP03", capture={"llm": "full"}) as run:
        run.model_call("old-1", ASKED, CALLED)
        run.model_call("old-1", "how long?", "def work():\n    pass\n")
    model.turns += [
        Turn("", [("look", {"path": "b.py"}), ("look", {"path": "a.py"})]),
        Turn("def work():\n    rest", []),
    ]
    ran = cli("replay", run.invocation_id, "--ab", "new-2", "--endpoint", endpoint)

    assert ran.out.splitlines()[1:] == [
        "differs  seq 4 old-1",
        "  --- recorded",
        "  +++ answered",
        "  @@ tool calls: 1 recorded, 2 answered @@",
        '  +look {"path": "b.py"}',
        '   look {"path": "a.py"}',
        "differs  seq 5 old-1",
        "  --- recorded",
        "  +++ answered",
        "  @@ -1,2 +1,2 @@",
        "   def work():",
        "  -    pass",
        "  +    rest",
    ]


def answer_with(body: object) -> ThreadingHTTPServer:
    """A server on loopback that answers every request with 200 and this JSON."""

    class Fixed(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Fixed)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


SAID = {"role": "assistant", "content": "the login expires"}
CHOICE = {"choices": [{"message": SAID, "finish_reason": "stop"}]}


@pytest.mark.parametrize(
    ("body", "verdict", "why"),
    [
        ({"error": {"message": "no credit"}}, "not_evaluated", "an error: no credit"),
        ({"error": "overloaded", **CHOICE}, "not_evaluated", "an error: overloaded"),
        ({"choices": [{"message": SAID, "error": {"message": "upstream"}}]}, "not_evaluated", "an error: upstream"),
        ({"choices": [{"message": SAID, "finish_reason": "error"}]}, "not_evaluated", "it ended in an error"),
        ({"choices": [None]}, "not_evaluated", "no message"),
        ({"choices": []}, "not_evaluated", "no message"),
        ({"choices": [{}]}, "not_evaluated", "no message"),
        ({"id": "x", "object": "chat.completion"}, "not_evaluated", "no message"),
        ({}, "not_evaluated", "no message"),
        ([], "not_evaluated", "no message"),
        ({"model": "other-9", **CHOICE}, "not_evaluated", "other-9"),
        ({"model": "new-2-20260101", **CHOICE}, "same", None),
        ({"model": "new-2", **CHOICE}, "same", None),
        (CHOICE, "same", None),
        ({"choices": [{"message": {**SAID, "refusal": "I cannot help."}, "finish_reason": "stop"}]}, "differs", None),
        ({"choices": [{"message": {"role": "assistant", "content": None, "refusal": "No."}}]}, "differs", None),
    ],
)
def test_an_answer_that_is_none_is_not_evaluated(
    cli: Cli, chartered: Path, body: object, verdict: str, why: str | None
) -> None:
    server = answer_with(body)
    endpoint = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    accept(chartered, cli, endpoint)
    with open_invocation(chartered, "implement WP03", capture={"llm": "full"}) as run:
        run.model_call("old-1", "say it in one line", "the login expires")
    ran = cli("replay", run.invocation_id, "--ab", "new-2", "--endpoint", endpoint, "--json")
    server.shutdown()
    server.server_close()
    (call,) = ran.json()["calls"]

    assert call["verdict"] == verdict, call
    assert why is None or why in call["reason"]
    assert verdict != "differs" or call["diff"]["answered_decision"] == "refused"


def test_a_difference_that_is_cut_says_so() -> None:
    """`--json lists them`, the screen says of what it leaves out: what is not there either is counted."""
    one, two = (Answer("\n".join(f"{word} {number}" for number in range(300)), (), "answer") for word in ("a", "b"))

    diff = compare_answers(one, two)

    assert diff and (len(diff.text), diff.text[-1]) == (201, "… 403 more lines")
