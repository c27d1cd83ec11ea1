"""Pieces of a context's text that its layouts share.  [pure]"""

from __future__ import annotations

from charter.inputs import CHARTER_MARKDOWN, CHARTER_YAML
from charter.retrieval import is_denied
from doctrine.light_imports import TYPE_CHECKING
from doctrine.packs import split_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from charter.inputs import ContextInputs
    from doctrine.artifact import Artifact


def describe_withheld(action: str, inputs: ContextInputs) -> str:
    """Return the notice that stands for a context where the policy cannot be read."""
    return (
        f"# Governance context: {action}\n\n"
        "This project has a charter and a policy on what of it may be shown, and the policy "
        "cannot be read:"
        f" {inputs.policy_error}.\n\n"
        "So the charter and all doctrine are withheld. This does not mean that there are no "
        "rules. Do nothing"
        " that is hard to undo; ask for the policy to be mended (`spec-kitty charter lint` "
        "names file, line and"
        " repair), then ask for this context again.\n"
    )


def describe_denied(inputs: ContextInputs, collection: Sequence[Artifact]) -> str:
    """Return what is said where the policy leaves nothing of the charter or of the doctrine."""
    if not inputs.policy.rules:
        return ""
    gone: list[str] = []
    for what, ours in (("the charter", True), ("the doctrine", False)):
        of_it = [artifact for artifact in collection if (artifact.origin == "charter") is ours]
        if of_it and all(is_denied(inputs.policy, artifact) for artifact in of_it):
            gone.append(what)
    if not gone:
        return ""
    return (
        f"The policy denies all of {' and '.join(gone)}. This does not mean that there are "
        "no rules: ask for them."
    )


def list_unread(inputs: ContextInputs) -> list[str]:
    """Return what is said of a charter of which not everything could be read."""
    lines: list[str] = []
    if any(problem.path in (CHARTER_MARKDOWN, CHARTER_YAML) for problem in inputs.problems):
        lines.append(
            "One of the charter's files could not be read: rules may be missing here. Say so "
            "when you report."
        )
    if any(split_path(problem.path)[0] for problem in inputs.problems):
        lines.append(
            "A file of a pack is not as it was pinned: rules may be missing here. Say so when you "
            "report."
        )
    if inputs.charter_error:
        lines.append("It is the one that says which doctrine is in force, so none is shown.")
    return lines


def list_profile(parts: Iterable[tuple[str, object]], size: int) -> list[str]:
    """Return the parts of a profile that are texts, a line each of at most `size` characters."""
    return [
        f"- {label}: {truncate(' '.join(value.split()), size)}"
        for label, value in parts
        if isinstance(value, str) and value.strip()
    ]


def render_artifact(artifact: Artifact) -> str:
    """Return an artifact whole, under its title and uri."""
    return f"### {artifact.title}\n`{artifact.uri}`\n\n{artifact.body}"


def describe_fetch(uri: str) -> str:
    """Return the command that prints one artifact whole."""
    return f"spec-kitty charter context --uri {uri}"


def is_summary(artifact: Artifact) -> bool:
    """Return whether an artifact is the section an agent must not miss."""
    return artifact.id.startswith("policy-summary")


def truncate(text: str, size: int) -> str:
    """Return a text of at most so many characters."""
    return text if len(text) <= size else text[: size - 1].rstrip() + "\u2026"


def name_action(text: str) -> str:
    """Return an action as a word of a command line, or what stands for one."""
    return text if text.isidentifier() and len(text) <= 40 else "ACTION"


def describe_omission(artifact: Artifact, reason: str) -> dict[str, Any]:
    """Return what is said of an artifact that is not shown, or not whole."""
    return {
        "uri": artifact.uri,
        "title": artifact.title,
        "chars": len(artifact.body),
        "reason": reason,
    }
