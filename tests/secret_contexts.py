"""Contexts in which secrets really stand, in ten families, that the finders were not written against.

`secret_contexts.txt` holds them: a line `=== family | name | transforms`, then the text. In it `«$»` is the secret,
`«ENV»` a telling name in one of its spellings, and `«svc:$|b64|url»` a text with the secret in it after filters.
A context belongs to half A or half B by the digest of its name. Rules are written looking at misses in A only:

    python tests/secret_contexts.py [--misses] [--held-out]

prints the share that is masked in A by family, what is missed there, and on request the shares of B.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from secrets_measure import KINDS, SEED, Name, draw, is_masked

# What each filter does to a text: how a language, a file or a protocol writes it.
FILTERS: Mapping[str, Callable[[str], str]] = {
    "json": lambda t: json.dumps(t, ensure_ascii=False)[1:-1],
    "url": lambda t: quote(t, safe=""),
    "b64": lambda t: base64.b64encode(t.encode()).decode(),
    "xml": lambda t: escape(t, quote=True),
    "sq": lambda t: "'" + t.replace("'", "'\\''") + "'",
    "psq": lambda t: t.replace("'", "''"),
    "sqlq": lambda t: t.replace("'", "''"),
    "yq": lambda t: "'" + t.replace("'", "''") + "'",
    "csv": lambda t: _write_cell(t),
    "word": lambda t: re.sub(r"[^A-Za-z0-9_.-]", "", t),
}
# What each transform does to the whole context.
TRANSFORMS: Mapping[str, Callable[[str], str]] = {
    "json": lambda t: json.dumps({"data": t}, ensure_ascii=False),
    "url": lambda t: "payload=" + quote(t, safe=""),
    "repr": lambda t: f"body: {t!r}",
    "fold60": lambda t: "\n".join(t[at : at + 60] for at in range(0, len(t), 60)),
}
DRAWS = 6  # of kinds in each context
_JOINTS = re.compile(r"\x1b\[[0-9;]*m|\s+")


class Planted(NamedTuple):
    """A secret in a context: the text, and every way of writing the secret that must not be left in it."""

    family: str
    context: str
    half: str
    text: str
    written: tuple[str, ...]


def _write_cell(text: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([text])
    return out.getvalue()


def read_contexts() -> Iterator[tuple[str, str, list[str], str]]:
    """Yield family, name, transforms and text of each context."""
    source = (Path(__file__).parent / "secret_contexts.txt").read_text(encoding="utf-8")
    for block in re.split(r"^=== (?=\w+ \| )", source, flags=re.MULTILINE)[1:]:
        head, text = block.split("\n", 1)
        family, name, *transforms = head.split(" | ")
        yield family, name, (transforms[0].split() if transforms else []), text.removesuffix("\n")


def half_of(name: str) -> str:
    return "AB"[hashlib.sha256(f"contexts:{name}".encode()).digest()[0] % 2]


def plant(text: str, name: Name, secret: str) -> tuple[str, list[str]]:
    """Return a context with a secret in it, and what its filters made of the secret."""
    written = []
    spellings = {
        "ENV": name.env,
        "snake": name.snake,
        "camel": name.camel,
        "Pascal": name.camel[0].upper() + name.camel[1:],
        "kebab": name.kebab,
        "words": name.words,
        "Words": name.words.capitalize(),
        "esc": "\x1b",
    }

    def fill(match: re.Match[str]) -> str:
        inner, *filters = match[1].split("|")
        if "$" not in inner:
            return spellings[inner]
        value = secret
        if "word" in filters:
            value = FILTERS["word"](secret)
        filled = inner.replace("$", value)
        for one in filters:
            filled = FILTERS[one](filled)
            value = filled
        written.append(value)
        return filled

    return re.sub("«([^»]+)»", fill, text), written


def plant_all(seed: int = SEED) -> Iterator[Planted]:
    """Yield each context with a few kinds of secrets, drawn by the context's name."""
    kinds = [*KINDS["named"].values(), *KINDS["password"].values(), *KINDS["password"].values()]
    for family, name, transforms, template in read_contexts():
        rng = random.Random(f"{seed}:{family}:{name}")
        for env, form in rng.sample(kinds, DRAWS):
            text, written = plant(template, Name(env), draw(form, rng))
            for one in transforms:
                text = TRANSFORMS[one](text)
            yield Planted(family, name, half_of(name), text, tuple(dict.fromkeys(written)))


def is_left(planted: Planted, masked: str) -> bool:
    """Tell whether more than 60 % of a secret is left in one piece, also across line ends and colours."""
    joined = _JOINTS.sub("", masked)
    return any(not is_masked(one, masked) or not is_masked(one, joined) for one in planted.written)


class Shares(NamedTuple):
    """Masked and all by half and family, and what was missed in half A."""

    counts: dict[tuple[str, str], tuple[int, int]]
    misses: list[tuple[Planted, str]]

    def share(self, half: str) -> float:
        chosen = [value for (one, _), value in self.counts.items() if one == half]
        return sum(v[0] for v in chosen) / sum(v[1] for v in chosen)


def measure_contexts(redact: Callable[[str], str]) -> Shares:
    """Measure what a function masks of the secrets in all contexts."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    misses = []
    for planted in plant_all():
        masked = redact(planted.text)
        left = is_left(planted, masked)
        done, of = counts.get((planted.half, planted.family), (0, 0))
        counts[planted.half, planted.family] = (done + (not left), of + 1)
        if left and planted.half == "A":
            misses.append((planted, masked))
    return Shares(counts, misses)


def main() -> None:
    """Print the shares of half A, and on request what is missed there and the shares of half B."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    from specify_cli.redaction.redact import redact, shipped_rule_set

    rules = shipped_rule_set()
    shares = measure_contexts(lambda text: redact(text, rules).text)
    halves = "AB" if options.held_out else "A"
    for family in sorted({family for _, family in shares.counts}):
        cells = [(half, *shares.counts.get((half, family), (0, 0))) for half in halves]
        print(f"{family:10}", *(f"{half} {done:4} of {of:4}" for half, done, of in cells))
    print(*(f"{half} {100 * shares.share(half):.1f} %" for half in halves))
    if options.misses:
        missed = Counter((planted.family, planted.context) for planted, _ in shares.misses)
        for planted, masked in shares.misses:
            if count := missed.pop((planted.family, planted.context), 0):
                print(f"--- {planted.family} | {planted.context}: {count} of {DRAWS}\n{masked}")


if __name__ == "__main__":
    main()
