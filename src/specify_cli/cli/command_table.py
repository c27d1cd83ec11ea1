"""Every command as data: the one definition the dispatcher and the Typer app are built from.

Loads nothing but typing. The module that runs a command is imported when the command runs and not before.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from specify_cli.invocation.caller import HOOKED

if TYPE_CHECKING:
    from collections.abc import Iterator


class Param(NamedTuple):
    """One argument, option or flag. `name` is the key in the values a command receives."""

    name: str
    kind: str  # argument · option · flag
    help: str
    default: str | int | None = None
    integer: bool = False
    multiple: bool = False
    required: bool = False
    choices: tuple[str, ...] = ()
    metavar: str = ""
    short: str = ""
    spelled_out: bool = False  # an argument that is also taken as an option

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")


class Command(NamedTuple):
    """One command: its words, what runs it (`module:function` below `cli.commands`), what it says of itself.

    Each takes `--json` besides the params in its row.
    """

    path: tuple[str, ...]
    run: str
    help: str
    params: tuple[Param, ...]
    examples: tuple[str, ...]
    exits: str


_JSON = Param("json", "flag", "Print the same value as JSON; errors become one JSON object on stderr.")
_STRICT = Param("strict", "flag", "Exit with 1 also where nothing differs and not everything was evaluated.")
_REQUEST = Param(
    "request", "argument", "What is to be done, in your own words; - reads it from stdin.", multiple=True, required=True
)
_PROFILE = Param("profile", "option", "Take this profile; the action is still read from the request.", metavar="ID")
_CONTEXT = Param("context", "flag", "Print the whole governance context at a terminal too, as in a pipe.")
_NO_TRAIL = Param(
    "no_trail", "flag", "Keep nothing of what this is about: the record says only that it was (SPEC_KITTY_TRAIL=off)."
)
_ID = Param(
    "invocation_id",
    "argument",
    "An id, any part of one that is unique, last, or @N for the Nth row of the list.",
    required=True,
    metavar="ID",
)
_OPEN_ID = _ID._replace(spelled_out=True)
_CLOSING = (
    _OPEN_ID,
    Param("outcome", "option", "How the work ended.", "done", choices=("done", "failed", "abandoned")),
    Param("evidence", "option", "A file that shows the work; kept as an object.", metavar="PATH"),
    Param("artifact", "option", "A file the work made or changed; repeatable.", multiple=True, metavar="PATH"),
    Param("commit", "option", "The commit that holds the work.", metavar="SHA"),
    Param("allow_outside", "flag", "Take evidence from outside the project."),
)
_HARNESS = Param(
    "harness",
    "option",
    "This one, or all that are in use here; repeatable.",
    multiple=True,
    choices=(*HOOKED, "all-detected"),
)
_SCOPE = Param("scope", "option", "The project's settings, or yours.", "project", choices=("project", "user"))
_SIGNERS = Param("allowed_signers", "option", "SSH keys of people you trust, for logs and approvals.", metavar="FILE")
_REVOKED = Param("revoked", "option", "SSH keys you trust no longer: a KRL, or public keys.", metavar="FILE")
_SHOW = Param("dry_run", "flag", "Show what would change; write nothing.")
_NARROW = (
    Param("path", "option", "Only what this file or folder pattern occurs in.", metavar="FILE"),
    Param("tool", "option", "Only what called this tool.", metavar="TOOL"),
    Param("commit", "option", "Only what this commit is linked to.", metavar="SHA"),
    Param("rule", "option", "Only what this rule was in front of: a URI or its end.", metavar="URI"),
)
_WHICH = (
    Param("profile", "option", "Only this profile.", metavar="ID"),
    Param("action", "option", "Only this action.", metavar="ACTION"),
    Param("actor", "option", "Only what this person or agent asked for.", metavar="NAME"),
    Param("session", "option", "Only this session of a harness.", metavar="ID"),
    Param("since", "option", "Only those begun since: 2h, 7d, yesterday, or a date.", metavar="TIME"),
    Param("until", "option", "Only those begun before, in the same forms.", metavar="TIME"),
)
_ENGINE = (
    Param("workers", "option", "Share the work out among N processes.", 1, integer=True, metavar="N"),
    Param("engine", "option", "Share it out on a Dask cluster: dask://HOST:PORT.", metavar="URL"),
    Param(
        "source",
        "option",
        "Not this project: a folder of projects or archives, or a collector's database.",
        metavar="DIR",
    ),
)
_LEDGER = Param("db", "option", "A SQLite file, or postgresql://….", required=True, metavar="DB")
_ANSWER = "0 recorded · 1 refused, nothing recorded · 2 usage"
_READ = "0 ok · 1 not found · 2 usage"

GROUPS = {
    "config": "What this clone accepts of the project's config.",
    "profiles": "Agent profiles, shipped and the project's own.",
    "charter": "What the project demands of its agents.",
    "profile-invocation": "Close a record or add to it.",
    "invocations": "List, read and verify records.",
    "trail": "Prove to others that no record is missing.",
    "hooks": "Let agents' harnesses fill the record by themselves.",
    "import": "Bring in work from before the hooks.",
    "skills": "Teach agents when to ask and when to close.",
    "mcp": "Serve agents that speak the Model Context Protocol.",
    "collector": "Receive what projects sync, and show it.",
    "collector token": "Who may send to a collector and read from it.",
    "sync": "Deliver what happened to a service, if you agree to it.",
}

_BLOCK = Param(
    "block", "option", "Add a marked block to this file; repeatable.", multiple=True, choices=("AGENTS.md", "CLAUDE.md")
)

_COMMANDS = (
    Command(
        ("setup",),
        "features.charter_setup.setup_command:setup",
        "Set a project up: init, a first charter, hooks and skills, one question each.",
        (
            Param("yes", "flag", "Ask nothing: a private trail, and all but the block."),
            Param("trail", "option", "As of init.", choices=("private", "committed")),
            Param(
                "skip", "option", "Leave this out; repeatable.", multiple=True, choices=("charter", "hooks", "skills")
            ),
            _BLOCK,
        ),
        ("spec-kitty setup", "spec-kitty setup --yes --skip hooks --block AGENTS.md"),
        "0 set up, or already so · 1 something was refused and left alone · 2 usage",
    ),
    Command(
        ("init",),
        "cli.commands.project.config:init",
        "Give this project its config and its trail setting; safe to run again.",
        (
            Param(
                "trail",
                "option",
                "private: git ignores the trail. committed: finished records are tracked.",
                choices=("private", "committed"),
            ),
        ),
        ("spec-kitty init", "spec-kitty init --trail committed"),
        "0 initialised or already so · 1 refused · 2 usage",
    ),
    Command(
        ("config", "accept"),
        "cli.commands.project.config:accept",
        "Accept what the config states beyond the defaults: wider capture, allowed values, a published trail.",
        (Param("yes", "flag", "Accept without being asked; a person's own scripts only."),),
        ("spec-kitty config accept",),
        "0 accepted, or nothing to accept · 1 refused · 2 usage",
    ),
    Command(
        ("do",),
        "cli.commands.invoke:do",
        "Route a request, record it durably, print the governance context for whoever does the work.",
        (
            _REQUEST,
            _PROFILE,
            _NO_TRAIL,
            _CONTEXT,
        ),
        ('spec-kitty do "fix the failing login test"', 'spec-kitty do "implement WP03" --json'),
        _ANSWER,
    ),
    Command(
        ("ask",),
        "cli.commands.invoke:ask",
        "As do, with a profile of your choice.",
        (
            Param("profile", "argument", "The profile's id.", required=True, metavar="PROFILE"),
            _REQUEST,
            _NO_TRAIL,
            _CONTEXT,
        ),
        ('spec-kitty ask critic-cato "look at the parser change"',),
        _ANSWER,
    ),
    Command(
        ("advise",),
        "cli.commands.invoke:advise",
        "As do, for advice only: the record is advisory and carries no evidence.",
        (
            _REQUEST,
            _PROFILE,
            _NO_TRAIL,
            _CONTEXT,
        ),
        ('spec-kitty advise "should we split the billing module?"',),
        _ANSWER,
    ),
    Command(
        ("route",),
        "cli.commands.invoke:route",
        "Show where a request would go and why; writes nothing.",
        (
            _REQUEST,
            _PROFILE,
            Param("explain", "flag", "Show everything that was considered."),
        ),
        ('spec-kitty route "review the SQL migration" --explain',),
        "0 routed · 1 refused, with candidates · 2 usage",
    ),
    Command(
        ("profiles", "list"),
        "cli.commands.governance.profiles:list_profiles",
        "Every profile that can be routed to, with role and languages.",
        (),
        ("spec-kitty profiles list", "spec-kitty profiles list --json"),
        "0 ok · 2 usage",
    ),
    Command(
        ("profiles", "show"),
        "cli.commands.governance.profiles:show_profile",
        "One profile whole.",
        (Param("profile", "argument", "The profile's id.", required=True, metavar="PROFILE"),),
        ("spec-kitty profiles show critic-cato",),
        _READ,
    ),
    Command(
        ("charter", "context"),
        "cli.commands.governance.charter:context",
        "The governance context an action would receive, with scores and reasons, or one artifact; records nothing.",
        (
            Param("action", "option", "implement, review, plan, specify, analyze, …", metavar="ACTION"),
            Param("uri", "option", "Print this charter section or artifact whole instead.", metavar="URI"),
            _PROFILE,
            Param("request", "option", "Rank against this request.", metavar="TEXT"),
            Param("explain", "flag", "Show scores, filters and what was left out."),
            Param("mark_loaded", "flag", "Note the first load of this action: its next contexts are compact."),
        ),
        (
            'spec-kitty charter context --action review --request "the SQL migration" --explain',
            "spec-kitty charter context --uri charter://section/policy-summary",
        ),
        "0 ok · 1 refused · 2 usage",
    ),
    Command(
        ("charter", "synthesize"),
        "features.charter_setup.commands:synthesize",
        "Write a first charter, policy, profile and doctrine from a short interview and what the repository says.",
        (
            Param("defaults", "flag", "Ask nothing: take what the repository suggests, replace nothing that is there."),
            Param("dry_run", "flag", "Show what would be written; write nothing."),
            Param("force", "flag", "Replace policy, profile and doctrine files that differ; a charter never is."),
        ),
        ("spec-kitty charter synthesize", "spec-kitty charter synthesize --defaults --dry-run"),
        "0 written, or nothing to write · 1 refused · 2 usage",
    ),
    Command(
        ("charter", "lint"),
        "cli.commands.governance.charter:lint",
        "What is wrong in charter, policy, profiles, doctrine and governance settings: file, line, problem, repair.",
        (),
        ("spec-kitty charter lint", "spec-kitty charter lint --json"),
        "0 sound, or advice only · 1 an error was found · 2 usage",
    ),
    Command(
        ("approve",),
        "features.approvals.commands:approve",
        "Allow or deny a call of an open record, or its request, under your name; signed with your SSH key.",
        (
            _ID,
            Param("call", "option", "The call it is about; without one it is the request.", metavar="CALL_ID"),
            Param("gate", "option", "The gate it is about.", metavar="GATE"),
            Param("deny", "flag", "Deny it."),
            Param("reason", "option", "Why, in your own words.", metavar="TEXT"),
            Param("minutes", "option", "How long it holds.", 60, integer=True, metavar="N"),
            Param("key", "option", "Your key, or the public half of an agent's.", "~/.ssh/id_ed25519", metavar="FILE"),
            Param("unsigned", "flag", "Sign nothing: it says what git says of you, and proves nothing."),
        ),
        (
            "spec-kitty approve ID --call CALL_ID",
            'spec-kitty approve ID --call CALL_ID --deny --reason "not on a Friday" --unsigned',
        ),
        "0 recorded · 1 refused, nothing recorded · 2 usage",
    ),
    Command(
        ("profile-invocation", "complete"),
        "cli.commands.complete:complete",
        "Close a record with its outcome; links and evidence are written with the closing line.",
        _CLOSING,
        (
            "spec-kitty profile-invocation complete last",
            "spec-kitty profile-invocation complete ID --outcome failed --evidence notes.md",
        ),
        "0 closed, or already closed so · 1 refused, nothing written · 2 usage",
    ),
    Command(
        ("profile-invocation", "close"),
        "cli.commands.complete:complete",
        "The same as complete, where that word is taken for the shell's builtin (Claude Code in a worktree).",
        _CLOSING,
        ("spec-kitty profile-invocation close last --outcome done",),
        "0 closed, or already closed so · 1 refused, nothing written · 2 usage",
    ),
    Command(
        ("profile-invocation", "record"),
        "cli.commands.record:record",
        "Append run events to an open record: one by --event, or many as JSON lines on stdin in one write.",
        (
            _OPEN_ID,
            Param("event", "option", "tool_call, tool_result, step_started, model_call, …", metavar="TYPE"),
            Param("json_payload", "option", "The event's raw values as JSON; - reads stdin.", metavar="JSON"),
            Param("dry_run", "flag", "Show the lines with their masks; write nothing."),
        ),
        (
            "spec-kitty profile-invocation record ID --event error --json-payload - < error.json",
            "spec-kitty profile-invocation record ID --event tool_call --json-payload - < call.json",
            "spec-kitty profile-invocation record ID < events.jsonl",
        ),
        "0 recorded · 1 refused, nothing written · 2 usage",
    ),
    Command(
        ("profile-invocation", "commit"),
        "cli.commands.record:commit",
        "Write a checkpoint to replay against; a policy that changed is referenced before it.",
        (
            _OPEN_ID,
            Param("label", "option", "A name for the checkpoint.", metavar="NAME"),
            Param("force", "flag", "Take a label that is taken; it then means the newest."),
        ),
        ("spec-kitty profile-invocation commit ID --label after-review",),
        "0 written · 1 refused, nothing written · 2 usage",
    ),
    Command(
        ("invocations", "list"),
        "cli.commands.records.listing:list_rows",
        "List invocations, newest first.",
        (
            *_WHICH,
            Param("status", "option", "Only open or closed ones.", choices=("open", "closed")),
            Param("outcome", "option", "Only this outcome.", choices=("open", "done", "failed", "abandoned")),
            *_NARROW,
            Param("parent", "option", "Only children of this invocation, replays too.", metavar="ID"),
            Param("all", "flag", "List replays and re-executions too."),
            Param("limit", "option", "Maximum number of rows.", 50, integer=True, metavar="N"),
        ),
        ("spec-kitty invocations list", "spec-kitty invocations list --status open --json"),
        _READ,
    ),
    Command(
        ("invocations", "search"),
        "features.search.commands:search",
        "Find what was recorded: words, and by file, tool, commit or rule; newest first.",
        (
            Param(
                "text",
                "argument",
                'Words that stand in one line; "…" is a phrase, a word that ends in * a beginning.',
                multiple=True,
                metavar="[TEXT]",
            ),
            *_NARROW,
            Param("outcome", "option", "Only this outcome.", choices=("open", "done", "failed", "abandoned")),
            *_WHICH,
            Param("all", "flag", "Search replays and re-executions too."),
            Param("limit", "option", "Maximum number of hits.", 20, integer=True, metavar="N"),
        ),
        ("spec-kitty invocations search login token", "spec-kitty invocations search --path src/login.py --since 7d"),
        _READ,
    ),
    Command(
        ("invocations", "show"),
        "cli.commands.records.invocations:show",
        "Show one invocation: request, outcome, evidence, timeline, the rules it was given, findings.",
        (_ID, Param("explain", "flag", "Show every line of the timeline, and each rule with its scores.")),
        ("spec-kitty invocations show last", "spec-kitty invocations show @2 --explain"),
        _READ,
    ),
    Command(
        ("invocations", "context"),
        "features.replay.citation_commands:context",
        "The governance context an invocation was given, as it was.",
        (_ID,),
        ("spec-kitty invocations context ID",),
        _READ,
    ),
    Command(
        ("show-uri",),
        "features.replay.citation_commands:show_uri",
        "Open what a report cites: an event, an object, an artifact of a record, doctrine as it was.",
        (
            Param(
                "uri",
                "argument",
                "inv://ID/event/SEQ, inv://ID/artifact/NAME, obj://sha256/DIGEST or doctrine://KIND/ID@DIGEST.",
                required=True,
                metavar="URI",
            ),
        ),
        ("spec-kitty show-uri inv://ID/event/0", "spec-kitty show-uri inv://ID/artifact/context --json"),
        _READ,
    ),
    Command(
        ("invocations", "tail"),
        "cli.commands.records.invocations:tail",
        "The newest events of an invocation (the newest one by default).",
        (
            _ID._replace(required=False, metavar="[ID]"),
            Param("lines", "option", "At most so many.", 10, integer=True, metavar="N"),
            Param("follow", "flag", "Go on until the record is closed."),
        ),
        ("spec-kitty invocations tail", "spec-kitty invocations tail ID --follow"),
        _READ,
    ),
    Command(
        ("invocations", "verify"),
        "cli.commands.records.invocations:verify",
        "Are the bytes intact: seals, chain, sequence, ids, torn tails, objects. Without a target: all records.",
        (
            Param("target", "argument", "An id, a part of one, last, @N, or a file.", metavar="[ID|FILE]"),
            Param("all", "flag", "Every record of the project."),
            Param("anchor", "option", "A seal seen on it before; repeatable.", multiple=True, metavar="SEAL"),
            Param("require", "option", "Fail below this level.", choices=("intact", "linked", "logged", "witnessed")),
            Param("policy", "option", "Logs and witnesses you trust: a C2SP tlog-policy file.", metavar="FILE"),
            _SIGNERS,
            _REVOKED,
            Param(
                "remember",
                "option",
                "Keep the logs' states here; refuse a log that goes back.",
                metavar="FILE",
            ),
            *_ENGINE,
        ),
        (
            "spec-kitty invocations verify --all",
            "spec-kitty invocations verify --source . --workers 2",
            "spec-kitty invocations verify --all --require linked",
            "spec-kitty invocations verify ID",
        ),
        "0 intact · 1 not found · 2 usage · 3 an error was found · 4 the required level is not reached",
    ),
    Command(
        ("trail", "checkpoint"),
        "features.witness.commands:checkpoint",
        "Sign the state of this clone's log, so that no record can go missing unseen after it.",
        (),
        ("spec-kitty trail checkpoint",),
        "0 signed, or nothing was added · 1 refused, nothing signed · 2 usage",
    ),
    Command(
        ("trail", "enroll"),
        "features.witness.commands:enroll",
        "Let your SSH key vouch for this clone's log, for whoever knows your key.",
        (Param("key", "option", "Your key, or the public half of an agent's.", "~/.ssh/id_ed25519", metavar="FILE"),),
        ("spec-kitty trail enroll --key ~/.ssh/id_ed25519",),
        "0 signed · 1 refused · 2 usage",
    ),
    Command(
        ("trail", "proof"),
        "features.witness.commands:proof",
        "Sign the log and print the proof that a record is in it, as one C2SP tlog-proof.",
        (
            _ID,
            Param("start", "flag", "Of the start of a closed record, not of its close."),
        ),
        ("spec-kitty trail proof ID",),
        "0 printed · 1 not found or not logged · 2 usage",
    ),
    Command(
        ("trail", "export"),
        "features.witness.commands:export",
        "Write the signed log as C2SP tlog-tiles: checkpoint, tiles and entries, for software that is not ours.",
        (Param("folder", "argument", "A new folder.", required=True, metavar="DIR"),),
        ("spec-kitty trail export DIR",),
        "0 written · 1 refused · 2 usage",
    ),
    Command(
        ("invocations", "compare"),
        "cli.commands.records.invocations:compare",
        "Do two runs match: request, profile, action, outcome, and each step; every difference is listed.",
        (
            Param(
                "targets",
                "argument",
                'Two ids or files; or - for {"original_chain": […], "replay_chain": […]} on stdin.',
                multiple=True,
                required=True,
                metavar="A B",
            ),
            Param("tolerance_ms", "option", "Warn where durations differ by more.", integer=True, metavar="MS"),
            _STRICT,
        ),
        ("spec-kitty invocations compare ID OTHER_ID", "spec-kitty invocations compare - --json < chains.json"),
        "0 match · 1 no match, or refused · 2 usage",
    ),
    Command(
        ("invocations", "state"),
        "features.programs.commands:state",
        "Where a run stands: stage, steps, open calls, what it spent; now, or after a line.",
        (
            _ID,
            Param("at", "option", "After the line with this seq.", integer=True, metavar="SEQ"),
        ),
        ("spec-kitty invocations state ID", "spec-kitty invocations state ID --at 3"),
        _READ,
    ),
    Command(
        ("invocations", "export"),
        "cli.commands.records.invocations:export",
        "Write records and every object they lead to into one file that can be verified and replayed elsewhere.",
        (
            _ID._replace(name="ids", multiple=True, metavar="[ID…]", required=False),
            Param("output", "option", "The new file.", metavar="FILE", short="-o"),
            Param("html", "option", "One record as a page that checks itself in a browser.", metavar="FILE"),
            Param("parquet", "option", "These records, or all, as tables for DuckDB, in a new folder.", metavar="DIR"),
            Param(
                "safe",
                "flag",
                "Withhold and list what redaction would change, policy keeps back or was captured in full.",
            ),
            Param("proofs", "flag", "Sign the log, and take along the proofs that the records are in it."),
            Param("archives", "option", "Every record, each as an archive of its own, in a new folder.", metavar="DIR"),
            Param(
                "format",
                "option",
                "archive: everything. testimony: one record's approvals, as a Testimony Record. otlp: OpenTelemetry. "
                "perfetto: for ui.perfetto.dev. agent-trace: which lines one record wrote.",
                "archive",
                choices=("archive", "testimony", "otlp", "perfetto", "agent-trace"),
            ),
            Param("endpoint", "option", "With otlp: send it there instead of writing a file.", metavar="URL"),
            _SIGNERS,
            _REVOKED,
            *_ENGINE,
        ),
        (
            "spec-kitty invocations export last --html run.html",
            "spec-kitty invocations export ID OTHER_ID --safe -o runs.tar",
            "spec-kitty invocations export last --format perfetto -o run.json",
            "spec-kitty invocations export --parquet tables",
        ),
        "0 written · 1 refused, nothing written · 2 usage",
    ),
    Command(
        ("invocations", "import"),
        "cli.commands.records.invocations:import_",
        "Bring the records of an export in, read-only; everything is checked first, nothing is overwritten.",
        (Param("file", "argument", "The export.", required=True, metavar="FILE"),),
        ("spec-kitty invocations import run.tar",),
        "0 imported, or here already · 1 refused, nothing written · 2 usage",
    ),
    Command(
        ("import", "sessions"),
        "features.sessions.commands:import_sessions",
        "Make records of the sessions an agent's program kept of this project, read-only and marked imported; their "
        "times are what the transcripts claim. Twice changes nothing.",
        (
            Param(
                "harness",
                "option",
                "Whose sessions; repeatable.",
                multiple=True,
                required=True,
                choices=("claude-code", "codex", "gemini", "opencode"),
            ),
            Param("since", "option", "Only those begun since: 2h, 7d, yesterday, or a date.", metavar="TIME"),
        ),
        (
            "spec-kitty import sessions --harness claude-code",
            "spec-kitty import sessions --harness codex --harness gemini --since 30d",
        ),
        "0 imported, or here already · 1 a transcript could not be read · 2 usage",
    ),
    Command(
        ("invocations", "reindex"),
        "cli.commands.records.invocations:reindex",
        "Make the derived index anew from the records' names; take in what removed worktrees left behind.",
        (),
        ("spec-kitty invocations reindex",),
        "0 ok · 2 usage",
    ),
    Command(
        ("why",),
        "features.search.why_command:why",
        "Tell which invocation wrote the lines of a file, on whose request, under which rules, and what was run after.",
        (Param("place", "argument", "A file, or one line of it.", required=True, metavar="FILE[:LINE]"),),
        ("spec-kitty why src/login.py", "spec-kitty why src/login.py:12"),
        "0 told, also where nothing is known · 1 no such file or line · 2 usage",
    ),
    Command(
        ("view",),
        "features.view.commands:view",
        "Show records in a browser of this machine: list, search, pictures, pages, two runs side by side; live.",
        (
            _ID._replace(required=False, metavar="[ID]"),
            Param("port", "option", "A port of 127.0.0.1; 0 takes a free one.", 0, integer=True, metavar="N"),
        ),
        ("spec-kitty view", "spec-kitty view last"),
        "0 stopped by a signal · 1 refused · 2 usage",
    ),
    Command(
        ("capsule",),
        "features.capsule.commands:capsule",
        "Fill memvid's capsule beside the files with what it does not hold, for `memory_backend: capsule`.",
        (Param("check", "flag", "Then hold both against each other: bytes, and what recorded queries find."),),
        ("spec-kitty capsule", "spec-kitty capsule --check"),
        "0 filled, and the same · 1 refused, or they differ · 2 usage",
    ),
    Command(
        ("resume",),
        "features.programs.commands:resume",
        "Go on with an unfinished run; without a program only say what that would do.",
        (
            _ID,
            Param("program", "option", "The function that takes the run.", metavar="MODULE:FUNCTION"),
            Param(
                "rerun", "option", "Make this call in doubt again; repeatable.", multiple=True, metavar="CALL_ID:SEQ"
            ),
        ),
        ("spec-kitty resume ID", "spec-kitty resume ID --program agent:main --rerun CALL_ID"),
        "0 resumed, or can be · 1 refused, or the program failed · 2 usage",
    ),
    Command(
        ("reexecute",),
        "features.programs.commands:reexecute",
        "Run the program of a recorded run again, as a child of it, and hold the two against each other.",
        (
            _ID,
            Param("program", "option", "The function that takes the run.", required=True, metavar="MODULE:FUNCTION"),
            Param("allow_external", "flag", "Allow calls with side effects outside the project."),
            Param(
                "tools",
                "option",
                "record: give recorded results back. live: call.",
                "record",
                choices=("record", "live"),
            ),
            Param(
                "model",
                "option",
                "Ask this instead of a model; repeatable.",
                multiple=True,
                metavar="NAME=MODULE:FUNCTION",
            ),
            _STRICT,
        ),
        (
            "spec-kitty reexecute ID --program agent:main",
            "spec-kitty reexecute ID --program agent:main --model gpt=agent:ask",
        ),
        "0 the same · 1 differs or refused · 2 usage",
    ),
    Command(
        ("replay",),
        "features.replay.commands:replay",
        "Would a record's decisions come out the same: from what it kept, or (--against current) under today's rules.",
        (
            _ID._replace(required=False, metavar="[ID]"),
            Param("all", "flag", "Every record, exactly."),
            Param("as_of", "option", "Retrieve on the corpus of this checkpoint.", metavar="CHECKPOINT"),
            Param("until", "option", "Replay only what came up to this checkpoint.", metavar="CHECKPOINT"),
            Param("compare_to", "option", "Hold against this checkpoint, not the record.", metavar="CHECKPOINT"),
            _STRICT,
            Param("epsilon", "option", "How far scores may be apart; 1e-9 if not given.", metavar="E"),
            Param("report", "option", "Write replay_report.md and replay_report.json there.", metavar="DIR"),
            Param("record", "flag", "Note the result beside the closed record, and keep the report."),
            Param("rules", "option", "Import this module for its gate rules.", metavar="MODULE"),
            Param("from_file", "option", "Take the record from an export, outside any project.", metavar="FILE"),
            Param(
                "against",
                "option",
                "Today's doctrine, profiles and code under the recorded policy; writes a child record.",
                choices=("current",),
            ),
            Param("idempotency_key", "option", "With --against: the same key gives one child.", metavar="KEY"),
            Param("from_root", "flag", "With --against: of a replay, take the record it began with."),
            Param("ab", "option", "Ask this model what the run asked its own; writes a child record.", metavar="MODEL"),
            Param("endpoint", "option", "With --ab: where it is asked; a person has to accept it.", metavar="URL"),
            Param(
                "event",
                "option",
                "With --ab: only the model call of this seq; repeatable.",
                integer=True,
                multiple=True,
                metavar="SEQ",
            ),
            Param("key_variable", "option", "With --ab: the variable that holds the API key.", metavar="NAME"),
            *_ENGINE,
        ),
        (
            "spec-kitty replay ID",
            "spec-kitty replay --all --workers 2",
            "spec-kitty replay ID --as-of start --report out",
            "spec-kitty replay ID --against current",
            "spec-kitty replay ID --ab MODEL --endpoint https://models.example.org/v1/messages",
        ),
        "0 match, or --against answered · 1 differs or refused · 2 usage",
    ),
    Command(
        ("backtest",),
        "features.what_if.commands:backtest",
        "What past decisions would have been under a charter that is proposed; no record is written.",
        (
            Param(
                "charter", "option", "A charter folder, or a project with its doctrine.", required=True, metavar="DIR"
            ),
            Param("profiles", "option", "Profiles in place of the project's own.", metavar="DIR"),
            Param("since", "option", "Only records begun since: 90d, yesterday, or a date.", metavar="TIME"),
            Param("rules", "option", "Import this module for its gate rules.", metavar="MODULE"),
            Param("strict", "flag", "Exit with 1 also where a record is missing, damaged or cannot be asked."),
            *_ENGINE,
        ),
        ("spec-kitty backtest --charter .kittify/charter --since 90d",),
        "0 answered · 1 what was kept back would be shown, strictly not all asked, or refused · 2 usage",
    ),
    Command(
        ("bisect",),
        "features.what_if.commands:bisect",
        "Find the commit of charter, doctrine, profiles or config that first changes what a record decided.",
        (_ID,),
        ("spec-kitty bisect ID",),
        "0 nothing changes it · 1 found, or refused · 2 usage",
    ),
    Command(
        ("hooks", "install"),
        "features.hooks.commands:install",
        "Put the hook into harnesses' own settings; what else is there is kept; twice is as once.",
        (
            _HARNESS,
            _SCOPE,
            Param("open", "flag", "Let a session that begins work without a do get a record, in this clone."),
            _SHOW,
        ),
        (
            "spec-kitty hooks install",
            "spec-kitty hooks install --harness claude-code --scope user --dry-run",
            "spec-kitty hooks install --open",
        ),
        "0 installed, or was already · 1 a settings file was refused and left alone · 2 usage",
    ),
    Command(
        ("hooks", "status"),
        "features.hooks.commands:status",
        "Which harnesses are in use here, and whether the hook is in their settings.",
        (),
        ("spec-kitty hooks status", "spec-kitty hooks status --json"),
        "0 ok · 2 usage",
    ),
    Command(
        ("hooks", "uninstall"),
        "features.hooks.commands:uninstall",
        "Take the hook out; every other line stays as its owner wrote it.",
        (
            _HARNESS,
            _SCOPE,
            _SHOW,
        ),
        ("spec-kitty hooks uninstall", "spec-kitty hooks uninstall --harness cursor"),
        "0 taken out, or was not there · 1 a settings file was refused and left alone · 2 usage",
    ),
    Command(
        ("hooks", "test"),
        "features.hooks.commands:test",
        "Show what one hook call would record, masked and cut as it would be; writes nothing.",
        (
            Param("harness", "option", "Whose payload it is.", required=True, choices=HOOKED),
            Param("payload", "option", "A file with the JSON of one hook call; - reads stdin.", "-", metavar="FILE"),
        ),
        ("spec-kitty hooks test --harness claude-code --payload call.json",),
        "0 shown · 1 not JSON · 2 usage",
    ),
    Command(
        ("skills", "install"),
        "features.skills.commands:install",
        "Write agent skills and the /speckit.replay command into the project; what you edited is kept.",
        (
            Param("force", "flag", "Replace what was edited too."),
            _BLOCK,
            _SHOW,
        ),
        ("spec-kitty skills install", "spec-kitty skills install --block AGENTS.md --dry-run"),
        "0 written, or there already · 1 refused · 2 usage",
    ),
    Command(
        ("skills", "status"),
        "features.skills.commands:status",
        "Which files of ours the project has: absent, unchanged or edited.",
        (),
        ("spec-kitty skills status",),
        "0 ok · 1 refused · 2 usage",
    ),
    Command(
        ("skills", "uninstall"),
        "features.skills.commands:uninstall",
        "Take them away, and the blocks; what you edited is kept.",
        (Param("force", "flag", "Take away what was edited too."), _SHOW),
        ("spec-kitty skills uninstall", "spec-kitty skills uninstall --dry-run"),
        "0 taken away, or was not there · 1 refused · 2 usage",
    ),
    Command(
        ("sync", "enable"),
        "features.sync.commands:enable",
        "Show exactly what would leave, for a real record, and ask; nothing leaves before you agree.",
        (
            Param("endpoint", "option", "Where to; by default what the project's config proposes.", metavar="URL"),
            Param(
                "level",
                "option",
                "ids: ids, times, outcomes. metadata: who and how as well. full: the request's text too. records: each "
                "record whole, what it names, and the log.",
                choices=("ids", "metadata", "full", "records"),
            ),
            Param("token_file", "option", "Keep the token from this file (- reads stdin) for deliveries.", metavar="F"),
            Param("reuse_token", "flag", "Send a token that belongs to another endpoint to this one too."),
            Param("yes", "flag", "Agree without being asked; the endpoint must be given."),
        ),
        (
            "spec-kitty sync enable --endpoint https://collector.example.org/v1/events",
            "spec-kitty sync enable --endpoint http://127.0.0.1:8080/v1/events --level full --yes",
        ),
        "0 enabled · 1 refused or not agreed to · 2 usage",
    ),
    Command(
        ("sync", "disable"),
        "features.sync.commands:disable",
        "Withdraw the agreement; a push under way stops before its next request.",
        (),
        ("spec-kitty sync disable",),
        "0 disabled, or was not enabled · 1 refused · 2 usage",
    ),
    Command(
        ("sync", "status"),
        "features.sync.commands:status",
        "How delivery stands: pending, delivered, refused, excluded, last success; sends nothing.",
        (),
        ("spec-kitty sync status", "spec-kitty sync status --json"),
        "0 ok · 1 refused · 2 usage",
    ),
    Command(
        ("sync", "push"),
        "features.sync.commands:push",
        "Deliver everything that is due now.",
        (Param("dry_run", "flag", "Show the envelopes that would leave next; send nothing."),),
        ("spec-kitty sync push", "spec-kitty sync push --dry-run"),
        "0 nothing is left to try · 1 something was refused or could not be delivered · 2 usage",
    ),
    Command(
        ("sync", "retry"),
        "features.sync.commands:retry",
        "Try again what was refused, then deliver everything that is due.",
        (),
        ("spec-kitty sync retry",),
        "0 nothing is left to try · 1 something was refused or could not be delivered · 2 usage",
    ),
    Command(
        ("collector", "serve"),
        "features.collector.commands.serve:serve",
        "Receive events over HTTP, keep each once in SQLite or PostgreSQL, show them as a timeline.",
        (
            _LEDGER,
            Param("listen", "option", "Address and port; port 0 takes a free one.", "127.0.0.1:8742", metavar="A:P"),
            Param("secret_file", "option", "Ask for signatures made with this secret too.", metavar="FILE"),
            Param("witness", "option", "Cosign the logs of clients as a C2SP witness of this name.", metavar="NAME"),
            Param("max_body", "option", "Largest body taken.", 8388608, integer=True, metavar="BYTES"),
            Param("drain_seconds", "option", "Answer on so long after SIGTERM.", 0, integer=True, metavar="N"),
            Param("behind_tls_proxy", "flag", "Allow an address of another machine: a proxy there speaks TLS."),
        ),
        ("spec-kitty collector serve --db events.db",),
        "0 stopped by a signal · 1 refused · 2 usage",
    ),
    Command(
        ("collector", "export"),
        "features.collector.commands.tables:export_ledger",
        "Write what is held as Parquet, a file for each day and project.",
        (
            _LEDGER,
            Param("parquet", "option", "The new folder.", required=True, metavar="DIR"),
        ),
        ("spec-kitty collector export --db events.db --parquet held",),
        "0 written · 1 refused · 2 usage",
    ),
    Command(
        ("collector", "token", "create"),
        "features.collector.commands.tokens:create_token",
        "Make a token and print it, this once: only its hash is kept.",
        (
            Param("name", "argument", "Who sends or reads with it; owns what it sends first.", required=True),
            _LEDGER,
            Param(
                "project",
                "option",
                "A project it is for, by its uuid, or all; repeatable.",
                required=True,
                multiple=True,
                metavar="UUID",
            ),
            Param(
                "scope",
                "option",
                "What it may do; repeatable. Without it: send.",
                multiple=True,
                choices=("send", "read", "witness"),
            ),
            Param("rate", "option", "At most so many requests a minute.", integer=True, metavar="N"),
            Param("days", "option", "It ends after so many days.", integer=True, metavar="N"),
        ),
        (
            "spec-kitty collector token create ada --db events.db --project all",
            "spec-kitty collector token create auditor --db events.db --project all --scope read --rate 60",
        ),
        "0 created · 1 refused · 2 usage",
    ),
    Command(
        ("collector", "token", "list"),
        "features.collector.commands.tokens:list_tokens",
        "Show each token: id, name, scopes, projects, end, last use; never the token itself.",
        (_LEDGER,),
        ("spec-kitty collector token list --db events.db",),
        "0 ok · 1 refused · 2 usage",
    ),
    Command(
        ("collector", "token", "revoke"),
        "features.collector.commands.tokens:revoke_token",
        "End a token by its id, from the next request on.",
        (Param("id", "argument", "The id that `token list` shows.", required=True, metavar="TOKEN_ID"), _LEDGER),
        ("spec-kitty collector token revoke TOKEN_ID --db events.db",),
        "0 revoked, or was so · 1 no such token · 2 usage",
    ),
    Command(
        ("mcp", "serve"),
        "features.mcp.commands:serve",
        "Answer an agent's client on stdin and stdout: tools to advise, do, complete, search, show, verify and why.",
        (),
        ("spec-kitty mcp serve",),
        "0 the client went away · 1 refused · 2 usage",
    ),
    Command(
        ("intake",),
        "features.intake.commands:intake",
        "Keep a brief under .kittify/intake/ for later; nothing is routed and no record is written.",
        (Param("brief", "argument", "A text file; - reads stdin.", required=True, metavar="FILE"),),
        ("spec-kitty intake brief.md", "spec-kitty intake - < brief.md"),
        "0 kept · 1 refused · 2 usage",
    ),
    Command(
        ("doctor",),
        "features.doctor.commands:doctor",
        "What is wrong in this project, and the command that fixes it; changes nothing but the derived index, and with "
        "--sweep closes records that agents left open.",
        (Param("sweep", "flag", "Close the records of agents in which nothing happened for a day."),),
        ("spec-kitty doctor", "spec-kitty doctor --sweep"),
        "0 no error · 1 an error was found · 2 usage",
    ),
    Command(
        ("schema",),
        "cli.commands.project.schema:schema",
        "Print a JSON Schema by name; without a name, the names.",
        (Param("name", "argument", "For example invocation-payload.", metavar="[NAME]"),),
        ("spec-kitty schema invocation-payload",),
        _READ,
    ),
)

COMMANDS = tuple(command._replace(params=(*command.params, _JSON)) for command in _COMMANDS)
Values = dict[str, object]


def find_command(argv: list[str]) -> tuple[Command, list[str]] | None:
    """Return the command these words name and the words after it."""
    for command in COMMANDS:
        if tuple(argv[: len(command.path)]) == command.path:
            return command, argv[len(command.path) :]
    return None


def parse_plain(argv: list[str]) -> tuple[Command, Values] | None:
    """Read the plain form of a command line; None hands it to Typer, which explains what is wrong.

    Plain: known options once each (repeatable ones as often as wanted), `--option value` or
    `--option=value`, values that do not begin with `-` (a lone `-` may), everything required present.
    """
    matched = find_command(argv)
    if matched is None:
        return None
    command, words = matched
    options = {param.option: param for param in command.params if param.kind != "argument" or param.spelled_out}
    values: Values = {param.name: [] if param.multiple else param.default for param in command.params}
    for param in command.params:
        if param.kind == "flag":
            values[param.name] = False
    positional: list[str] = []
    passed: set[str] = set()
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        name, equals, inline = word.partition("=")
        option = options.get(name)
        if option is None or (option.name in passed and not option.multiple) or (option.kind == "flag" and equals):
            return None
        passed.add(option.name)
        if option.kind == "flag":
            values[option.name] = True
            continue
        text = inline if equals else next(rest, None)
        if text is None or (not equals and text.startswith("-") and text != "-") or not _take(values, option, text):
            return None
    return (command, values) if _place(command, values, positional, passed) else None


def _take(values: Values, param: Param, text: str) -> bool:
    if param.choices and text not in param.choices:
        return False
    value: str | int = text
    if param.integer:
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            return False
        value = int(text)
    current = values[param.name]
    if isinstance(current, list):
        current.append(value)
    else:
        values[param.name] = value
    return True


def _place(command: Command, values: Values, positional: list[str], passed: set[str]) -> bool:
    arguments: Iterator[Param] = (param for param in command.params if param.kind == "argument")
    for param in arguments:
        if param.spelled_out and param.name in passed:
            continue
        if param.multiple:
            values[param.name], positional = positional, []
        elif positional:
            values[param.name] = positional.pop(0)
        if param.required and values[param.name] in (None, []):
            return False
    missing = any(param.required and param.kind == "option" and param.name not in passed for param in command.params)
    return not positional and not missing
