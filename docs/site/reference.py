"""Compose the reference pages of the site from what the product declares of itself.

    for name, text in compose_pages().items():
        (folder / name).write_text(text, encoding="utf-8")

Nothing here is written by hand but headings: commands come from the command table, errors and findings from the
tables of their rooms, JSON from the schemas. What doctor says has no table, so it is read out of the source code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import specify_cli
from declared import read_findings, schemas
from specify_cli.cli.tables.assemble import Room, read_rooms
from specify_cli.cli.tables.command_table import Command, list_commands, list_groups, list_sections
from specify_cli.features.charter_setup.linting.findings import CODES as LINT_CODES
from specify_cli.features.gate.findings import KINDS as GATE_KINDS
from specify_cli.features.replay.outcomes import FINDINGS as REPLAY_FINDINGS
from specify_cli.room import Param

_SOURCE = Path(specify_cli.__file__).parent
_PAGES = Path(__file__).parents[1]
# The sections of help, with what a reader of the site wants to do there; what names none is under More.
SECTIONS: Mapping[str, str] = {
    "Begin": "Begin a record, or go on with one.",
    "Close": "Close a record, add to it, or approve what it is about to do.",
    "Read": "Read what was recorded.",
    "Prove": "Prove that records are whole and unchanged.",
    "Replay": "Decide again, from what a record kept or by other rules.",
    "Share": "Hand records to other people, programs and servers.",
    "Keep": "Erase, hold, and keep as long as the project says.",
    "Set up": "Set a project up, and find out what is wrong in it.",
    "More": "Other commands.",
}


class FindingRow(NamedTuple):
    """One code of a finding, as its table or the source code states it."""

    code: str
    source: str
    severity: str
    meaning: str
    repair: str


def compose_pages() -> dict[str, str]:
    """Return every generated page by its file name."""
    pages = {"commands.md": _compose_overview()}
    for section, commands in group_commands().items():
        pages[name_page(section)] = _compose_section(section, commands)
    pages["findings.md"] = _compose_findings()
    pages["extension-points.md"] = _compose_points(read_rooms())
    pages["json.md"] = _compose_json()
    return pages


def name_page(section: str) -> str:
    """Return the file name of a section of commands."""
    return f"commands-{section.lower().replace(' ', '-')}.md"


# --- commands


def group_commands() -> dict[str, list[Command]]:
    """Return the commands by their section of help, in its order."""
    stated = list_sections()
    grouped: dict[str, list[Command]] = {name: [] for name in SECTIONS}
    for command in list_commands():
        grouped[stated.get(command.path[0], "More")].append(command)
    for commands in grouped.values():
        # Commands behind one word stand together, in the order of the first of them.
        words = list(dict.fromkeys(command.path[0] for command in commands))
        commands.sort(key=lambda command: words.index(command.path[0]))
    return {name: commands for name, commands in grouped.items() if commands}


def _compose_overview() -> str:
    lines = [
        "# Commands",
        "",
        "Every command, by what it is for. Each takes `--json`, which prints the same value as JSON, and `--help`.",
        "`spec-kitty --version` prints the version, `spec-kitty --install-completion` completes words at a Tab,",
        "`spec-kitty --show-completion` prints how. Exit codes: 0 done, 1 refused or a difference was found, 2 wrong",
        "usage, 130 interrupted; a command that has others names them. `spec-kitty hook` is what agents' programs run",
        "([Hooks](hooks.md)).",
    ]
    for section, commands in group_commands().items():
        lines += ["", f"## {section}", "", SECTIONS[section], ""]
        lines += [f"- [`{_words(command)}`]({_link(section, command)}): {escape(command.help)}" for command in commands]
    return "\n".join((*lines, ""))


def _words(command: Command) -> str:
    return " ".join(("spec-kitty", *command.path))


def _link(section: str, command: Command) -> str:
    return f"{name_page(section)}#{'-'.join(('spec-kitty', *command.path))}"


def _compose_section(section: str, commands: list[Command]) -> str:
    lines = [f"# Commands: {section.lower()}", "", SECTIONS[section], ""]
    groups = list_groups()
    words = dict.fromkeys(command.path[0] for command in commands)
    lines += [f"- `spec-kitty {word} …`: {groups[word]}" for word in words if word in groups]
    for command in commands:
        lines += ["", *compose_command(command)]
    return "\n".join((*lines, ""))


def compose_command(command: Command) -> list[str]:
    """Return the lines of one command: how it is called, each param, examples, exit codes."""
    lines = [f"## {_words(command)}", "", escape(command.help), "", "```text", _usage(command), "```", ""]
    lines += [_describe_param(param) for param in command.params]
    if command.examples:
        lines += ["", "Examples:", "", "```sh", *command.examples, "```"]
    exits = (re.match(r"(\d+) (.*)", exit) for exit in command.exits.split(" · "))
    lines += ["", "Exit codes:", "", *(f"- {found[1]}: {escape(found[2])}" for found in exits if found)]
    return lines


def _usage(command: Command) -> str:
    words = [_words(command)]
    for param in command.params:
        if param.kind != "argument":
            continue
        name = (param.metavar or param.name.upper()).strip("[]…")
        name += "…" if param.multiple else ""
        words.append(name if param.required else f"[{name}]")
    required = [param for param in command.params if param.kind == "option" and param.required]
    words += [f"{param.option} {_value_of(param)}" for param in required]
    return " ".join((*words, "[OPTIONS]"))


def _value_of(param: Param) -> str:
    return param.metavar or ("N" if param.integer else "|".join(param.choices) or "TEXT")


def _describe_param(param: Param) -> str:
    if param.kind == "argument":
        name = f"`{param.metavar.strip('[]') or param.name.upper()}`"
        if param.spelled_out:
            name += f" or `{param.option} {param.metavar or 'TEXT'}`"
    else:
        value = "" if param.kind == "flag" else f" {param.metavar or 'TEXT'}"
        value = " N" if param.integer and not param.metavar else value
        value = "" if param.choices and not param.metavar else value
        name = f"`{param.option}{value}`" + (f", `{param.short}`" if param.short else "")
    notes = []
    if param.choices:
        notes.append("One of " + ", ".join(f"`{choice}`" for choice in param.choices) + ".")
    if param.default not in (None, ""):
        notes.append(f"Default: `{param.default}`.")
    if param.required:
        notes.append("Required.")
    return f"- {name}: {' '.join((escape(param.help), *notes))}"


# --- findings


def list_finding_rows() -> list[FindingRow]:
    """Return every finding there is, by code."""
    rows = [FindingRow(code, "verify", *row) for code, row in read_findings().items()]
    rows += [FindingRow(code, "charter lint", *row, "") for code, row in LINT_CODES.items()]
    rows += [FindingRow(code, "gate", "by gate.yaml", kind.meaning, kind.next) for code, kind in GATE_KINDS.items()]
    rows += [FindingRow(code, "replay", *row, "") for code, row in REPLAY_FINDINGS.items()]
    rows += read_doctor_rows()
    return sorted(rows, key=lambda row: (row.code, row.source))


def read_doctor_rows() -> list[FindingRow]:
    """Return what the checks of doctor can say, read out of the source code; `…` is what a run fills in."""
    rows: dict[str, FindingRow] = {}
    for path in sorted(_SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "specify_cli.project.checks import" in text:
            for function in ast.walk(ast.parse(text)):
                if isinstance(function, ast.FunctionDef):
                    for row in _read_findings_of(function):
                        rows.setdefault(row.code, row)
    notices = (_SOURCE / "project/config.py").read_text(encoding="utf-8")
    for code, meaning in re.findall(r'f"([A-Z_]{6,}): (.*?)"', notices):
        rows[code] = FindingRow(code, "doctor", "warning", _fill(meaning), "spec-kitty config accept")
    return list(rows.values())


def _read_findings_of(function: ast.FunctionDef) -> Iterator[FindingRow]:
    texts: dict[str, str] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                texts.setdefault(name, _read_text(value, {}))
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="Finding"), args=[ast.Constant(value=str(code)), level, _, *said]):
                meaning, repair = ([_read_text(one, texts) for one in said] + ["", ""])[:2]
                yield FindingRow(code, "doctor", _read_severity(level), meaning, repair)
            case ast.Call(func=ast.Name(id="_convert_problem"), args=[ast.Constant(value=str(code)), _]):
                yield FindingRow(code, "doctor", "error", "", "")


def _read_severity(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return name.lower()
        case ast.IfExp(body=ast.Name(id=one), orelse=ast.Name(id=other)):
            return f"{one.lower()} or {other.lower()}"
    return ""


def _read_text(node: ast.expr, texts: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_read_text(value, texts) for value in values)
        case ast.BinOp(left=left, right=right):
            return _read_text(left, texts) + _read_text(right, texts)
        case ast.IfExp(body=body):
            return _read_text(body, texts)
        case ast.Name(id=name):
            return texts.get(name, "…")
    return "…"


def _fill(text: str) -> str:
    return re.sub(r"\{.*?\}", "…", text)


def _compose_findings() -> str:
    lines = [
        "# Findings",
        "",
        "Every code that `invocations verify`, `doctor`, `charter lint`, `replay` and `gate` can find, from A to Z.",
        "`…` stands for what a run fills in. The rooms of other packages may bring findings of their own.",
        "How a verdict follows from findings is said in [Verify](verify.md), [Replay](replay.md#findings) and",
        "[the gate](gate.md).",
    ]
    last = ""
    for row in list_finding_rows():
        if row.code != last:
            lines += ["", f"## {row.code}", ""]
            last = row.code
        lines.append(_describe_finding(row))
    return "\n".join((*lines, ""))


def _describe_finding(row: FindingRow) -> str:
    meaning = "" if row.meaning.strip("… ") == "" else row.meaning
    repair = "" if row.repair.strip("… ") == "" else row.repair
    said = escape(meaning) or f"the message says what; see {_find_page(row.code)}"
    fix = f" *What to do:* {escape(repair)}" if repair else ""
    dot = "" if said.endswith((".", ":")) else "."
    return f"- *{row.source}* ({row.severity}): {said}{dot}{fix}"


def _find_page(code: str) -> str:
    """Return a link to the page that says when a code is found whose source code does not say it."""
    pages = (path for path in sorted(_PAGES.glob("*.md")) if path.name != "errors.md")
    page = next(path for path in pages if re.search(rf"\b{code}\b", path.read_text(encoding="utf-8")))
    return f"[{page.name}]({page.name})"


# --- extension points


def _compose_points(rooms: list[Room]) -> str:
    points: dict[str, list[str]] = {}
    for room in rooms:
        for fill in room.feature.fills:
            name = f" as `{fill.name}`" if fill.name else ""
            points.setdefault(fill.point, []).append(f"- {room.feature.name}{name}: `{fill.run}`")
    for point in list_asked_points():
        points.setdefault(point, [])
    lines = [
        "# Extension points, and what fills them",
        "",
        "What each of our own rooms puts at the points of the core, and what it adds to commands. What a function at a",
        "point receives and returns is said in [Extending spec-kitty](extending.md#the-extension-points).",
        "",
        "## Points",
    ]
    for point, fills in sorted(points.items()):
        lines += ["", f"### `{point}`", "", *(fills or ["No room of ours fills it."])]
    lines += ["", "## Rooms"]
    for feature in (room.feature for room in rooms):
        page = feature.page.removeprefix("docs/")
        lines += ["", f"### {feature.name}", "", f"{escape(feature.about)} Described in [{page}]({page}).", ""]
        brought = {
            "Needs": feature.needs,
            "Extra": (feature.extra,) if feature.extra else (),
            "Commands": [" ".join(command.path) for command in feature.commands],
            "Adds to": sorted({" ".join(form.path) for form in feature.forms}),
            "Fills": sorted({fill.point for fill in feature.fills}),
            "Errors": list(feature.errors),
        }
        lines += [f"- {what}: {', '.join(f'`{one}`' for one in names)}" for what, names in brought.items() if names]
    return "\n".join((*lines, ""))


def list_asked_points() -> list[str]:
    """Return the points that some code asks for, as `list_fills` names them."""
    sources = (path.read_text(encoding="utf-8") for path in sorted(_SOURCE.rglob("*.py")))
    return sorted({point for text in sources for point in re.findall(r'list_fills\("(\w+)"\)', text)})


# --- JSON


def _compose_json() -> str:
    lines = [
        "# JSON",
        "",
        "What commands print with `--json`, one shape a section. `spec-kitty schema NAME` prints it as JSON Schema.",
        "Members stay, with their meaning and type; new ones may come ([what stays as it is](stability.md)). A member",
        "marked `?` can be left out. The lines of a record are described in [the format](format.md#4-events).",
    ]
    for name, schema in sorted(schemas().items()):
        # The event is the union of all lines of a record: the format's page has it, a row an event.
        lines += ["", f"## {name}", "", escape(schema.get("description", "")), ""]
        if name != "event":
            lines += _list_members(schema)
            for inner, part in schema.get("$defs", {}).items():
                lines += ["", f"**{inner}.** {escape(part.get('description', ''))}", "", *_list_members(part)]
        lines += ["", f"The whole: {{download}}`{name}.json <schemas/{name}.json>`"]
    return "\n".join((*lines, ""))


def _list_members(schema: Mapping[str, Any]) -> list[str]:
    required = set(schema.get("required", ()))
    lines = []
    for name, member in schema.get("properties", {}).items():
        about = member.get("description", "")
        mark = "" if name in required else "?"
        lines.append(f"- `{name}`{mark}: {name_type(member)}{'. ' + escape(about) if about else ''}")
    if not lines:
        lines.append(f"It is {name_type(schema)}.")
    return lines


def name_type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        return f"*{schema['$ref'].rpartition('/')[2]}*"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(name_type(one) for one in schema[key]))
    kind = schema.get("type", "any value")
    if kind == "array":
        if "prefixItems" in schema:
            return f"list of {', '.join(name_type(one) for one in schema['prefixItems'])}"
        return f"list of {name_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {name_type(schema['additionalProperties'])}"
    return str(kind)


def escape(text: str) -> str:
    """Return text in which nothing but code spans is markup; options become code."""
    text = re.sub(r"(?<![\w`-])(--[a-z][\w-]*)(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"`\1`", text.strip())
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]{}$|#~])", r"\\\1", part) for part in parts)
