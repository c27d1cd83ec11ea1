"""What this room brings."""

from specify_cli.room import Feature, Form, option

_EXPORT = ("invocations", "export")
_TRACES = "trace_commands:export_trace"

FEATURE = Feature(
    name="exports",
    about="Hand records over in the forms that programs of others read.",
    page="docs/replay.md",
    needs=("search",),
    libraries=("archive", "timeline"),
    forms=(
        Form(
            _EXPORT,
            ("parquet",),
            "table_commands:export_tables",
            (
                option(
                    "parquet",
                    "These records, or all, as tables for DuckDB, in a new folder.",
                    metavar="DIR",
                ),
            ),
            after="html",
            examples=("spec-kitty invocations export --parquet tables",),
            rank=60,
        ),
        Form(
            _EXPORT,
            ("format=otlp",),
            _TRACES,
            about="OpenTelemetry.",
            rank=30,
        ),
        Form(
            _EXPORT,
            ("format=perfetto",),
            _TRACES,
            about="for ui.perfetto.dev.",
            examples=("spec-kitty invocations export last --format perfetto -o run.json",),
            rank=40,
        ),
        Form(
            _EXPORT,
            ("format=agent-trace",),
            _TRACES,
            about="which lines one record wrote.",
            rank=50,
        ),
        Form(
            _EXPORT,
            ("endpoint",),
            _TRACES,
            (
                option(
                    "endpoint", "With otlp: send it there instead of writing a file.", metavar="URL"
                ),
            ),
            after="format",
            rank=70,
        ),
    ),
    shapes="shapes",
)
