"""What the project is made of, as far as routing leans on it: its languages.

`detect_facts` looks once at the names in a project's root and never deeper.  It follows no symlink, opens no
file and raises nothing: a root that cannot be listed has no known languages.
"""

from __future__ import annotations

import os

from specify_cli.routing.router import ProjectFacts

_MARKERS = {
    "pyproject.toml": "python",
    "setup.py": "python",
    "setup.cfg": "python",
    "requirements.txt": "python",
    "pipfile": "python",
    "package.json": "javascript",
    "tsconfig.json": "typescript",
    "cargo.toml": "rust",
    "go.mod": "go",
    "pom.xml": "java",
    "build.gradle": "java",
    "build.gradle.kts": "kotlin",
    "gemfile": "ruby",
    "composer.json": "php",
    "package.swift": "swift",
    "cmakelists.txt": "cpp",
    "mix.exs": "elixir",
    "build.sbt": "scala",
    "pubspec.yaml": "dart",
    "stack.yaml": "haskell",
}
_ENDINGS = {
    ".py": "python",
    ".js": "javascript",
    ".ts": "typescript",
    ".rs": "rust",
    ".go": "go",
    ".java": "java",
    ".kt": "kotlin",
    ".rb": "ruby",
    ".php": "php",
    ".sln": "csharp",
    ".csproj": "csharp",
    ".cs": "csharp",
    ".swift": "swift",
    ".cpp": "cpp",
    ".cc": "cpp",
    ".exs": "elixir",
    ".ex": "elixir",
    ".cabal": "haskell",
    ".sql": "sql",
}


def detect_facts(root: str) -> ProjectFacts:
    """Return the languages the names in the project's root speak of, sorted."""
    found: set[str] = set()
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                name = entry.name.lower()
                language = _MARKERS.get(name) or _ENDINGS.get(os.path.splitext(name)[1])
                if language and language not in found and entry.is_file(follow_symlinks=False):
                    found.add(language)
    except (OSError, ValueError):
        pass
    return ProjectFacts(tuple(sorted(found)))
