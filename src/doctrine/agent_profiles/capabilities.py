"""What the contract says each of the eight roles can do, and the verbs that name its work.  [pure]

The shipped profiles are held to it by tests. Nothing is read from it while routing: a profile
without verbs of its own answers for those of its roles' actions, by the router's table.
"""

from __future__ import annotations

from doctrine.light_imports import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class RoleCapabilities(NamedTuple):
    """The default capabilities of one role and the verbs that name its work."""

    capabilities: tuple[str, ...]
    canonical_verbs: tuple[str, ...]


DEFAULT_ROLE_CAPABILITIES: Mapping[str, RoleCapabilities] = {
    "IMPLEMENTER": RoleCapabilities(
        ("read", "write", "edit", "search", "shell", "test"), ("generate", "refine", "implement")
    ),
    "REVIEWER": RoleCapabilities(
        ("read", "search", "test", "comment"), ("audit", "assess", "review")
    ),
    "ARCHITECT": RoleCapabilities(
        ("read", "write", "search", "model"), ("audit", "synthesize", "plan")
    ),
    "DESIGNER": RoleCapabilities(
        ("read", "write", "search", "prototype"), ("synthesize", "draft", "design")
    ),
    "PLANNER": RoleCapabilities(
        ("read", "write", "search", "schedule"), ("plan", "decompose", "prioritize")
    ),
    "RESEARCHER": RoleCapabilities(
        ("read", "search", "browse", "measure"), ("analyze", "investigate", "summarize")
    ),
    "CURATOR": RoleCapabilities(
        ("read", "edit", "search", "tag"), ("classify", "curate", "validate")
    ),
    "MANAGER": RoleCapabilities(
        ("read", "comment", "assign", "track"), ("coordinate", "delegate", "monitor")
    ),
}
