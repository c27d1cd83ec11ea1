"""The rules of a gate: `.kittify/gate.yaml` as the base has it. [pure]

    rules = parse_rules(data)
    rules.tests.level        # "fail"

A rule is off, warns or fails. `not_known` says the same for what cannot be known; without it the
rule's own level counts.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from glob import escape
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from doctrine.text import make_encodable
from doctrine.yaml_reader import YamlError, read_yaml
from specify_cli.errors import StoredDataError

GATE = ".kittify/gate.yaml"
Level = Literal["off", "warn", "fail"]
LEVELS = ("off", "warn", "fail")
MAX_GATE = 256 * 1024
# Changes of these mean that past decisions are made again.
DECIDING = ("charter/", "doctrine/", "profiles/", "config.yaml", "packs.lock", "packs/")
_RULES = (*DECIDING, "gate.yaml")
_HANDLER = re.compile(r"spec-kitty hook\b")


class Rule(BaseModel):
    """One rule: how much it counts, for which files (patterns of fnmatch), and how much it counts
    where nothing can be known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Level = "fail"
    not_known: Level | None = None
    paths: tuple[str, ...] = ()

    def get_level(self, *, known: bool = True) -> Level:
        """Return how much a finding counts. What is not known never counts more than what is."""
        if known or self.not_known is None:
            return self.level
        return min(self.level, self.not_known, key=LEVELS.index)

    def covers(self, path: str) -> bool:
        """Return whether the rule is about a file."""
        return not self.paths or any(fnmatchcase(path, pattern) for pattern in self.paths)


class RecordsRule(Rule):
    """Lines have a record: those of commits that an agent signed, or all."""

    of: Literal["agents", "all"] = "agents"


class TestsRule(Rule):
    """Tests ran green after the last edit; `commands` count beside the charter's and the known."""

    __test__ = False
    commands: tuple[str, ...] = ()


class ApprovalRule(Rule):
    """Somebody else than who asked has approved, under a key that the base trusts."""

    by: tuple[str, ...] = ()


class ProofRule(Rule):
    """Records reach a level of proof, under keys that the base names."""

    reach: Literal["sealed", "linked", "logged", "witnessed"] = "sealed"


class AllowedRule(Rule):
    """Only these harnesses, models and profiles may write these files; an empty list allows any."""

    harnesses: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


def _spell_out(value: Any) -> Any:
    """Return a rule that is given as its level alone as a whole one."""
    return {"level": "off" if value is False else value} if isinstance(value, str | bool) else value


def _list_out(value: Any) -> Any:
    return [_spell_out(item) for item in (value if isinstance(value, list) else [value])]


_Simple = Annotated[Rule, BeforeValidator(_spell_out)]
_WARN = Rule(level="warn")


class Rules(BaseModel):
    """The rules. What is not named has the default that stands here; `custom` are those of other
    packages, by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    records: Annotated[RecordsRule, BeforeValidator(_spell_out)] = RecordsRule(level="warn")
    tests: Annotated[TestsRule, BeforeValidator(_spell_out)] = TestsRule(level="warn")
    ended: _Simple = _WARN
    approval: Annotated[tuple[ApprovalRule, ...], BeforeValidator(_list_out)] = ()
    unseen: _Simple = _WARN
    proof: Annotated[ProofRule, BeforeValidator(_spell_out)] = ProofRule(level="warn")
    trail: _Simple = _WARN
    secrets: _Simple = _WARN
    weakened: _Simple = _WARN
    allowed: Annotated[tuple[AllowedRule, ...], BeforeValidator(_list_out)] = ()
    custom: dict[str, _Simple] = Field(default_factory=dict)


class Keys(BaseModel):
    """Whom the base trusts: files of its own tree."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allowed_signers: str | None = None
    revoked: str | None = None
    policy: str | None = None


def place_rules(rules: Rules, prefix: str) -> Rules:
    """Return the rules of a project in a folder: its patterns match files as the project names
    them, and as the repository does."""

    def place(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: place(rule) for name, rule in value.items()}
        if isinstance(value, tuple):
            return tuple(map(place, value))
        below = (f"{escape(prefix)}{pattern}" for pattern in value.paths)
        return value.model_copy(update={"paths": (*value.paths, *below)})

    return rules.model_copy(update={name: place(rule) for name, rule in rules}) if prefix else rules


class GateFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    rules: Rules = Rules()
    keys: Keys = Keys()


def parse_gate(data: bytes | None) -> GateFile:
    """Return the rules of a file; without one the defaults, which only warn.

    Raises StoredDataError GATE_INVALID, which names the place, what was expected and what stands
    there.
    """
    if data is None:
        return GateFile()
    try:
        return GateFile.model_validate(read_yaml(data, name=GATE, max_bytes=MAX_GATE) or {})
    except YamlError as error:
        why = str(error)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = f"{GATE}: {place}: {first['msg']}, found {str(first['input'])[:80]!r}"
    raise StoredDataError(
        "GATE_INVALID",
        why,
        f"correct {GATE} at the base; what prints a whole one: spec-kitty gate rules",
    )


def list_weaker(base: GateFile, branch: GateFile) -> list[str]:
    """Return in which rules the file of a branch is weaker than that of the base, as sentences'
    beginnings."""
    weaker: list[str] = []
    for name in Rules.model_fields:
        before, after = getattr(base.rules, name), getattr(branch.rules, name)
        if name == "custom":
            pairs = [(f"{key}", rule, after.get(key)) for key, rule in before.items()]
        elif isinstance(before, tuple):
            pairs = [(name, rule, rule if rule in after else None) for rule in before]
        else:
            pairs = [(name, before, after)]
        weaker += [
            f"{key}: {_describe(old)} becomes {_describe(new)}"
            for key, old, new in pairs
            if old.level != "off" and (new is None or _is_weaker(old, new))
        ]
    if base.keys != branch.keys:
        weaker.append("keys: other files say whom to trust")
    return weaker


def _is_weaker(old: Rule, new: Rule) -> bool:
    lower = any(
        LEVELS.index(new.get_level(known=known)) < LEVELS.index(old.get_level(known=known))
        for known in (True, False)
    )
    others = {"level", "not_known"}
    return lower or old.model_dump(exclude=others) != new.model_dump(exclude=others)


def _describe(rule: Rule | None) -> str:
    if rule is None:
        return "nothing"
    said = rule.model_dump(exclude_defaults=True, exclude={"level"})
    return rule.level + "".join(f", {key} {value}" for key, value in said.items())


def trusts_more(name: str, before: bytes | None, after: bytes | None) -> bool:
    """Return whether the file of a member of `keys` trusts more than before, by its lines that are
    no comments; a policy does by any change."""
    old, new = (
        {line.strip() for line in (data or b"").splitlines() if line.strip()[:1] not in (b"", b"#")}
        for data in (before, after)
    )
    if name == "policy":
        return old != new
    return bool(old - new if name == "revoked" else new - old)


class Packs(NamedTuple):
    """What a commit pins: the packs, which of their files are not as pinned, what is bound by
    whom."""

    ids: Sequence[str] = ()
    lost: frozenset[str] = frozenset()
    binding: frozenset[tuple[str, str]] = frozenset()


def find_lost_packs(before: Packs, after: Packs, names: Iterable[str]) -> Iterator[str]:
    """Yield what a branch takes from the packs that were pinned before, and what is not as pinned;
    `names` are the changed files below `.kittify/`."""
    yield from (
        f"packs: {name} is no longer pinned" for name in before.ids if name not in after.ids
    )
    for name, uri in sorted(before.binding - after.binding):
        if name in after.ids:
            yield f"packs: {name} no longer binds {uri}"
    for name in sorted(names):
        if f".kittify/{name}" in after.lost:
            yield f"packs: {make_encodable(name)} is not the file that packs.lock pins"


class Hooks(NamedTuple):
    """What a file of settings says of our hooks: each handler with all that decides when it runs,
    and what switches hooks off."""

    handlers: frozenset[object] = frozenset()
    switches: frozenset[str] = frozenset()


def read_hooks(path: str, data: bytes | None) -> Hooks:
    """Return what a file of settings says of our hooks; a plug-in is one handler as it is, and so
    is what cannot be read."""
    text = (data or b"{}").decode("utf-8", "replace")
    try:
        leaves = [
            *_list_leaves(tomllib.loads(text) if path.endswith(".toml") else json.loads(text))
        ]
    except (ValueError, RecursionError):
        is_code = path.endswith((".ts", ".js", ".json", ".jsonc", ".toml"))
        return Hooks(frozenset({text} if is_code and "spec-kitty" in text else ()))
    switches = (".".join(keys) for keys, _, value in leaves if _is_switch(keys, value))
    return Hooks(
        frozenset(leaf for leaf in leaves if _HANDLER.search(str(leaf[2]))), frozenset(switches)
    )


_Leaf = tuple[tuple[str, ...], tuple[object, ...], object]


def _list_leaves(
    value: object, keys: tuple[str, ...] = (), beside: tuple[object, ...] = ()
) -> Iterator[_Leaf]:
    """Yield each value that holds no other, with the keys that lead to it and the values beside
    those, but the outermost ones."""
    if isinstance(value, list):
        for item in value:
            yield from _list_leaves(item, keys, beside)
    elif isinstance(value, dict):
        plain = {key: item for key, item in value.items() if not isinstance(item, dict | list)}
        more = (repr(sorted(plain.items())),) if keys else ()
        for key, item in value.items():
            yield from _list_leaves(item, (*keys, key), beside + more)
    else:
        yield keys, beside, value


def _is_switch(keys: Sequence[str], value: object) -> bool:
    """Return whether a setting switches hooks off, or says something to our program."""
    name = ".".join(keys).casefold()
    is_off = value is False or (value is True and "disable" in name)
    return ("hook" in name and is_off) or "spec_kitty_" in name


def find_respelled(paths: Iterable[str], prefix: str) -> Iterator[str]:
    """Yield the files that are rules of the project only where macOS or Windows reads the name.

    There case is folded, HFS+ leaves out what has no width, and Windows dots and spaces at the end;
    it also knows .kittify as KITTIF~1.
    """
    below = f"{prefix}.kittify/".casefold()
    for path in sorted(paths):
        name = "".join(sign for sign in unicodedata.normalize("NFD", path) if sign.isprintable())
        name = re.sub(r"[. ]+(?=/|$)", "", name).casefold().replace("kittif~1/", ".kittify/")
        rest, plain = name.removeprefix(below), path.removeprefix(f"{prefix}.kittify/")
        if rest != name and rest.startswith(_RULES) and not plain.startswith(_RULES):
            yield f"{make_encodable(path)} is .kittify/{rest} on macOS and Windows"


def render_defaults() -> str:
    """Return a whole gate.yaml with the defaults, as a place to begin."""
    lines = [
        "# What a merge has to meet. Each rule is off, warn or fail; docs/gate.md explains them.",
        "version: 1",
        "rules:",
    ]
    for name in Rules.model_fields:
        value = getattr(GateFile().rules, name)
        if isinstance(value, Rule):
            lines.append(f"  {name}: {value.level}")
    lines += [
        "#  tests: {level: fail, not_known: warn}",
        "#  approval: {level: fail, paths: ['migrations/*']}",
        "#  proof: {level: fail, reach: logged}",
        "#  allowed: {level: fail, paths: ['src/payments/*'], profiles: [builder-bea]}",
        "#keys:",
        "#  allowed_signers: .kittify/allowed_signers",
        "#  policy: .kittify/trail-policy",
    ]
    return "".join(f"{line}\n" for line in lines)
