"""Read the work in a request: its kinds, its files and its languages.  [pure]

    read_work("fix: proxy auth fails in src/client.py", "implement").kinds   # ("bug", "security")

The tables belong to the scorer: a change of any raises its version (docs/adr/0019).
"""

from __future__ import annotations

import re

from charter.retrieval import MAX_QUERY, query_terms, stem, words
from doctrine.languages import LANGUAGES
from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import blank_sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_FILES = 50
_NAMES = frozenset(LANGUAGES.values())
OTHER = "other"
_CLEAR = ("bug", "docs", "upgrade", "performance", "security", "migration")
# What is not done in an action, whatever the request speaks of.
_UNDONE = {"analyze": ("docs", "upgrade"), "review": ("bug",)}
_BEFORE_WORK = ("plan", "specify", "curate", "coordinate")
_PREFIXES = {
    "fix": "bug", "fixes": "bug", "fixed": "bug", "bugfix": "bug", "hotfix": "bug", "bug": "bug",
    "feat": "feature", "feature": "feature", "docs": "docs", "doc": "docs", "perf": "performance",
    "refactor": "refactoring", "test": "test", "tests": "test", "security": "security",
}  # fmt: skip
_FILE = r"(?<![\w/.@:-])(?:(?:[\w.@-]+/)+|[\w@-])[\w@-][\w.@-]*\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/(])"
# What says nothing of the work: an address, and how an example begins.
_BESIDES = r"https?://\S+|\b[Ff]or example\b"
_VERSION = r"\bv?\d+\.\d+(?:\.\d+)*\b|\bto v?\d{1,3}\b"
_LONGEST_PREFIX = 50
# What stands before a title: its type, as `fix(parser)!:`, or the part that it changes.
_AREA = r"[\w./*,-]{1,40}(?:\([^()]{0,40}\))?!?:"


def _split_all(table: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """Return a table whose cells are split into stems."""
    return {kind: frozenset(stems.split()) for kind, stems in table.items()}


# Stems (adr/0019): a sign of a kind wherever it stands, or a verb where the request begins.
_SIGNS = _split_all(
    {
        "bug": (
            "break broken bug cannot caus crash deadlock disappear duplic error fail failur fault "
            "flak flash freez hang ignor inaccessibl incorrect issu lost miss overwritten proper "
            "rac regress stuck traceback unabl unexpect unresponsiv wrong"
        ),
        "docs": (
            "changelog communit doc docstr exampl faq glossar grammar guid quickstart readm spell "
            "tutori typo"
        ),
        "performance": (
            "bottleneck cpu fast latenc laz lazi leak memor optimiz perf performanc profil slow "
            "slowness spe throughput"
        ),
        "security": (
            "attack auth authentic authoriz credenti csrf cve escap exploit harden inject password "
            "permiss sanitiz secret securit token valid vulnerabilit xss"
        ),
        "migration": "backfill migr",
        "refactoring": "cleanup deprec refactor restructur simplif",
        "test": "coverag flak pytest testcas unittest",
    }
)
_VERBS = _split_all(
    {
        "feature": (
            "add allow build creat detect displa enabl expos extend implement improv init "
            "introduc let mak popul provid rais respect show support upload writ"
        ),
        "removal": "delet deprec drop remov",
        "refactoring": (
            "address chang clean consolid convert delet disabl drop extract inlin merg minor mov "
            "remov renam reorganiz replac repurpos reus rework split swap switch unif updat use"
        ),
        "bug": "avoid clos correct ensur fix guard handl prevent repair resolv",
        "docs": "clarif describ document reword",
        "upgrade": "bump pin unpin upgrad",
        "question": "are can do doe explain how is should what when wher which who why",
        "test": "test",
    }
)
# A sign, or a form of it, that names other things, too, counts only beside one of these.
_BESIDE = _split_all(
    {
        "memor": (
            "alloc bloat consum excess footprint grow heap high leak limit oom out pressur profil "
            "reduc sav usag utiliz"
        ),
        "latenc": "cut high improv increas lower reduc regress spik tail",
        "profil": "bottleneck cpu flamegraph heap memor slow startup",
        "leak": "memor",
        "token": (
            "access api auth authentic bearer credenti csrf expir github header invalid jwt login "
            "oauth password permiss refresh revok secret session sign verif"
        ),
        "inject": (
            "attack code command csrf css escap header html log malici prevent prompt sanitiz "
            "shell sql untrust vulnerabilit xss"
        ),
        "escap": "attack html inject sanitiz shell sql untrust vulnerabilit xss",
        **dict.fromkeys(
            ("migrate", "migrates", "migrated", "migrating"),
            "backfill column data databas db field index mysql orm postgr record row schema sql "
            "sqlit tabl",
        ),
        "exampl": "add broken code doc docstr fix guid readm remov tutori updat usag",
        **dict.fromkeys(("fast", "optimizer", "optimizers", "optimized", "duplication"), ""),
        "faster": "fast",
    }
)
_TYPOS = frozenset(["spell", "typo"])
_NEEDED = frozenset(["dependenc", "requirement"])
_DEPENDENCY = _NEEDED | {"monorepo", "vers"}
_NEGATIONS = ("not", "never", "doesn", "don", "isn", "aren", "won", "didn", "wasn", "cannot")
_DOC_FILES = (".md", ".rst", ".adoc", ".txt")
_LOCKS = (
    "package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "requirements.txt",
    "pyproject.toml", "poetry.lock", "uv.lock", "cargo.lock", "cargo.toml", "go.mod", "go.sum",
    "gemfile.lock", "constraints.txt",
)  # fmt: skip


class Work(NamedTuple):
    """What a request is about, as far as its words and files say.

    `clear` are the kinds that it says by its type or a sign, and not by the verb it begins with.

    `kinds` are words such as bug, docs or feature. `terms` are stems of the request, `files` paths
    that it names or that have changed, `languages` lower-case names.
    """

    action: str
    kinds: tuple[str, ...]
    terms: tuple[str, ...]
    files: tuple[str, ...] = ()
    languages: frozenset[str] = frozenset()
    clear: tuple[str, ...] = ()


def read_work(
    request: str, action: str, files: Iterable[str], languages: Iterable[str] = ()
) -> Work:
    """Return the work in a request. `files` are those that its branch has changed, and `languages`
    those of the profile.

    The first `MAX_QUERY` characters of the request count, and at most `MAX_FILES` of the files that
    it names or that have changed. `action` is the routed one; its own name does not count as a
    term.
    """
    text = request[:MAX_QUERY]
    said = re.sub(_BESIDES, "", blank_sources(text))
    changed = tuple(files)
    spelt = re.findall(_FILE, text) if "." in text else ()
    named = (file for file in spelt if ".." not in _name(file))
    paths = [*dict.fromkeys((*named, *changed))][:MAX_FILES]
    file_languages = {
        LANGUAGES.get(_ending(file), LANGUAGES.get(_name(file), "")) for file in paths
    }
    terms = query_terms(text)
    plain = tuple(term for term in terms if term != stem(action)) or terms
    kinds = read_kinds(said, action, [path for path in paths if path in said or path in changed])
    return Work(
        action,
        kinds,
        plain,
        tuple(paths),
        frozenset({*file_languages, *languages, *_NAMES.intersection(words(text))} - {""}),
        tuple(
            kind
            for kind in kinds
            if kind in _CLEAR and kind not in _UNDONE.get(action, ()) and _is_said(kind, said)
        ),
    )


def _is_said(kind: str, text: str) -> bool:
    """Return whether a request shows a kind by its type or a sign, and not only by its first
    verb."""
    prefix, _, rest = _split_prefix(text)
    signs = _SIGNS.get(kind, frozenset())
    return (
        kind in ("upgrade", "docs")
        or _PREFIXES.get(prefix) == kind
        or not signs.isdisjoint(_read_signs(rest))
    )


def _read_signs(text: str) -> frozenset[str]:
    """Return the stems of a text that may be signs of a kind."""
    stems = {word: stem(word) for word in words(text)}
    there = frozenset(stems.values())
    return frozenset(
        one
        for word, one in stems.items()
        if not _BESIDE.get(word, _BESIDE.get(one, there)).isdisjoint(there)
    )


def read_kinds(
    request: str, action: str = "implement", files: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the kinds of work in a request; `other` if it names none and is implemented.

    An agent that plans or specifies does not do the work yet, so only its subject counts.

    `action` is the routed one, and `files` are changed paths. The kinds are sorted, so equal
    requests give equal records.
    """
    prefix, scope, text = _split_prefix(request)
    stems = [stem(word) for word in words(text)]
    lead = stems[0] if stems else ""
    # "Ignore the folder" asks for it, where "ignores the folder" reports a fault.
    read = _read_signs(text) - ({"ignor"} if lead == "ignor" else set())
    sign_kinds = {kind for kind, signs in _SIGNS.items() if not signs.isdisjoint(read)}
    if any(said in text.lower() for said in ("documentation", "link to ", "links to ")):
        sign_kinds.add("docs")
    if {"should", "must"} & {*words(text)[1:]} and lead not in _VERBS["question"]:
        sign_kinds.add("bug")  # it says what ought to be, so something else is
    lead_kinds = {kind for kind, verbs in _VERBS.items() if lead in verbs}
    if lead == "do" and "not" in stems[1:2]:
        lead_kinds = set()  # a title that says what ought not to be, and no question
    if lead == "mak" and {"sure", "work"} & set(stems):
        lead_kinds = {"bug"}
    if lead_kinds <= {"upgrade"} and any(word in _NEGATIONS for word in words(text)):
        sign_kinds.add("bug")
    if lead_kinds == {"feature"} and "test" in stems[1:3]:
        lead_kinds = {"test"}
    tagged = _PREFIXES.get(prefix, "")
    upgrade = scope.startswith("deps") or prefix == "vendor" or _is_upgrade(text, lead, stems)
    if text.rstrip().endswith("?") or ("question" in lead_kinds and tagged == ""):
        sign_kinds.add("question")
    lead_kinds.discard("question")
    of_files = _read_files(files)
    if action in _BEFORE_WORK:
        return tuple(sorted(sign_kinds & {"docs", "performance", "security", "migration"}))
    # 1. An upgrade, and what changes documents alone, is nothing else, whatever its verb.
    if upgrade and "bug" not in sign_kinds:
        return ("upgrade",)
    docs = sign_kinds if tagged else sign_kinds | lead_kinds
    if "docs" in docs or tagged == "docs" or of_files == "docs":
        return ("docs",) if _TYPOS.isdisjoint(stems) else ("typo",)
    # 2. What the request says of itself counts, then its signs, then the verb it begins with.
    kinds = {tagged} - {""} or (lead_kinds - {"upgrade"} if "bug" in sign_kinds else lead_kinds)
    if tagged in ("bug", "") or "bug" not in sign_kinds:
        kinds |= sign_kinds
    if {"bug", "performance"} & sign_kinds and "bug" not in lead_kinds:
        kinds -= {"feature", "refactoring"} if "bug" in sign_kinds and not tagged else set()
    if of_files:
        kinds.add(of_files)
    if kinds <= {"security", "migration"} and action == "implement":
        kinds.add(OTHER)  # what it is about is said, and what is done is not
    return tuple(sorted(kinds))


def _split_prefix(request: str) -> tuple[str, str, str]:
    """Return the type and scope of a conventional title, or nothing, and what it says."""
    text = request.lstrip()
    while text.startswith("[") and "]" in text[:_LONGEST_PREFIX]:
        text = text.partition("]")[2].lstrip(" :")
    head, colon, rest = text.partition(":")
    prefix, _, scope = head.rstrip("!").partition("(")
    if not re.fullmatch(_AREA, head + colon) or rest[:1] != " ":
        return "", "", text
    return prefix.lower(), scope, rest


def _is_upgrade(text: str, lead: str, stems: list[str]) -> bool:
    """Return whether a request changes the version of what the project depends on."""
    if lead in _VERBS["upgrade"]:
        return True
    counted = not _DEPENDENCY.isdisjoint(stems)
    if "updat" in stems or "hash" in stems:
        # "Update the readme for 2.0"
        is_page = not _SIGNS["docs"].isdisjoint(stems)
        return counted or (not is_page and re.search(_VERSION, text) is not None)
    return lead == "add" and not _NEEDED.isdisjoint(stems)


def _read_files(files: Iterable[str]) -> str:
    """Return the kind that all changed files are of, where they are of one."""
    listed = [file.lower() for file in files]
    if not listed:
        return ""
    if all(map(_is_lock, listed)):
        return "upgrade"
    if all(file.endswith(_DOC_FILES) and not _is_lock(file) for file in listed):
        return "docs"
    if all("test" in file for file in listed):
        return "test"
    if any(file.endswith(".sql") or "migrations/" in file for file in listed):
        return "migration"
    return ""


def _is_lock(file: str) -> bool:
    """Return whether a file names what a project depends on."""
    return _name(file) in _LOCKS or (file.endswith(".txt") and "requirements" in _name(file))


def _name(file: str) -> str:
    """Return the name of a file in lower case, without its folder."""
    return file.rpartition("/")[2].lower()


def _ending(file: str) -> str:
    """Return the ending of a file's name with its dot; "" where it has none."""
    stem_of, dot, ending = _name(file).rpartition(".")
    return f".{ending}" if dot and stem_of else ""
