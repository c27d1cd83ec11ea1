"""Load the router's inputs: the profiles of a project, and the shipped table.

    registry = ProfileRegistry(project.root, cache)
    route(text, registry.all(), shipped_table(), detect_facts(project.root))

This is the only module of the package that reads files. A replay does not use it: it takes profiles
and table from the snapshot (`storage.frozen`).
"""

from __future__ import annotations

from doctrine import os
from doctrine.agent_profiles.repository import PROJECT_FOLDERS, AgentProfileRepository
from doctrine.light_imports import TYPE_CHECKING
from specify_cli.errors import CallerError
from specify_cli.routing.table import RouterTable

if TYPE_CHECKING:
    from doctrine.agent_profiles.profile import AgentProfile
    from doctrine.load import ParseCache


class ProfileRegistry(AgentProfileRepository):
    """Shipped profiles, shadowed by the project's: `.kittify/profiles/` wins over the older
    folder.

    `root` is the project's folder. `problems` lists files that cannot be used. The others still
    count, because one broken profile must not stop every request.
    """

    def __init__(self, root: str, cache: ParseCache | None = None) -> None:
        super().__init__(project_dir=PROJECT_FOLDERS, cache=cache, root=root)

    def get(self, profile_id: str) -> AgentProfile:
        """Return one profile. Raises CallerError PROFILE_NOT_FOUND listing what is available.

        `profile_id` is compared as written. If files of profiles cannot be used, the error says so
        first: the missing profile may be one of them.
        """
        own = super().get(profile_id)
        if own is not None:
            return own
        broken = [problem.path for problem in self.problems]
        unusable = (
            f"; {len(broken)} profile files cannot be used, {broken[0]} among them"
            if broken
            else ""
        )
        raise CallerError(
            "PROFILE_NOT_FOUND",
            f"no profile has the id {profile_id!r}{unusable}",
            "spec-kitty doctor" if broken else "spec-kitty profiles list",
            candidates=[
                {
                    "profile_id": profile.profile_id,
                    "name": profile.name,
                    "roles": list(profile.roles),
                }
                for profile in self.all()
            ],
        )


def shipped_table() -> RouterTable:
    """Return the router's table of this build: English, then each file of `languages`.

    Its bytes are those of the files, joined to one JSON list, so its digest changes with any of
    them. Equal bytes are parsed once.
    """
    folder = os.path.dirname(__file__)
    languages = os.path.join(folder, "languages")
    names = sorted(os.listdir(languages)) if os.path.isdir(languages) else []
    paths = [os.path.join(languages, name) for name in names if name.endswith(".json")]
    documents = []
    for path in (os.path.join(folder, "router_table.json"), *paths):
        with open(path, "rb") as file:
            documents.append(file.read())
    return RouterTable.from_bytes(b"[" + b",".join(documents) + b"]")
