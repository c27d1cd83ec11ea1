"""What this room brings."""

from specify_cli.room import Feature, Fill, Form, option

FEATURE = Feature(
    name="models",
    about="Ask another model what a run asked its own.",
    page="docs/replay.md",
    needs=("programs", "replay", "sync"),
    forms=(
        Form(
            ("replay",),
            ("ab", "endpoint", "event", "key_variable"),
            "commands:ask_other",
            (
                option(
                    "ab",
                    "Ask this model what the run asked its own; writes a child record.",
                    metavar="MODEL",
                ),
                option(
                    "endpoint",
                    "With --ab: where it is asked; a person has to accept it.",
                    metavar="URL",
                ),
                option(
                    "event",
                    "With --ab: only the model call of this seq; repeatable.",
                    integer=True,
                    multiple=True,
                    metavar="SEQ",
                ),
                option(
                    "key_variable",
                    "With --ab: the variable that holds the API key.",
                    metavar="NAME",
                ),
            ),
            after="from_root",
            examples=(
                "spec-kitty replay ID --ab MODEL --endpoint https://models.example.org/v1/messages",
            ),
            rank=30,
        ),
    ),
    shapes="shapes",
    fills=(Fill("config_keys", "other_model:judge_endpoints", "replay"),),
)
