"""What a reader on GitHub gets of Markdown: the HTML that markdown-it makes, and what GitHub turns into links after it.

    reading = read_markdown("fix <b> for @ada")
    assert reading.references == ["@a"]

GitHub looks for names, issues, addresses and signs in each text between two tags or comments
(https://github.com/github/cmark-gfm/issues/181), but not in code.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from markdown_it import MarkdownIt

_REFERENCES = re.compile(
    r"(?<!\w)@\w|\w@\w|(?<!\w)[#!&~%$]\w|\bGH-\d|\w://|www\.\w|:[\w+-]+:", re.ASCII | re.IGNORECASE
)


class Reading(HTMLParser):
    """`tags` in their order, `text` as a reader sees and copies it, `rows` of tables as numbers of cells."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.rows: list[int] = []
        self._texts, self._codes, self._code = [""], set[int](), 0
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def references(self) -> list[str]:
        """Return what becomes a link, a message to somebody or a picture."""
        plain = (text for at, text in enumerate(self._texts) if at not in self._codes)
        return [found for text in plain for found in _REFERENCES.findall(text)]

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.append(tag)
        self._code += tag == "code"
        self.rows += [0] if tag == "tr" else []
        if tag in ("td", "th"):
            self.rows[-1] += 1
        self._texts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"
        self._texts.append("")

    def handle_comment(self, data: str) -> None:
        del data
        self._texts.append("")

    def handle_data(self, data: str) -> None:
        self._texts[-1] += data
        if self._code:
            self._codes.add(len(self._texts) - 1)


def read_markdown(text: str) -> Reading:
    """Return what a reader gets of a Markdown text that may hold HTML and tables."""
    return Reading(MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(text))


def spell_plainly(text: str) -> str:
    """Return Markdown of ours with the characters that it spells as entities and parts by empty comments."""
    return html.unescape(text.replace("<!---->", ""))
