"""One doctrine artifact: a rule or a way of working that a context can put in front of an agent.
[pure]

An artifact is a directive (what must hold), a tactic (how to go about it), a styleguide or a
toolguide. The vocabulary of kinds is open. Its uri, `doctrine://<kind>/<id>`, is what policy rules
match and records name.

    parse_artifact({"title": "Test first", "body": "…"}, path="directives/test-first.yaml",
                   digest=digest, origin="project").uri    # "doctrine://directive/test-first"

Many forms are read, because files of older layouts and other programs are used as they are. What is
read becomes one form here, so nothing above knows how a file spelt it.
"""

from __future__ import annotations

import re

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from doctrine.yaml_reader import Document


KINDS = ("directive", "tactic", "styleguide", "toolguide")
WORK_KINDS = (
    "bug",
    "feature",
    "refactoring",
    "removal",
    "upgrade",
    "docs",
    "typo",
    "performance",
    "security",
    "migration",
    "test",
    "question",
    "other",
)
_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z"
_KIND = r"[a-z][a-z-]{0,31}\Z"
_NUMBER = r"[0-9]+(?=-)"
_SUFFIXES = (".yaml", ".yml", ".md")
_HEADING = r"#+[ \t]+(.+)"
# Bookkeeping of the formats in the field: says nothing an agent could act on.
_NOT_PROSE = frozenset(
    (
        "id",
        "code",
        "title",
        "name",
        "kind",
        "type",
        "tags",
        "keywords",
        "body",
        "schema_version",
        "schema-version",
    )
)


# What is read of a rule, however it is spelt.
RULE_KEYS = (*sorted(_NOT_PROSE), "applies_to", "always")


class Applies(NamedTuple):
    """When a rule applies: any of its kinds of work, files and words, in its actions and languages.

    `when` says it in a few words, for the line that offers the rule.
    """

    kinds: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    when: str = ""


NOWHERE = Applies()


class Artifact(NamedTuple):
    """A candidate for a governance context; `digest` is that of its file, for a charter section
    that of its text.

    `always` names the actions in which it is always shown whole, `*` for each; `path` is its file.
    `origin` is shipped, project, charter or `pack ID`; what is `binding` no project takes away.
    """

    uri: str
    kind: str
    id: str
    title: str
    body: str
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    digest: str
    origin: str
    applies: Applies = NOWHERE
    always: tuple[str, ...] = ()
    path: str = ""
    binding: bool = False


class ArtifactError(ValueError):
    """A document that is no artifact: which field, why, and what fixes it.

    `field` is the key at fault, or `document`. The caller adds file and line and reports a
    `Problem`.
    """

    def __init__(self, field: str, reason: str, repair: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.path = (field,)
        self.repair = repair


def parse_artifact(document: object, *, path: str, digest: str, origin: str) -> Artifact:
    """Return the artifact a parsed YAML document describes; kind and id default to its folder and
    file name.

    Raises ArtifactError.

    `document` is what the YAML parser returned. `path` is below the project's root, `digest` that
    of the file, and `origin` as in `Artifact`.
    """
    if not isinstance(document, dict):
        repair = "begin the file with `title:` and `body: |`, and indent the text below body"
        raise ArtifactError("document", "expected a mapping with id, title and body", repair)
    identifier = _read_line(document, "id", "code") or _get_stem(path)
    kind = _read_kind(document, path)
    if not re.match(_ID, identifier):
        repair = "write an `id:` of letters, digits, dots, - and _, at most 128"
        if "id" not in document and "code" not in document:
            repair += ", or rename the file, which gives the id where there is none"
        raise ArtifactError(
            "id", f"expected letters, digits, dots, - and _, found {identifier[:60]!r}", repair
        )
    title = _read_line(document, "title", "name") or identifier
    body = document.get("body")
    if body is not None and not isinstance(body, str):
        raise ArtifactError(
            "body", "expected text", "write `body: |` and the text below it, indented"
        )
    body = (body or "").strip() or _compose(document)
    if not body:
        raise ArtifactError(
            "body",
            "nothing in it to tell an agent",
            "write the rule under `body: |`, or remove the file",
        )
    tags = _read_words(document, "tags") if "tags" in document else ()
    keywords = _read_words(document, "keywords") if "keywords" in document else ()
    return Artifact(
        f"doctrine://{kind}/{identifier}",
        kind,
        identifier,
        title,
        body,
        tags,
        keywords,
        digest,
        origin,
        _read_applies(document),
        _read_always(document),
        path,
    )


def restore_artifact(stored: Sequence[Any], origin: str) -> Artifact:
    """Return an artifact from the list of its members, as JSON brings an `Artifact` back.

    `origin` replaces the stored one: one file can be brought by a project and by a pack.
    """
    uri, kind, identifier, title, body, tags, keywords, digest, _, applies, always, path, _ = stored
    kinds, actions, files, languages, words, when = applies
    return Artifact(
        uri,
        kind,
        identifier,
        title,
        body,
        tuple(tags),
        tuple(keywords),
        digest,
        origin,
        Applies(tuple(kinds), tuple(actions), tuple(files), tuple(languages), tuple(words), when),
        tuple(always),
        path,
    )


def parse_markdown_artifact(text: str, *, path: str, digest: str, origin: str) -> Artifact:
    """Return the artifact a Markdown file holds: its first heading is the title, its folder the
    kind.

    Raises ArtifactError.

    `text` is the file's content; the other arguments are those of `parse_artifact`.
    """
    lines = text.strip().split("\n")
    heading = re.match(_HEADING, lines[0])
    body = "\n".join(lines[1:] if heading else lines).strip()
    title = heading.group(1).strip() if heading else _get_stem(path)
    return parse_artifact({"title": title, "body": body}, path=path, digest=digest, origin=origin)


def _read_applies(document: Document) -> Applies:
    """Return when a rule applies; what is not understood is left out, and `charter lint` names it.

    A text or list under `applies_to` is prose of an older form.
    """
    value = document.get("applies_to")
    if not isinstance(value, dict):
        return NOWHERE
    lists = {key: _keep_texts(value[key]) for key in Applies._fields[:-1] if key in value}
    when = value.get("when")
    return Applies(**lists, when=" ".join(when.split()) if isinstance(when, str) else "")


def _read_always(document: Document) -> tuple[str, ...]:
    """Return the actions in which a rule is always shown, `*` for all; a sentence there is
    prose."""
    value = document.get("always")
    if value is True:
        return ("*",)
    return () if isinstance(value, str) and " " in value else _keep_texts(value)


def _keep_texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list in lower case; what is no text is left out."""
    items = value if isinstance(value, list) else () if value is None else (value,)
    return tuple([item.lower() for item in items if isinstance(item, str)])


def list_names(artifact: Artifact) -> tuple[str, ...]:
    """Return what lists can name an artifact by, the strongest first: its id, the name of its file,
    and the number which that begins with (spec-kitty writes `DIRECTIVE_034` in
    `034-test-first.directive.yaml`, and its lists say `034-test-first` or `034`)."""
    stem = _get_stem(artifact.path)
    number = re.match(_NUMBER, stem)
    return tuple(dict.fromkeys(filter(None, (artifact.id, stem, number and number[0]))))


def _get_stem(path: str) -> str:
    """Return the name of a file without its endings: `test-first` for
    `test-first.directive.yaml`."""
    name = path.rsplit("/", 1)[-1]
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    stem, dot, last = name.rpartition(".")
    return stem if dot and _make_singular(last) in KINDS else name


def _make_singular(word: str) -> str:
    """Return a word without the `s` of its plural."""
    return word.removesuffix("s")


def _read_kind(document: Document, path: str) -> str:
    """Return the kind of a document: as it says, else as its file name or folder says."""
    kind = _read_line(document, "kind", "type").lower()
    if not kind:
        folders = path.split("/")[:-1]
        name = path.rsplit("/", 1)[-1].split(".")
        kinds = [
            _make_singular(part)
            for part in (*name[1:-1], *reversed(folders))
            if _make_singular(part) in KINDS
        ]
        # A folder right below `doctrine/` names a kind of its own, such as `procedure`.
        own = folders[folders.index("doctrine") + 1 :][:1] if "doctrine" in folders else []
        kind = (
            kinds[0]
            if kinds
            else "".join(_make_singular(part) for part in own if re.match(_KIND, part))
        )
    if not kind:
        repair = (
            "move the file to directives/, tactics/, styleguides/ or toolguides/, or write "
            "`kind:` in it"
        )
        raise ArtifactError("kind", "neither the file nor its folder says which", repair)
    if kind not in KINDS and not re.match(_KIND, kind):
        repair = f"write one of {', '.join(KINDS)}"
        raise ArtifactError("kind", f"expected one lower-case word, found {kind[:60]!r}", repair)
    return kind


def _read_line(document: Document, *keys: str) -> str:
    """Return the first of these members as one line; "" where none is there. Raises
    ArtifactError."""
    for key in keys:
        value = document.get(key)
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return " ".join(str(value).split())
        if value is not None:
            raise ArtifactError(
                key,
                "expected text",
                f"write `{key}:` and one line of text; quote it if it is a number",
            )
    return ""


def _read_words(document: Document, key: str) -> tuple[str, ...]:
    """Return a list of labels in lower case, each once. Raises ArtifactError."""
    value = document.get(key)
    items = value if isinstance(value, list) else [] if value is None else [value]
    for item in items:
        if not isinstance(item, (str, int)):
            repair = (
                f"write `{key}: [one, two]`; quote an item that YAML takes for a value, as "
                "in 'null'"
            )
            raise ArtifactError(key, "expected a list of texts", repair)
    return tuple(dict.fromkeys(" ".join(str(item).lower().split()) for item in items))


def _compose(document: Document) -> str:
    """Return a body from the text fields of an artifact that has none: the forms in the field name
    theirs freely."""
    parts = []
    for key, value in document.items():
        if key in _NOT_PROSE:
            continue
        if isinstance(value, str) and len(value.split()) > 1:
            parts.append(value.strip())
        elif (
            isinstance(value, list)
            and value
            and all(isinstance(item, (str, dict)) for item in value)
        ):
            label = key.replace("_", " ").replace("-", " ").capitalize()
            parts.append("\n".join([f"{label}:", *(f"- {_read_entry(item)}" for item in value)]))
    return "\n\n".join(parts)


def _read_entry(item: str | Document) -> str:
    """Return an item of a list as one line."""
    if isinstance(item, str):
        return " ".join(item.split())
    texts = [
        " ".join(str(value).split()) for value in item.values() if isinstance(value, (str, int))
    ]
    return ": ".join(texts)
