"""The charter of a project, and the governance context that is assembled from it for one request.

    from charter.context import build_charter_context
    build_charter_context(root, action="review", request="the parser").text

Reading order: `model.py` (the values), `parse.py` and `doctrine_files.py` (files to values),
`inputs.py` (everything that is read), `work.py` (what a request asks for), `retrieval.py` (scores
by text) and `selection.py` (which rules are in front, and why), `layout.py` and `tokens.py` (the
text, within its budget), `context.py` (all of it together), `state.py` (which actions had their
first load); `older/` lays out the contexts of older records.

The same inputs give the same text, hits and hashes. A file that cannot be read is reported as a
problem and never stops a request. `model.py`, `parse.py` and `retrieval.py` do no I/O. The package
imports only `doctrine`; the core and every room may import it.
"""
