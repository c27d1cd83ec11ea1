"""Lines that an imported session wrote lead to it, and it is told as a transcript's claim."""

from __future__ import annotations

from pathlib import Path

from features.sessions.test_import_sessions import each, forget, lay, play_with_transcript, read_lines
from specify_cli.record import layout
from support import Cli, git


@each
def test_a_session_that_was_imported_wrote_what_its_transcript_says(
    harness: str, chartered: Path, cli: Cli, home: Path
) -> None:
    session = play_with_transcript(harness, chartered, cli, home)
    forget(chartered)
    lay(harness, home, session)
    (invocation_id,) = cli("import", "sessions", "--harness", harness, "--json").json()["imported"]
    patches = [line for line in read_lines(chartered, layout.IMPORTED) if line["event"] == "patch_apply" and line["ok"]]
    created = {line["path"]: line["after"]["head"] for line in patches if line["kind"] == "create"}
    for path, text in created.items():
        (chartered / path).parent.mkdir(parents=True, exist_ok=True)
        (chartered / path).write_text(text)
    git(chartered, "add", *created)
    git(chartered, "commit", "-qm", "what the session made")

    report = cli("origin", "HEAD", "--json").json()

    assert created and report["lines"]["unrecorded"] == 0 and report["lines"]["recorded"] > 0
    assert [(one["invocation_id"], one["proof"]) for one in report["writers"]] == [(invocation_id, "claimed")]
