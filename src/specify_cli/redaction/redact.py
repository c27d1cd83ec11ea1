"""Which parts of a text are secrets: the shipped rules, a project's own rules, and the masking.

`redact` masks every finding as `⟦rule-id⟧` and gives a fixed point: redacting its result changes
nothing, and a mask is never masked again. The time it takes grows with the length of the text and
not faster: what the shipped rules do is said in `rules` and `finders`, and those a project adds run
on RE2, which is loaded only for them. Modes, sizes and objects are `capture`; JSON values are
`json_values`.

The way of a text through `redact`:

1. `view_of` makes the text as it is searched: no colour codes, no escapes, and once more without
   the line ends that break it at a fixed width. Findings are carried back to places in the text
   itself.
2. Needles (short plain strings) are looked for. Most texts hold none, and for those no pattern is
   ever compiled.
3. Each rule whose needle is there gives stretches. Those that overlap become one, under the rule
   that stands first in the table: masking one of two that overlap would leave a part of the
   other's secret behind.
4. The stretches are masked, and the result is searched again, at most eight times. A mask changes
   what stands beside its neighbours, so a second pass can find more. Only at rest is the result a
   fixed point. A text that does not come to rest is replaced as a whole (`redaction-overrun`):
   too much is masked then, never too little.

Masks that are there already belong to no stretch, so a text that went through twice
counts nothing twice.

    rules = rule_set([("ticket", "TICKET-[0-9]{6}")], allow=["not-a-secret"])
    redact("password=hunter2-long", rules).text       # "password=⟦secret-value⟧"

Nothing here can be undone by running it again: a record that was written with a secret keeps it
until a person erases it (docs/forget.md). So a doubtful finding is masked, and where a rule's
engine fails, RedactionError says that the text must not be used at all.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain, pairwise

from doctrine.light_imports import TYPE_CHECKING, NamedTuple, hash_bytes, sha256
from specify_cli.redaction.finders import FINDERS
from specify_cli.redaction.heuristics import compiled, is_secret, masks_in
from specify_cli.redaction.rules import DIGEST, SHIPPED, by_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from specify_cli.redaction.rules import ShippedRules


MASK = "⟦{rule}⟧"
MAX_USER_RULES = 200
MAX_PATTERN = 1000
MAX_PASSES = 8
OVERRUN = "redaction-overrun"
_RE2_MEMORY = 8 * 1024 * 1024
# Rules that find a value by what stands beside it. The others know a vendor's own form, which no
# pattern allows.
_BY_CONTEXT = {
    "secret-value",
    "url-password",
    "user-password",
    "authorization",
    "cookie",
    "netrc",
}


class RuleError(ValueError):
    """A rule or allow-list entry of a project cannot be used; the message names it and says why.

    The command line reports it as CONFIG_INVALID. No text is redacted with the other rules instead:
    the project asked for more than these.
    """


class RedactionError(Exception):
    """A text could not be redacted. Nobody may keep the text.

    The recorder writes a `capture_gap` *redaction_failed* in the place of the value.
    """


class RuleSet(NamedTuple):
    """The rules in force and the digest that names them; `user` holds pairs of an id and a
    compiled RE2 pattern.

    With `sieve` (`sieved`) the needles that stand in a text are known at one look.

    `allowed` are exact values, `allowed_patterns` RE2 patterns for whole values, and `ids` the
    rules whose masks count as masks. The digest stands in each record (`redaction_rules`), so a
    replay knows by which rules a text was masked.
    """

    shipped: ShippedRules | tuple[()]
    user: tuple[tuple[str, Any], ...]
    allowed: frozenset[str]
    allowed_patterns: tuple[Any, ...]
    ids: frozenset[str]
    digest: str
    sieve: tuple[Any, ...] = ()


class Redacted(NamedTuple):
    """A text after masking and how often each rule applied, by rule id.

    A rule that applied nowhere is not among the counts.
    """

    text: str
    counts: dict[str, int]


# One finding: start, end, order, rule id. The smaller order names the mask where findings overlap.
Span = tuple[int, int, int, str]


def _compute_digest(*parts: object) -> str:
    """Return a SHA-256 over the text of plain values, by which a rule set is named."""
    return hash_bytes(repr(parts).encode("utf-8", "backslashreplace"))


NO_RULES = RuleSet((), (), frozenset(), (), frozenset(), _compute_digest())


@lru_cache(maxsize=1)
def shipped_rule_set() -> RuleSet:
    """Return the rules that come with the program.

    It is the same value at each call.
    """
    ids = frozenset((*SHIPPED.list_ids(), OVERRUN))
    return RuleSet(SHIPPED, (), frozenset(), (), ids, DIGEST)


def rule_set(user: Collection[tuple[str, str]], allow: Collection[str] = ()) -> RuleSet:
    """Return the shipped rules with a project's own, as (id, pattern), and its allow-list.

    An allow-list entry is one exact value, or after `re:` an RE2 pattern for a whole value. A
    pattern that also fits a value made at random is refused, and no pattern allows what a vendor's
    own form tells. Raises RuleError naming the entry.

    `user` and `allow` come in any order; equal ones give an equal digest. Ids are [a-z0-9-],
    patterns have at most 1,000 characters. RE2 is used for them because its time is linear
    whatever the pattern: nobody's rule can stall a hook.

    Return the shipped set itself where the project adds nothing, so the usual call costs nothing.
    """
    shipped = shipped_rule_set()
    if not user and not allow:
        return shipped
    # A config's own and those accepted before may both count.
    if len(user) > 2 * MAX_USER_RULES or len(allow) > MAX_USER_RULES:
        raise RuleError(
            f"at most {2 * MAX_USER_RULES} rules and {MAX_USER_RULES} allow-list entries are taken"
        )
    rules = []
    for rule_id, pattern in sorted(user):
        if not compiled(r"[a-z0-9][a-z0-9-]{0,63}").fullmatch(rule_id):
            raise RuleError(f"rule {rule_id!r}: an id is [a-z0-9][a-z0-9-]{{0,63}}")
        if rule_id in shipped.ids:
            raise RuleError(f"rule {rule_id}: this id is taken by a shipped rule")
        rules.append((rule_id, _compile_re2(f"rule {rule_id}", pattern)))
    exact, patterns = [], []
    for number, entry in enumerate(sorted(allow), 1):
        if not entry or len(entry) > MAX_PATTERN:
            raise RuleError(f"allow-list entry {number}: expected 1 to {MAX_PATTERN} characters")
        if entry.startswith("re:"):
            pattern = _compile_re2(f"allow-list entry {entry!r}", entry[3:])
            if any(pattern.fullmatch(value) for value in _generate_random_values()):
                raise RuleError(
                    f"allow-list entry {entry!r}: it also allows values that could be any secret"
                )
            patterns.append(pattern)
        else:
            exact.append(entry)
    digest = _compute_digest(shipped.digest, sorted(user), sorted(allow))
    ids = shipped.ids | {rule_id for rule_id, _ in user}
    return RuleSet(SHIPPED, tuple(rules), frozenset(exact), tuple(patterns), ids, digest)


def add_rules(rules: RuleSet, more: Collection[tuple[str, str]]) -> RuleSet:
    """Return rules with more beside them, as (id, RE2 pattern). Raises RuleError.

    `more` is what installed packages bring. Where the config has a rule of the same id both count,
    because the config is part of a branch. The digest names them, too.
    """
    fresh = [
        (rule_id, _compile_re2(f"rule {rule_id}", pattern)) for rule_id, pattern in sorted(more)
    ]
    return rules._replace(
        user=(*rules.user, *fresh),
        ids=rules.ids | {rule_id for rule_id, _ in fresh},
        digest=_compute_digest(rules.digest, sorted(more)),
    )


_PLAIN_WORDS = ("fix", "agent", "login", "done", "review")


def refuse_catch_all(rules: RuleSet) -> None:
    """Raise RuleError for a project's rule that masks plain words: with it nothing of a record
    could be read."""
    for rule_id, pattern in rules.user:
        if all(pattern.search(word) for word in _PLAIN_WORDS):
            raise RuleError(f"rule {rule_id} masks plain words too, and a record could not be read")


def _generate_random_values() -> Iterator[str]:
    """Yield values as makers of keys and passwords draw them: the usual alphabets in the usual
    lengths."""
    lower, upper, digits = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
    alphabets = [
        lower,
        upper,
        digits,
        lower + upper,
        digits + "abcdef",
        digits + "ABCDEF",
        lower + digits,
    ]
    alphabets += [upper + digits + lower + marks for marks in ("", "-_", "+/=", "!#$%&*?@^ ")]
    for alphabet in alphabets:
        drawn = b"".join(sha256(f"{alphabet} {part}".encode()).digest() for part in range(4))
        text = "".join(alphabet[byte % len(alphabet)] for byte in drawn)
        yield from (
            text[:length]
            for length in (8, 10, 12, 14, 16, 20, 22, 24, 28, 32, 36, 40, 43, 44, 48, 56, 64, 128)
        )
    yield "9f1c2b7e-4d3a-4c55-8e21-0b6f7a9d1c34"


def _compile_re2(what: str, pattern: str) -> Any:
    """Return a project's pattern, compiled by RE2. Raises RuleError, which names `what`."""
    if not pattern or len(pattern) > MAX_PATTERN:
        raise RuleError(f"{what}: expected a pattern of 1 to {MAX_PATTERN} characters")
    import re2  # type: ignore[import-untyped]  # heavy, and needed by no project without rules of its own

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _RE2_MEMORY
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        raise RuleError(
            f"{what}: {reason.decode() if isinstance(reason, bytes) else reason}"
        ) from error


class View(NamedTuple):
    """A text as it is searched: without colour codes, with characters in place of their escapes.

    `words` are its long runs of token characters, in which alone tokens can stand. `cuts` are pairs
    of a place in the view and how much further on, from there, the same character stands in the
    text. `unwrapped` is the view once more without the line ends that seem to break it at a fixed
    width.

    Places in a view are not those of the text: use `back` before anything is masked. `folded` is
    `text` in lower case with the same places.
    """

    text: str
    folded: str
    words: str
    cuts: tuple[tuple[int, int], ...] = ()
    unwrapped: View | None = None

    def back(self, start: int, end: int) -> tuple[int, int]:
        """Return where a stretch of the view stands in the text.

        `start` and `end` are of the view. What an escape stands for comes back with the whole
        escape.
        """
        if not self.cuts:
            return start, end
        from bisect import bisect_right  # a library to load, and most texts hold no escapes

        last = self.cuts[bisect_right(self.cuts, (end - 1, _FAR)) - 1]
        return start + self.cuts[bisect_right(self.cuts, (start, _FAR)) - 1][1], end + last[1]


_FAR = 1 << 62
_ESCAPES = ("\x1b[", "\\u", "\\x1b[", "\\033[", "&quot;", "&#", "&amp;")
_OCTET = r"%(2[14AaBbD-Fd-f]|3\d|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
_ESCAPE = (
    r"(?:\x1b|\\{1,8}(?:u00|x)1[bB]|\\{1,8}033)\[[0-9;:?]{0,64}[A-Za-z]"
    r"|\\{1,8}u([0-9a-fA-F]{4})"
    # References to characters but <, =, > and ?; percent codes of what parts nothing
    r"|&(quot|amp|apos|#0?(?:3[3-9]|4\d|5[0-9]|6[4-9]|[7-9]\d|1[01]\d|12[0-2])"
    r"|#[xX](?:2[1-9A-Fa-f]|3[0-9AaBb]|[4-7][0-9A-Fa-f]));"
    rf"|{_OCTET}|([０-９Ａ-Ｚａ-ｚ＝＿－．])|[\u200b-\u200d\u2060\ufeff\xad]"
)
# Letters and digits of full width, and characters that nobody sees
_DISGUISE = r"[０-９Ａ-Ｚａ-ｚ＝＿－．\u200b-\u200d\u2060\ufeff\xad]"
_ENTITIES = {"quot": '"', "amp": "&", "apos": "'"}
# A line end in the middle of what could be one token (no word follows, nor a setting, whose name is
# of words as no token is), and the widths at which programs break lines.
_PART = r"(?:[A-Z]++|[A-Z]?[a-z]++)\d?"
# In pieces, for an atomic group keeps a place for each of its repeats.
_MORE = rf"(?>(?:_{{1,2}}{_PART}){{1,99}})"
_BREAK = (
    r"\n(?![A-Z]?[a-z]{0,40}(?:[^\w+/-]|$)"
    rf"|{_PART}(?:(?>{_MORE}*)=[\"']?\.{{0,2}}[\w/$~]|(?>{_MORE}+): ))"
    r"(?=[\w+/=.-]{2})(?<=[\w+/.-]{8}\n)"
)
_WIDTHS = frozenset((32, 40, 48, 50, 60, 64, 70, 72, 76, 78, 79, 80, 96, 100, 120, 128, 132, 160))
_LONG = 16
_RUN = b"A" * _LONG
_SMALL = 512
_TOKEN_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.+/~:"
_WRITTEN = b"abcdefghijklmnopqrstuvwxyz_-.+/:"
_AS_RUNS = bytearray(b" " * 256)
for _byte in _TOKEN_BYTES:
    _AS_RUNS[_byte] = _RUN[0]


def view_of(text: str) -> View:
    """Return the view of a text that is searched.

    The text itself never changes: only what is found in the view is masked in it.
    """
    escapes = []
    if (
        # Most texts hold none of the three characters with which they begin.
        (("\\" in text or "&" in text or "\x1b" in text) and any(sign in text for sign in _ESCAPES))
        or ("%" in text and compiled(_OCTET).search(text))
        or (not text.isascii() and compiled(_DISGUISE).search(text))
    ):
        for match in compiled(_ESCAPE).finditer(text):
            escapes.append((*match.span(), _read_escape(match)))
    view = _replace_stretches(text, escapes)
    breaks = [(at, at + 1, "") for at in _find_line_breaks(view.text)] if "\n" in text else []
    if not breaks:
        return view
    unwrapped = _replace_stretches(view.text, breaks)
    return view._replace(words=f"{view.words}\n{unwrapped.words}", unwrapped=unwrapped)


def _read_escape(match: re.Match[str]) -> str:
    """Return the character that an escape stands for, or nothing."""
    code, entity, octet, wide = match.groups()
    if entity and entity[0] != "#":
        return _ENTITIES[entity]
    if entity:
        return chr(int(entity[2:], 16) if entity[1] in "xX" else int(entity[1:]))
    if wide:
        return chr(ord(wide) - 0xFEE0)
    return chr(int(code or octet, 16)) if code or octet else ""


def _replace_stretches(text: str, stretches: list[tuple[int, int, str]]) -> View:
    """Return the view of a text in which each stretch is replaced by a character or nothing."""
    cuts = [(0, 0)]
    pieces: list[str] = []
    at = length = 0
    for start, end, replacement in stretches:
        pieces += text[at:start], replacement
        length += start - at
        at = end
        if replacement:
            cuts.append((length, start - length))
            length += 1
        cuts.append((length, at - length))
    text = "".join((*pieces, text[at:])) if stretches else text
    return View(text, folded_of(text), _find_long_words(text), tuple(cuts) if stretches else ())


def _find_line_breaks(text: str) -> Iterator[int]:
    """Yield the line ends that seem to break a text at a fixed width."""
    if len(text) < _SMALL:  # most are, and need no pattern compiled for them
        widths = [len(line) for line in text.split("\n")]
        if not any(one in _WIDTHS or one == other >= _LONG // 2 for one, other in pairwise(widths)):
            return
    for match in compiled(_BREAK).finditer(text):
        at = match.start()
        begin = text.rfind("\n", max(0, at - 512), at) + 1
        if at - begin in _WIDTHS or text.find("\n", at + 1, at + 512) - at - 1 == at - begin:
            yield at


def _find_long_words(text: str) -> str:
    """Return the runs of at least 16 token characters that are no plain words, a line each.

    Long tokens can stand only there, so rules for them search this text, which is nearly always
    empty.
    """
    data = text.encode("utf-8", "replace")
    runs = data.translate(_AS_RUNS)
    words = []
    at = runs.find(_RUN)
    while at >= 0:
        end = runs.find(b" ", at)
        end = len(data) if end < 0 else end
        if data[at:end].strip(_WRITTEN):
            words.append(data[at:end])
        at = runs.find(_RUN, end)
    return b"\n".join(words).decode("ascii")


def redact(text: str, rules: RuleSet) -> Redacted:
    """Return the text with every secret masked as `⟦rule-id⟧`. Raises RedactionError if a rule's
    engine fails.

    The result is a fixed point. Nothing is cut, and characters without a secret stay as they are,
    lone surrogates too. The time it takes grows with the length of the text and not faster.
    """
    return redact_with(text, None, rules)


def _find_candidates(view: View, rules: RuleSet) -> dict[int, list[str]]:
    """Return the shipped rules one of whose needles stands in the text, as their places in the
    table, each with those needles; both in the order of the table."""
    found = []
    candidates: dict[int, list[str]] = {}
    if not rules.shipped:
        return candidates
    for number, where in enumerate((view.words, view.folded, view.text)):
        if where:  # few texts hold a long word
            found += _find_rows(number, where, rules)
    for place, _, needle in sorted(found):
        candidates.setdefault(place, []).append(needle)
    return candidates


def is_clear(text: str, rules: RuleSet) -> bool:
    """Return whether no rule can apply to a text, nor to any part of it; False also where that
    takes a closer look.

    It takes one search for all needles where the rules are `sieved`, and costs far less than
    `redact` does.

    It is for the many short texts of an export, nearly all of which hold no needle.
    """
    if rules.user:
        return False
    view = view_of(text)
    return not view.cuts and not _find_candidates(view, rules)


def sieved(rules: RuleSet) -> RuleSet:
    """Return rules that look for all needles at once: worth its loading where there are thousands
    of texts.

    It loads RE2. The rules find the same as before.
    """
    return rules._replace(sieve=_compile_sieve()) if rules.shipped else rules


@lru_cache(maxsize=1)
def _compile_sieve() -> tuple[Any, ...]:
    import re2  # as above

    sieves = []
    for needles in SHIPPED.needles:
        rows_of: dict[str, list[list[Any]]] = {}
        for row in chain.from_iterable(needles.values()):
            rows_of.setdefault(row[2], []).append(row)
        search = re2.Set.SearchSet()
        for needle in rows_of:
            search.Add(re2.escape(needle.encode()))
        search.Compile()
        sieves.append((search, [*rows_of.values()]))
    return tuple(sieves)


def _find_rows(number: int, where: str, rules: RuleSet) -> list[list[Any]]:
    """Return the rows of the table of needles whose needle stands in a view of a text, one of the
    three views."""
    if rules.sieve:
        search, rows_of = rules.sieve[number]
        try:
            places = search.Match(where.encode()) or ()
            return [row for place in places for row in rows_of[place]]
        except UnicodeEncodeError:
            pass  # a lone surrogate, which RE2 does not take
    return [
        row
        for sign, rows in SHIPPED.needles[number].items()
        if sign in where
        for row in rows
        if row[2] in where
    ]


def applicable(text: str, rules: RuleSet) -> tuple[int, ...]:
    """Return the shipped rules that find something in the text, as their places in the table.

    `json_values` asks once for all short strings of a value together, then gives the places to
    `redact_with`.
    """
    view = view_of(text)
    found = _find_candidates(view, rules).items()
    return tuple(place for place, needles in found if _find_by_rule(place, view, rules, needles))


def redact_with(text: str, places: tuple[int, ...] | None, rules: RuleSet) -> Redacted:
    """Redact a text in which no other shipped rule than those at `places` can apply; None are all.

    The places count for the first pass alone, because a mask can make another rule apply. Raises
    RedactionError.

    The counts of all passes are added up.
    """
    counts: dict[str, int] = {}
    if not places and places is not None and not rules.user:
        return Redacted(text, counts)
    for _ in range(MAX_PASSES):
        spans = find_spans(text, rules, places)
        if not spans:
            return Redacted(text, counts)
        # What a mask leaves behind can match anew (a word now begins where it did not), hence again
        # until nothing does.
        pieces: list[str] = []
        at = 0
        for start, end, _order, rule_id in spans:
            pieces += text[at:start], MASK.format(rule=rule_id)
            at = end
            counts[rule_id] = counts.get(rule_id, 0) + 1
        text = "".join((*pieces, text[at:]))
        places = None
    return Redacted(MASK.format(rule=OVERRUN), {**counts, OVERRUN: 1})


def find_spans(
    text: str, rules: RuleSet, places: tuple[int, ...] | None = None
) -> list[tuple[int, int, int, str]]:
    """Return what to mask, as (start, end, order, rule id), in order and apart from each other;
    masks already there stay as they are.

    `places` are the shipped rules that are asked; None are all. Raises RedactionError.

    `text` is not changed. Starts and ends are places in it, in characters.
    """
    view = view_of(text)
    found = _find_candidates(view, rules) if places is None else dict.fromkeys(places)
    spans = [
        (*view.back(start, end), place, rules.shipped[place].rule_id)
        for place, needles in found.items()
        for start, end in _find_by_rule(place, view, rules, needles)
    ]
    if rules.user:
        spans += _find_by_user_rules(text, rules)
    if not spans:
        return spans
    if rules.allowed or rules.allowed_patterns:
        spans = [
            span for span in spans if span[3] == "private-key" or not _is_allowed(text, span, rules)
        ]
    return _merge_spans(spans, masks_in(text, rules.ids))


def _find_by_rule(
    place: int, view: View, rules: RuleSet, needles: Sequence[str] | None
) -> list[tuple[int, int]]:
    """Return what one shipped rule finds, overlaps and all. `needles` are those of its needles
    that stand in the text, where that is known.

    A rule for long tokens also searches the unwrapped view. What it finds there counts where it is
    longer than what the wrapped text shows: the token was broken over lines.
    """
    rule = rules.shipped[place]
    if not rule.pattern:
        needles = needles or rule.needles
        return FINDERS[rule.rule_id](needles, view.text, view.folded, rules.ids)
    spans = by_pattern(rule, view.text, view.folded, view.words, rules.ids)
    whole = view.unwrapped if rule.in_words else None
    for start, end in (
        by_pattern(rule, whole.text, whole.folded, whole.words, rules.ids) if whole else ()
    ):
        first, last = whole.back(start, end) if whole else (0, 0)
        if last - first > end - start:
            spans.append((first, last))
    return spans


def _is_allowed(text: str, span: Span, rules: RuleSet) -> bool:
    """Return whether the project says that a finding is no secret.

    An exact value may be of any form. A pattern counts only for rules that tell a secret by what
    stands beside it: what has a vendor's own form is a secret whatever a pattern says.
    """
    value = text[span[0] : span[1]]
    if value in rules.allowed:
        return True
    is_by_form = span[2] < len(SHIPPED) and span[3] not in _BY_CONTEXT
    return not is_by_form and any(
        _match_pattern(pattern, value) for pattern in rules.allowed_patterns
    )


def _match_pattern(pattern: Any, text: str) -> bool:
    """Return whether a pattern of the allow-list fits the whole text. Raises RedactionError."""
    try:
        return pattern.fullmatch(_make_encodable(text)) is not None
    except Exception as error:
        raise RedactionError(f"the allow-list could not be applied: {error}") from error


def _find_by_user_rules(text: str, rules: RuleSet) -> list[Span]:
    """Return what the project's own rules find. They stand after all shipped ones in the order."""
    spans = []
    encodable = _make_encodable(text)
    for order, (rule_id, pattern) in enumerate(rules.user, len(SHIPPED)):
        try:
            spans += [
                (*m.span(), order, rule_id)
                for m in pattern.finditer(encodable)
                if m.end() > m.start()
            ]
        except Exception as error:  # whatever the engine's reason, the text must not go on
            raise RedactionError(f"rule {rule_id} could not be applied: {error}") from error
    return spans


def _make_encodable(text: str) -> str:
    """Return the text with lone surrogates replaced one by one, so that places stay where they
    are."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return compiled(r"[\ud800-\udfff]").sub("�", text)
    return text


def _merge_spans(spans: list[Span], masks: list[tuple[int, int]]) -> list[Span]:
    """Return the findings in order, those that overlap as one, without what is masked already.

    The smaller order gives the name, so that the shipped, more special rules name a mask before a
    project's own. A stretch with a mask inside becomes the parts around that mask.
    """
    spans.sort()
    merged: list[Span] = []
    for start, end, order, rule_id in spans:
        if not merged or start >= merged[-1][1]:
            merged.append((start, end, order, rule_id))
        else:
            first, last, *_ = merged[-1]
            merged[-1] = (first, max(last, end), *min(merged[-1][2:], (order, rule_id)))
    if not masks:
        return merged
    cut = []
    number = 0
    for start, end, order, rule_id in merged:
        while number < len(masks) and masks[number][1] <= start:
            number += 1
        place = number
        while place < len(masks) and masks[place][0] < end:
            if start < masks[place][0]:
                cut.append((start, masks[place][0], order, rule_id))
            start = max(start, masks[place][1])
            place += 1
        if start < end:
            cut.append((start, end, order, rule_id))
    return cut


def folded_of(text: str) -> str:
    """Return a text in lower case with every character in its place.

    Only İ would become two characters; it is taken for I, so that a place in the folded text is
    the same place in the text.
    """
    return (text.replace("İ", "I") if "İ" in text else text).lower()


def is_secret_leaf(kind: str, value: str, rules: RuleSet) -> bool:
    """Return whether a whole string that stands beside a name of this kind is a secret.

    `kind` is what `kind_of_name` says of the name. A value that the allow-list names is none.
    Raises RedactionError.
    """
    return is_secret(kind, value, rules.ids, "quoted") and not (
        value in rules.allowed
        or any(_match_pattern(pattern, value) for pattern in rules.allowed_patterns)
    )
