"""The site of the documentation: all that a reader can look up is on it. `make docs` builds it and judges its links."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from absent_rooms import ABSENT
from building_site import TOOLS, require_tool
from declared import read_errors, read_findings, schemas
from reference import compose_pages, group_commands, list_finding_rows, name_page
from specify_cli.cli.tables.assemble import read_rooms
from specify_cli.cli.tables.command_table import find_command, list_commands
from specify_cli.features.charter_setup.linting.findings import CODES as LINT_CODES
from specify_cli.features.charter_setup.linting.unread import _SECTIONS, CORE_KEYS
from specify_cli.features.gate.findings import KINDS as GATE_KINDS
from specify_cli.features.replay.outcomes import FINDINGS as REPLAY_FINDINGS
from specify_cli.features.retention.rules import _KEYS as RETENTION_KEYS
from specify_cli.project.protection import CAPTURE_SIDES, NO_TRAIL, TRAILS
from specify_cli.redaction.capture import MODES
from stage import NAVIGATION, compose_site, list_pages, stage
from support import Cli

pytestmark = pytest.mark.skipif(bool(ABSENT), reason="the site is of the tree with all its rooms")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
START = DOCS / "site/index.md"
SOURCES = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
MOST_WORDS = 35_000
MOST_BYTES_OF_A_PICTURE = 150_000


@functools.cache
def _compose() -> dict[str, str]:
    return compose_pages()


def test_every_command_is_there_with_each_option_example_and_exit_code() -> None:
    missing = []
    for section, commands in group_commands().items():
        parts = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", _compose()[name_page(section)], re.M))
        for command in commands:
            part = parts[" ".join(("spec-kitty", *command.path))]
            wanted = [*command.examples, *(f"- {exit.partition(' ')[0]}: " for exit in command.exits.split(" · "))]
            wanted += [param.option for param in command.params if param.kind != "argument" or param.spelled_out]
            missing += [(command.path, text) for text in wanted if text not in part]

    assert missing == []
    assert sum(map(len, group_commands().values())) == len(list(list_commands()))


def test_every_error_code_is_there() -> None:
    page = (DOCS / "errors.md").read_text(encoding="utf-8")

    warned = {code for text in SOURCES for code in re.findall(r'"warning: ([A-Z]+_[A-Z_]+):', text)}
    assert "SHARED_ENVIRONMENT" in warned
    assert [code for code in {*read_errors(), *warned} if f"- `{code}`: " not in page] == []


def test_the_options_of_the_program_itself_are_there(cli: Cli) -> None:
    options = set(re.findall(r"^ +(?:-h, )?(--[a-z-]+)", cli("--help").out, re.M))

    assert len(options) == 4
    assert [option for option in options if f"{option}`" not in _compose()["commands.md"]] == []


def test_every_finding_is_there_with_its_meaning() -> None:
    headings = set(re.findall(r"^## ([A-Z_]+)$", _compose()["findings.md"], re.M))
    said = {code for text in SOURCES for code in re.findall(r'\bFinding\(\s*"([A-Z_]+)"', text)}
    tables = {*read_findings(), *LINT_CODES, *GATE_KINDS, *REPLAY_FINDINGS}
    unsaid = [row.code for row in list_finding_rows() if row.source != "doctor" and not row.meaning]

    assert (tables | said) - headings == set()
    assert unsaid == []


def test_every_setting_is_there_and_no_other() -> None:
    """Keys are those that code reads; a key of the page that nothing reads would be a lie."""
    page = (DOCS / "config.md").read_text(encoding="utf-8")
    listed = {key for line in re.findall(r"^- (`.*?`): ", page, re.M) for key in re.findall(r"`([\w.]+)`", line)}
    top = {key for text in SOURCES for key in re.findall(r'\btop\.get\("(\w+)"', text)}
    top |= {key for text in SOURCES for key in re.findall(r'config\.document\.get\("(\w+)"', text)}
    named = {fill.name for room in read_rooms() for fill in room.feature.fills if fill.point == "config_keys"}
    sections = {**_SECTIONS, "sync": ("endpoint", "level"), "replay": ("endpoints",)}
    read = {f"{section}.{key}" for section, keys in sections.items() for key in keys}

    assert listed == read | {"trail", "memory_backend", "retention", "retention_on_sweep"}
    assert {key.partition(".")[0] for key in listed} == top | named | set(CORE_KEYS)
    sides = (side for sides in CAPTURE_SIDES.values() for side in sides)
    values = (*TRAILS, *NO_TRAIL, *MODES, *RETENTION_KEYS, *sides)
    assert [value for value in values if f"`{value}`" not in page] == []


def test_every_extension_point_is_there_with_what_fills_it() -> None:
    page = _compose()["extension-points.md"]
    asked = {point for text in SOURCES for point in re.findall(r'list_fills\("(\w+)"\)', text)}
    fills = [fill for room in read_rooms() for fill in room.feature.fills]

    assert len(asked) > 10
    assert [point for point in asked if f"### `{point}`" not in page] == []
    assert [fill for fill in fills if f"### `{fill.point}`" not in page or f"`{fill.run}`" not in page] == []


def test_every_shape_is_there_with_its_members() -> None:
    parts = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", _compose()["json.md"], re.M))
    made = schemas()
    missing = [
        (name, member)
        for name, schema in made.items()
        for member in schema.get("properties", {})
        if name != "event" and f"- `{member}`" not in parts[name]
    ]

    assert parts.keys() == made.keys()
    assert missing == []


def test_each_page_has_its_place_in_one_of_four_kinds() -> None:
    placed = [name for names in NAVIGATION.values() for name in names]
    pages = {path.stem for path in list_pages() if path.parent == DOCS}
    generated = {Path(name).stem for name in compose_site()} - {"index"}
    sections = {name for name in generated if name.startswith("commands-")}

    assert list(NAVIGATION) == ["Tutorial", "How-to", "Reference", "Explanation"]
    assert len(placed) == len(set(placed))
    assert set(placed) == pages | generated - sections


def test_what_is_written_by_hand_has_a_bounded_number_of_words() -> None:
    """Tables that `make docs` writes, and decisions, do not count."""
    words = 0
    for path in (*DOCS.glob("*.md"), START):
        text = re.sub(r"<!-- \w+: written by.*?<!-- end of", "", path.read_text(encoding="utf-8"), flags=re.S)
        if path.name in ("format.md", "api.md"):
            text = re.sub(r"^\| `\w+` \|.*$", "", text, flags=re.M)
        words += len(text.split())

    assert 20_000 < words <= MOST_WORDS


def test_the_start_page_has_a_picture_that_is_described_and_commands_that_are_there() -> None:
    text = START.read_text(encoding="utf-8")
    [(described, picture)] = re.findall(r"!\[(.*?)\]\((.*?)\)", text, re.S)
    block = re.search(r"```sh\n(.*?)```", text, re.S)
    assert block is not None
    commands = [shlex.split(line, comments=True)[1:] for line in block[1].splitlines()]

    assert len(described) > 100
    assert (START.parent / picture).stat().st_size <= MOST_BYTES_OF_A_PICTURE
    assert len(commands) == 3
    assert [words for words in commands if find_command(words) is None] == []
    assert "## What it does not do" in text


def test_what_makes_the_site_is_pinned_with_digests_and_names_no_server() -> None:
    text = (DOCS / "site/requirements.txt").read_text(encoding="ascii")
    parts = re.split(r"^(?=[a-z0-9])", text, flags=re.M)[1:]

    assert {"sphinx", "furo", "myst-parser", "spylls"} <= {part.partition("==")[0] for part in parts}
    assert [part.split()[0] for part in parts if "--hash=sha256:" not in part] == []
    assert "://" not in text


def spell(*places: Path) -> list[str]:
    """Return what the check of `make docs` says of pages."""
    argv = [f"{TOOLS}/bin/python", str(DOCS / "site/spelling.py"), *map(str, places)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.stderr == "" and (done.returncode == 1) == bool(done.stdout)
    return done.stdout.splitlines()


def test_nothing_is_misspelt_and_the_list_of_terms_holds_no_other_word(tmp_path: Path) -> None:
    """Each word of prose is in a dictionary or a term of ours, also in what commands say of themselves."""
    require_tool()
    stage(tmp_path / "site")
    tops = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    terms = (DOCS / "site/terms.txt").read_text(encoding="utf-8").split()

    assert spell(tmp_path / "site", *tops) == []
    assert terms == sorted(set(terms), key=lambda word: (word.lower(), word))


def test_a_misspelt_word_is_named_with_its_line_and_code_is_no_prose(tmp_path: Path) -> None:
    require_tool()
    page = tmp_path / "page.md"
    page.write_text("A recieved `wrod` of CODE, src/wrod.py\n```\nwrod\n```\n[the](wrod.md) <a name=wrod> teh end.\n")
    found = [line for line in spell(page) if "stands on no page" not in line]

    assert [line.partition(" is in")[0] for line in found] == [f"{page}:1: recieved", f"{page}:5: teh"]
