"""The receiver that `spec-kitty sync` is tested against and that a team can start with
(docs/collector.md).

    from specify_cli.features.collector.source import recognize
    recognize("events.db"), recognize("postgresql://db/events")

Reading order: `storage.py` (the values, the rules), `engines/` (SQLite, PostgreSQL),
`reception.py` (what a request says), `server/` (HTTP and pages), `holdings.py` and `levels.py`
(whole records, and how far a project is proven), `tokens.py`, `witness.py`,
`reading.py` and `source.py` (its database for commands), `commands/`.

What was acknowledged is stored, once, and never changed. Only `server/` loads a web server. It
needs the rooms exports and witness; no room imports it.
"""
