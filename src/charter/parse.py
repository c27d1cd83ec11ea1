"""Charter and policy files to values.  [pure]

    parse_charter_markdown("# Shop\n\n## Testing\n\nRun pytest.").sections[0].title   # "Testing"
    parse_policy({"rules": [{"id": "r1", "match": {"tag": "draft"}, "action": "deny"}]})

Two charter forms are read. `charter.md` is prose: each `##` section is one artifact, what stands
before the first is the preamble. `charter.yaml` (schema_version 2.0.0) lists directives and the
doctrine selected or activated. Neither is ever rewritten here.
"""

from __future__ import annotations

import re
import unicodedata

from charter.model import SECTION_KIND, Charter, CharterError, Policy, PolicyRule, Remark
from doctrine.artifact import Artifact
from doctrine.light_imports import TYPE_CHECKING, hash_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from charter.model import PolicyAction
    from doctrine.yaml_reader import Document

PREAMBLE = "preamble"
_ACTIONS: dict[str, PolicyAction] = {"allow": "allow", "deny": "deny", "redact": "redact"}
_RULE_KEYS = ("id", "match", "action", "reason")
_MATCH_KEYS = ("uri", "kind", "tag")
_HEADING = r" {0,3}(#{1,2})[ \t]++(.*)"
_FENCE = r" {0,3}(`{3,}|~{3,})"
_GAP = r"[\W_]+"
# `<!-- always -->`, or `<!-- always: review, plan -->`, at the top of a section.
_MARK = r"<!--[ \t]*always(?::([a-z, ]*+))?[ \t]*-->\s*"
# Bookkeeping of charter.yaml: nothing an agent could act on.
_NOT_PROSE = (
    "schema_version",
    "governance",
    "directives",
    "metadata",
    "generated_at",
    "charter_hash",
    "project",
)


def parse_charter_markdown(text: str) -> Charter:
    """Return the sections of a charter written as prose.

    What stands before the first section is the section `preamble`, with the charter's own heading
    as its title. A heading without text below it makes no section.

    Any text is a charter, so nothing is raised. `<!-- always -->` at the top of a section marks it
    as shown in every context.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    headings = headings_of(lines)
    # A charter that uses only top-level headings means them as its sections.
    has_second = any(depth == 2 for _, depth, _ in headings)
    level = 1 if len(headings) > 1 and not has_second else 2
    starts = [(line, title) for line, depth, title in headings if depth == level]
    names = _Slugs()
    sections = []
    first = starts[0][0] if starts else len(lines)
    title, preamble = _split_title(lines[:first], headings)
    if "".join(preamble).strip():
        sections.append(_make_section(names.take(PREAMBLE), title, "\n".join(preamble)))
    ends = [*(line for line, _ in starts[1:]), len(lines)]
    for (line, heading), end in zip(starts, ends, strict=False):
        body = "\n".join(lines[line + 1 : end])
        if body.strip():
            sections.append(_make_section(names.take(heading), heading or "Untitled", body))
    return Charter(tuple(sections))


def _split_title(
    preamble: list[str], headings: list[tuple[int, int, str]]
) -> tuple[str, list[str]]:
    """Return the charter's own heading, where nothing but blank lines stands before it, and the
    lines after it; else a title of ours and all lines."""
    for line, depth, heading in headings:
        if depth == 1 and line < len(preamble) and not "".join(preamble[:line]).strip():
            return heading or PREAMBLE.capitalize(), preamble[line + 1 :]
    return PREAMBLE.capitalize(), preamble


def parse_charter_document(document: object) -> Charter:
    """Return the same model from a parsed charter.yaml.

    Texts and directives are sections; lists of doctrine say what is in force. Raises CharterError
    with the path of keys to what cannot be understood.

    `document` is what the YAML parser returned. What is used and looks like a mistake is a
    `Remark`.
    """
    if not isinstance(document, dict):
        raise CharterError((), "expected a mapping", "start the file with `schema_version: 2.0.0`")
    version = str(document.get("schema_version", "2.0.0"))
    if version.split(".")[0] != "2":
        reason = f"schema_version {version!r} is not known here"
        raise CharterError(("schema_version",), reason, "write it as schema_version: 2.0.0")
    names = _Slugs()
    remarks: list[Remark] = []
    sections = [*_read_texts(document, names), *_read_directives(document, names, remarks)]
    activated = _read_lists(document, "activated_", remarks)
    selected = _read_lists(document, "selected_", remarks)
    if selected:
        lines = [f"- {kind}: {', '.join(ids) or 'none'}" for kind, ids in sorted(selected.items())]
        body = "The charter draws on this doctrine:\n" + "\n".join(lines)
        sections.append(_make_section(names.take("selected doctrine"), "Selected doctrine", body))
    return Charter(tuple(sections), activated, selected, tuple(remarks))


def _read_texts(document: Document, names: _Slugs) -> Iterable[Artifact]:
    """Yield a section for each key that holds prose."""
    for key, value in document.items():
        if not isinstance(value, str) or not value.strip():
            continue
        if key not in _NOT_PROSE and not key.startswith(_LISTS):
            title = key.replace("_", " ").replace("-", " ").capitalize()
            yield _make_section(names.take(title), title, value)


def _read_lists(
    document: Document, prefix: str, remarks: list[Remark]
) -> dict[str, tuple[str, ...]]:
    """Return the ids of each list whose key begins so, by the kind of doctrine it lists.

    An absent list (or a null one) restricts nothing; an empty one leaves nothing in force. A list
    that stands in several places is joined, and remarked on.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    for path, block in _split_blocks(document):
        for key, value in block.items():
            if not key.startswith(prefix) or value is None:
                continue
            kind = key.removeprefix(prefix).replace("_", "-").removesuffix("s")
            if kind in kinds:
                what = f"{key} stands in more than one place; the ids of all of them count"
                remarks.append(Remark((*path, key), what, "keep one list"))
            ids = (*kinds.get(kind, ()), *_read_ids(value, (*path, key)))
            kinds[kind] = tuple(dict.fromkeys(ids))
    return kinds


def join_charters(first: Charter, second: Charter) -> Charter:
    """Return both forms of one project as one charter; section names stay unique.

    Where both list doctrine of one kind, the list of `second` counts.
    """
    names = _Slugs()
    sections = []
    for section in (*first.sections, *second.sections):
        slug = names.take(section.id)
        sections.append(section._replace(uri=_make_uri(slug), id=slug))
    return Charter(
        tuple(sections),
        activated={**first.activated, **second.activated},
        selected={**first.selected, **second.selected},
        remarks=(*first.remarks, *second.remarks),
    )


def parse_policy(document: object) -> Policy:
    """Return the rules of a parsed policy.yaml; an empty file has none.

    Raises CharterError: a rule that is not understood makes the whole policy unusable, because
    leaving it out would show what it was written to withhold.

    `document` is what the YAML parser returned. Rules are in the order of the file, which decides.
    """
    if document is None:
        return Policy()
    if not isinstance(document, dict):
        raise CharterError(
            (), "expected a mapping with a list `rules`", "start the file with `rules:`"
        )
    if "rules" not in document:
        raise CharterError(
            (), "there is no list `rules`", "add `rules: []`, or remove the file to have no policy"
        )
    listed = document["rules"]
    if listed is None:
        return Policy()
    if not isinstance(listed, list):
        raise CharterError(("rules",), "`rules` is not a list", "write each rule as `- id: ...`")
    rules: list[PolicyRule] = []
    for position, entry in enumerate(listed):
        rule = _read_rule(entry, ("rules", position))
        if any(rule.id == other.id for other in rules):
            path = ("rules", position, "id")
            raise CharterError(
                path, f"the rule id {rule.id!r} is there twice", "give each rule its own id"
            )
        rules.append(rule)
    return Policy(tuple(rules))


_LISTS = ("activated_", "selected_")


class _Slugs:
    """Names for sections: readable, unique, the same in every process."""

    def __init__(self) -> None:
        self.slugs: set[str] = set()
        self._last: dict[str, int] = {}

    def take(self, title: str) -> str:
        """Return a name for a title, with a number where others have it already."""
        folded = unicodedata.normalize("NFKC", title).casefold()
        slug = base = re.sub(_GAP, "-", folded).strip("-")[:64].strip("-") or "section"
        number = self._last.get(base, 1)
        while slug in self.slugs:
            number += 1
            slug = f"{base}-{number}"
        self._last[base] = number
        self.slugs.add(slug)
        return slug


def headings_of(lines: list[str]) -> list[tuple[int, int, str]]:
    """Return (line index, level, text) of every heading of one or two `#`; fenced code has none.

    `lines` are those of the file, in order. An index counts from 0.
    """
    headings = []
    for number, (line, before, behind) in enumerate(follow_fences(lines)):
        heading = None if before or behind else re.match(_HEADING, line)
        if heading:
            # Signs that close a heading are no part of it.
            text = heading.group(2).rstrip(" \t").rstrip("#").rstrip(" \t")
            headings.append((number, len(heading.group(1)), text))
    return headings


def follow_fences(lines: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    """Yield each line with the fence of the block of code that is open before and behind it; ""
    where none is."""
    fence = ""
    for line in lines:
        before, fence = fence, fence_after(fence, line)
        yield line, before, fence


def fence_after(fence: str, line: str) -> str:
    """Return the fence of code that is open after a line, given the one before it; or nothing."""
    opened = re.match(_FENCE, line)
    if not fence:
        return opened.group(1) if opened else ""
    # A fence closes with at least as many of the same characters and nothing after them.
    is_bare = not line.strip().strip(fence[0])
    return "" if opened and is_bare and opened.group(1).startswith(fence) else fence


def _make_uri(slug: str) -> str:
    """Return the uri of a charter section."""
    return f"charter://section/{slug}"


def _make_section(slug: str, title: str, body: str, tags: tuple[str, ...] = ()) -> Artifact:
    """Return a section as an artifact.

    Its digest is that of title and body, so a change elsewhere does not touch it.
    """
    body = body.strip()
    digest = hash_text(f"{title}\n{body}")
    marked = re.match(_MARK, body)
    names = marked.group(1) if marked else None
    always = tuple((names or "*").replace(",", " ").split()) if marked else ()
    return Artifact(
        _make_uri(slug),
        SECTION_KIND,
        slug,
        title,
        body,
        tags,
        (),
        digest,
        "charter",
        always=always,
    )


def strip_mark(body: str) -> str:
    """Return the text of a section without the mark that says that it is always shown whole.

    `body` is the section's text. A mark further down is text like any other.
    """
    return re.sub(_MARK, "", body, count=1)


def _split_blocks(
    document: Document,
) -> Iterable[tuple[tuple[str, ...], Document]]:
    """Yield the places where lists of doctrine may stand, each with the keys that lead there."""
    yield (), document
    governance = document.get("governance")
    if governance is None:
        return
    if not isinstance(governance, dict):
        raise CharterError(
            ("governance",), "`governance` is not a mapping", "write keys below it, indented"
        )
    yield ("governance",), governance
    for name in ("doctrine", "charter"):
        block = governance.get(name)
        if isinstance(block, dict):
            yield ("governance", name), block
        elif block is not None:
            path = ("governance", name)
            raise CharterError(path, f"`{name}` is not a mapping", "write keys below it, indented")


def _read_ids(value: object, path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the ids of a list, whose items are ids or mappings with one, each once."""
    if not isinstance(value, list):
        raise CharterError(path, f"`{path[-1]}` is not a list", "write it as a list; [] means none")
    ids = []
    for position, item in enumerate(value):
        name = (item.get("id") or item.get("name")) if isinstance(item, dict) else item
        if not _is_name(name):
            raise CharterError((*path, position), "not an id", "write the id of the artifact")
        ids.append(str(name))
    return tuple(dict.fromkeys(ids))


def _read_directives(document: Document, names: _Slugs, remarks: list[Remark]) -> list[Artifact]:
    """Return the directives that the charter states itself, each as a section.

    They stand in a list, or in a list within a mapping. Two of one id are both shown, and remarked
    on.
    """
    block = document.get("directives")
    path: tuple[str | int, ...] = ("directives",)
    if isinstance(block, dict):
        block, path = block.get("directives"), ("directives", "directives")
    if block is None:
        return []
    if not isinstance(block, list):
        raise CharterError(path, "the directives are not a list", "write each as `- id: ...`")
    sections = []
    ids = set()
    for position, entry in enumerate(block):
        if isinstance(entry, str):
            entry = {"id": entry}
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), (str, int)):
            raise CharterError((*path, position), "a directive without an id", "add `id:` to it")
        texts = {
            key: " ".join(str(value).split())
            for key, value in entry.items()
            if isinstance(value, (str, int))
        }
        identifier = texts["id"]
        if identifier in ids:
            what = f"a directive {identifier!r} stands above already; both are shown"
            remarks.append(Remark((*path, position), what, "join the two, or give one another id"))
        ids.add(identifier)
        title = texts.get("title") or identifier
        body = texts.get("description", title)
        if texts.get("severity"):
            body += f"\nSeverity: {texts['severity']}."
        name = names.take(f"directive {identifier}")
        sections.append(_make_section(name, f"{identifier}: {title}", body, ("directive",)))
    return sections


def _is_name(value: object) -> bool:
    """Return whether a value of YAML can be an id: a text or a number."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _read_rule(entry: object, path: tuple[str | int, ...]) -> PolicyRule:
    """Return one rule of a policy. Raises CharterError for a key, value or pattern that is not
    understood."""
    example = "write it as {id, match: {uri|kind|tag}, action: allow|deny|redact, reason}"
    if not isinstance(entry, dict):
        raise CharterError(path, "a rule that is not a mapping", example)
    for key in entry:
        if key not in _RULE_KEYS:
            raise CharterError((*path, key), f"{key!r} is not part of a rule", example)
    identifier = entry.get("id")
    if not _is_name(identifier) or not str(identifier).strip():
        raise CharterError(path, "a rule without an id", "add `id:` to it")
    action = _ACTIONS.get(str(entry.get("action")))
    if action is None:
        reason = f"the action {entry.get('action')!r} of rule {identifier} is not known"
        raise CharterError((*path, "action"), reason, "use allow, deny or redact")
    match = _read_match(entry.get("match"), identifier, path)
    text = entry.get("reason")
    if text is not None and not isinstance(text, (str, int)):
        raise CharterError(
            (*path, "reason"), f"the reason of rule {identifier} is not text", "write one sentence"
        )
    return PolicyRule(
        id=str(identifier).strip(),
        action=action,
        uris=_read_patterns(match, "uri", path),
        kinds=_read_patterns(match, "kind", path),
        tags=tuple(tag.lower() for tag in _read_patterns(match, "tag", path)),
        reason=" ".join(str(text or "").split()),
    )


def _read_match(match: object, identifier: object, path: tuple[str | int, ...]) -> Document:
    """Return what a rule matches by: at least one of uri, kind and tag, and nothing else."""
    if not isinstance(match, dict) or not match:
        raise CharterError(
            (*path, "match"), f"rule {identifier} matches nothing", "name a uri, kind or tag"
        )
    for key in match:
        if key not in _MATCH_KEYS:
            reason = f"rule {identifier} matches by {key!r}"
            raise CharterError((*path, "match", key), reason, "match by uri, kind or tag")
    return match


def _read_patterns(match: Document, key: str, path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the patterns of one key, given as one or as a list; none where it is not there."""
    if key not in match:
        return ()
    value = match[key]
    items = value if isinstance(value, list) else [value]
    if not items or not all(isinstance(item, (str, int)) and str(item).strip() for item in items):
        reason = f"`{key}` holds no pattern"
        raise CharterError(
            (*path, "match", key), reason, "write a name; * stands for any characters"
        )
    return tuple(str(item).strip() for item in items)
