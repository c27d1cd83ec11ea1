"""What this room brings."""

from specify_cli.room import Command, Feature, Fill, Group, flag, option

FEATURE = Feature(
    name="sync",
    about="Deliver what happened to a service, if a person agrees.",
    page="docs/sync.md",
    needs=("witness",),
    libraries=("archive", "processes", "signed_log", "wire"),
    extra="sync",
    groups=(
        Group(
            "sync", "Deliver what happened to a service, if you agree to it.", 130, section="Share"
        ),
    ),
    commands=(
        Command(
            ("sync", "enable"),
            "commands:enable",
            "Show exactly what would leave, for a real record, and ask; nothing leaves before "
            "you agree.",
            (
                option(
                    "endpoint",
                    "Where to; by default what the project's config proposes.",
                    metavar="URL",
                ),
                option(
                    "level",
                    "ids: ids, times, outcomes. metadata: who and how as well. full: the request's "
                    "text too. records: each record whole, what it names, and the log.",
                    choices=("ids", "metadata", "full", "records"),
                ),
                option(
                    "token_file",
                    "Keep the token from this file (- reads stdin) for deliveries.",
                    metavar="F",
                ),
                flag(
                    "reuse_token", "Send a token that belongs to another endpoint to this one too."
                ),
                flag("yes", "Agree without being asked; the endpoint must be given."),
            ),
            (
                "spec-kitty sync enable --endpoint https://collector.example.org/v1/events",
                "spec-kitty sync enable --endpoint http://127.0.0.1:8080/v1/events --level full "
                "--yes",
            ),
            "0 enabled · 1 refused or not agreed to · 2 usage",
            guesses=("login", "sync on"),
        ),
        Command(
            ("sync", "disable"),
            "commands:disable",
            "Withdraw the agreement; a push under way stops before its next request.",
            (),
            ("spec-kitty sync disable",),
            "0 disabled, or was not enabled · 1 refused · 2 usage",
            rank=510,
            guesses=("logout", "sync off"),
        ),
        Command(
            ("sync", "status"),
            "commands:status",
            "How delivery stands: pending, delivered, refused, excluded, last success; sends "
            "nothing.",
            (),
            ("spec-kitty sync status", "spec-kitty sync status --json"),
            "0 ok · 1 refused · 2 usage",
            rank=520,
        ),
        Command(
            ("sync", "push"),
            "commands:push",
            "Deliver everything that is due now.",
            (flag("dry_run", "Show the envelopes that would leave next; send nothing."),),
            ("spec-kitty sync push", "spec-kitty sync push --dry-run"),
            "0 nothing is left to try · 1 something was refused or could not be delivered · 2 "
            "usage",
            rank=530,
        ),
        Command(
            ("sync", "retry"),
            "commands:retry",
            "Try again what was refused, then deliver everything that is due.",
            (),
            ("spec-kitty sync retry",),
            "0 nothing is left to try · 1 something was refused or could not be delivered · 2 "
            "usage",
            rank=540,
        ),
    ),
    fills=(
        Fill("config_keys", "consent:judge_proposal", "sync"),
        Fill("checks", "status:check_delivery", rank=900),
        Fill("after", "trigger:start_push", marker="kittify/sync", rank=10),
        Fill("send_otlp", "otlp:send"),
    ),
    shapes="shapes",
    errors={
        "SYNC_DISABLED": "Nobody agreed to an endpoint for this project, so nothing is sent.",
        "SYNC_UNAVAILABLE": "Sync needs a git directory it can write, and usable settings of "
        "proxy and TLS.",
        "SYNC_BUSY": "Another push of this worktree is under way.",
        "CONSENT_NEEDED": "Nobody agreed to what would leave; nothing is sent.",
        "CONSENT_INVALID": "The stored consent is not what `sync enable` writes, or was given "
        "for another project.",
        "ENDPOINT_INVALID": "The endpoint is not an https URL, or holds a user, password, query "
        "or fragment.",
        "PROJECT_UNNAMED": "The project has no uuid of its own yet, by which a receiver tells "
        "projects apart.",
        "DELIVERY_FAILED": "The endpoint could not be reached or does not take what is sent; "
        "everything is kept.",
        "TOKEN_MISSING": "No token for the endpoint is set.",
        "TOKEN_BOUND": "The token belongs to another endpoint; another one gets its own, or a "
        "person agrees.",
        "LISTENER_FOREIGN": "Another user than agreed listens at a loopback endpoint; nothing "
        "was sent.",
        "TOKEN_INVALID": "The token or the signing secret has no usable form, its file is open "
        "to others, or the file "
        "that says where a token may go is damaged.",
    },
)
