"""What of a line is searched, and what a person's query means.  [pure]

text_of(fields)                    # every word a person could look for
marks_of(fields)                   # ("path", "src/login.py"), ("tool", "Bash"), …
match_query('token "login test"')  # an FTS5 query that can only be a query
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from unicodedata import normalize

from doctrine.text import EAST_ASIAN, make_encodable, say
from specify_cli.record.seal import Fields, erased_members

# Members nobody looks for: order, links between lines, and what another column of the index holds.
_UNSEARCHED = frozenset(
    (
        "v",
        "salt",
        "seq",
        "event",
        "prev",
        "~",
        "invocation_id",
        "at",
        "started_at",
        "completed_at",
        "after",
        "after_of",
    )
) | {
    "trace_id",
    "dedupe",
    "idempotency_key",
    "call_id",
    "request_id",
    "snapshot",
    "hits",
    "filters_applied",
    "lines",
}
# Of the opening only what was asked and by whom: the rest is the same in every record.
_OF_A_START = ("request_text", "profile_id", "actor", "session", "parent_invocation_id")
_NOISE = re.compile(r"\b[0-9a-f]{16,64}\b|\b0[0-9A-HJKMNP-TV-Z]{25}\b")
_PATHS = re.compile(
    r'"(?:file_path|path|filePath|notebook_path|absolute_path|filename)":\s*"((?:[^"\\]|\\.)*)"'
)
_MARKS = {
    "path": "path",
    "ref": "path",
    "tool": "tool",
    "rule_ref": "rule",
    "rule_id": "rule",
    "parent_invocation_id": "parent",
}
_QUERY = re.compile(r'"([^"]*)"?|(\S+)')
# Of a snippet, in signs.
_WIDTH = 100
_WORDS = re.compile(r"\w+")
_SIGNS = re.compile(EAST_ASIAN)
_PILES = re.compile(r"([^\w\s]{64,})")


def text_of(fields: Fields) -> str:
    """Return the words of a line: every text in it but digests, ids and times."""
    return _NOISE.sub("", "\n".join(_find_texts(fields)))


def _find_texts(fields: Fields) -> Iterator[str]:
    event = fields.get("event")
    if event == "policy_snapshot_ref" or (
        event == "retrieval_request" and fields.get("request_id") == "context"
    ):
        return
    # `after` is the links of most lines, and the text of a file in one of a patch.
    passed = _UNSEARCHED - {"after"} if event == "patch_apply" else _UNSEARCHED
    searched = _OF_A_START if event == "started" else [key for key in fields if key not in passed]
    waiting = [fields[key] for key in searched if key in fields]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def marks_of(fields: Fields) -> Iterator[tuple[str, str]]:
    """Yield what a filter can ask for: paths, tools, commits and rules; which of the rules stood in
    front of the agent, not offered by their titles alone (`front`); the record that one hangs on
    (`parent`); and of which events values were erased, or stand whole in an object alone
    (`cut`)."""
    for key, kind in _MARKS.items():
        value = fields.get(key)
        if isinstance(value, str):
            yield kind, value
    if "args" in fields:
        args = fields["args"]
        head = args.get("head") if isinstance(args, dict) else args
        if isinstance(head, str):
            for match in _PATHS.finditer(head):
                yield "path", _unescape(match[1])
    if "hits" in fields and isinstance(fields["hits"], list):
        for hit in fields["hits"]:
            if isinstance(hit, dict) and isinstance(hit.get("uri"), str):
                yield "rule", hit["uri"]
                if hit.get("shown") != "line":
                    yield "front", hit["uri"]
    if fields.get("event") == "commit_link" and isinstance(fields.get("sha"), str):
        yield "commit", say(fields["sha"])
    if erased_members(fields):
        yield "erased", say(fields.get("event"))
    if any(isinstance(value, dict) and "object" in value for value in fields.values()):
        yield "cut", say(fields.get("event"))


def _unescape(text: str) -> str:
    """Return what JSON spells between two quotes; what is no JSON as it is."""
    try:
        return make_encodable(say(json.loads(f'"{text}"')))
    except ValueError:
        return text


def part_signs(text: str) -> str:
    """Return a text as it is indexed: letters composed, and signs of languages without blanks by
    themselves, so that any two of them are found together."""
    return text if text.isascii() else _SIGNS.sub(r" \g<0> ", _compose(text))


def _compose(text: str) -> str:
    """Return a text with its letters composed, but where marks are piled up: to order many at one
    place takes the square of their number."""
    parts = _PILES.split(text)
    parts[::2] = (normalize("NFC", part) for part in parts[::2])
    return "".join(parts)


def match_query(text: str) -> str | None:
    """Return a query as FTS5 takes it; None where it holds no word.

    Words must all occur in one line; `"…"` is a phrase, and a word that ends in `*` a beginning.
    Every word is quoted, so nothing a person types is an operator.
    """
    parts = []
    for words, begins in _read_query(text):
        parts.append(f'"{part_signs(" ".join(words))}"' + "*" * begins)
    return " ".join(parts) or None


def _read_query(text: str) -> Iterator[tuple[list[str], bool]]:
    """Yield the words of each part of a query, and whether its last one is only the beginning of
    one."""
    for phrase, word in _QUERY.findall(_compose(text)):
        words = _WORDS.findall(phrase or word)
        if words:
            yield words, word.endswith("*")


def cut_snippet(fields: Fields, text: str) -> str:
    """Return the part of a line in which the words of a query stand."""
    one_line_text = _compose(" ".join(text_of(fields).split()))
    words = [word for part, _ in _read_query(text) for word in part]
    low = one_line_text.lower()
    places = [place for word in words if (place := low.find(word.lower())) >= 0]
    start = max(0, min(places, default=0) - _WIDTH // 4)
    return (
        ("…" if start else "")
        + one_line_text[start : start + _WIDTH]
        + ("…" if len(one_line_text) > start + _WIDTH else "")
    )
