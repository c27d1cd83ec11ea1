"""The values a governance context is made of.  [pure]

`Charter` is what a project demands, section by section, whichever file form it was written in.
`Policy` says what may be put in front of an agent. Both are plain values: parsing is in `parse`,
using them in `retrieval`.

    charter = parse_charter_markdown(text)
    [section.title for section in charter.sections if section.always]
"""

from __future__ import annotations

from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from doctrine.artifact import Artifact

    PolicyAction = Literal["allow", "deny", "redact"]

SECTION_KIND = "charter"


class Remark(NamedTuple):
    """Something in a charter.yaml that is used and looks like a mistake: the node, what, and what
    fixes it."""

    path: tuple[str | int, ...]
    what: str
    repair: str


class Charter(NamedTuple):
    """The sections of a charter, and its say over doctrine.

    `activated` holds, by kind, the only artifacts in force; a kind that is not in it is
    unrestricted. `selected` names artifacts, by kind, that the charter draws on by itself.
    """

    sections: tuple[Artifact, ...] = ()
    activated: Mapping[str, tuple[str, ...]] = {}
    selected: Mapping[str, tuple[str, ...]] = {}
    remarks: tuple[Remark, ...] = ()


class PolicyRule(NamedTuple):
    """One rule: every property it names must match; of several patterns for one property any may.

    `pack` names the pack that a rule is from. One that is `binding` decides before the project's.
    """

    id: str
    action: PolicyAction
    uris: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    reason: str = ""
    pack: str = ""
    binding: bool = False


class Policy(NamedTuple):
    """The rules in order; the first that matches an artifact decides.

    Without a rule that matches, an artifact is allowed. Binding rules of packs stand first
    (`doctrine_files.join_policy`).
    """

    rules: tuple[PolicyRule, ...] = ()


class CharterError(ValueError):
    """A charter or policy that cannot be read: where in the document, why, and what fixes it.

    `path` is the way to the node: names of members and numbers of items, from 0. The caller finds
    the line (`explain_error`) and reports a `Problem`, so that one mistake does not hide the rest
    of the file.
    """

    def __init__(self, path: tuple[str | int, ...], reason: str, repair: str) -> None:
        super().__init__(reason)
        self.path = path
        self.repair = repair
