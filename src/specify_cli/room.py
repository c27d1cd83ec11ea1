"""What a room declares of itself: one plain value, from which the command line and every other
table is made.

    FEATURE = Feature(
        name="search",
        about="Find records by what stands in them.",
        page="docs/search.md",
        commands=(Command(("why",), "why_command:why", "Tell who wrote it.", (…), (…), "0"),),
    )

A room is a folder below `specify_cli/features` or an installed package (docs/extending.md). Its
module `feature` holds this value and imports nothing but this module and
`specify_cli.cli.tables.params`, so declarations can be read without running anything of a room.
Functions are named as `module:function` below the room's own package and imported when they run.
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Values = dict[str, object]
# Stands among a command's examples where those of other rooms' forms go; without it they go to the
# end.
EXAMPLES_OF_FORMS = "\0"
# The `by` of a form that always runs in the command's place.
ALWAYS = ("",)


class Param(NamedTuple):
    """One argument, option or flag. `name` is the key in the values a command receives.

    `values` is `open` where completion offers the ids of open records alone.

    `integer` and `choices` say what a value may be, `multiple` that it may be given several times.
    `help` is the text of the help page, and `metavar` what stands there for the value.
    """

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
    values: str = ""

    @property
    def option(self) -> str:
        """Return how the option is written: `--allow-outside` for `allow_outside`."""
        return "--" + self.name.replace("_", "-")


class Command(NamedTuple):
    """One command: its words, what runs it, what it says of itself; each takes `--json` besides its
    params.

    The lists of help show commands by `rank`, then in the order they are declared in; those of one
    word under their `section`: Begin, Close, Read, Prove, Replay, Share, Keep or Set up. `guesses`
    are what people type who do not know its words: they run nothing, the answer names the command.

    `path` are its words, `run` names `module:function` below the room's package. The function takes
    the values and returns the exit code; `exits` are the codes the help lists. Every example in
    `examples` is run by a test.
    """

    path: tuple[str, ...]
    run: str
    help: str
    params: tuple[Param, ...]
    examples: tuple[str, ...]
    exits: str
    rank: int = 500
    section: str = ""
    guesses: tuple[str, ...] = ()


class Form(NamedTuple):
    """What a room adds to another room's command.

    `by` names the options that choose it: `html` is chosen where that option is given,
    `format=otlp` where the option has this value, which the form adds to the option's choices with
    `about` as its help. `ALWAYS` takes the command over; without `by` the form only adds options,
    which the command's own function asks for. `params` are placed after the option `after`. `help`
    and `exits` replace the command's own.
    """

    path: tuple[str, ...]
    by: tuple[str, ...] = ()
    run: str = ""
    params: tuple[Param, ...] = ()
    after: str = ""
    about: str = ""
    examples: tuple[str, ...] = ()
    help: str = ""
    exits: str = ""
    rank: int = 500


# The points that the core and our rooms ask (docs/extending.md says what each takes and returns).
POINTS = frozenset((
    "after", "api", "checks", "closed", "config_keys", "gate_rules", "harness", "hooks_off",
    "list_filters", "merge_rules", "opened", "page_rows", "proofs", "record_checks",
    "record_streams", "send_otlp", "sources", "sweep", "transcripts", "turn_over",
))  # fmt: skip


class Fill(NamedTuple):
    """What a room does at a point of the core or of a library (docs/extending.md lists the points).

    Where `marker` is given, the point is only run where that path is there: below the git directory
    for `after`, below the project for the others. `name` tells what fills one point apart, such as
    the names of harnesses.
    """

    point: str
    run: str
    name: str = ""
    marker: str = ""
    rank: int = 500


class Marks(NamedTuple):
    """How the commands that a harness runs are known: by environment variables, or by its program
    among the processes above.

    `session` variables hold the id of the session, `marks` hold no id, `call` holds the id of the
    call that a command was run by, as hooks name it. `programs` are names of its process, or of the
    script it gives to its interpreter.
    """

    session: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    call: str = ""
    programs: tuple[str, ...] = ()


class Group(NamedTuple):
    """A word that commands stand after, and what it is for.

    `rank` and `section` are as for a command. A group runs nothing: without a further word the
    answer is its help.
    """

    path: str
    help: str
    rank: int = 500
    section: str = ""


class Feature(NamedTuple):
    """A room: what it is for, what it needs, and what it brings.

    `needs` are other rooms by name, `libraries` those of `specify_cli/libraries`, `extra` is the
    name of its optional dependencies in pyproject.toml. `direct` maps a
    first word of the command line to a function that takes the rest of it and answers for
    everything itself. `shapes` is the module with `SHAPES`, the JSON of its commands, `findings`
    the one with `FINDINGS`, what verify can find of it; `errors` maps its error codes to what they
    mean; `harnesses` says by name how the commands of each are known. Of another package alone:
    `masks` maps the id of each masking rule to its RE2 pattern, `backends` are values of
    `memory_backend`.
    """

    name: str
    about: str
    page: str
    needs: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    extra: str = ""
    groups: tuple[Group, ...] = ()
    commands: tuple[Command, ...] = ()
    forms: tuple[Form, ...] = ()
    fills: tuple[Fill, ...] = ()
    direct: Mapping[str, str] = {}
    shapes: str = ""
    findings: str = ""
    errors: Mapping[str, str] = {}
    harnesses: Mapping[str, Marks] = {}
    masks: Mapping[str, str] = {}
    backends: tuple[str, ...] = ()


def argument(name: str, help: str, default: str | int | None = None, **more: object) -> Param:
    """Declare an argument; `more` are members of Param.

    `name` is the key of its value, `help` its line on the help page. With a `default` it may be
    left out.
    """
    return Param(name, "argument", help, default, **more)  # type: ignore[arg-type]


def option(name: str, help: str, default: str | int | None = None, **more: object) -> Param:
    """Declare an option with a value; `more` are members of Param.

    `name` is written with `-` for each `_`. Without a `default` its value is None.
    """
    return Param(name, "option", help, default, **more)  # type: ignore[arg-type]


def flag(name: str, help: str) -> Param:
    """Declare an option without a value; it is False unless given."""
    return Param(name, "flag", help)
