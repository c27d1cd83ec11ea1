"""What one call or event of a record is called in plain English.  [pure]

    name_call(entry, commands, root)   # Act("read", "src/login.py", …)

The arguments of a call are JSON that the line may hold in part. So their members are found by
patterns first (`_VALUES`), and the text is parsed only where no known member is in it.
"""

from __future__ import annotations

import json
import re

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import count, say
from specify_cli.record.reading.checks import FAILED, count_failed, judge_check
from specify_cli.record.reading.deeds import NAMELESS, name_deed, name_patched
from specify_cli.record.reading.timeline import Entry
from specify_cli.record.seal import Fields, erased_members

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# How a deed ended badly.
BAD = ("failed", "denied")
_LONGEST = 200
# Endings of members that are computed from another member, and erased with it.
_DERIVED = ("_hash", "_size", "idempotency_key")


def _compile_member(names: str) -> re.Pattern[str]:
    """Return a pattern of a text that is a member of JSON with one of these names, which the JSON
    may hold anywhere and cut."""
    return re.compile(rf'"(?:{names.replace(" ", "|")})":\s*"((?:[^"\\]|\\.)*)')


_VALUES = _compile_member(
    "absolute_path file_path filePath path target_file notebook_path command cmd pattern query url "
    "description subagent_type prompt"
)
# The query of a search, and its folder. The members of a call are sorted, so the folder comes
# first.
_SOUGHT, _PLACE = _compile_member("pattern query"), _compile_member("dir_path path")
# For a fetch its address and not its prompt; for a subagent what it was asked.
_NAMED = {
    "fetch": _compile_member("query url"),
    "ask": _compile_member("description prompt message"),
}
# The steps of a plan, as six programs call them, and the sign of one that is done.
_STEP = _compile_member("content step description")
_STEP_DONE = re.compile(r'"status":\s*"completed"')
_PRINTED = _compile_member("stdout output content text llmContent text_result_for_llm")
_PRINTED_KEYS = (
    "stdout",
    "stderr",
    "output",
    "content",
    "text",
    "llmContent",
    "text_result_for_llm",
)
# Text that Gemini CLI, Qwen Code and Copilot add themselves: lines after an output, and a head
# before it.
_WRAPPED = re.compile(
    r"</?\w+>|\(empty\)|(?:Error|Exit Code|Signal|Process Group PGID): \(none\)|Background PIDs: .*"
    r"|(?:Exit Code|Process Group PGID): \d+|<shellId: \d+ completed with exit code \d+>"
)
_BEFORE_OUTPUT = re.compile(
    r"\A(?:<untrusted_context>\n)?(?:Command: .*?\nDirectory: .*?\n)?Output: ", re.DOTALL
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_HOME = re.compile(r"(?<![\w.])/(?:home|Users)/[^/\s\"']+(?=/)")


class Act(NamedTuple):
    """One deed: what was done to what, how it ended, and the lines of the record that tell it.

    `outcome` is ok, failed, denied, open or unknown. `result` says in a few words what came of it.
    `limits` say what of it is masked, cut, withheld or not kept. `added` and `removed` count lines.
    """

    deed: str
    what: str
    outcome: str
    result: str
    at: str | None
    duration_ms: int | None
    added: int | None
    removed: int | None
    limits: tuple[str, ...]
    seqs: tuple[int, ...]


def shorten_paths(text: str, root: str) -> str:
    """Return a text whose paths of this project begin at its top, and those of a home at `~`.

    `root` may be empty. A `cd` to the root before a command goes too.

    Paths of the machine that a record was made on say nothing to its reader, and a home names a
    person.
    """
    if root:
        text = text.replace(f"cd {root} && ", "").replace(f"{root}/", "")
        text = re.sub(rf"{re.escape(root)}(?=\.(\W|$))", "./", text)  # the end of a sentence
        text = re.sub(rf"{re.escape(root)}(?![\w.-])", ".", text)
    return _HOME.sub("~", text)


def find_root(lines: Iterable[Fields], root: str) -> str:
    """Return the project's folder at the time of the record; `root` if the record does not show it.

    A call names its file by an absolute path, and the patch it made by a path below the project:
    the project's folder is the part before that.

    `lines` are the fields of a record, `root` is the folder to fall back on.
    """
    calls = {}
    for line in lines:
        if line.get("event") == "tool_call":
            value = _find_value(_read_head(line.get("args")))
            if value.startswith("/"):
                calls[say(line.get("call_id"))] = value
        elif line.get("event") == "patch_apply":
            path, whole = say(line.get("path")), calls.get(say(line.get("call_id")), "")
            if whole.endswith(f"/{path}"):
                return whole[: -len(path) - 1]
    return root


def name_call(entry: Entry, commands: Sequence[str], root: str) -> Act:
    """Return a call of a tool as a deed.

    `commands` are the charter's test commands; a command that runs tests is the deed `test`.

    `root` is the project's folder, by which paths are shortened. A failed test run states how many
    tests failed, and any other failure the last line that the tool printed.
    """
    deed = name_deed(entry.name)
    shows = judge_check(entry, commands) if deed in ("run", "use") else None
    deed = "test" if shows is not None else deed
    head = _read_head(entry.fields.get("args"))
    what = _find_value(head) if head.startswith("{") else head
    if deed == "use":
        name = entry.name.removeprefix("mcp__").replace("__", ": ")
        what = f"{name} {what}".strip()
    if deed == "edit":
        what = name_patched(what) or what
    if deed == "search":
        what = _name_search(head, root) or what
    elif deed in _NAMED and (match := _NAMED[deed].search(head)):
        what = _unescape(match[1])
    elif deed == "wait":
        what = "a subagent" if "agent" in entry.name.lower() else "a command"
    elif deed == "plan":
        what = _name_plan(head) or what
    output = read_printed(entry.end_fields.get("output"))
    outcome = read_outcome(entry)
    if shows is not None:
        failed = count_failed(output) if shows == FAILED else 0
        result = f"{failed:,} failed" if failed else shows
        outcome = "failed" if shows == FAILED else outcome
    elif outcome == "unknown" and "inferred" in entry.end_fields:
        result = "its end was not told"
    else:
        back = "given back, not made" if "source" in entry.end_fields else ""
        result = name_failure(output, outcome, root) or back
    named = shorten_paths(what, root) or (NAMELESS if deed in ("read", "edit") else entry.name)
    return make_act(entry, deed, named, outcome, result)


def make_act(entry: Entry, deed: str, what: str, outcome: str, result: str) -> Act:
    """Return an entry as an act, with its limits.

    `what` and `result` are cut after 200 characters.

    `deed` is one of `naming.VERBS`, or `note`; `outcome` one of ok, failed, denied, open, unknown.
    """
    fields, end = entry.fields, entry.end_fields
    added, removed = _count_lines(fields) if entry.kind == "patch_apply" else (None, None)
    limits = dict.fromkeys([*list_limits(fields), *list_limits(end)])
    seqs = (entry.seq,) if entry.end_seq == entry.seq else (entry.seq, entry.end_seq)
    took = entry.duration_ms
    return Act(
        deed, cut(what, _LONGEST), outcome, cut(result, _LONGEST), entry.at, took, added, removed,
        tuple(limits), seqs,
    )  # fmt: skip


def read_outcome(entry: Entry) -> str:
    """Return how an entry ended: ok, failed, denied, open or unknown."""
    status = (entry.status or "ok").partition(" (")[0]
    if status in ("denied", "deny"):
        return "denied"
    if entry.bad:
        return "failed"
    return status if status in ("open", "unknown") else "ok"


def list_limits(fields: Fields) -> list[str]:
    """Return the limits of a line as texts for people: which parts are masked, cut, not kept,
    withheld or erased, and which other session wrote it.

    A whole line of the record's own session has none.

    `fields` are those of one line. The order is fixed: withheld, erased, writer, masked, cut.
    """
    limits = []
    if "withheld" in fields:
        limits.append(f"withheld: {say(fields['withheld'])}")
    if "erased" in fields:
        names = [name for name in erased_members(fields) if not name.endswith(_DERIVED)]
        limits.append(f"erased: {', '.join(map(say, names)) or 'some of it'}")
    by = fields.get("by")
    if isinstance(by, dict):
        limits.append(f"written by {cut(say(by.get('session_id') or by.get('actor_id')), 40)}")
    masked = fields.get("redactions")
    if isinstance(masked, dict) and masked:
        number = sum(item for item in masked.values() if type(item) is int)
        limits.append(f"{count(number, 'value')} masked ({', '.join(sorted(map(say, masked)))})")
    for name in ("text", "args", "output", "diff", "prompt", "response"):
        value = fields.get(name)
        if isinstance(value, dict):
            text = say(value.get("head", "")) + say(value.get("tail", ""))
            size_here = len(text.encode("utf-8", "replace"))
            size = value.get("size")
            if type(size) is int and "tail" in value and size_here < size:
                limits.append(f"{_NAMES[name]} cut: {size_here:,} of {size:,} bytes")
        elif value is None and f"{name}_hash" in fields and fields.get("event") != "approval":
            limits.append(f"{_NAMES[name]} not kept, its digest alone")
    return limits


_NAMES = {
    "text": "text", "args": "call", "output": "output", "diff": "diff", "prompt": "prompt",
    "response": "answer",
}  # fmt: skip


def read_text(value: object) -> str:
    """Return a captured text as far as its line holds it, with a sign where it was cut.

    It is empty where the mode kept none.
    """
    if not isinstance(value, dict):
        return "" if value is None else say(value)
    head, tail = say(value.get("head", "")), value.get("tail")
    return f"{head}\n[…]\n{tail}" if isinstance(tail, str) and tail else head


def read_printed(value: object) -> str:
    """Return what a tool printed. Programs wrap it in JSON of their own, which may be cut.

    A text without a known member is returned as it is.
    """
    text = _unquote(value) if isinstance(value, str) else read_text(value)
    if not text.startswith(("{", "[")):
        return text
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        members = parsed["file"] if isinstance(parsed.get("file"), dict) else parsed
        parts = [_join_texts(members.get(name)) for name in _PRINTED_KEYS]
        if any(part is not None for part in parts):
            return "\n".join(filter(None, parts))
    joined = _join_texts(parsed)
    if joined is not None:
        return joined
    match = _PRINTED.search(text)
    return _unescape(match[1]) if match else text


def _join_texts(value: object) -> str | None:
    """Return a text, or the texts that a list of parts holds; None where it is neither."""
    if isinstance(value, list):
        texts = [part["text"] for part in value if isinstance(part, dict) and "text" in part]
        return "\n".join(map(say, texts)) if texts else None
    return value if isinstance(value, str) else None


def describe_work(mission: object, packages: object) -> str:
    """Return the work package and mission of a request, as `WP03 of 042-login`; "" for none."""
    package_ids = say(packages or "").replace(",", ", ")
    return " of ".join(filter(None, (package_ids, say(mission or ""))))


def cut(text: str, size: int) -> str:
    """Return a text of at most `size` characters; if it is cut, its last one is an ellipsis."""
    return text if len(text) <= size else f"{text[: size - 1]}…"


def _count_lines(fields: Fields) -> tuple[int | None, int | None]:
    """Return how many lines came and went, where the record tells it."""
    marks = fields.get("lines")
    if isinstance(marks, str):
        return marks.count("+"), marks.count("-")
    return None, None


def _read_head(args: object) -> str:
    """Return the beginning of a call's arguments, as far as the line holds it."""
    return say(args.get("head", "")) if isinstance(args, dict) else _unquote(say(args or ""))


def _unquote(text: str) -> str:
    """Return the string that a text is the JSON of; any other text as it is."""
    try:
        return say(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text


def _find_value(head: str) -> str:
    """Return the one argument that says what a call is about; without a known one the first
    three."""
    match = _VALUES.search(head)
    if match:
        return _unescape(match[1])
    try:
        arguments = json.loads(head)
    except (ValueError, RecursionError):
        return head
    values = list(arguments.values())[:3] if isinstance(arguments, dict) else []
    values = values[0] if values and isinstance(values[0], list) else values
    return " ".join(map(say, values)) or head


def _name_search(head: str, root: str) -> str:
    """Return the query of a search, and its folder below the root; "" if the call states no
    query."""
    query, place = _SOUGHT.search(head), _PLACE.search(head)
    folder = shorten_paths(_unescape(place[1]), root) if place else "."
    if not query or folder in (".", "./", ""):
        return _unescape(query[1]) if query else ""
    return f"{_unescape(query[1])} in {folder}"


def _name_plan(head: str) -> str:
    """Return the steps of a plan, and how many of them are done; "" for a plan without steps."""
    steps = [_unescape(step) for step in _STEP.findall(head)]
    number_done = len(_STEP_DONE.findall(head))
    whole = head.endswith("}")  # of a call that was cut not all are known
    return "; ".join(steps) + (f" ({number_done} of {len(steps)} done)" if steps and whole else "")


def _unescape(text: str) -> str:
    """Return a JSON string without its escapes; a text that was cut inside an escape as it is."""
    try:
        return say(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def name_failure(output: str, outcome: str, root: str) -> str:
    """Return the last line of the output of an act that failed or was denied; "" for any other.

    `output` is what the tool printed, `outcome` that of the act, and `root` the project's folder,
    by which paths are shortened. Lines that a program put around the output are passed over.
    """
    output = _BEFORE_OUTPUT.sub("", _COLOURS.sub("", output))
    lines = map(str.strip, reversed(output.splitlines()))
    last = next((line for line in lines if line and not _WRAPPED.fullmatch(line)), "")
    return shorten_paths(last, root) if outcome in BAD else ""
