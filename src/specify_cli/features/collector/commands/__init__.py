"""The commands of the collector: serve, export, and its tokens.

    from specify_cli.features.collector.commands.tokens import create_token
    token = {"name": "ada", "project": ["all"], "scope": None, "rate": None, "days": None}
    create_token({"db": f"{root}/events.db", "json": True, **token})

Reading order: `serve.py` (read files and address, then hand over to the server), `tables.py` (what
is stored as Parquet), `tokens.py` (create, list, revoke).

A token is printed once, when it is made; only its hash is stored. An address of another machine is
refused without a proxy that speaks TLS. Nothing imports them but the table of commands.
"""
