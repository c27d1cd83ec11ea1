"""Secrets in texts and JSON, and what a capture mode keeps of a value.

    from specify_cli.redaction.redact import redact, shipped_rule_set
    redact("password=hunter2-long", shipped_rule_set()).text

Reading order: `redact.py` (mask a text), `rules.json` and `rules.py` (what secrets look like),
`finders.py` and `tables.py` (what no pattern can say), `heuristics.py` (what a name tells of the
value beside it), `json_values.py` (JSON of others, masked), `capture.py` (off, hash, redacted or
full), `captured.py` (read a captured value back).

Pure. Masking the masked text changes nothing, and a project's own rules can only add. A mask says
which rule made it. Whatever writes text of others to disk calls it; it imports `errors.py` and
`doctrine`.
"""
