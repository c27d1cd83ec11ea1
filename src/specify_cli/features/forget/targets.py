"""Which members of a line a query means. [pure]

find_members(fields, Query(texts=("ada@example.org",)), frozenset())    # {"text", "text_hash"}
"""

from __future__ import annotations

import fnmatch
import json
import re
import unicodedata
from collections.abc import Iterator, Set
from functools import lru_cache
from itertools import islice, product
from typing import NamedTuple

from specify_cli.libraries.words.content_members import add_derived, list_permanent, list_said
from specify_cli.record.record import lines_in_force, split_lines
from specify_cli.record.seal import Fields, canonical

SHORTEST = 4
# So much of a text at the end where a capture was cut is taken for the text.
_PART = 8
# Of a name with many words that are not ASCII not every form is searched.
_MOST_FORMS = 256


class Query(NamedTuple):
    """What is to be forgotten: texts wherever they stand, what is about files, members of one
    record; with a subject what the records say whose keys hang on its key, and that key's file.
    With `folded` a text is found whatever the case of its ASCII letters."""

    texts: tuple[str, ...] = ()
    path: str | None = None
    invocation_id: str | None = None
    members: tuple[str, ...] = ()
    of_subject: frozenset[str] = frozenset()
    key: str | None = None
    folded: bool = False

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Return the forms in which the texts stand in files: plain, and as JSON in JSON."""
        return _spell_forms(self.texts, self.folded)


class Folded(tuple[bytes, ...]):
    """Needles in lower case, for data in any."""


@lru_cache(maxsize=8)
def _spell_forms(texts: tuple[str, ...], folded: bool) -> tuple[bytes, ...]:
    forms: dict[bytes, None] = {}
    # In a diff each line stands behind a sign.
    for text in (text.replace("\n", f"\n{mark}") for text in texts for mark in ("", *"+- ")):
        for level in range(3):
            for plain in (False, True):
                form = text
                for _ in range(level):
                    form = json.dumps(form, ensure_ascii=plain)[1:-1]
                forms[form.encode("utf-8", "surrogatepass")] = None
    return Folded(dict.fromkeys(map(bytes.lower, forms))) if folded else tuple(forms)


def spell_name(name: str) -> tuple[str, ...]:
    """Return a name, itself first, in the forms that texts give it: its words in small letters or
    in capitals, as far as `Folded` does not see to that, and accents as Unicode composes them or
    not."""
    whole = (name, name.lower(), name.upper(), name.title(), name.capitalize())
    words = (
        (word,) if word.isascii() else (word, word.lower(), word.upper(), word.capitalize())
        for word in name.split(" ")
    )
    forms = (*whole, *islice(map(" ".join, product(*words)), _MOST_FORMS))
    normal = (unicodedata.normalize(way, form) for form in forms for way in ("NFC", "NFD"))
    return tuple(dict.fromkeys((name, *normal)))


def holds_any(data: bytes, needles: tuple[bytes, ...]) -> bool:
    """Return whether bytes hold one of these."""
    data = data.lower() if isinstance(needles, Folded) else data
    return any(needle in data for needle in needles)


def find_members(
    fields: Fields, query: Query, objects: Set[str], calls: Set[str] = frozenset()
) -> set[str]:
    """Return the members of a line that the query means; `objects` are those that hold a text.

    `calls` are those of its record about the files of the query: such a call goes with its result,
    which may hold what is in the file, though it does not name it.
    """
    members = set()
    # Of most lines none holds a text, and each has some ten members.
    is_held = bool(query.texts) and holds_any(canonical(fields), query.needles)
    for name, value in fields.items():
        if (is_held and holds_any(canonical(value), query.needles)) or (
            isinstance(value, dict) and (value.get("object") in objects or _is_cut(value, query))
        ):
            members.add(name)
    if (
        (query.path is not None and is_about_file(fields, query.path))
        or str(fields.get("call_id")) in calls
        or fields.get("invocation_id") in query.of_subject
    ):
        members |= list_said(fields)
    if query.invocation_id is not None and query.invocation_id == fields.get("invocation_id"):
        members |= set(query.members) & fields.keys() if query.members else list_said(fields)
        # What the context was searched by says the request again.
        is_context = fields.get("request_id") == "context"
        if is_context and {"request_text", "request_object"}.intersection(query.members):
            members.add("query")
    return add_derived(fields, members)


def _is_cut(capture: Fields, query: Query) -> bool:
    """Return whether a capture was cut inside one of the texts, so that a part of it is left."""
    head, tail = capture.get("head"), capture.get("tail", "")
    if not isinstance(head, str) or not isinstance(tail, str) or not (tail or "object" in capture):
        return False
    forms = {form.decode("utf-8", "surrogatepass") for form in query.needles}
    head, tail = (head.lower(), tail.lower()) if query.folded else (head, tail)
    return any(
        head.endswith(form[:size]) or (tail and tail.startswith(form[-size:]))
        for form in forms
        for size in range(min(len(form) // 2, _PART), min(len(form), len(head) + 1))
    )


def pair_passed(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield every line in force without its LF, each behind the bytes that it passes over."""
    in_force, passed = {offset for offset, _ in lines_in_force(data)}, b""
    for offset, raw in split_lines(data):
        if offset in in_force:
            yield passed, raw
            passed = b""
        else:
            passed += raw + b"\n"


def list_governance(fields: Fields) -> set[str]:
    """Return the members of a line that name the rules and the context that were in force."""
    return set(_GOVERNANCE & fields.keys())


def list_erasable(fields: Fields) -> set[str]:
    """Return every member that a line can lose: what is left says that something happened."""
    return {*(fields.keys() - list_permanent(fields) - _SHAPE), *list_governance(fields)}


def is_about_file(fields: Fields, pattern: str) -> bool:
    """Return whether a line names a file of a pattern: one that it changed, or an argument."""
    paths = [fields.get(name) for name in ("path", "ref", "what")]
    if any(isinstance(path, str) and fnmatch.fnmatchcase(path, pattern) for path in paths):
        return True
    args = json.dumps(fields.get("args"), ensure_ascii=False).replace(r"\\n", " ")
    words = [
        word for part in _QUOTES.split(args) for word in (part, *part.split(), *_BREAKS.split(part))
    ]
    return fields.get("event") == "tool_call" and any(
        fnmatch.fnmatchcase(f"/{word}", f"*/{pattern}") for word in words
    )


# A name with blanks stands between quotes; others end where a shell or a program ends a word.
_QUOTES, _BREAKS = re.compile(r"""[ \\]*["'`][ \\]*"""), re.compile(r"[\s\\;|&<>()=,:]+")
_GOVERNANCE = frozenset(("governance_context_hash", "snapshot", "bundle", "corpus", "rule_source"))
# What a record that is erased whole still says: that it was, and how it ended.
_SHAPE = frozenset(("action", "verb", "run_kind", "tombstone", "outcome", "closed_by"))
