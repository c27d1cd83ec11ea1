"""Records in the forms that programs of others read: OpenTelemetry, Perfetto, Agent Trace, and
tables (docs/replay.md).

    from specify_cli.features.exports.perfetto import make_perfetto
    make_perfetto([])

Reading order: a module for each form (a run to a document, pure), `trace_commands.py` (their
command and the table of them), `tables.py` (what stands in a row, pure), `table_commands.py`
(Parquet).

Each form says what it cannot carry. The same records give the same bytes. With `--safe`, what
redaction would change or policy keeps back does not leave. It needs the room search (Agent Trace
asks who wrote a line); the collector needs it.
"""
