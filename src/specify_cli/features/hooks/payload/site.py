"""Which project a payload belongs to, and where in it the reported event happened."""

from __future__ import annotations

import os

from doctrine.git import find_in_main
from doctrine.light_imports import NamedTuple
from specify_cli import durable
from specify_cli.errors import InvocationError
from specify_cli.features.hooks.payload.values import MAX_PATH, HookEvent, HookInput
from specify_cli.invocation.bindings import (
    Binding,
    binding_of,
    is_record_open,
    list_bindings,
)
from specify_cli.project.root import find_root
from specify_cli.record import layout


class Site(NamedTuple):
    """Where a payload belongs: a project, its git directory, the session ("" where none is named),
    and the folder and the session's transcript that the harness named."""

    root: str
    git_dir: str | None
    harness: str
    home: str | None
    folder: str
    transcript: str | None = None
    session: str = ""

    def list_bindings(self, agent: str | None = None) -> list[Binding]:
        """Return what the session, or a subagent of it, is bound to, the newest first."""
        return list_bindings(self.root, self.harness, self.session, agent)


def find_site(
    harness: str, call: HookInput, others: tuple[str, str | None], home: str | None
) -> Site | None:
    """Return the project a payload belongs to, the one whose open record the session is bound to;
    None for no project.

    `others` are the folder of the hook, which counts where the payload names none, and the one the
    harness was started in.

    Whoever can make a folder, a branch or the agent itself, can make it look like a project. So the
    projects around these folders are asked for the session's binding first: those of the folder the
    harness was started in, which is the last, before the others, and each from the outside in. Only
    a session that is bound to no open record goes by its folder. A hook begins no project.
    """
    folder = call.cwd or others[0]
    at = Site("", None, harness, home, folder, call.session_transcript, call.session_id)
    folders = (folder, *others)
    around = [
        [] if name is None or name in folders[:place] else _find_projects(name, home)
        for place, name in enumerate(folders)
    ]
    projects = list(dict.fromkeys(project for group in around for project in group))
    if len(projects) != 1 and call.session_id:
        # the agent may have gone to a worktree that it made
        for group in (around[-1], *around[:-1], _find_projects(find_in_main(folder), home)):
            for root, git_dir in reversed(group):
                for agent in dict.fromkeys((call.subagent, None)):
                    binding = binding_of(root, harness, call.session_id, agent)
                    if binding and is_record_open(root, binding):
                        return at._replace(root=root, git_dir=git_dir)
    return at._replace(root=projects[0][0], git_dir=projects[0][1]) if projects else None


def _find_projects(folder: str, home: str | None) -> list[tuple[str, str | None]]:
    """Return the projects in which spec-kitty is used around a folder within its git worktree, the
    nearest first.

    Within another project one counts only where a person accepted it (`root.locate`).
    """
    projects = []
    here = folder
    try:
        while os.path.isabs(here):
            root, git_dir = find_root(here, home)
            # Who removes the events in the middle of a run leaves what hooks noted next to them. In
            # a new worktree there is neither: there the main one says that sessions get records.
            if (
                os.path.isdir(f"{root}/{layout.EVENTS}")
                or os.path.isdir(f"{root}/{layout.LOCAL}")
                or os.path.isdir(f"{find_in_main(root)}/{layout.OPEN}")
            ):
                projects.append((root, git_dir))
            if git_dir is None or os.path.lexists(f"{root}/.git"):
                break
            here = os.path.dirname(root)
    except (OSError, ValueError, InvocationError):
        pass
    return projects


def place_events(call: HookInput, at: Site) -> HookInput:
    """Return a call whose events name files as the project does."""
    elsewhere = _is_elsewhere(at)
    return call._replace(events=tuple(_place_event(event, at, elsewhere) for event in call.events))


def find_name(at: Site, path: str | None) -> str | None:
    """Return the name below the project of a file that a payload names; None of one elsewhere, and
    where it names none."""
    return path and durable.name_below(at.root, os.path.normpath(os.path.join(at.folder, path)))


def _place_event(event: HookEvent, at: Site, elsewhere: bool) -> HookEvent:
    """Return an event placed in the project.

    A patch gets its path below the project where it lies there, else the whole one; a relative path
    starts where the agent works. A call made in a folder elsewhere names that folder.
    """
    if event.event == "tool_call" and elsewhere:
        return event._replace(payload={**event.payload, "cwd": at.folder[:MAX_PATH]})
    path = event.path
    if event.event != "patch_apply" or not isinstance(path, str):
        return event
    name = find_name(at, path) or os.path.normpath(os.path.join(at.folder, path))
    return event._replace(payload={**event.payload, "path": name})


def _is_elsewhere(at: Site) -> bool:
    """Return whether a folder lies outside a project, or in another project within it."""
    root, folder = at.root, at.folder
    if folder == root:
        return False
    if not f"{os.path.normpath(folder)}/".startswith(f"{root}/"):
        try:
            return not f"{os.path.realpath(folder)}/".startswith(f"{os.path.realpath(root)}/")
        except (OSError, ValueError):
            return True
    projects = _find_projects(folder, at.home)
    return bool(projects) and projects[0][0] != root
