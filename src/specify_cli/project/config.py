"""Read a project's config and decide which of its settings are in force.

`root.py` finds the project by reading files; git is never started. Within a git worktree the search
for `.kittify/` ends at the worktree's top level, so a worktree inside another checkout has its own
trail (docs/adr/0001).

    project, cache = load_project(".")
    project.config.trail, project.config.capture["prompt"]

A config is read in two steps. `parse_config` reads what the file states. It refuses unknown values,
and unknown keys of capture and redaction: a misspelt one must not silently mean the default, which
may record more than the user wanted. `load_project` then decides what is in force: for each setting
the stronger one of the file and of what a person accepted (docs/accept.md).
"""

from __future__ import annotations

import json
from types import MappingProxyType

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.load import ParseCache, SecretFinder, SourceError, cache_path, read_source
from doctrine.text import spell
from doctrine.yaml_reader import YamlError
from specify_cli import durable
from specify_cli.errors import CallerError, StoredDataError
from specify_cli.package_rules import read_brought
from specify_cli.project.protection import (
    CAPTURE_SIDES,
    COMMITTED_SEALED,
    DEFAULT_CAPTURE,
    DEFAULTS,
    NO_TRAIL,
    SEALED,
    SIDES,
    TRAILS,
    Protections,
    list_narrowed,
    read_accepted,
    resolve_protections,
)
from specify_cli.project.root import Location, locate
from specify_cli.record import layout
from specify_cli.redaction.capture import MODES
from specify_cli.redaction.redact import (
    MASK,
    MAX_USER_RULES,
    RedactionError,
    RuleError,
    RuleSet,
    add_rules,
    redact,
    refuse_catch_all,
    rule_set,
    shipped_rule_set,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

# What holds records in addition to the files: nothing, or a capsule of memvid's.
BACKENDS = ("files", "capsule")


class Config(NamedTuple):
    """`.kittify/config.yaml` as values; `data` is None where there is no file.

    `capture` holds a mode for every side; `capture_ceiling` holds only the modes that the file
    states, and no run can exceed them. `stated` are the protections in the file. In force is the
    stronger of these and of what a person accepted: `weaker` names settings of the file that nobody
    accepted, and `narrowed` settings by which the file records less than was accepted.

    `document` is the whole parsed file, for rooms that read keys of their own. Only a lenient load
    sets `error`.
    """

    project_uuid: str | None
    trail: str
    capture: dict[str, str]
    data: bytes | None
    document: Mapping[str, object]
    error: StoredDataError | None = None
    redaction: RuleSet = shipped_rule_set()
    capture_ceiling: Mapping[str, str] = MappingProxyType({})
    stated: Protections = DEFAULTS
    no_trail: str = "person"
    weaker: tuple[str, ...] = ()
    endpoints: frozenset[str] = frozenset()
    narrowed: tuple[str, ...] = ()
    retention: frozenset[str] = frozenset()
    is_sealed: bool = False


class Project(NamedTuple):
    """A project's top folder, its git directory (shared by its worktrees) if it has one, its
    config.

    `root` is a whole path. `location.place` is its folder below the top of the worktree.
    """

    root: str
    git_dir: str | None
    config: Config
    location: Location = Location("", None)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return a sentence for each setting of the work tree that nobody accepted.

        Each begins with a code: CONFIG_WEAKENED, CONFIG_NARROWED, PROJECT_ABOVE. Every answer of a
        command includes them, so that nobody misses one.
        """
        sentences = [
            f"{layout.CONFIG}: {what}, which nobody accepted" for what in self.config.weaker
        ]
        passed = self.location.passed
        if passed is not None and self.git_dir is not None:
            sentences.append(f"{passed} holds a project inside this one, which nobody accepted")
        advice = (
            "" if self.git_dir is None else "; a person can accept it: spec-kitty config accept"
        )
        warnings = [f"CONFIG_WEAKENED: {what}, so it has no effect{advice}" for what in sentences]
        warnings += [
            f"CONFIG_NARROWED: {layout.CONFIG}: {what}, which nobody accepted; it counts, so "
            f"less is recorded{advice}"
            for what in self.config.narrowed
        ]
        if passed is not None and self.git_dir is None:
            from shlex import quote  # for a warning only

            warnings.append(
                f"PROJECT_ABOVE: {passed} holds a project, and outside git no folder above is "
                "taken for one; "
                f"work in {passed}, or make it a repository: git init {quote(passed)}"
            )
        return tuple(warnings)

    @property
    def parse_cache_path(self) -> str | None:
        """Return the cache of parsed project files: in the git directory, where no branch can plant
        one."""
        return None if self.git_dir is None else cache_path(self.git_dir)

    @property
    def secrets(self) -> SecretFinder:
        """Return the finder of secrets in this project's own files; it uses the redaction rules of
        the config."""
        rules = self.config.redaction
        return SecretFinder(rules.digest, lambda text: _find_secrets(text, rules))


def _find_secrets(text: str, rules: RuleSet) -> list[tuple[str, int]]:
    """Return (rule, line) of each secret in a file's text; lines count from 1."""
    try:
        masked = redact(text, rules)
    except RedactionError:
        # an engine that fails stops the request itself; this search is only an addition
        return []
    spans = []
    for rule in masked.counts:
        at = masked.text.find(mask := MASK.format(rule=rule))
        while at >= 0:
            spans.append((rule, masked.text.count("\n", 0, at) + 1))
            at = masked.text.find(mask, at + 1)
    return spans


# The protections in force if the accepted ones cannot be read.
_MAX_REQUEST = 1024 * 1024
_RECORD_NOTHING = Protections(capture=dict.fromkeys(SIDES, "off"))


def load_project(
    start: str, home: str | None = None, *, lenient: bool = False
) -> tuple[Project, ParseCache]:
    """Return the project of a folder with its parse cache. Raises StoredDataError CONFIG_INVALID,
    UNSAFE_PATH, EnvironmentFault FOREIGN_OWNER.

    `start` is any folder of the project, `home` the user's home folder. With `lenient`, an invalid
    config gives the defaults and the `error`; use it for commands that only read. A command that
    records must not use it, because it must not guess what to mask. If the accepted settings cannot
    be read, a lenient load captures nothing.

    Return a new project each time; its config is read from the disk once and then does not change,
    so a command decides on one state of it. The caller saves the cache.
    """
    where = locate(start, home)
    bare = Project(where.root, where.git_dir, parse_config({}, None), where)
    cache = ParseCache(bare.parse_cache_path)
    accepted = _RECORD_NOTHING
    try:
        remembered = read_accepted(where.git_dir, where.place)
        accepted = remembered or DEFAULTS
        config = _resolve_in_force(_load_config(where.root, cache), accepted)
        # On the first use what the config states is remembered: nothing was narrowed since.
        narrowed = list_narrowed(config.stated, remembered) if remembered else ()
        config = _add_masks(config._replace(narrowed=narrowed))
        return bare._replace(config=config), cache
    except StoredDataError as error:
        if not lenient or error.code != "CONFIG_INVALID":
            raise
        config = _add_masks(_resolve_in_force(bare.config, accepted))
        return bare._replace(config=config._replace(error=error)), cache


def _add_masks(config: Config) -> Config:
    """Return the config with its own masking rules and those that installed packages bring."""
    masks = read_brought().masks
    return config._replace(redaction=add_rules(config.redaction, masks)) if masks else config


def read_stated(root: str) -> Config:
    """Return the config of the project at `root` as the file states it, accepted or not. Raises
    StoredDataError.

    `config accept` shows it to a person.
    """
    return _load_config(root, ParseCache(None))


def _resolve_in_force(config: Config, accepted: Protections) -> Config:
    """Return the config with, for each setting, the stronger of the stated and the accepted one."""
    if config.stated == accepted:
        return config
    in_force, weaker = resolve_protections(config.stated, accepted)
    rules = config.redaction
    if (in_force.rules, in_force.allow) != (config.stated.rules, config.stated.allow):
        try:
            rules = rule_set(in_force.rules, in_force.allow)
        except RuleError as error:
            raise _invalid(
                "redaction", "usable rules together with those accepted before", str(error)
            ) from error
    return config._replace(
        trail=_name_trail(in_force.trail, in_force.is_sealed),
        capture={side: in_force.capture.get(side, DEFAULT_CAPTURE) for side in SIDES},
        capture_ceiling=in_force.capture,
        redaction=rules,
        no_trail=in_force.no_trail,
        weaker=weaker,
        endpoints=in_force.endpoints,
        retention=in_force.retention,
        is_sealed=in_force.is_sealed,
    )


def _load_config(root: str, cache: ParseCache) -> Config:
    """Return the config that the file states. Raises StoredDataError CONFIG_INVALID, which names
    the line."""
    try:
        with durable.folder(root, layout.KITTIFY):
            source = read_source(root, layout.CONFIG)
        if not source:
            return parse_config({}, None)
        document = cache.parse(source)
    except FileNotFoundError:
        return parse_config({}, None)
    except SourceError as error:
        invalid = _invalid("the file", "a readable plain file", error.problem.reason)
        invalid.suggestion = error.problem.repair
        raise invalid from error
    except YamlError as error:
        raise _invalid(
            f"line {error.line}" if error.line else "the file", "readable YAML", error.reason
        ) from error
    return parse_config(document, source.data)


def parse_config(document: object, data: bytes | None) -> Config:
    """Return the config a parsed document describes. Raises StoredDataError CONFIG_INVALID naming
    the key.

    `document` is the result of the YAML parser and `data` the file's bytes. Keys of rooms are not
    checked. The message names the key, what was expected and what was found.

    Nothing is decided here: what the file states is `stated`, and what of it counts is decided by
    `load_project`.
    """
    top = _require_mapping(document, "the document")
    _refuse_backend(top.get("memory_backend", "files"))
    trail = top.get("trail", "private")
    if trail not in TRAILS:
        raise _invalid("trail", " or ".join(TRAILS), spell(trail))
    uuid = _require_mapping(top.get("project"), "project").get("uuid")
    if uuid is not None and not isinstance(uuid, str):
        raise _invalid("project.uuid", "a UUID", spell(uuid))
    audit = _require_mapping(top.get("audit"), "audit")
    no_trail = audit.get("no_trail", "person")
    if no_trail not in NO_TRAIL:
        raise _invalid("audit.no_trail", " or ".join(NO_TRAIL), spell(no_trail))
    capture = _capture(audit)
    own, allow = _read_redaction(top.get("redaction"))
    try:
        rules = rule_set(own, allow)
        refuse_catch_all(rules)
    except RuleError as error:
        raise _invalid("redaction", "usable rules", str(error)) from error
    modes = {side: capture.get(side, DEFAULT_CAPTURE) for side in SIDES}
    endpoints = _read_texts(
        _require_mapping(top.get("replay"), "replay").get("endpoints"), "replay.endpoints"
    )
    retention = _read_retention(top.get("retention"))
    is_sealed = _read_sealed(top.get("capture"))
    return Config(
        uuid,
        _name_trail(str(trail), is_sealed),
        modes,
        data,
        top,
        None,
        rules,
        capture,
        Protections(
            str(trail), capture, own, allow, str(no_trail), endpoints, retention, is_sealed
        ),
        str(no_trail),
        (),
        endpoints,
        (),
        retention,
        is_sealed,
    )


def _refuse_backend(backend: object) -> None:
    if backend in BACKENDS:
        return
    brought = read_brought()
    backends = (*BACKENDS, *brought.backends)
    # A room keeps records in addition to the files: where it is left out, that stops nothing.
    left_out = tuple(f"{name.partition(' ')[0]}-" for name in brought.left_out)
    if backend not in backends and not f"{backend}-".startswith(left_out):
        raise _invalid("memory_backend", " or ".join(backends), spell(backend) + _NO_BACKEND)


def _capture(audit: Mapping[str, object]) -> dict[str, str]:
    """Return the modes the file states.

    A key without a value is an error: the default could be wider than what was meant.
    """
    stated: dict[str, str] = {}
    unknown_keys = sorted(
        str(key) for key in audit if str(key).startswith("capture") and key not in CAPTURE_SIDES
    )
    if unknown_keys:
        raise _invalid(
            f"audit.{unknown_keys[0]}", " or ".join(CAPTURE_SIDES), "a key nothing reads"
        )
    for key, sides in CAPTURE_SIDES.items():
        if key not in audit:
            continue
        value = audit[key]
        modes = value if isinstance(value, dict) else dict.fromkeys(sides, value)
        unknown = sorted(str(side) for side in modes if side not in sides)
        if unknown:
            raise _invalid(f"audit.{key}.{unknown[0]}", " or ".join(sides), "an unknown side")
        for side, stated_mode in modes.items():
            mode = "off" if stated_mode is False else stated_mode  # YAML 1.1 writers mean off
            if not isinstance(mode, str) or mode not in MODES:
                where = f"audit.{key}.{side}" if isinstance(value, dict) else f"audit.{key}"
                raise _invalid(where, ", ".join(MODES), spell(stated_mode))
            stated[side] = mode
    return stated


def _read_sealed(section: object) -> bool:
    """Return whether captured texts leave this clone only encrypted (docs/capture.md)."""
    mapping = _require_mapping(section, "capture")
    unknown = sorted(str(key) for key in mapping if key != "sealed")
    if unknown:
        raise _invalid(f"capture.{unknown[0]}", "sealed", "an unknown key")
    stated = mapping.get("sealed", "off")
    if stated is not False and stated not in SEALED:  # YAML 1.1 writers mean off
        raise _invalid("capture.sealed", ", ".join(SEALED), spell(stated))
    return stated in SEALED[1:]


def _name_trail(trail: str, is_sealed: bool) -> str:
    """Return the trail that counts: committed records that leave only encrypted are private
    here."""
    return COMMITTED_SEALED if is_sealed and trail == "committed" else trail


def _read_redaction(section: object) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """Return the project's own rules as (id, pattern) and its allow-list."""
    mapping = _require_mapping(section, "redaction")
    unknown = sorted(str(key) for key in mapping if key not in ("rules", "allow"))
    if unknown:
        raise _invalid(f"redaction.{unknown[0]}", "rules or allow", "an unknown key")
    rules = _require_mapping(mapping.get("rules"), "redaction.rules")
    if len(rules) > MAX_USER_RULES:
        raise _invalid("redaction.rules", f"at most {MAX_USER_RULES} rules", str(len(rules)))
    for rule_id, pattern in rules.items():
        if not isinstance(rule_id, str) or not isinstance(pattern, str):
            raise _invalid(f"redaction.rules.{rule_id}", "a pattern as text", spell(pattern))
    allow = _read_texts(mapping.get("allow"), "redaction.allow")
    return frozenset((str(rule_id), str(pattern)) for rule_id, pattern in rules.items()), allow


def _read_retention(value: object) -> frozenset[str]:
    """Return each rule as JSON with sorted keys; the room `retention` interprets them."""
    items = [] if value is None else value
    if not (isinstance(items, list) and all(isinstance(item, dict) for item in items)):
        raise _invalid("retention", "a list of rules", spell(items))
    return frozenset(
        json.dumps(item, sort_keys=True, separators=(",", ":"), default=str) for item in items
    )


def _read_texts(value: object, where: str) -> frozenset[str]:
    """Return a list of texts as a set; an absent one is empty."""
    items = value or []
    if not (isinstance(items, list) and all(isinstance(entry, str) for entry in items)):
        raise _invalid(where, "a list of texts", spell(items))
    return frozenset(items)


def _require_mapping(value: object, where: str) -> Mapping[str, object]:
    """Return a mapping; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid(where, "a mapping", spell(value))
    return value


_NO_BACKEND = (
    ", which no installed package brings: install the one whose stores are named so, or write "
    "`memory_backend: files`"
)


def _invalid(where: str, expected: str, actual: str) -> StoredDataError:
    """Return the error for a key of the config."""
    return StoredDataError(
        "CONFIG_INVALID",
        f"{layout.CONFIG}: {where}: expected {expected}, found {actual}",
        f"correct {where} in {layout.CONFIG}",
    )


def valid_request(text: str) -> str:
    """Return the request itself. Raises CallerError for NUL, lone surrogates, oversize or no text
    at all.

    At most 1 MiB of UTF-8 is taken. The codes are REQUEST_INVALID, REQUEST_TOO_LARGE and
    EMPTY_REQUEST.

    The text comes back unchanged, so what is recorded is what was said, but for masks.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise CallerError(
            "REQUEST_INVALID",
            f"the request holds a lone surrogate at character {error.start}; expected valid "
            "Unicode text",
            "send the request as UTF-8, for example: spec-kitty do - < request.txt",
        ) from error
    if size > _MAX_REQUEST:
        raise CallerError(
            "REQUEST_TOO_LARGE",
            f"the request has {size} bytes; at most {_MAX_REQUEST} are taken",
            "put the material into a file of the project and name that file in a shorter request",
        )
    if "\0" in text:
        raise CallerError(
            "REQUEST_INVALID",
            f"the request holds a NUL character at {text.index(chr(0))}; expected text",
            "remove the NUL character and send the request again",
        )
    if not text.strip():
        raise CallerError(
            "EMPTY_REQUEST",
            "the request is empty",
            'say what to do, for example: spec-kitty do "fix the login test"',
        )
    return text
