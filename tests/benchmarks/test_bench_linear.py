"""What hostile or large input costs grows with its size and no faster, and a wrong token costs what another costs."""

from __future__ import annotations

import hashlib
import secrets
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specify_cli.features.charter_setup.linting.lint import lint_project
from specify_cli.features.collector.engines.ledger import open_database
from specify_cli.features.collector.tokens import Tokens
from specify_cli.features.origin.attributing import attribute_lines
from specify_cli.features.origin.report import ChangedFile
from specify_cli.features.report.summing import Run, add_up_runs
from specify_cli.features.search.blame import find_writers
from specify_cli.features.search.edits import Edit, Names
from specify_cli.features.search.patches import Patches
from specify_cli.libraries.story.telling import tell_story
from specify_cli.libraries.words.words import match_query, part_signs
from specify_cli.record.reading.patch_lines import digest_line, lines_of_patch, read_lines_member
from specify_cli.record.reading.usage import UsageRow
from specify_cli.record.verify import verify_record
from specify_cli.redaction.json_values import foreign_text
from specify_cli.redaction.redact import redact, shipped_rule_set
from specify_cli.routing.parser import READ_CHARS, read_request
from specify_cli.routing.registry import shipped_table
from support import FULL

Say = Callable[[str], None]
RULES = shipped_rule_set()
HOSTILE = [
    "a",
    " ",
    "\n",
    "é",
    ".",
    ".aaaaaa",
    "⟦",
    "⟦jwt⟧",
    "\\",
    '"',
    '\\"',
    "\\n",
    "0123456789abcdef",
    "QUJD/+",
    "key",
    "key=",
    "_password",
    "password=",
    'password="',
    'password=\\"',
    "password=x;",
    "password is ",
    "password value ",
    "token: a ",
    'token("',
    'token,"',
    "--token ",
    "<password>",
    "sessionid=",
    "eyJ",
    "eyJaaaaaaaaa.",
    "ghp_",
    "sk-",
    "SK",
    "Q~",
    ":AA",
    "-us1",
    "AKIA" + "A" * 16 + " ",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n" + "A" * 30,
    "PRIVATE KEY",
    "Private-Lines: 1\n",
    '"kty":"d":"',
    "://",
    "://a:b",
    "://a:@",
    "a:b@tcp(",
    "bearer ",
    "bearer A1",
    "authorization: ",
    "cookie: a=b;",
    "cookie: a=bbbbbbbb; ",
    "curl -u a:",
    "machine x ",
    "mysql ",
    "heroku ",
    "sig=",
    "FlyV1 ",
    "\x1b[0m",
    "\\u0022",
    "\\u001b[",
    "&quot;",
    "A1" * 20 + " ",
    "|a|password|\n",
    "password,a\n",
    "a\tpassword\n1\tx\n",
    "password|",
    "docker login -p ",
    ' "-p"',
    "mongo -p",
    "echo ",
    "config set ",
    "sqlplus a/",
    "securestring '",
    "cookie: a=b; c=",
    "MTA1" * 8 + ".",
    "+ASt" + "A" * 76,
    "-us" * 12,
    "MIIEvQIBADANBg" + "A" * 40 + "\n",
    "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVk",
    "пароль: ",
    "password:\n",
    "İpassword=",
    "secret " + " " * 10 + "value",
    "key.",
    "pass-",
    "apikey",
    "webhook.office.com/webhookb2/",
    "a" * 39 + "\n",
]
REQUEST = "please fix the login token refresh in src/auth/login.py, it fails on Mondays: #12 (v1.2)"


def best_of(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the least CPU seconds of some rounds: what the work needs without what the machine did besides."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def test_a_text_made_to_be_slow_costs_what_its_size_costs(say: Say) -> None:
    small = 262_144 if FULL else 16_384
    ratios = {}
    for unit in HOSTILE:
        count = small // len(unit) + 1
        short = best_of(lambda text=unit * count: redact(text, RULES), 3)  # type: ignore[misc]
        long = best_of(lambda text=unit * 4 * count: redact(text, RULES), 3)  # type: ignore[misc]
        ratios[unit] = long / max(short, 0.001)
    worst = max(ratios, key=lambda unit: ratios[unit])
    say(f"masking four times a hostile text: {ratios[worst]:.2f} at most, of {worst!r} (at most 8)")

    assert ratios[worst] < 8


def test_marks_that_pile_up_on_a_letter_are_indexed_and_sought_for_what_their_number_costs(say: Say) -> None:
    texts = ["a" + "\u0301\u0327" * number for number in (5_000, 20_000)]
    for use in (part_signs, match_query):
        short, long = (best_of(lambda text=text, use=use: use(text), 3) for text in texts)  # type: ignore[misc]
        say(f"{use.__name__} of four times as many marks: {long / max(short, 0.001):.2f} (at most 8)")

        assert long / max(short, 0.001) < 8


def test_a_run_of_many_models_is_added_up_for_what_their_number_costs(say: Say) -> None:
    def add_up(number: int) -> object:
        used = tuple(UsageRow(None, f"m-{at}", {"input": 1}, 1, None, None) for at in range(number))
        return add_up_runs([Run("a", None, "b", "c", None, "done", "", 0, 0, (), (), number, None, False, (), used)])

    short, long = (best_of(lambda number=number: add_up(number), 3) for number in (2_000, 8_000))  # type: ignore[misc]
    say(f"a report of four times as many models: {long / short:.1f} (at most 8)")

    assert long / short < 8


def test_a_request_made_to_be_slow_costs_what_its_size_costs(say: Say) -> None:
    table = shipped_table()
    asking = ("can you ", "let's ", "please ", "reveiw, ", "what is ", "fix and ", "lav en ")
    for piece in (*asking, "really ", "修。", "[Image "):
        # Only 600 tokens are read: half of the characters is as many of some texts.
        whole = piece * (READ_CHARS // len(piece) // 2)
        part = best_of(lambda text=whole[: len(whole) // 4]: read_request(text, table), 3)  # type: ignore[misc]
        full = best_of(lambda text=whole: read_request(text, table), 3)  # type: ignore[misc]
        say(f"a request of {piece!r}: {1000 * full:.0f} ms, {full / part:.1f} times a quarter of it (at most 8)")

        assert full / part <= 8, piece


def test_hostile_patterns_and_comments_are_judged_in_linear_time(tmp_path: Path, say: Say) -> None:
    def lint(size: int) -> None:
        stars = "*a" * (size // 100) + "zz9"
        folder = tmp_path / str(size) / ".kittify/charter"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "charter.md").write_text("# C\n\n## Policy Summary\nx\n## A\n" + "<!--" * size + "\n")
        matches = "".join(f"- {{id: r{n}, match: {{uri: '{stars}{n or ''}'}}, action: redact}}\n" for n in range(2))
        (folder / "policy.yaml").write_text(f"rules:\n{matches}")
        lint_project(str(tmp_path / str(size)), profile_folders=())

    ratio = best_of(lambda: lint(40_000)) / best_of(lambda: lint(10_000))
    say(f"linting four times a hostile charter and policy: {ratio:.2f} (at most 8)")

    assert ratio < 8


def test_verify_is_linear_in_unreadable_lines(say: Say) -> None:
    def verify(count: int) -> None:
        lines = [b"x" * 200 + b"\n"] * count
        assert len(verify_record(lines, file="x", name_ids=None).findings) >= count

    ratio = best_of(lambda: verify(16_000)) / best_of(lambda: verify(1_000))
    say(f"verifying sixteen times as many unreadable lines: {ratio:.1f} (at most 40)")

    assert ratio < 40


def test_a_story_is_linear_in_the_changes_of_one_file(say: Say) -> None:
    def tell(count: int) -> None:
        change = {"event": "patch_apply", "path": "a.py", "kind": "modify", "ok": True}
        story = tell_story([{"event": "started", "seq": 0}, *({**change, "seq": 1 + at} for at in range(count))])
        assert [len(file.seqs) for file in story.changed] == [count]

    ratio = best_of(lambda: tell(40_000), 2) / best_of(lambda: tell(10_000), 2)  # neither fits into a cache
    say(f"telling four times as many changes of one file: {ratio:.1f} (at most 12)")

    assert ratio < 12


def test_an_ordinary_request_costs_what_some_hashes_do(say: Say) -> None:
    data = REQUEST.encode()
    ours = best_of(lambda: [redact(REQUEST, RULES) for _ in range(2_000)])
    reference = best_of(lambda: [hashlib.sha256(data).hexdigest() for _ in range(2_000)])
    say(f"masking an ordinary request / one SHA-256 of it: {ours / reference:.1f} (at most 40)")

    assert ours < 40 * reference


def test_a_large_string_costs_little_more_than_its_redaction(say: Say) -> None:
    line = "The quick brown fox: key word = x; path/to/some/file.py and a token (of thanks).\n"
    text = line * (1_000_000 // len(line))
    ratio = best_of(lambda: foreign_text({"content": text}, RULES)) / best_of(lambda: redact(text, RULES))
    say(f"a tool's output of 1 MB / its masking alone: {ratio:.2f} (at most 1.5)")

    assert ratio < 1.5


def test_a_wrong_token_takes_the_same_time_however_near_it_is(tmp_path: Path, say: Say) -> None:
    """Whatever they share with a real one: the median times of near and far secrets differ by less than the noise."""
    database = open_database(str(tmp_path / "events.db"))
    tokens = Tokens(database)
    _, secret = tokens.create("ada", ["send"], None, rate=None, now="2026-11-21T12:00:00.000Z")
    far = [secrets.token_urlsafe(len(secret))[: len(secret)] for _ in range(5_000)]
    near = [secret[:-3] + one[-3:] for one in far if one[-3:] != secret[-3:]]
    times: dict[str, list[int]] = {"far": [], "near": []}
    for pair in zip(far, near, strict=False):
        for kind, wrong in zip(times, pair, strict=True):
            begun = time.perf_counter_ns()
            found = tokens.find(wrong)
            times[kind].append(time.perf_counter_ns() - begun)

            assert found is None
    database.close()
    medians: dict[str, Any] = {kind: statistics.median(taken) for kind, taken in times.items()}
    ratio = medians["near"] / medians["far"]
    say(f"refusing a token that is nearly right / a wrong one: {ratio:.3f} (0.9 to 1.1)")

    assert 0.9 < ratio < 1.1


def test_who_wrote_a_file_that_many_made_longer_costs_what_their_lines_cost(say: Say) -> None:
    """Each of them can be laid at the file as it is; what stood there before is looked for once."""
    lines: list[str] = []
    edits: list[Edit] = []
    for number in range(30):
        before = "".join(lines)
        lines.append(f"line {number} = compute({number})\n")
        hunks = read_lines_member(lines_of_patch(before=before, after="".join(lines), created=not before))
        edits.append(Edit(f"run-{number:02}", 5, (f"2026-01-01T00:00:{number:02}", 5), "a.py", hunks))
    texts = "".join(lines).splitlines()

    ours = best_of(lambda: find_writers(texts, Names({"a.py"}), Patches(edits)))
    reference = best_of(lambda: [digest_line(line) for line in texts for _ in edits])
    say(f"writers of 30 lines by 30 invocations: {ours / reference:.1f} x digesting each line once for each of them")

    found = find_writers(texts, Names({"a.py"}), Patches(edits))
    assert [[edit.invocation_id for edit in writers] for writers in found] == [[edit.invocation_id] for edit in edits]
    assert ours / reference <= 20


def test_who_wrote_a_file_of_many_patches_that_are_alike_costs_what_their_lines_cost(say: Say) -> None:
    """Lines that stand everywhere (a bracket, a blank line, a return) lead nowhere: only rows are looked up."""
    edits: list[Edit] = []
    lines: list[str] = []
    for number in range(150):
        before = list(lines)
        at = number * 7919 % (len(lines) + 1) // 6 * 6
        lines[at:at] = [f"func step{number}() error {{", "\tif err != nil {", "\t\treturn err", "\t}", "}", ""]
        texts = ["".join(f"{line}\n" for line in state) for state in (before, lines)]
        hunks = read_lines_member(lines_of_patch(before=texts[0], after=texts[1], created=not before))
        edits.append(Edit(f"run-{number:03}", 5, (f"2026-01-01T00:00:00.{number:03}", 5), "a.go", hunks))

    ours = best_of(lambda: find_writers(lines, Names({"a.go"}), Patches(edits)))
    reference = best_of(lambda: [digest_line(line) for edit in edits for hunk in edit.hunks for _, line in hunk])
    found = find_writers(lines, Names({"a.go"}), Patches(edits))
    say(f"writers of 900 lines by 150 patches that are alike: {ours / reference:.1f} x digesting each line of them")

    firsts = {line: writers[0].invocation_id for line, writers in zip(lines, found, strict=True) if "step" in line}
    assert firsts == {f"func step{number}() error {{": f"run-{number:03}" for number in range(150)}
    assert ours / reference <= 80


def test_who_wrote_a_line_that_stands_between_many_others_costs_what_their_lines_cost(say: Say) -> None:
    """What each patch added it between is looked at once, and not for each place of the file."""
    edits: list[Edit] = []
    for number in range(600):
        text = f"before {number}\n}}\nafter {number}\n"
        hunks = read_lines_member(lines_of_patch(before=text.replace("}\n", ""), after=text)) * 4
        edits.append(Edit(f"run-{number:03}", 5, (f"2026-01-01T00:00:00.{number:03}", 5), "a.go", hunks))
    lines = [line for number in range(600) for line in (f"other {number}", "}")]

    ours = best_of(lambda: find_writers(lines, Names({"a.go"}), Patches(edits)))
    reference = best_of(lambda: [digest_line(line) for edit in edits for hunk in edit.hunks for _, line in hunk])
    say(f"writers of 600 brackets that 600 patches added elsewhere: {ours / reference:.1f} x digesting their lines")

    assert not any(find_writers(lines, Names({"a.go"}), Patches(edits)))
    assert ours / reference <= 20


def test_who_wrote_many_equal_lines_in_a_row_costs_what_their_lines_cost(say: Say) -> None:
    """Any of them can be any other one: pairs of them are not looked at."""
    first, row, last = ["def start(): pass"], ["row = add(row)"], ["def end(): pass"]
    edits = [
        Edit(f"run-{number}", 5, (f"2026-01-01T00:00:0{number}", 5), "a.py", hunks)
        for number in range(2)
        for hunks in [read_lines_member(lines_of_patch(after="\n".join(first + row * 990 + last), created=True))]
    ]
    texts = (*first, *row * 1980, *last)
    file = ChangedFile("a.py", None, "created", "", texts, tuple(range(len(texts))))

    ours = best_of(lambda: attribute_lines(file, Names({"a.py"}), Patches(edits), ()))
    reference = best_of(lambda: [digest_line(line) for line in texts for _ in edits])
    said = attribute_lines(file, Names({"a.py"}), Patches(edits), ())
    say(f"writers of 1,980 equal lines by two invocations: {ours / reference:.1f} x digesting each line once for each")

    assert [edit.invocation_id for edit in said[1000]] == ["run-0", "run-1"]
    assert ours / reference <= 200
