"""What of a line is searched, and what a person's query means.

    from specify_cli.libraries.words.words import match_query
    match_query("login -test")

Reading order: `words.py` is all of it: the text and the marks (file, tool, commit, rule) of a line,
the query in the form that SQLite's full-text search reads, and the snippet around a hit.

It does no I/O and never raises for what a person typed: None says that a query asks for nothing.
The rooms search, capsule and collector import it, so a word is found alike in all three.
"""
