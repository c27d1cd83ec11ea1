"""The commands of the core: what a request becomes, and the records that it leaves."""

from specify_cli.cli.tables.params import (
    ANSWER,
    CLOSING,
    CONTEXT,
    ID,
    NO_TRAIL,
    OPEN_ID,
    PROFILE,
    READ,
    REQUEST,
    WHICH,
)
from specify_cli.room import EXAMPLES_OF_FORMS, Command, Feature, Group, argument, flag, option

CORE = Feature(
    name="core",
    about="Record one governed request: open, append, close; list, show and verify records.",
    page="docs/format.md",
    groups=(
        Group("config", "What this clone accepts of the project's config.", 10, section="Set up"),
        Group("profiles", "Agent profiles, shipped and the project's own.", 20, section="Set up"),
        Group("charter", "What the project demands of its agents.", 30, section="Set up"),
        Group("profile-invocation", "Close a record or add to it.", 40, section="Close"),
        Group("invocations", "List, read and verify records.", 50, section="Read"),
    ),
    commands=(
        Command(
            ("init",),
            "project.config:init",
            "Give this project its config and its trail setting; safe to run again.",
            (
                option(
                    "trail",
                    "private: git ignores the trail. committed: finished records are tracked. "
                    "ref: as private, and `trail push` may carry them in a git ref.",
                    choices=("private", "committed", "ref"),
                ),
            ),
            ("spec-kitty init", "spec-kitty init --trail committed"),
            "0 initialised or already so · 1 refused · 2 usage",
            rank=20,
            section="Set up",
            guesses=("config set",),
        ),
        Command(
            ("config", "accept"),
            "project.config:accept",
            "Accept what the config states beyond the defaults: wider capture, allowed values, "
            "a published trail.",
            (flag("yes", "Accept without being asked; a person's own scripts only."),),
            ("spec-kitty config accept",),
            "0 accepted, or nothing to accept · 1 refused · 2 usage",
            rank=30,
        ),
        Command(
            ("do",),
            "invoke:do",
            "Route a request, record it durably, print the governance context for whoever does "
            "the work.",
            (
                REQUEST,
                PROFILE,
                NO_TRAIL,
                CONTEXT,
            ),
            ('spec-kitty do "fix the failing login test"', 'spec-kitty do "implement WP03" --json'),
            ANSWER,
            rank=40,
            section="Begin",
            guesses=("start", "begin", "new"),
        ),
        Command(
            ("ask",),
            "invoke:ask",
            "As do, with a profile of your choice.",
            (
                argument("profile", "The profile's id.", required=True, metavar="PROFILE"),
                REQUEST,
                NO_TRAIL,
                CONTEXT,
            ),
            ('spec-kitty ask critic-cato "look at the parser change"',),
            ANSWER,
            rank=50,
            section="Begin",
        ),
        Command(
            ("advise",),
            "invoke:advise",
            "As do, for advice only: the record is advisory and carries no evidence.",
            (
                REQUEST,
                PROFILE,
                NO_TRAIL,
                CONTEXT,
            ),
            ('spec-kitty advise "should we split the billing module?"',),
            ANSWER,
            rank=60,
            section="Begin",
        ),
        Command(
            ("route",),
            "invoke:route",
            "Show where a request would go and why; writes nothing.",
            (
                REQUEST,
                PROFILE,
                flag("explain", "Show everything that was considered."),
            ),
            ('spec-kitty route "review the SQL migration" --explain',),
            "0 routed · 1 refused, with candidates · 2 usage",
            rank=70,
            section="Begin",
        ),
        Command(
            ("profiles", "list"),
            "governance.profiles:list_profiles",
            "Every profile that can be routed to, with role and languages.",
            (),
            ("spec-kitty profiles list", "spec-kitty profiles list --json"),
            "0 ok · 2 usage",
            rank=80,
            guesses=("agents",),
        ),
        Command(
            ("profiles", "show"),
            "governance.profiles:show_profile",
            "One profile whole.",
            (argument("profile", "The profile's id.", required=True, metavar="PROFILE"),),
            ("spec-kitty profiles show critic-cato",),
            READ,
            rank=90,
        ),
        Command(
            ("charter", "context"),
            "governance.charter:context",
            "The governance context an action would receive, with scores and reasons, or one "
            "artifact; records nothing.",
            (
                option("action", "implement, review, plan, specify, analyze, …", metavar="ACTION"),
                option(
                    "uri", "Print this charter section or artifact whole instead.", metavar="URI"
                ),
                PROFILE,
                option("request", "Rank against this request.", metavar="TEXT"),
                flag("explain", "Show scores, filters and what was left out."),
                flag(
                    "mark_loaded",
                    "Note the first load of this action: its next contexts are compact.",
                ),
            ),
            (
                'spec-kitty charter context --action review --request "the SQL migration" '
                "--explain",
                "spec-kitty charter context --uri charter://section/policy-summary",
            ),
            "0 ok · 1 refused · 2 usage",
            rank=100,
            guesses=("rules", "charter show"),
        ),
        Command(
            ("profile-invocation", "complete"),
            "complete:complete",
            "Close a record with its outcome; links and evidence are written with the closing "
            "line.",
            CLOSING,
            (
                "spec-kitty profile-invocation complete last",
                "spec-kitty profile-invocation complete ID --outcome failed --evidence notes.md",
            ),
            "0 closed, or already closed so · 1 refused, nothing written · 2 usage",
            rank=140,
            guesses=(
                "complete",
                "close",
                "done",
                "finish",
                "end",
                "profile-invocation done",
                "profile-invocation finish",
            ),
        ),
        Command(
            ("profile-invocation", "close"),
            "complete:complete",
            "The same as complete, where that word is taken for the shell's builtin (Claude "
            "Code in a worktree).",
            CLOSING,
            ("spec-kitty profile-invocation close last --outcome done",),
            "0 closed, or already closed so · 1 refused, nothing written · 2 usage",
            rank=150,
        ),
        Command(
            ("profile-invocation", "record"),
            "record:record",
            "Append run events to an open record: one by --event, or many as JSON lines on "
            "stdin in one write.",
            (
                OPEN_ID,
                option(
                    "event", "tool_call, tool_result, step_started, model_call, …", metavar="TYPE"
                ),
                option(
                    "json_payload", "The event's raw values as JSON; - reads stdin.", metavar="JSON"
                ),
                flag("dry_run", "Show the lines with their masks; write nothing."),
            ),
            (
                "spec-kitty profile-invocation record ID --event error --json-payload - < "
                "error.json",
                "spec-kitty profile-invocation record ID --event tool_call --json-payload - < "
                "call.json",
                "spec-kitty profile-invocation record ID < events.jsonl",
            ),
            "0 recorded · 1 refused, nothing written · 2 usage",
            rank=160,
        ),
        Command(
            ("profile-invocation", "commit"),
            "record:commit",
            "Write a checkpoint to replay against; a policy that changed is referenced before it.",
            (
                OPEN_ID,
                option("label", "A name for the checkpoint.", metavar="NAME"),
                flag("force", "Take a label that is taken; it then means the newest."),
            ),
            ("spec-kitty profile-invocation commit ID --label after-review",),
            "0 written · 1 refused, nothing written · 2 usage",
            rank=170,
        ),
        Command(
            ("invocations", "list"),
            "records.listing:list_rows",
            "List invocations, newest first.",
            (
                *WHICH,
                option("status", "Only open or closed ones.", choices=("open", "closed")),
                option(
                    "outcome", "Only this outcome.", choices=("open", "done", "failed", "abandoned")
                ),
                option("parent", "Only children of this invocation, replays too.", metavar="ID"),
                flag("all", "List replays and re-executions too."),
                option("limit", "Maximum number of rows.", 50, integer=True, metavar="N"),
            ),
            ("spec-kitty invocations list", "spec-kitty invocations list --status open --json"),
            READ,
            rank=180,
            guesses=("list", "ls", "log", "history", "status", "records", "runs"),
        ),
        Command(
            ("invocations", "show"),
            "records.invocations:show",
            "Show one invocation: request, outcome, evidence, what was done, the rules it was "
            "given, findings.",
            (
                ID,
                flag("explain", "Show every line of the timeline, and each rule with its scores."),
            ),
            ("spec-kitty invocations show last", "spec-kitty invocations show @2 --explain"),
            READ,
            rank=200,
        ),
        Command(
            ("invocations", "verify"),
            "records.invocations:verify",
            "Are the bytes intact: seals, chain, sequence, ids, torn tails, objects. Without a "
            "target: all records.",
            (
                argument(
                    "target", "An id, a part of one, last, @N, or a file.", metavar="[ID|FILE]"
                ),
                flag("all", "Every record of the project."),
                option(
                    "anchor", "A seal seen on it before; repeatable.", multiple=True, metavar="SEAL"
                ),
            ),
            (
                "spec-kitty invocations verify --all",
                EXAMPLES_OF_FORMS,
                "spec-kitty invocations verify ID",
            ),
            "0 intact · 1 not found · 2 usage · 3 an error was found",
            rank=240,
            guesses=("trail verify", "trail status"),
        ),
        Command(
            ("invocations", "reindex"),
            "records.invocations:reindex",
            "Make the derived index anew from the records' names; take in what removed "
            "worktrees left behind.",
            (),
            ("spec-kitty invocations reindex",),
            "0 ok · 2 usage",
            rank=340,
        ),
        Command(
            ("schema",),
            "project.schema:schema",
            "Print a JSON Schema by name; without a name, the names.",
            (argument("name", "For example invocation-payload.", metavar="[NAME]"),),
            ("spec-kitty schema invocation-payload",),
            READ,
            rank=630,
            section="Set up",
        ),
    ),
)
