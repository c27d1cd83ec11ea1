"""invocations compare: do two runs match."""

from __future__ import annotations

from shlex import quote

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import one_line, write_answer
from specify_cli.errors import CallerError
from specify_cli.libraries.comparison.chains import run_both
from specify_cli.libraries.comparison.compare import verify_replay
from specify_cli.libraries.comparison.receipts import Chain, chain_of
from specify_cli.libraries.comparison.text import render_comparison
from specify_cli.redaction.json_values import ForeignError, parse_foreign
from specify_cli.room import Values


def compare(values: Values) -> int:
    """Compare two runs; 1 where they differ."""
    targets = shell.get_texts(values, "targets")
    if targets == ["-"]:
        one, two = _read_chains(shell.stdin_bytes())
    elif len(targets) == 2:
        one, two = run_both(shell.read_project(), targets)
    else:
        raise CallerError(
            "USAGE",
            f"expected two records, or -, found {len(targets)}",
            "spec-kitty invocations compare "
            f"{'@2' if targets in ([], ['last']) else quote(targets[0])} last",
        )
    tolerance = values["tolerance_ms"]
    result = verify_replay(one, two, tolerance if isinstance(tolerance, int) else None)
    write_answer(values, result.as_value(), render_comparison(result))
    return shell.judge_exit(result.match, values)


def _read_chains(data: bytes) -> tuple[Chain, Chain]:
    try:
        value = parse_foreign(data)
    except ForeignError as error:
        value = str(error)
    if not isinstance(value, dict) or not {"original_chain", "replay_chain"} <= value.keys():
        found = value if isinstance(value, str) else "neither"
        if isinstance(value, dict):
            found = f"an object with {', '.join(map(one_line, list(value)[:5])) or 'no member'}"
        raise CallerError(
            "PAYLOAD_INVALID",
            f'stdin: expected {{"original_chain": […], "replay_chain": […]}}, found {found}',
            "spec-kitty invocations compare - < chains.json",
        )
    return chain_of(value["original_chain"], "original"), chain_of(value["replay_chain"], "replay")
