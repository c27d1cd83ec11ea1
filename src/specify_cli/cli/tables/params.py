"""Params and groups that several rooms share, so that one option has one meaning and one text.

Command(("invocations", "tail"), "…", "…", (ID, flag("follow", "…")), (…), READ)
"""

from specify_cli.room import Group, argument, flag, option

# Of rooms that bring in what was recorded elsewhere; each can be there without the others.
IMPORT = Group("import", "Bring in work from before the hooks.", 80, section="Set up")
JSON = flag("json", "Print the same value as JSON; errors become one JSON object on stderr.")
STRICT = flag("strict", "Exit with 1 also where nothing differs and not everything was evaluated.")
REQUEST = argument(
    "request",
    "What is to be done, in your own words; - reads it from stdin.",
    multiple=True,
    required=True,
)
PROFILE = option(
    "profile", "Take this profile; the action is still read from the request.", metavar="ID"
)
CONTEXT = flag("context", "Print the whole governance context at a terminal too, as in a pipe.")
NO_TRAIL = flag(
    "no_trail",
    "Keep nothing of what this is about: the record says only that it was (SPEC_KITTY_TRAIL=off).",
)
ID = argument(
    "invocation_id",
    "An id, any part of one that is unique, last, or @N for the Nth row of the list.",
    required=True,
    metavar="ID",
)
OPEN_ID = ID._replace(spelled_out=True, values="open")
CLOSING = (
    OPEN_ID,
    option("outcome", "How the work ended.", "done", choices=("done", "failed", "abandoned")),
    option("evidence", "A file that shows the work; kept as an object.", metavar="PATH"),
    option(
        "artifact", "A file the work made or changed; repeatable.", multiple=True, metavar="PATH"
    ),
    option("commit", "The commit that holds the work.", metavar="SHA"),
    flag("allow_outside", "Take evidence from outside the project."),
)
SCOPE = option("scope", "The project's settings, or yours.", "project", choices=("project", "user"))
SIGNERS = option(
    "allowed_signers", "SSH keys of people you trust, for logs and approvals.", metavar="FILE"
)
REVOKED = option("revoked", "SSH keys you trust no longer: a KRL, or public keys.", metavar="FILE")
SHOW = flag("dry_run", "Show what would change; write nothing.")
NARROW = (
    option("path", "Only what this file or folder pattern occurs in.", metavar="FILE"),
    option("tool", "Only what called this tool.", metavar="TOOL"),
    option("commit", "Only what this commit is linked to.", metavar="SHA"),
    option("rule", "Only what this rule was in front of: a URI or its end.", metavar="URI"),
)
WHICH = (
    option("profile", "Only this profile.", metavar="ID"),
    option("action", "Only this action.", metavar="ACTION"),
    option("actor", "Only what this person or agent asked for.", metavar="NAME"),
    option("session", "Only this session of a harness.", metavar="ID"),
    option("mission", "Only this mission, by its name or number.", metavar="NAME"),
    option("work_package", "Only this work package, such as WP03.", metavar="WP"),
    option("since", "Only those begun since: 2h, 7d, yesterday, or a date.", metavar="TIME"),
    option("until", "Only those begun before, in the same forms.", metavar="TIME"),
)
ENGINE = (
    option("workers", "Share the work out among N processes.", 1, integer=True, metavar="N"),
    option("engine", "Share it out on a Dask cluster: dask://HOST:PORT.", metavar="URL"),
    option(
        "source",
        "Not this project: a folder of projects or archives, or a collector's database.",
        metavar="DIR",
    ),
)
LEDGER = option("db", "A SQLite file, or postgresql://….", required=True, metavar="DB")
ANSWER = "0 recorded · 1 refused, nothing recorded · 2 usage"
READ = "0 ok · 1 not found · 2 usage"
BLOCK = option(
    "block",
    "Add a marked block to this file; repeatable.",
    multiple=True,
    choices=("AGENTS.md", "CLAUDE.md"),
)
