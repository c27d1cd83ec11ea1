"""What the project is made of, as far as routing leans on it: its languages.

`detect_facts` looks once at the names in a project's root and never deeper. It follows no symlink,
opens no file and raises nothing: a root that cannot be listed has no known languages.

    detect_facts(project.root).languages        # ("python", "sql")
"""

from __future__ import annotations

import os

from doctrine.languages import LANGUAGES
from specify_cli.routing.router import ProjectFacts


def detect_facts(root: str) -> ProjectFacts:
    """Return the languages the names in the project's root speak of, sorted.

    Whole names and endings say them; case does not matter.
    """
    languages = set()
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                name = entry.name.lower()
                language = LANGUAGES.get(name) or LANGUAGES.get(os.path.splitext(name)[1])
                if language and language not in languages and entry.is_file(follow_symlinks=False):
                    languages.add(language)
    except (OSError, ValueError):
        pass
    return ProjectFacts(tuple(sorted(languages)))
