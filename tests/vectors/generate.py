"""Builds the vectors beside this file: one record with one damage each, and the findings verify must give.

`python tests/vectors/generate.py` writes them; a test builds them again and compares byte for byte. Vectors
that are there never change: a change of the format adds new ones.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

from specify_cli.record.record import chain, genesis_tip, recovered_line, tip_of
from specify_cli.record.seal import erase_members, open_line, seal_line

HERE = Path(__file__).parent
ID = "01JD4Q3S0000000000000000A1"
OTHER_ID = "01JD4Q3S0000000000000000B2"
NAME = f"implementer-{ID}.jsonl"
AT = "2024-11-20T09:00:{:02d}.000Z"
NONE = "0" * 64
EMPTY = hashlib.sha256(b"").hexdigest()


def bodies(*, closed: bool = True) -> list[dict[str, object]]:
    """The events of the sound record every damage starts from."""
    lines: list[dict[str, object]] = [
        {
            "event": "started",
            "started_at": AT.format(0),
            "profile_id": "implementer",
            "action": "implement",
            "request_text": "fix the l\u00f6gin test \U0001f511",
            "governance_context_hash": EMPTY,
            "governance_context_available": False,
            "actor": {"actor_id": "vector", "actor_type": "service"},
            "mode_of_work": "task_execution",
            "router_confidence": "canonical_verb",
            "match_reason": "fix",
            "trace_id": "0" * 32,
            "run_kind": "live",
            "verb": "do",
            "first_load": False,
            "snapshot": NONE,
            "execution_hash": NONE,
            "capture": {"prompt": "summary", "response": "summary", "tool_args": "summary", "tool_output": "summary"},
        },
        {
            "event": "policy_snapshot_ref",
            "at": AT.format(0),
            "bundle": None,
            "bundle_hash": None,
            "policy_hash": None,
            "reason": "start",
        },
        {"event": "artifact_link", "at": AT.format(5), "ref": "src/login.py", "digest": EMPTY},
    ]
    if closed:
        lines.append(
            {
                "event": "completed",
                "completed_at": AT.format(6),
                "outcome": "done",
                "closed_by": "agent",
                "evidence_ref": None,
            }
        )
    return lines


def sound(*, closed: bool = True) -> list[bytes]:
    """The sound record as lines that keep their LF."""
    return sealed(bodies(closed=closed))


def sealed(events: list[dict[str, object]]) -> list[bytes]:
    """These events as the lines of one record, each with its LF."""
    data, _ = chain(genesis_tip(), ID, events)
    return data.splitlines(keepends=True) if data.isascii() else [line + b"\n" for line in data.split(b"\n")[:-1]]


def _reseal(line: bytes, change: Callable[[dict[str, object]], None]) -> bytes:
    fields = open_line(line[:-1]).fields
    assert fields is not None
    change(fields)
    return seal_line(fields)


def _set(key: str, value: object) -> Callable[[dict[str, object]], None]:
    def change(fields: dict[str, object]) -> None:
        fields[key] = value

    return change


def _drop(key: str) -> Callable[[dict[str, object]], None]:
    def change(fields: dict[str, object]) -> None:
        del fields[key]

    return change


def _seal_by_hand(body: bytes) -> bytes:
    return b'%b,"~":"%b"}\n' % (body, hashlib.sha256(body).hexdigest().encode())


def _after(line: bytes, tip_line: bytes, seq: int) -> bytes:
    fields = open_line(line[:-1]).fields
    tip = tip_of(open_line(tip_line[:-1]))
    assert fields is not None and tip is not None
    return seal_line({**fields, "prev": tip.seal, "seq": seq})


def vectors() -> dict[str, tuple[str, list[bytes], list[tuple[str, int | None, int]]]]:
    """name → (file name, lines, [(code, seq, index of the line the finding is at)])."""
    out: dict[str, tuple[str, list[bytes], list[tuple[str, int | None, int]]]] = {}

    def add(name: str, lines: list[bytes], *expected: tuple[str, int | None, int], file: str = NAME) -> None:
        out[name] = (file, lines, list(expected))

    a, b, c, d = sound()
    add("sound-closed", [a, b, c, d])
    add("sound-open", sound(closed=False))
    add("empty", [], ("EMPTY_RECORD", None, 0))
    add("payload-byte-changed", [a.replace(b"fix the", b"fix teh"), b, c, d], ("HASH_MISMATCH", 0, 0))
    add("middle-byte-changed", [a, b, c.replace(b"login.py", b"logon.py"), d], ("HASH_MISMATCH", 2, 2))
    add("time-changed", [a, b, c, d.replace(b"09:00:06", b"09:00:07")], ("HASH_MISMATCH", 3, 3))
    add(
        "seal-changed",
        [a, b, c[:-4] + (b"0" if c[-4:-3] != b"0" else b"1") + c[-3:], d],
        ("HASH_MISMATCH", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    add("seal-upper-case", [a, b, c[:-67] + c[-67:-3].upper() + c[-3:], d], ("NON_CANONICAL", 2, 2))
    add("resealed-after-change", [a, b, _reseal(c, _set("ref", "other.py")), d], ("CHAIN_BREAK", 3, 3))
    add("first-line-resealed", [_reseal(a, _set("action", "review")), b, c, d], ("CHAIN_BREAK", 1, 1))
    add("line-removed", [a, b, d], ("SEQUENCE_GAP", 3, 2))
    add("head-removed", [b, c, d], ("MISSING_HEAD", 1, 0))
    add("line-repeated", [a, b, b, c, d], ("SEQUENCE_REPEAT", 1, 2))
    add("lines-swapped", [a, c, b, d], ("SEQUENCE_GAP", 2, 1), ("SEQUENCE_REPEAT", 1, 2), ("SEQUENCE_GAP", 3, 3))
    add("line-after-completed", [a, b, c, d, _after(c, d, 4)], ("LINE_AFTER_COMPLETED", 4, 4))
    add("completed-twice", [a, b, c, d, _after(d, d, 4)], ("LINE_AFTER_COMPLETED", 4, 4))
    add("garbage-line", [a, b, b"not json\n", c, d], ("UNREADABLE_LINE", None, 2))
    add("empty-line", [a, b, b"\n", c, d], ("UNREADABLE_LINE", None, 2))
    add("array-line", [a, b, b"[1,2]\n", c, d], ("UNREADABLE_LINE", None, 2))
    add("not-utf8", [a, b, c.replace(b"login", b"log\xffn"), d], ("UNREADABLE_LINE", None, 2), ("SEQUENCE_GAP", 3, 3))
    add("seal-stripped", [a, b, c[:-73] + b"}\n", d], ("UNSEALED_LINE", 2, 2), ("SEQUENCE_GAP", 3, 3))
    add("crlf", [line[:-1] + b"\r\n" for line in (a, b, c, d)], ("FOREIGN_LINE_ENDING", 0, 0))
    add("crlf-one-line", [a, b, c[:-1] + b"\r\n", d], ("FOREIGN_LINE_ENDING", 2, 2))
    add("torn-tail", [a, b, c, d[:40]], ("TORN_TAIL", 3, 3))
    add("torn-before-lf", [a, b, c, d[:-1]], ("TORN_TAIL", 3, 3))
    add("torn-one-byte", [a, b, c, d[:1]], ("TORN_TAIL", 3, 3))
    add(
        "spaces-sealed",
        [a, b, _seal_by_hand(c[:-73].replace(b'","', b'", "')), d],
        ("NON_CANONICAL", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    add(
        "keys-unordered",
        [a, b, _seal_by_hand(b'{"v":1,' + c[1:-73].replace(b',"v":1', b"")), d],
        ("NON_CANONICAL", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    add(
        "escaped-needlessly",
        [_seal_by_hand(a[:-73].replace("\u00f6".encode(), b"\\u00f6")), b, c, d],
        ("NON_CANONICAL", 0, 0),
        ("CHAIN_BREAK", 1, 1),
    )
    add(
        "float-sealed",
        [a, b, _seal_by_hand(c[:-73].replace(b'"seq":2', b'"score":0.5,"seq":2')), d],
        ("NON_CANONICAL", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    add(
        "huge-integer",
        [a, b, _seal_by_hand(c[:-73].replace(b'"seq":2', b'"score":9007199254740993,"seq":2')), d],
        ("NON_CANONICAL", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    add(
        "duplicate-key",
        [a, b, _seal_by_hand(c[:-73].replace(b'"ref":', b'"ref":"x","ref":')), d],
        ("DUPLICATE_KEY", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    add(
        "key-with-dash",
        [a, b, _seal_by_hand(c[:-73].replace(b'"ref":', b'"r-f":')), d],
        ("NON_CANONICAL", 2, 2),
        ("CHAIN_BREAK", 3, 3),
    )
    foreign = seal_line({**(open_line(c[:-1]).fields or {}), "invocation_id": OTHER_ID})
    add("line-of-another-record", [a, b, foreign], ("ID_MISMATCH", 2, 2))
    add("wrong-file-name", [a, b, c, d], ("NAME_MISMATCH", 0, 0), file=f"implementer-{OTHER_ID}.jsonl")
    add("wrong-profile-in-name", [a, b, c, d], ("NAME_MISMATCH", 0, 0), file=f"reviewer-{ID}.jsonl")
    add("version-mixed", [a, b, _reseal(c, _set("v", 2))], ("VERSION_MIXED", 2, 2))
    newer, _ = chain(genesis_tip(7), ID, bodies(closed=False)[:1])
    add("version-newer", [newer], ("UNSUPPORTED_VERSION", 0, 0))
    salted, _ = chain(genesis_tip(2), ID, bodies(), lambda size: bytes(range(size)))
    e, f, g, h = salted.splitlines(keepends=True)
    add("salted", [e, f, g, h])
    add("salt-missing", [e, f, _reseal(g, _drop("salt")), h], ("MISSING_FIELD", 2, 2), ("CHAIN_BREAK", 3, 3))
    add("salt-too-short", [e, f, g, _reseal(h, _set("salt", "00"))], ("MISSING_FIELD", 3, 3))
    spoken = open_line(g[:-1])
    assert spoken.fields is not None and spoken.seal is not None
    erased = erase_members(spoken.fields, spoken.seal, {"ref"}, "f" * 32)
    add("salt-erased", [e, f, erased, h], ("ERASURE_UNPROVEN", 2, 2))
    kept = erased.replace(b',"seq":2', b',"salt":"%b","seq":2' % (b"0" * 32))
    add("salt-kept-though-erased", [e, f, kept, h], ("HASH_MISMATCH", 2, 2))
    add("unknown-event", [a, b, _reseal(c, _set("event", "teleport"))], ("UNKNOWN_EVENT", 2, 2))
    add("time-missing", [a, b, _reseal(c, _drop("at"))], ("MISSING_FIELD", 2, 2))
    add("seq-missing", [a, b, _reseal(c, _drop("seq"))], ("MISSING_FIELD", None, 2))
    tip = tip_of(open_line(b[:-1]))
    assert tip is not None
    torn = c[:50]
    mended = recovered_line(ID, tip, torn, AT.format(9))
    add("recovered", [a, b, torn + b"\n", mended], ("RECOVERED", 2, 3))
    add("recovered-wrong-count", [a, b, c[:49] + b"\n", mended], ("UNREADABLE_LINE", None, 2))
    add("recovered-wrong-bytes", [a, b, b"#" * 50 + b"\n", mended], ("UNREADABLE_LINE", None, 2))
    cut = mended[:90]
    again = recovered_line(ID, tip, torn + b"\n" + cut, AT.format(10))
    add("recovered-twice", [a, b, torn + b"\n", cut + b"\n", again], ("RECOVERED", 2, 4))
    call = {"event": "tool_call", "at": AT.format(6), "call_id": "c1", "tool": "grep", "side_effect": "none"}
    keyed: dict[str, object] = {**call, "idempotency_key": "k1"}
    given = {"call_id": "c1", "status": "ok", "output_hash": EMPTY}
    result: dict[str, object] = {"event": "tool_result", "at": AT.format(7), **given}
    worked = sealed([*bodies(closed=False), keyed, result])
    add("run-events", worked)
    add("result-without-call", sealed([*bodies(closed=False), result]), ("RESULT_WITHOUT_CALL", 3, 3))
    contradicted = sealed([*bodies(closed=False), keyed, result, {**result, "status": "error"}])
    add("result-contradicted", contradicted, ("CONFLICTING_DUPLICATE", 5, 5))
    add(
        "result-of-another-tool",
        sealed([*bodies(closed=False), keyed, {**result, "tool": "rm"}]),
        ("PAIR_CONTRADICTED", 4, 4),
    )
    add_contradictions(add)
    add("call-changed", [*worked[:3], worked[3].replace(b"grep", b"grap"), worked[4]], ("HASH_MISMATCH", 3, 3))
    add("call-removed", [*worked[:3], worked[4]], ("SEQUENCE_GAP", 4, 3))
    late = sealed([*bodies(), keyed])
    add("run-event-after-completed", late, ("LINE_AFTER_COMPLETED", 4, 4))
    began, *rest = bodies()
    add("started-twice", sealed([began, dict(began), *rest]), ("SECOND_START", 1, 1))
    add("time-is-none", sealed([began, {**rest[0], "at": "yesterday"}, *rest[1:]]), ("INVALID_TIME", 1, 1))
    told = {"at": AT.format(9), "harness": "codex", "transcript": EMPTY}
    add("imported", sealed([{**began, "imported": told}, *rest]), ("TIMES_CLAIMED", 0, 0))
    older = [
        b'{"event": "started", "invocation_id": "%b", "profile_id": "implementer", "action": "implement", '
        b'"request_text": "x", "governance_context_hash": "0123456789abcdef", '
        b'"started_at": "2026-04-21T12:00:00+00:00"}\n' % ID.encode(),
        b'{"event": "glossary_checked", "invocation_id": "%b"}\n' % ID.encode(),
        b'{"event": "completed", "invocation_id": "%b", "outcome": "done"}\n' % ID.encode(),
    ]
    add("older-writer", older, ("UNSEALED_RECORD", None, 0), file=f"{ID}.jsonl")
    add(
        "older-writer-garbage",
        [older[0], b"{\n", older[2]],
        ("UNSEALED_RECORD", None, 0),
        ("UNREADABLE_LINE", None, 1),
        file=f"{ID}.jsonl",
    )
    return out


def add_contradictions(add: Callable[..., None]) -> None:
    """Add the records that are sealed right and contradict themselves."""

    def digest(text: str) -> str:
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def captured(text: str, stated: str) -> dict[str, object]:
        return {"text": {"head": text, "size": len(text.encode())}, "text_hash": digest(stated)}

    opening = bodies(closed=False)
    prompt: dict[str, object] = {"event": "prompt", "at": AT.format(6)}
    request: dict[str, object] = {
        "event": "retrieval_request",
        "at": AT.format(6),
        "request_id": "r1",
        "query": "l\u00f6gin",
        "query_hash": digest("l\u00f6gin"),
        "config": {},
        "corpus": NONE,
    }
    found: list[object] = []
    response: dict[str, object] = {
        "event": "retrieval_response",
        "at": AT.format(6),
        "request_id": "r1",
        "hits": found,
        "filters_applied": found,
        "result_hash": digest('{"filters_applied":[],"hits":[]}'),
    }
    last: dict[str, object] = {"event": "artifact_link", "at": AT.format(7), "ref": "src/x.py", "digest": EMPTY}
    wrong = ("DIGEST_CONTRADICTED", 3, 3)
    add("digest-right", sealed([*opening, {**prompt, **captured("fix it", "fix it")}, request, response]))
    add("digest-of-a-head", sealed([*opening, {**prompt, **captured("fix it", "leave it")}]), wrong)
    add("digest-of-a-text", sealed([*opening, {**prompt, "text": "fix it", "text_hash": digest("leave it")}]), wrong)
    kept = {"object": digest("fix it"), "size": 6, "media_type": "text/plain", "head": "fix it"}
    add("digest-of-an-object", sealed([*opening, {**prompt, "text": kept, "text_hash": digest("leave it")}]), wrong)
    add("digest-of-a-query", sealed([*opening, {**request, "query": "logout"}, response]), wrong)
    lines = [*opening, request, {**response, "hits": [{"uri": "x"}]}]
    add("digest-of-hits", sealed(lines), ("DIGEST_CONTRADICTED", 4, 4))
    patch: dict[str, object] = {
        "event": "patch_apply",
        "at": AT.format(6),
        "path": "a",
        "kind": "modify",
        "ok": True,
        "diff": "@@ -1 +1 @@\n-x\n+y\n",
        "diff_hash": digest("@@ -1 +1 @@\n-x\n+y\n"),
    }
    add("digest-of-lines", sealed([*opening, {**patch, "lines": f"-{digest('x')[:10]}+{digest('z')[:10]}"}]), wrong)
    add("request-unanswered", sealed([*opening, request, last]), ("PAIR_CONTRADICTED", 3, 3))
    add("answer-unasked", sealed([*opening, response, last]), ("PAIR_CONTRADICTED", 3, 3))
    answered = {**response, "request_id": "r2"}
    add("answer-to-another", sealed([*opening, request, answered]), ("PAIR_CONTRADICTED", 3, 3))


def documents() -> dict[str, bytes]:
    """Every file of this folder that is generated, by relative name."""
    files: dict[str, bytes] = {}
    for name, (file, lines, expected) in vectors().items():
        offsets = [0]
        for line in lines:
            offsets.append(offsets[-1] + len(line))
        findings = [{"code": code, "seq": seq, "offset": offsets[index]} for code, seq, index in expected]
        files[f"{name}.jsonl"] = b"".join(lines)
        value = {"file_name": file, "findings": findings}
        files[f"{name}.expected.json"] = (json.dumps(value, indent=2) + "\n").encode()
    return files


if __name__ == "__main__":
    for relative, data in documents().items():
        (HERE / relative).write_bytes(data)
    print(f"{len(documents()) // 2} vectors in {HERE}", file=sys.stderr)
