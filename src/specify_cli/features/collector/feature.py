"""What this room brings."""

from specify_cli.cli.tables.params import LEDGER
from specify_cli.room import Command, Feature, Fill, Group, argument, flag, option

FEATURE = Feature(
    name="collector",
    about="Receive what projects sync, and show it.",
    page="docs/collector.md",
    needs=("effect", "exports", "report", "witness"),
    libraries=("comparison", "signed_log", "story", "timeline", "web", "wire", "words", "work"),
    extra="collector",
    groups=(
        Group("collector", "Receive what projects sync, and show it.", 110, section="Share"),
        Group("collector token", "Who may send to a collector and read from it.", 120),
    ),
    commands=(
        Command(
            ("collector", "serve"),
            "commands.serve:serve",
            "Receive events over HTTP, keep each once in SQLite or PostgreSQL, show them as a "
            "timeline.",
            (
                LEDGER,
                option(
                    "listen",
                    "Address and port; port 0 takes a free one.",
                    "127.0.0.1:8742",
                    metavar="A:P",
                ),
                option(
                    "secret_file", "Ask for signatures made with this secret too.", metavar="FILE"
                ),
                option(
                    "witness",
                    "Cosign the logs of clients as a C2SP witness of this name.",
                    metavar="NAME",
                ),
                option("max_body", "Largest body taken.", 8388608, integer=True, metavar="BYTES"),
                option(
                    "drain_seconds",
                    "Answer on so long after SIGTERM.",
                    0,
                    integer=True,
                    metavar="N",
                ),
                flag(
                    "behind_tls_proxy",
                    "Allow an address of another machine: a proxy there speaks TLS.",
                ),
            ),
            ("spec-kitty collector serve --db events.db",),
            "0 stopped by a signal · 1 refused · 2 usage",
            rank=550,
        ),
        Command(
            ("collector", "export"),
            "commands.tables:export_ledger",
            "Write what is held as Parquet, a file for each day and project.",
            (
                LEDGER,
                option("parquet", "The new folder.", required=True, metavar="DIR"),
                option(
                    "since",
                    "Write only the days since this moment; in a folder that is there they take "
                    "the place of those days.",
                    metavar="TIME",
                ),
            ),
            (
                "spec-kitty collector export --db events.db --parquet held",
                "spec-kitty collector export --db events.db --parquet held --since 2d",
            ),
            "0 written · 1 refused · 2 usage",
            rank=560,
        ),
        Command(
            ("collector", "token", "create"),
            "commands.tokens:create_token",
            "Make a token and print it, this once: only its hash is kept.",
            (
                argument(
                    "name", "Who sends or reads with it; owns what it sends first.", required=True
                ),
                LEDGER,
                option(
                    "project",
                    "A project it is for, by its uuid, or all; repeatable.",
                    required=True,
                    multiple=True,
                    metavar="UUID",
                ),
                option(
                    "scope",
                    "What it may do; repeatable. Without it: send.",
                    multiple=True,
                    choices=("send", "read", "witness", "erase"),
                ),
                option("rate", "At most so many requests a minute.", integer=True, metavar="N"),
                option("days", "It ends after so many days.", integer=True, metavar="N"),
            ),
            (
                "spec-kitty collector token create ada --db events.db --project all",
                "spec-kitty collector token create auditor --db events.db --project all --scope "
                "read --rate 60",
            ),
            "0 created · 1 refused · 2 usage",
            rank=570,
        ),
        Command(
            ("collector", "token", "list"),
            "commands.tokens:list_tokens",
            "Show each token: id, name, scopes, projects, end, last use; never the token itself.",
            (LEDGER,),
            ("spec-kitty collector token list --db events.db",),
            "0 ok · 1 refused · 2 usage",
            rank=580,
        ),
        Command(
            ("collector", "token", "revoke"),
            "commands.tokens:revoke_token",
            "End a token by its id, from the next request on.",
            (
                argument(
                    "id", "The id that `token list` shows.", required=True, metavar="TOKEN_ID"
                ),
                LEDGER,
            ),
            ("spec-kitty collector token revoke TOKEN_ID --db events.db",),
            "0 revoked, or was so · 1 no such token · 2 usage",
            rank=590,
        ),
    ),
    fills=(Fill("sources", "source:LEDGER"),),
    shapes="shapes",
)
