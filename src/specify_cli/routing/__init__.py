"""A request becomes a profile and an action, by words alone and with its reasons.

    from specify_cli.routing.registry import ProfileRegistry, shipped_table
    len(ProfileRegistry(root).all()), len(shipped_table().action_roles)

Reading order: `router.py` (the decision), `tokens.py` (how a text is split), `parser.py`
(what it asks for), with `request_text.py`, `questions.py`, `clauses.py`, `sentences.py` and
`statements.py`; `choice.py` (who gets it), `table.py` and `router_table.json` (what each word
means), `languages/` (other languages), `registry.py` (the only part that reads files).

Pure: the same request, profiles and table give the same decision, on any machine (docs/router.md).
It refuses with candidates where a request can be read in two ways. `invocation`, `charter_setup`
and replay import it.
"""
