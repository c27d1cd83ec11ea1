"""By which files a language shows: the one table that routing's facts, a first charter and a
profile go by. [pure]

    LANGUAGES.get(".py"), LANGUAGES.get("cargo.toml")      # ("python", "rust")
"""

# Endings begin with a dot; the rest are whole names of files, in lower case.
_SIGNS = {
    "python": ".py pyproject.toml setup.py setup.cfg requirements.txt pipfile",
    "typescript": ".ts .tsx tsconfig.json",
    "javascript": ".js .jsx .mjs package.json",
    "rust": ".rs cargo.toml",
    "go": ".go go.mod",
    "java": ".java pom.xml build.gradle",
    "kotlin": ".kt build.gradle.kts",
    "ruby": ".rb gemfile",
    "php": ".php composer.json",
    "csharp": ".cs .csproj .sln",
    "swift": ".swift package.swift",
    "c": ".c",
    "cpp": ".cc .cpp cmakelists.txt",
    "elixir": ".ex .exs mix.exs",
    "scala": ".scala build.sbt",
    "dart": ".dart pubspec.yaml",
    "haskell": ".hs .cabal stack.yaml",
    "sql": ".sql",
    "clojure": ".clj .cljs deps.edn project.clj",
    "crystal": ".cr shard.yml",
    "erlang": ".erl rebar.config",
    "fsharp": ".fs .fsproj",
    "julia": ".jl",
    "lua": ".lua",
    "ocaml": ".ml dune-project",
    "perl": ".pl .pm",
    "r": ".r",
    "zig": ".zig",
}
LANGUAGES = {sign: language for language, signs in _SIGNS.items() for sign in signs.split()}
ENDINGS = {sign: language for sign, language in LANGUAGES.items() if sign.startswith(".")}
