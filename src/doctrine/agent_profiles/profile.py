"""One agent profile: who can be asked to do a piece of work, and what that work is.  [pure]

`parse_profile` turns a parsed `.agent.yaml` document into a value. It is lenient about form (a list
may be a scalar, a reference may be a mapping, keys may be kebab-case or snake_case) and strict
about the little that routing cannot do without: an id that is safe as a file name, a name, and at
least one role. Keys it does not know are kept in `document`, so a profile survives a round trip.
Reading files is left to `repository`.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from doctrine.yaml_reader import Document


PROFILE_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_SCHEMA_VERSIONS = {"1": "1.0", "1.0": "1.0", "2": "2", "2.0": "2"}
_REFERENCE_KEYS = ("id", "code", "name", "title")


class ProfileError(ValueError):
    """A profile document that cannot be used: the field, the expected form, and the actual one.

    The caller adds file and line and reports a `Problem`: one broken profile must not stop the
    others.
    """

    def __init__(self, field: str, expected: str, actual: str) -> None:
        super().__init__(f"{field}: expected {expected}, found {actual}")
        self.field = field
        self.expected = expected
        self.actual = actual


class AgentProfile(NamedTuple):
    """An agent identity as the router and the context see it.

    `roles` are upper case, first role first; the router maps them to actions. `routing_priority` is
    0 to 100, and decides between profiles that fit equally well. `canonical_verbs` are verbs of its
    own. `languages`, `frameworks`, `file_patterns` and `domain_keywords` are its field; `excluding`
    rules it out. A `sentinel` is never chosen. `digest` is that of its file, `origin` shipped,
    project or `pack ID`, and `document` the parsed file.
    """

    profile_id: str
    name: str
    description: str
    schema_version: str
    roles: tuple[str, ...]
    capabilities: tuple[str, ...]
    routing_priority: int = 50
    canonical_verbs: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    file_patterns: tuple[str, ...] = ()
    domain_keywords: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    directive_references: tuple[str, ...] = ()
    tactic_references: tuple[str, ...] = ()
    sentinel: bool = False
    digest: str = ""
    origin: str = "shipped"
    document: Document = MappingProxyType({})


class ProfileRow(NamedTuple):
    """What a list of profiles shows of each.

    The members are those of `AgentProfile`.
    """

    profile_id: str
    name: str
    description: str
    roles: tuple[str, ...]
    capabilities: tuple[str, ...]
    languages: tuple[str, ...]
    frameworks: tuple[str, ...]
    domain_keywords: tuple[str, ...]
    routing_priority: int
    sentinel: bool
    origin: str


def make_row(profile: AgentProfile) -> ProfileRow:
    """Return the row of a profile."""
    return ProfileRow(*(getattr(profile, name) for name in ProfileRow._fields))


def parse_profile(document: object, *, digest: str, origin: str) -> AgentProfile:
    """Return the profile a parsed `.agent.yaml` document describes.

    Raises ProfileError for the first field that cannot be used.

    `digest` is that of the file, and `origin` as in `AgentProfile`. Keys may be spelt with `-` or
    `_`; those that nobody reads are left alone, because the formats in the field have more.
    """
    if not isinstance(document, dict):
        raise ProfileError("document", "a mapping of profile fields", _describe_kind(document))
    profile_id = _read_text(document, "profile-id", required=True)
    if not PROFILE_ID.match(profile_id):
        raise ProfileError(
            "profile-id", "lower-case letters, digits, - and _, at most 64", repr(profile_id)
        )
    sentinel = _read_flag(document, "sentinel")
    roles = _read_roles(document, sentinel=sentinel)
    collaboration = _read_section(document, "collaboration")
    context = _read_section(document, "specialization-context")
    languages = _read_texts(context, "languages") + _read_texts(document, "applies-to-languages")
    return AgentProfile(
        profile_id=profile_id,
        name=_read_text(document, "name", required=True),
        description=_read_text(document, "description"),
        schema_version=_read_schema_version(document),
        roles=roles,
        capabilities=_read_texts(document, "capabilities"),
        routing_priority=_read_priority(document),
        canonical_verbs=_read_texts(collaboration, "canonical-verbs"),
        languages=tuple(dict.fromkeys(language.lower() for language in languages)),
        frameworks=_read_texts(context, "frameworks"),
        file_patterns=_read_texts(context, "file-patterns"),
        domain_keywords=_read_texts(context, "domain-keywords"),
        excluding=_read_texts(document, "excluding"),
        tags=_read_texts(document, "tags"),
        directive_references=_read_texts(document, "directive-references"),
        tactic_references=_read_texts(document, "tactic-references"),
        sentinel=sentinel,
        digest=digest,
        origin=origin,
        document=document,
    )


def _look(mapping: Document, key: str) -> object:
    """Return the value at a kebab-case key, or at its snake_case spelling."""
    if key in mapping:
        return mapping[key]
    return mapping.get(key.replace("-", "_"))


def _describe_kind(value: object) -> str:
    """Return what stands there, in a few words for an error."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _read_scalar(value: object) -> str | None:
    """Return a scalar as text; a flag is spelled as in YAML.  Anything else is None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return " ".join(str(value).split())
    return None


def _read_text(mapping: Document, key: str, *, required: bool = False) -> str:
    """Return a member as one line; "" where it is absent and may be. Raises ProfileError."""
    value = _look(mapping, key)
    if value is None and not required:
        return ""
    text = _read_scalar(value)
    if text is None or (required and not text):
        raise ProfileError(key, "text", _describe_kind(value))
    return text


def _read_flag(mapping: Document, key: str) -> bool:
    """Return a member that is true or false; False where it is absent. Raises ProfileError."""
    value = _look(mapping, key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ProfileError(key, "true or false", _describe_kind(value))
    return value


def _read_section(mapping: Document, key: str) -> Document:
    """Return a member that is a mapping; an empty one where it is absent. Raises ProfileError."""
    value = _look(mapping, key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProfileError(key, "a mapping", _describe_kind(value))
    return value


def _read_texts(mapping: Document, key: str) -> tuple[str, ...]:
    """Return a list of names: each may be a scalar or a mapping that names itself; a lone one needs
    no list."""
    value = _look(mapping, key)
    if value is None:
        return ()
    texts: dict[str, None] = {}
    for item in value if isinstance(value, list) else [value]:
        entry = item
        if isinstance(item, dict):
            entry = next(
                (item[name] for name in _REFERENCE_KEYS if item.get(name) is not None), item
            )
        text = _read_scalar(entry)
        if text is None:
            raise ProfileError(key, "a list of texts", f"{_describe_kind(item)} in it")
        if text:
            texts[text] = None
    return tuple(texts)


def _read_roles(document: Document, *, sentinel: bool) -> tuple[str, ...]:
    """Return the roles in upper case, each once. Raises ProfileError where there is none."""
    roles = _read_texts(document, "roles") or _read_texts(document, "role")
    if not roles and not sentinel:
        raise ProfileError(
            "roles",
            "at least one role, for example [IMPLEMENTER]",
            _describe_kind(_look(document, "roles")),
        )
    return tuple(dict.fromkeys(role.upper() for role in roles))


def _read_priority(document: Document) -> int:
    """Return the routing priority; 50 where it is absent. Raises ProfileError."""
    value = _look(document, "routing-priority")
    if value is None:
        return 50
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise ProfileError(
            "routing-priority", "a whole number from 0 to 100", _describe_kind(value)
        )
    return value


def _read_schema_version(document: Document) -> str:
    """Return the version of the profile's form; 1.0 where it is absent. Raises ProfileError."""
    value = _look(document, "schema-version")
    if value is None:
        return "1.0"
    version = _SCHEMA_VERSIONS.get(_read_scalar(value) or "")
    if version is None:
        raise ProfileError("schema-version", '"1.0" or "2"', _describe_kind(value))
    return version
