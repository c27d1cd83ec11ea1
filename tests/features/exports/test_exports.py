"""Records for programs of others, read by those programs' own parsers where they can be had."""

from __future__ import annotations

import base64
import gzip
import json
import random
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from jsonschema import Draft202012Validator
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtelSpan
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.schemas import Schemas

from random_runs import make_lines
from specify_cli.errors import InvocationError
from specify_cli.features.exports import otlp
from specify_cli.features.exports.agent_trace import Attributed, make_agent_trace
from specify_cli.features.exports.otlp import make_otlp
from specify_cli.features.exports.perfetto import make_perfetto
from specify_cli.features.programs.run import open_invocation
from specify_cli.libraries.timeline.run import encode_document, read_run
from specify_cli.record.record import fold
from support import FULL, Cli, git, record_run_held_later, valid

RUNS = 500 if FULL else 20
KNOWN = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
BEFORE = "def greet(name):\n    return name\n"
AFTER = 'def greet(name):\n    """Greet somebody by name."""\n    return name\n'
_TEXT, _LINE = {"type": "string"}, {"type": "integer", "minimum": 1}
_RANGE = {"type": "object", "required": ["start_line", "end_line"], "properties": {
    "start_line": _LINE, "end_line": _LINE, "content_hash": _TEXT}}  # fmt: skip
_CONTRIBUTOR = {"type": "object", "required": ["type"], "properties": {
    "type": {"enum": ["human", "ai", "mixed", "unknown"]},
    "model_id": {"type": "string", "maxLength": 250}}}  # fmt: skip
_CONVERSATION = {"type": "object", "required": ["ranges"], "properties": {
    "url": {"type": "string", "format": "uri"}, "contributor": _CONTRIBUTOR,
    "ranges": {"type": "array", "items": _RANGE}}}  # fmt: skip
# What the schema of Agent Trace 0.1 asks for (https://agent-trace.dev/schemas/v1/trace-record.json).
AGENT_TRACE = {
    "type": "object", "required": ["version", "id", "timestamp", "files"],
    "properties": {
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"}, "id": {"type": "string", "format": "uuid"},
        "timestamp": {"type": "string", "format": "date-time"},
        "vcs": {"type": "object", "required": ["type", "revision"], "properties": {
            "type": {"enum": ["git", "jj", "hg", "svn"]}, "revision": _TEXT}},
        "tool": {"type": "object", "properties": {"name": _TEXT, "version": _TEXT}},
        "files": {"type": "array", "items": {"type": "object", "required": ["path", "conversations"], "properties": {
            "path": _TEXT, "conversations": {"type": "array", "items": _CONVERSATION}}}},
        "metadata": {"type": "object"},
    },
}  # fmt: skip
# A collector program of others, which `make judges` installs.
COLLECTOR = next(Path(__file__).parents[3].glob(".venv-judges/lib/python3.*/site-packages/rotel/rotel-agent"), None)


def parse(data: bytes) -> ExportTraceServiceRequest:
    """Read a request as a receiver does: OTLP/JSON writes ids in hex where protobuf's JSON has base64."""

    def recode(value: Any) -> Any:
        if isinstance(value, list):
            return [recode(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: base64.b64encode(bytes.fromhex(item)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else recode(item)
            for key, item in value.items()
        }

    request = ExportTraceServiceRequest()
    json_format.ParseDict(recode(json.loads(data)), request)
    return request


@pytest.fixture
def worked(project: Path) -> str:
    """The id of a record with steps, a call that failed, a model call and a patch of a committed file."""
    (project / "a.py").write_text(BEFORE)
    with open_invocation(project, "fix the login test") as run:

        def look() -> str:
            with run.tool("Bash", {"command": "pytest -q"}) as call:
                call.result = "1 failed"
            return "seen"

        run.step("look", look)
        run.model_call("some-model", "ask", "answer", tokens={"input": 1200, "output": 80})
        run.patch("a.py", "modify", before=BEFORE, after=AFTER)
        run.error("E42", "the parser fell over")
    (project / "a.py").write_text(AFTER)
    git(project, "add", "a.py")
    git(project, "commit", "-q", "-m", "two")
    return run.invocation_id


@pytest.mark.stress
def test_random_records_are_traces_that_receivers_read() -> None:
    dice = random.Random(20261123)
    for number in range(RUNS):
        run = read_run(make_lines(dice, dice.randrange(0, 80)))
        request = parse(encode_document(make_otlp([run])))

        (told,) = request.resource_spans
        spans = list(told.scope_spans[0].spans)
        ids = {span.span_id for span in spans}
        assert len(ids) == len(spans) and {span.trace_id for span in spans} == {spans[0].trace_id}, number
        assert [span.parent_span_id in ids for span in spans] == [False] + [True] * (len(spans) - 1), number
        assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in spans), number
        kept = sum(1 + len(span.events) for span in spans) - 1
        assert kept == len([span for span in run.spans if span.entry.kind not in ("started", "completed")]), number
        names = {item.key for span in spans for item in span.attributes if item.key.startswith("gen_ai.")}
        assert names <= KNOWN, number


@pytest.mark.stress
def test_slices_of_a_row_lie_in_each_other() -> None:
    dice = random.Random(7)
    for number in range(RUNS):
        run = read_run(make_lines(dice, dice.randrange(0, 80)))
        trace = json.loads(encode_document(make_perfetto([run])).decode("utf-8"))

        rows: dict[int, list[tuple[float, float]]] = {}
        for event in trace["traceEvents"]:
            if event["ph"] == "X":
                rows.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
        for ends in rows.values():
            stack: list[float] = []
            for begin, end in ends:
                while stack and stack[-1] <= begin + 0.001:
                    stack.pop()
                assert not stack or end <= stack[-1] + 0.001, number
                stack.append(end)
        assert sum(event["ph"] in "Xi" for event in trace["traceEvents"]) == 1 + len(
            [span for span in run.spans if span.lasts or span.entry.kind not in ("started", "completed")]
        )


def test_every_record_of_the_histories_is_a_trace() -> None:
    read = 0
    for path in (Path(__file__).parents[2] / "histories").rglob("*.jsonl"):
        record = fold(path.read_bytes())
        if record is not None:
            run = read_run([entry.fields for entry in record.entries])
            (told,) = parse(encode_document(make_otlp([run]))).resource_spans
            read += bool(told.scope_spans[0].spans) and bool(make_perfetto([run])["traceEvents"])

    assert read >= 5


def test_perfettos_trace_processor_reads_it(worked: str, cli: Cli, tmp_path: Path) -> None:
    binary = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if binary is None:
        pytest.skip(
            "trace_processor_shell is not here: put it on the path (docs/adr/0012-measurements.md says what was tried)"
        )
    processor = pytest.importorskip("perfetto.trace_processor")
    out = tmp_path / "run.json"
    assert cli("invocations", "export", worked, "--format", "perfetto", "-o", str(out)).code == 0
    with processor.TraceProcessor(str(out), config=processor.TraceProcessorConfig(bin_path=binary)) as opened:
        names = {row.name for row in opened.query("select name from slice")}

    assert {"fix the login test", "look", "Bash", "some-model"} <= names


def test_a_real_record_is_spans_with_the_names_of_the_conventions(worked: str, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    made = cli("invocations", "export", worked, "--format", "otlp", "-o", str(out), "--json").json()
    (told,) = parse(out.read_bytes()).resource_spans
    root, *spans = told.scope_spans[0].spans
    by_name = {span.name: span for span in spans}
    step, call, model = by_name["step look"], by_name["execute_tool Bash"], by_name["chat some-model"]
    values = {item.key: item.value for item in (*call.attributes, *model.attributes)}
    ends = [
        {item.key: item.value.int_value for item in span.attributes if item.key.endswith("seq")}
        for span in (root, step, call)
    ]
    began = ends[1]["spec_kitty.seq"]

    assert ends[1:] == [
        {"spec_kitty.seq": began, "spec_kitty.end_seq": began + 3},
        {"spec_kitty.seq": began + 1, "spec_kitty.end_seq": began + 2},
    ]
    assert ends[0]["spec_kitty.seq"] == 0 < ends[0]["spec_kitty.end_seq"]
    valid(made, "trace-written")
    assert told.schema_url == f"https://opentelemetry.io/schemas/{otlp.CONVENTIONS}" == Schemas.V1_41_0.value
    assert root.name.startswith("invoke_agent ") and call.parent_span_id == step.span_id
    assert step.parent_span_id == model.parent_span_id == root.span_id and model.kind == OtelSpan.SPAN_KIND_CLIENT
    assert "pytest -q" in values["gen_ai.tool.call.arguments"].string_value
    assert values["gen_ai.usage.input_tokens"].int_value == 1200
    assert {event.name for event in root.events} >= {"patch_apply", "error", "retrieval_response"}
    assert made["not_carried"] == list(otlp.NOT_CARRIED) and made["not_seen"] == {worked: []}
    assert "not carried: seals" in cli("invocations", "export", worked, "--format", "otlp", "-o", f"{out}2").out


def test_an_agent_trace_names_the_lines_in_the_commit(worked: str, cli: Cli, project: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    assert cli("invocations", "export", worked, "--format", "agent-trace", "-o", str(out)).code == 0
    trace = json.loads(out.read_bytes())
    (project / "a.py").write_text(f"{AFTER}\ngreet('you')\n")
    assert cli("invocations", "export", worked, "--format", "agent-trace", "-o", f"{out}2").code == 0
    moved = json.loads(Path(f"{out}2").read_bytes())

    Draft202012Validator(AGENT_TRACE).validate(trace)
    (file,) = trace["files"]
    (lines,) = file["conversations"][0]["ranges"]
    assert (file["path"], lines["start_line"], lines["end_line"]) == ("a.py", 2, 2)
    # The model that the program says it asked.
    assert file["conversations"][0]["contributor"] == {"type": "ai", "model_id": "some-model"}
    assert trace["vcs"]["revision"] == git(project, "rev-parse", "HEAD").strip()
    assert "vcs" not in moved and moved["files"][0]["conversations"][0]["ranges"][0]["start_line"] == 2


@pytest.mark.stress
def test_random_records_are_agent_traces() -> None:
    dice = random.Random(3)
    for _ in range(RUNS):
        run = read_run(make_lines(dice))
        found = {"a.py": [Attributed(1, 3, "0" * 64)], "gone.py": list[Attributed]()}
        trace = make_agent_trace(run, found, None)

        Draft202012Validator(AGENT_TRACE).validate(json.loads(encode_document(trace)))
        assert [file["path"] for file in trace["files"]] == ["a.py"]  # type: ignore[attr-defined]


def test_a_safe_export_leaves_out_what_a_safe_archive_withholds(cli: Cli, project: Path, tmp_path: Path) -> None:
    (project / ".kittify").mkdir(exist_ok=True)
    (project / ".kittify/config.yaml").write_text("audit: {capture_tool_io: full}\n")
    cli("config", "accept", "--yes")
    with open_invocation(project, "fix the login test") as run, run.tool("Bash", {"command": "cat letter"}) as call:
        call.result = "dear reader"
    out = tmp_path / "run.json"
    told = cli(
        "invocations", "export", run.invocation_id, "--format", "otlp", "--safe", "-o", str(out), "--json"
    ).json()

    assert told["withheld_lines"] == 2
    assert b"dear reader" not in out.read_bytes() and b"cat letter" not in out.read_bytes()


def test_what_a_safe_export_leaves_out_is_not_said_to_be_unseen() -> None:
    started = {"event": "started", "invocation_id": "A", "actor": {"actor_type": "llm", "tool": "claude-code"}}
    call = {"event": "tool_call", "tool": "Bash", "seq": 1}

    assert "tool calls" in read_run([started]).not_seen
    assert read_run([started, call]).not_seen[0] == "prompts"
    assert read_run([started, {"seq": 1, "withheld": "captured-in-full"}]).not_seen == ()


class Receiver(BaseHTTPRequestHandler):
    """An OTLP receiver that answers as it is told and keeps what it got."""

    answer: tuple[int, bytes] = (200, b"{}")
    got: list[tuple[str, dict[str, str], bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        status, told = self.answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiver(status: int = 200, body: bytes = b"{}") -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    got: list[tuple[str, dict[str, str], bytes]] = []
    handler = type("Answering", (Receiver,), {"answer": (status, body), "got": got})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


def test_a_receiver_gets_the_same_traces_over_http(worked: str, cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    cli("invocations", "export", worked, "--format", "otlp", "-o", str(out))
    with receiver() as (url, got):
        env = {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=abc%20d,x=1"}
        ran = cli("invocations", "export", worked, "--format", "otlp", "--endpoint", url, env=env)  # room: sync

    ((path, headers, body),) = got
    assert ran.code == 0, ran.err
    assert (path, headers["content-type"], headers["api-key"]) == ("/v1/traces", "application/json", "abc d")
    assert parse(body) == parse(out.read_bytes())


@pytest.mark.stress
@pytest.mark.skipif(COLLECTOR is None, reason="no OpenTelemetry collector is here: make judges installs one")
def test_an_opentelemetry_collector_reads_and_forwards_every_span(tmp_path: Path) -> None:
    """Rotel, a collector by others, takes our JSON and tells the next one the same traces in protobuf."""
    with socket.socket() as free, socket.socket() as other, receiver(body=b"") as (url, got):
        for one in (free, other):
            one.bind(("127.0.0.1", 0))
        http, grpc = (f"127.0.0.1:{one.getsockname()[1]}" for one in (free, other))
        free.close()
        other.close()
        to = ("--exporter", "otlp", "--otlp-exporter-endpoint", url, "--otlp-exporter-protocol", "http")
        at = ("--otlp-http-endpoint", http, "--otlp-grpc-endpoint", grpc, "--disable-batching")
        with (
            open(tmp_path / "log", "wb") as log,
            subprocess.Popen(
                [str(COLLECTOR), "start", *at, *to, "--otlp-exporter-compression", "gzip"],
                stdout=log, stderr=log, cwd=tmp_path, env={"HOME": str(tmp_path)},
            ) as collector,
        ):  # fmt: skip
            try:
                dice, sent = random.Random(20261123), list[ExportTraceServiceRequest]()
                for number in range(RUNS):
                    body = encode_document(make_otlp([read_run(make_lines(dice, dice.randrange(0, 80)))]))
                    post(f"http://{http}/v1/traces", body, patience=100 if number == 0 else 0)
                    sent.append(parse(body))
                for _ in range(100):
                    if len(got) == len(sent):
                        break
                    time.sleep(0.1)
            finally:
                collector.kill()  # told to end it waits for ten seconds
    forwarded = [ExportTraceServiceRequest.FromString(gzip.decompress(body)) for _, _, body in got]

    assert {path for path, _, _ in got} == {"/v1/traces"}
    assert list_spans(sent) == list_spans(forwarded) and len(forwarded) == RUNS


def post(url: str, body: bytes, patience: int) -> None:
    """Send a request, and again for a while where nobody listens yet."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 200
            return
        except urllib.error.URLError as error:
            if isinstance(error, urllib.error.HTTPError) or not patience:
                raise
            patience -= 1
            time.sleep(0.1)


def list_spans(requests: list[ExportTraceServiceRequest]) -> list[tuple[bytes, ...]]:
    """Return every span beside its resource's attributes, in one order."""
    told = ((one.resource, span) for request in requests for one in request.resource_spans
            for scope in one.scope_spans for span in scope.spans)  # fmt: skip
    return sorted(
        tuple(item.SerializeToString(deterministic=True) for item in (span, *resource.attributes))
        for resource, span in told
    )


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (503, b"busy with secret-1", "status 503 busy with"),
        (302, b"", "status 302"),
        (200, b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}', "2 spans were refused: too old"),
    ],
)
def test_what_was_not_taken_is_said(worked: str, cli: Cli, status: int, body: bytes, why: str) -> None:
    with receiver(status, body) as (url, got):
        env = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret-1"}
        ran = cli("invocations", "export", worked, "--format", "otlp", "--endpoint", f"{url}/in", "--json", env=env)

    assert ran.code == 1 and ran.error()["error_code"] == "DELIVERY_FAILED" and why in ran.error()["message"]
    assert "secret-1" not in ran.err and [path for path, _, _ in got] == ["/in"]


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--format", "perfetto", "--endpoint", "http://127.0.0.1:1"], "USAGE"),
        (["--endpoint", "http://127.0.0.1:1"], "USAGE"),
        (["-o", "a.tar", "--endpoint", "http://127.0.0.1:1"], "USAGE"),
        (["--format", "otlp", "-o", "a.json", "--endpoint", "http://127.0.0.1:1"], "USAGE"),
        (["--format", "otlp", "--endpoint", "http://collector.example.org"], "ENDPOINT_INVALID"),
        (["--format", "otlp", "--endpoint", "http://127.0.0.1:9"], "DELIVERY_FAILED"),
        (["--format", "agent-trace", "--proofs", "-o", "a.json"], "USAGE"),
    ],
)
def test_what_does_not_go_together_is_refused(worked: str, cli: Cli, argv: list[str], code: str) -> None:
    ran = cli("invocations", "export", worked, *argv, "--json")  # room: sync

    assert ran.code in (1, 2) and ran.error()["error_code"] == code
    assert "sync enable" not in ran.error()["suggestion"]


def test_a_run_whose_first_line_is_withheld_has_no_trace() -> None:
    with pytest.raises(InvocationError) as error:
        read_run([{"seq": 0, "withheld": "redaction", "~": "0" * 64}, {"seq": 1, "invocation_id": "01JD"}])

    assert error.value.code == "WITHHELD" and "01JD" in error.value.message
    assert "--safe" not in error.value.suggestion  # the archive it came in may have been one


def test_what_came_behind_the_close_does_not_make_a_run_longer(cli: Cli, project: Path, home: Path) -> None:
    """A hold of weeks later is told, and is no part of how long the run, or a call without an end, took."""
    run = record_run_held_later(cli, project, home)
    for form in ("otlp", "perfetto", "agent-trace"):
        assert cli("invocations", "export", run, "--format", form, "-o", f"run.{form}").code == 0
    (resource,) = json.loads((project / "run.otlp").read_text())["resourceSpans"]
    spans = resource["scopeSpans"][0]["spans"]
    slices = [one for one in json.loads((project / "run.perfetto").read_text())["traceEvents"] if one["ph"] == "X"]

    assert [int(one["endTimeUnixNano"]) - int(one["startTimeUnixNano"]) for one in spans] == [5_000_000_000] * 2
    assert [one["dur"] for one in slices] == [5_000_000] * 2
    assert "held" in str(spans[0]["events"])
    assert json.loads((project / "run.agent-trace").read_text())["timestamp"].startswith("2026-09-15T00:00:05")


def test_a_document_that_is_bytes_is_written_as_it_is() -> None:
    """So that a format that is no JSON, such as CSV, is a module and a row."""
    assert (encode_document(b"id,tool\r\n"), encode_document({"id": 1})) == (b"id,tool\r\n", b'{"id":1}\n')
