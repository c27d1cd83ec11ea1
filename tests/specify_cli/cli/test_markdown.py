"""Recorded text in Markdown: a reader sees it as it is, and it links, loads and tells nobody anything."""

from __future__ import annotations

from rendering_markdown import read_markdown
from specify_cli.cli.terminal.output import escape_markdown

HOSTILE = (
    "ask @octocat, @org/team and @a-b-c",
    "fixes #123, org/repo#4 and GH-5, gh-6",
    "mail ada@example.org",
    "https://e.vil/x?a=b#c http://e.vil ftp://e.vil",
    "www.e.vil WWW.e.vil",
    ":shipit: :+1: a:b:c",
    "$x$ and $$y$$ and $5",
    "!12 ~bug %milestone &34 $snippet",
    "| a | b |",
    "`code` ``x`` ```",
    "<img src=x> <b> </details> <!-- x --> <http://e.vil>",
    "[x](http://e.vil) ![i](http://e.vil/i.png) [^1] [r][r]",
    "**b** _e_ ~~s~~ __u__",
    "&lt;b&gt; &#64;ada &amp;#64;ada &commat;ada",
    "a\\@ada \\#12 \\<b> \\|",
    "src/@types/node_modules/@scope/x.ts",
    "x@<!---->y",
    "100% of #1",
)


def test_recorded_text_is_seen_as_it_is_and_means_nothing() -> None:
    for text in HOSTILE:
        escaped = escape_markdown(text)
        listed = read_markdown(f"- it: {escaped}\n")
        told = read_markdown(f"| a | b |\n|---|---|\n| it: {escaped}<br>{escaped} | b |\n")

        assert (listed.references, listed.tags) == ([], ["ul", "li"]), text
        assert listed.text.strip() == f"it: {text}"
        assert told.references == [] and told.rows == [2, 2] and f"it: {text}{text}" in told.text, text
        assert set(told.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "br"}, text
