"""Name each word of these pages that neither a dictionary nor the list of our terms has.

    .venv-docs/bin/python docs/site/spelling.py build/site-source README.md

The dictionary is Hunspell's en_US, which the package spylls ships. What is code, a link's address or has a capital
inside is no prose. `terms.txt` beside this file has a word a line: names, words of the field, and British spellings; a
word of it that stands on none of the pages is named as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

TERMS = Path(__file__).with_name("terms.txt")
_NO_PROSE = re.compile(
    r"^(`{3,}|~{3,}).*?^\1|<!--.*?-->|`+[^`]+`+|\]\([^)\s]*\)|\b\w+://\S+|</?[a-z][^>]*>|^\[\w+\]:.*?$", re.S | re.M
)
# Not a part of a path, a file's name, an address or an id.
_WORD = re.compile(r"(?<![\w./@#&:-])[A-Za-z]+(?:['’][a-z]+)?(?![\w@/]|\.\w|:\w|-\w*\d)")


def list_words(text: str) -> Iterator[tuple[int, str]]:
    """Yield each word of a page's prose with its line; one with a capital inside is a name."""
    prose = _NO_PROSE.sub(lambda found: re.sub(r"[^\n]+", " ", found[0]), text)
    for number, line in enumerate(prose.split("\n"), 1):
        for found in _WORD.finditer(line):
            word = found[0].replace("’", "'")
            if len(word) > 1 and not re.search("[A-Z]", word[1:]):
                yield number, word


def find_misspelt(pages: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each unknown word, and for each of our terms that is on no page."""
    from spylls.hunspell import Dictionary  # type: ignore[import-not-found]

    dictionary = Dictionary.from_files("en_US")
    terms = TERMS.read_text(encoding="utf-8").split()
    known, unused = dict.fromkeys(terms, True), set(terms)
    for page in pages:
        for number, word in list_words(page.read_text(encoding="utf-8")):
            plain = word.removesuffix("'s")
            unused -= {word, plain, plain.lower(), plain.removesuffix("s"), plain.lower().removesuffix("s")}
            if word not in known:
                known[word] = plain in known or plain.lower() in known or dictionary.lookup(word)
            if not known[word]:
                yield f"{page}:{number}: {word} is in no dictionary; correct it, or add it to {TERMS}"
    yield from (f"{TERMS}: {word} stands on no page" for word in sorted(unused))


def main(places: list[str]) -> int:
    """Look at files, and at all pages of folders; print what is found, and return 1 where something is."""
    pages = [sorted(place.rglob("*.md")) if place.is_dir() else [place] for place in map(Path, places)]
    found = list(find_misspelt(page for group in pages for page in group))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
