"""Read back what a line holds of a captured value, where it holds all of it.  [pure]

    text, why = read_captured_text(fields, "output", objects.get)
    print(text if text is not None else why)

It is the reverse of `capture.apply_mode` (docs/format.md §4). A replay, an export and a search ask
here, so that "not whole" has the same reasons everywhere. What was masked stays masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from doctrine.light_imports import hash_text
from doctrine.text import say
from specify_cli.errors import InvocationError
from specify_cli.redaction.json_values import foreign_text
from specify_cli.redaction.redact import NO_RULES


def read_captured_text(
    fields: Mapping[str, object], name: str, get: Callable[[str], bytes]
) -> tuple[str | None, str]:
    """Return the whole text a line holds under a captured name, or None and why it is not whole.

    `get` returns an object's bytes by its digest; an error of its becomes the reason. The text is
    the redacted one, of JSON its canonical form. A summary is whole if its head hashes to the
    recorded digest. The reason is a part of a sentence, and empty where there is a text.

    `fields` are those of one line, and `name` is the captured member, such as `output`.
    """
    captured, recorded = fields.get(name), fields.get(f"{name}_hash")
    if isinstance(captured, str):
        return captured, ""
    if not isinstance(captured, Mapping):
        if recorded is not None or f"{name}_size" in fields:
            return None, "captured as hash, so only its digest and size are kept"
        return None, "nothing of it is kept"
    if captured.get("truncated"):
        return None, f"of {say(captured.get('size'))} bytes {say(captured.get('kept'))} are kept"
    if isinstance(captured.get("object"), str):
        try:
            return get(str(captured["object"])).decode(), ""
        except (InvocationError, UnicodeDecodeError) as error:
            return None, str(error)
    head = captured.get("head")
    if isinstance(head, str) and "object" not in captured and "tail" not in captured:
        # A summary that holds everything: of a text the text itself, of other JSON its canonical
        # form.
        for whole in (head, foreign_text(head, NO_RULES).text):
            if hash_text(whole) == recorded:
                return whole, ""
    return None, f"captured as summary, so a part of its {say(captured.get('size'))} bytes is kept"
