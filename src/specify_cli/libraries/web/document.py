"""The file of a page: the lines and what stands next to them, with the script that checks them.

A reader's browser believes nothing in it before the script has checked it; `page.py` says of which
record it is made.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from doctrine.light_imports import hash_text
from specify_cli.cli.terminal.output import plain
from specify_cli.libraries.story.telling import tell_story
from specify_cli.record.reading.views import number_lines

_HERE = Path(__file__).parent
_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
# What is carried stands in text areas, in which no changed byte can become a tag that takes along
# what follows. A browser reads a large one in square time, so a long text goes on in others.
_PIECE = 128 * 1024
_GOES_ON = '</textarea><textarea hidden="">'
_SHELL = (
    '<html lang="en"><head><meta charset="utf-8">'
    f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    "<title>A record of an agent's work</title><style>{css}</style></head><body>"
    '<p id="verdict" role="status">✗ Not checked: a script of this page checks it, and it has '
    "not run.</p>"
    '<main id="page"></main><textarea id="lines" hidden="">{lines}</textarea>'
    '<textarea id="annexes" hidden="">{annexes}</textarea>'
    '<textarea id="objects" hidden="">{objects}</textarea><textarea id="proofs" '
    'hidden="">{proofs}</textarea>'
    '<textarea id="story" hidden="">{story}</textarea>'
    '<textarea id="said" hidden="">{said}</textarea><script>{js}</script></body></html>'
)


def read_policy() -> str:
    """Return the policy that every page states in its head."""
    script, style = _policy_digest(read_script()[0]), _policy_digest(_read("page.css"))
    return _POLICY.format(script=script, style=style)


def make_page(
    lines: Iterable[str],
    annexes: Iterable[str],
    objects: Iterable[str | bytes],
    proofs: Iterable[Mapping[str, object]],
    facts: Mapping[str, object],
) -> bytes:
    """Return the file: lines and annexes as the record has them, everything next to them with its
    digest; objects are texts, or bytes of images. A `story` among the facts is displayed; else it
    is made of the lines."""
    lines, annexes, facts = list(lines), list(annexes), dict(facts)
    story = facts.pop("story", None) or tell_story(number_lines(_parse(lines), _parse(annexes)))
    css, (script, _) = _read("page.css"), read_script()
    content = {
        "lines": "\n".join(lines),
        "annexes": "\n".join(annexes),
        "objects": _seal_block(map(_write_object, objects)),
        "proofs": _seal_block(map(json.dumps, proofs)),
        "story": _seal_block([json.dumps(plain(story))]),
        "said": _seal_block([json.dumps(facts)]),
    }
    written = {name: _GOES_ON.join(_cut_pieces(text)) for name, text in content.items()}
    page = _SHELL.format(
        script=_policy_digest(script), style=_policy_digest(css), css=css, js=script, **written
    )
    # HTML needs no last end tags, and a byte changed in them would change nothing.
    return f"<!DOCTYPE html>{page.removesuffix('</body></html>')}".encode()


def _write_object(data: str | bytes) -> str:
    """Return an object as a line of its block: a text, or the bytes of an image."""
    if isinstance(data, str):
        return json.dumps(data)
    return json.dumps({"base64": base64.b64encode(data).decode("ascii")})


def _cut_pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces, escaped; none but the first begins with a line end, which HTML drops
    there."""
    begin = 0
    while begin < len(text) or not begin:
        end = begin + _PIECE
        while text[end : end + 1] == "\n":
            end += 1
        yield html.escape(text[begin:end], quote=False)
        begin = end


def _parse(lines: Iterable[str]) -> list[Mapping[str, object]]:
    """Return the lines that are JSON objects; the page names any other."""
    values: list[Mapping[str, object]] = []
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        values += [value] if isinstance(value, dict) else []
    return values


@cache
def read_script() -> tuple[str, str]:
    """Return the script with the digest of the shell it belongs into, and its own digest."""
    css = _read("page.css")
    empty = dict.fromkeys(
        ("lines", "annexes", "objects", "proofs", "story", "said", "js", "script"), ""
    )
    shell = _SHELL.format(style=_policy_digest(css), css=css, **empty)
    script = _read("page.js").replace("@SHELL@", hash_text(shell))
    return script, hash_text(script)


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _policy_digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _seal_block(lines: Iterable[str]) -> str:
    body = "\n".join(lines)
    return f"{body}\n{hash_text(body)}"
