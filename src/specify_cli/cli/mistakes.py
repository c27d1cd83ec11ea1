"""Find what a mistaken command line most likely meant: a pure look into the table of commands.

    find_meant(["show", "last"])  # (["invocations show"], ["invocations", "show", "last"])

Only a command line that can run as it stands is returned, for the reader to type.
"""

from __future__ import annotations

from difflib import SequenceMatcher, get_close_matches
from itertools import takewhile

from specify_cli.cli.tables.command_table import (
    Command,
    list_commands,
    list_guesses,
    parse_plain,
)
from specify_cli.errors import CallerError
from specify_cli.storage.queries import parse_moment

# How alike two words are that differ by a slip of the hand.
_ALIKE = 0.8
# Fewer words than these may be a command of another program; so many are a request.
_REQUEST = 3
_SINCE = "--since"
_OF_ALL = {"-v": "--version", "-V": "--version", "version": "--version", "help": "--help"}


def find_meant(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """Return the commands that the first words may mean, as texts, and the command line that was
    most likely meant; None where nothing is likely.

    Of the commands the one that declares the guess comes first, then those of a group that have
    this name, those of records first.

    `argv` are the words as they were typed. Nothing is run or read but the table of commands.
    """
    if argv[:1] == ["help"] and argv[1:]:
        return [], [*argv[1:], "--help"]
    if argv and argv[0] in _OF_ALL:
        return [], [_OF_ALL[argv[0]]]
    names = [word for word in argv if not word.startswith("-")]
    heads = {command.path[0] for command in list_commands()}
    guessed, meant = _list_meant(names, heads)
    for command, count in meant:
        words = [*command.path, *_correct_rest(command, _leave_out(argv, names[:count]))]
        if parse_plain(words):
            return guessed, words
        if names[:count] == [*command.path]:
            return guessed, None  # what is wrong stands behind the command's name
    request = " ".join(argv)
    if names == argv and names[:1] and names[0] not in heads and _is_request(request.split()):
        return guessed, ["do", request]
    return guessed, None


def _is_request(words: list[str]) -> bool:
    """Return whether words ask for work: many, or two of which the first names an action."""
    from specify_cli.routing.registry import shipped_table  # for a mistake only

    verbs = {verb for aliases in shipped_table().aliases.values() for verb in aliases}
    return len(words) >= _REQUEST or (len(words) == 2 and words[0] in verbs)


def _list_meant(names: list[str], heads: set[str]) -> tuple[list[str], list[tuple[Command, int]]]:
    """Return the commands that these words may name: as texts those of a guess or a group, and each
    with the number of words it takes, the longest that is named exactly, then a declared guess or
    one of records, then the most alike. `heads` are the first words of all commands."""
    guesses, matches, deeper = list_guesses(), [], []
    for command in list_commands():
        size, text = len(command.path), " ".join(command.path)
        pairs = [_compare(one, other) for one, other in zip(names, command.path, strict=False)]
        if len(pairs) == size and min(pairs) >= _ALIKE:
            matches.append((sum(pairs) / size + (names[:size] == [*command.path]), command, size))
        for count in (2, 1):
            if len(names) >= count and guesses.get(" ".join(names[:count])) == text:
                matches.append((1 + count / 10, command, count))
        if size > 1 and names[:1] == [command.path[-1]]:
            deeper.append(text)
        if command.path[0] == "invocations" and names and names[0] not in heads:
            alike = _compare(names[0], command.path[-1])
            if alike >= _ALIKE:
                matches.append((alike, command, 1))
    matches.sort(key=lambda one: (-one[0], -one[2]))
    declared = [guesses[text] for text in (" ".join(names[:2]), *names[:1]) if text in guesses]
    deeper.sort(key=lambda words: not words.startswith("invocations "))
    guessed = list(dict.fromkeys([*declared, *deeper]))
    return guessed, [(command, count) for _, command, count in matches]


def _compare(one: str, other: str) -> float:
    """Return how alike two words are; 0 where their lengths alone tell them apart."""
    matcher = SequenceMatcher(None, one.lower(), other)
    return matcher.ratio() if matcher.real_quick_ratio() >= _ALIKE else 0.0


def _leave_out(argv: list[str], names: list[str]) -> list[str]:
    """Return the words after a command's name; options that stood before it follow them."""
    rest = list(argv)
    for name in names:
        rest.remove(name)
    before = len(list(takewhile(lambda word: word not in names, argv)))
    return rest[before:] + rest[:before]


def _correct_rest(command: Command, rest: list[str]) -> list[str]:
    """Return the words after a command with its own options and values in place of similar ones,
    and an option before a value that only it takes."""
    options = {param.option: param for param in command.params if param.kind != "argument"}
    arguments = [param for param in command.params if param.kind == "argument"]
    # An argument that is taken as often as wanted leaves no word over.
    room = len(rest) if any(param.multiple for param in arguments) else len(arguments)
    words = []
    asked = None  # the option whose value comes next
    for word in rest:
        if asked:
            words.append(_find_choice(asked.choices, word))
            asked = None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            name = name if name in options else _find_option([*options], name)
            param = options.get(name)
            asked = param if param and param.kind != "flag" and not equals else None
            choices = param.choices if param else ()
            words.append(f"{name}={_find_choice(choices, value)}" if equals and value else name)
        else:
            # As `run.html` names the file that --html writes.
            named = f"--{word.rpartition('.')[2]}" if "." in word else ""
            taking = [name for name, param in options.items() if word in param.choices]
            if _SINCE in options and _is_moment(word):
                taking.append(_SINCE)
            taking += [name for name, param in options.items() if param.metavar == "REF"]
            if named in options and options[named].kind == "option":
                words += [named, word]
            else:
                words += [taking[0], word] if taking and room <= 0 else [word]
            room -= 1
    return words


def _is_moment(word: str) -> bool:
    """Return whether a word says a time, as --since takes it."""
    try:
        return parse_moment(word) is not None
    except CallerError:
        return False


def _find_option(names: list[str], name: str) -> str:
    """Return the option that a word is like; the word itself where none or, by its letter, several
    are."""
    if len(name) == 2:
        begun = [one for one in names if one.startswith(f"-{name}")]
        return begun[0] if len(begun) == 1 else name
    return next(iter(get_close_matches(name, names, 1, _ALIKE)), name)


def _find_choice(choices: tuple[str, ...], value: str) -> str:
    """Return the choice that a value is like or begins; else the value."""
    if not choices or value in choices:
        return value
    begun = [one for one in choices if value and one.startswith(value.lower())]
    return next(iter([*begun, *get_close_matches(value.lower(), choices, 1, _ALIKE)]), value)
