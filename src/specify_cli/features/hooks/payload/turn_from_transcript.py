"""What the end of a session's transcript says of a turn: answer, model, tokens, thinking, refusals.
[pure]

The transcripts are the programs' own files and undocumented: what is not there, or not in its form,
is left out.
"""

from __future__ import annotations

from collections import Counter

from doctrine.light_imports import TYPE_CHECKING
from specify_cli.features.hooks.payload.outputs import join_texts, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from specify_cli.features.hooks.payload.dialect import Dialect
    from specify_cli.features.hooks.payload.values import Payload

MAX_TEXT = 256 * 1024
# The kind that a program's name for a count is of (docs/hooks.md, "Tokens").
_KINDS = {
    "input": "input input_tokens inputTokens promptTokenCount",
    "cache_read": "cache_read_input_tokens cached_input_tokens cacheReadTokens cached "
    "cachedContentTokenCount read",
    "cache_write": "cache_creation_input_tokens cacheWriteTokens write",
    "output": "output output_tokens outputTokens candidatesTokenCount",
    "thinking": "reasoning reasoning_output_tokens reasoningTokens thoughts thoughtsTokenCount",
    "total": "total total_tokens totalTokenCount",
}
_COUNTS = {name: kind for kind, names in _KINDS.items() for name in (kind, *names.split())}
_MAX_COUNT = 2**53 - 1


class Turn:
    """What has been read of a turn so far. The harness's module reads each line into it
    (`Dialect.read_turn`).

    `denied` maps the id of each call that was refused to what its model received. `error` is the
    code and the words of what ended the turn, where that was an error; costs are in US dollars.
    `is_begun` says that a line began it, and not its prompt. `counted` is what the whole session
    had used by its last count.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.text: str | None = None
        self.model: str | None = None
        self._thoughts: list[str] = []
        self.denied: dict[str, str] = {}
        self.error: tuple[str, str] | None = None
        self._used: dict[str, Mapping[str, Any]] = {}
        self.costs: dict[str, float] = {}
        self.is_begun = False
        self.counted: object = None
        self._is_by_request = False

    join_texts = staticmethod(join_texts)

    def begin_next(self) -> Turn:
        """Return the turn that comes next."""
        turn = Turn(self._dialect)
        turn.counted = self.counted
        return turn

    def add_answer(self, text: object) -> None:
        """Note the words of an answer; the last ones count."""
        self.text = text if isinstance(text, str) and text else self.text

    def name_model(self, model: object) -> None:
        """Note the model; the last one named counts."""
        self.model = model if isinstance(model, str) and model else self.model

    def add_thought(self, thought: object) -> None:
        """Note a piece of thinking."""
        self._thoughts += [thought] if isinstance(thought, str) and thought else []

    def add_usage(self, request: str, counts: object) -> None:
        """Note what one answer of the model used; an answer reported in pieces is one."""
        if isinstance(counts, dict) and not self._is_by_request:
            self._used[request] = counts

    def add_request(self, request: str, counts: object) -> None:
        """Note what one request used, by its id. Then what the program counts in another way, which
        it can report again, does not count (`add_usage`)."""
        if isinstance(counts, dict):
            if not self._is_by_request:
                self._used, self._is_by_request = {}, True
            self._used[request] = counts

    def add_cost(self, request: str, cost: object) -> None:
        """Note what one answer of the model cost; what is no amount, or one beyond any bill, is
        left out."""
        if isinstance(cost, (int, float)) and 0 <= cost < 1e9:
            self.costs[request] = cost

    def add_turn(self, turn: Turn) -> None:
        """Note what another turn used, too."""
        self.name_model(turn.model)
        self._used |= turn._used
        self.costs |= turn.costs

    def forget_first(self, number: int) -> int:
        """Forget what so many requests at the begin used, which was told before; return how many
        there were."""
        names = [*self._used][:number]
        for name in names:
            del self._used[name]
            self.costs.pop(name, None)
        return len(names)

    @property
    def thinking(self) -> str:
        return "\n".join(self._thoughts)[:MAX_TEXT]

    @property
    def requests(self) -> int:
        return len(self._used)

    @property
    def tokens(self) -> dict[str, int]:
        tokens: Counter[str] = Counter()
        for counts in self._used.values():
            tokens.update(count_tokens(counts, self._dialect))
        return tokens

    @property
    def cost(self) -> float:
        return sum(self.costs.values())


def read_facts(dialect: Dialect, transcript: bytes) -> Turn:
    """Return what the last turn of a transcript says; nothing for a harness whose file is not
    known. Never raises."""
    return read_turns(dialect, transcript)[-1]


def read_turns(dialect: Dialect, transcript: bytes) -> list[Turn]:
    """Return what each turn of a transcript says, in order; the last one may be under way. Never
    raises."""
    turns = [Turn(dialect)]
    for number, raw in enumerate(transcript.split(b"\n")):
        line = parse_json(raw)
        if isinstance(line, dict):
            turn = read_line(dialect, turns[-1], line, number)
            if turn is not turns[-1]:
                turns.append(turn)
    return turns


def read_line(dialect: Dialect, turn: Turn, line: Payload, number: int) -> Turn:
    """Return a turn after one more line, whose number distinguishes it from others; as it was where
    the line has not its form."""
    try:
        after: Turn = dialect.read_turn(turn, line, number)
    except (AttributeError, KeyError, TypeError, ValueError):
        return turn
    return after


def count_tokens(counts: Mapping[str, Any], dialect: Dialect) -> dict[str, int]:
    """Return what one answer used in the kinds of docs/hooks.md: `input` without what a cache gave,
    `cache_read`, `cache_write`, `output` with `thinking`, which says how much of it that was.

    Where the program states a total, that decides whether its output holds thinking.
    """
    found = dict.fromkeys(_KINDS, 0)
    for name, count in counts.items():
        if name in _COUNTS and type(count) is int and 0 < count < _MAX_COUNT:
            found[_COUNTS[name]] += count
    total, thinking = found.pop("total"), found["thinking"]
    if dialect.input_holds_cache:
        found["input"] = max(0, found["input"] - found["cache_read"])
    sides = sum(found.values()) - thinking
    holds_thinking = dialect.output_holds_thinking
    if total and total in (sides, sides + thinking):
        holds_thinking = total == sides
    if not holds_thinking:
        found["output"] += thinking
    return {kind: count for kind, count in found.items() if count}
