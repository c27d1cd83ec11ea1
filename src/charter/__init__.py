"""The charter: what a project demands of its agents, and the governance context that is drawn from
it for one request.

    from charter.context import build_charter_context
    build_charter_context(root, action="review", request="the parser").text

Reading order: `model.py` (the values), `parse.py` (files to values), `inputs.py` (everything that
is read), `retrieval.py` (which doctrine is in front, and why), `context.py` (the text), `state.py`
(which actions had their first load).

The same inputs give the same text, hits and hashes. A file that cannot be read is named as a
problem and never stops a request. `model.py`, `parse.py` and `retrieval.py` do no I/O. It imports
`doctrine` alone; the core and every room may import it.
"""
