"""What of a line is searched, and what a person's query means.

    from specify_cli.libraries.words.words import match_query
    match_query("login -test")

Reading order: `words.py` (the text and the marks of a line: file, tool, commit, rule; the query in
the form that SQLite's full-text search reads; the snippet around a hit), `content_members.py`
(which members hold what people and tools said: what an erasure takes).

It does no I/O and never raises for what a person typed: None says that a query asks for nothing.
The rooms search, capsule and collector import it, so a word is found alike in all three.
"""
