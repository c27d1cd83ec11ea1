"""Sum the tokens and money that the models of a record used, by agent and model.  [pure]

    for row in sum_usage(lines, prices):
        print(row.agent or "main", row.model, row.tokens, row.cost, row.estimated_at)

The kinds of tokens are the same for every program (docs/hooks.md): `input` without what a cache
gave, `cache_read`, `cache_write`, `output`, and `thinking`, which is part of `output`. Records of
older versions have `cached`, and programs may count kinds of their own: of these no cost is
estimated.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, InvalidOperation

from doctrine.light_imports import TYPE_CHECKING, NamedTuple
from doctrine.text import get_object, say, say_member
from specify_cli.record.seal import MAX_INTEGER, Fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

PRICED = ("input", "cache_read", "cache_write", "output")
# The kinds of tokens in the order they are shown; `cached` is of older records.
_NAMES = {
    "input": "in",
    "cache_read": "from the cache",
    "cached": "cached",
    "cache_write": "into the cache",
    "output": "out",
    "thinking": "of it thinking",
}
_MILLION = Decimal(1_000_000)
_BEYOND = Decimal(1_000_000_000)


def find_model(lines: Iterable[Fields]) -> str | None:
    """Return the first model that a line of the main agent names, which is the one the run began
    with, else the first of any; None if no line names one. `lines` are fields in order."""
    told = [line for line in lines if line.get("event") in ("turn", "model_call")]
    by_agent = sorted(told, key=lambda line: bool(line.get("agent")))
    return next((say(line["model"]) for line in by_agent if line.get("model")), None)


def list_usage(lines: Iterable[Fields]) -> Iterator[tuple[str | None, str | None, Fields]]:
    """Yield each line that tells of a model, after its agent (None is the main one) and its model:
    where it names none, the one its agent named last.

    A recorded answer that a re-execution gave back is left out: it took nothing.
    """
    models = {}
    for line in lines:
        if line.get("event") in ("turn", "model_call") and "source" not in line:
            agent = say_member(line, "agent")
            if isinstance(model := line.get("model"), str):
                models[agent] = model
            yield agent, models.get(agent), line


class Price(NamedTuple):
    """What a model costs: US dollars for a million tokens of each kind. A kind that is not there
    costs what input does. `names` are whole names, `starts` how names begin."""

    names: tuple[str, ...]
    starts: tuple[str, ...]
    rates: Mapping[str, Decimal]


class Prices(NamedTuple):
    """A table of prices and the day (YYYY-MM-DD) it is of.

    Prices change, so each estimate names that day. A table without models estimates nothing.
    """

    date: str
    models: tuple[Price, ...]

    def find(self, model: str) -> Price | None:
        """Return the price of a model; the longest beginning of its name counts.

        `model` may have a provider before a `/`, and any case. None is for a model that the table
        does not know: then no cost is estimated, for a wrong one is worse than none.
        """
        name = model.lower().rpartition("/")[2]
        if exact := next((price for price in self.models if name in price.names), None):
            return exact
        longest = max(
            (
                (len(start), number)
                for number, price in enumerate(self.models)
                for start in price.starts
                if name.startswith(start)
            ),
            default=None,
        )
        return longest and self.models[longest[1]]


class UsageRow(NamedTuple):
    """What one agent used of one model: `agent` is None for the main one. `cost` is in US dollars;
    with `estimated_at` it is reckoned with the prices of that day, else the program told it. `name`
    is what the record calls a subagent, where it does."""

    agent: str | None
    model: str | None
    tokens: dict[str, int]
    requests: int
    cost: str | None
    estimated_at: str | None
    name: str | None = None


def describe_usage(row: Fields) -> str:
    """Return a row, as JSON has it, in words.

    `row` is an item of `usage` of docs/schemas/invocation.json.
    """
    kinds = get_object(row, "tokens")
    names = _NAMES | {say(kind): say(kind) for kind in kinds if kind not in _NAMES}
    parts = [f"{kinds[kind]:,} {name}" for kind, name in names.items() if kinds.get(kind)]
    if row.get("cost"):
        day = row.get("estimated_at")
        basis = f"estimated, prices of {say(day)}" if day else "as the program reckons"
        parts.append(f"{show_cost(row['cost'])} ({basis})")
    who = say(row["model"])[:40] if row.get("model") else "a model nobody named"
    agent, name = say(row.get("agent") or "")[:40], say(row.get("name") or "")[:40]
    who = f"subagent {f'{name} ({agent[:8]})' if name else agent}, {who}" if agent else who
    return f"{who}: {', '.join(parts) or 'nothing told'}"


class Spent(NamedTuple):
    """What a whole record used: tokens of every kind (thinking is output), and the cost, None where
    it is not known of all of it; with `estimated_at` some of it is reckoned with the prices of that
    day."""

    tokens: int
    cost: str | None
    estimated_at: str | None

    def describe(self) -> str:
        """Return it in a few letters; `~` says that the cost is estimated."""
        if self.cost is None:
            return f"{self.tokens:,}"
        return f"{self.tokens:,} {'~' if self.estimated_at else ''}{show_cost(self.cost)}"

    def shorten(self) -> str:
        """Return the tokens alone, in six letters at most below a thousand million: `12.3M`."""
        return f"{self.tokens / 1e6:,.1f}M" if self.tokens >= 100_000 else f"{self.tokens:,}"


def add_tokens(tokens: object) -> int:
    """Return how many tokens of every kind a line or row tells; thinking is output."""
    counts = tokens.items() if isinstance(tokens, dict) else ()
    return sum(number for kind, number in counts if kind != "thinking" and type(number) is int)


def add_up(rows: Sequence[UsageRow]) -> Spent | None:
    """Return what these rows used together; None where they tell nothing.

    The cost is known only if each row's is. An estimate in one row makes the sum an estimate.
    """
    if not rows:
        return None
    tokens = sum(add_tokens(row.tokens) for row in rows)
    costs = [_read_cost(row.cost) for row in rows if row.cost is not None]
    days = [row.estimated_at for row in rows if row.estimated_at is not None]
    cost = _spell(sum(costs, Decimal(0))) if len(costs) == len(rows) else None
    return Spent(tokens, cost, days[0] if days and cost is not None else None)


def sum_usage(lines: Iterable[Fields], prices: Prices) -> tuple[UsageRow, ...]:
    """Return the usage of a record, the main agent first; each line counts once.

    Rows are sorted by agent, then model. A line without a model counts for the model its agent
    named last. A cost that the program states counts; only without one is the cost estimated, and
    only where every kind has a price. `prices` without models estimate nothing.

    `lines` are the fields of a record and its annexes in order. `prices` is the table to estimate
    with.
    """
    rows: dict[tuple[str | None, str | None], list[Fields]] = {}
    lines = list(lines)
    names = {
        line.get("agent"): stage.removeprefix("subagent:").rpartition("/")[2]
        for line in lines
        if (stage := say(line.get("to") or "")).startswith("subagent:")
    }
    for agent, model, line in list_usage(lines):
        if isinstance(line.get("tokens"), dict) or "cost" in line:
            rows.setdefault((agent, model), []).append(line)
    ordered = sorted(rows, key=lambda key: (key[0] is not None, key[0] or "", key[1] or ""))
    sums = (_sum_row(*key, rows[key], prices) for key in ordered)
    return tuple(row._replace(name=names.get(row.agent)) for row in sums)


def _sum_row(
    agent: str | None, model: str | None, lines: Sequence[Fields], prices: Prices
) -> UsageRow:
    """Return the usage of one agent and model: tokens by kind, requests, and the cost if it is
    known.

    A cost that the program stated is never mixed with an estimate: they count different things.
    """
    tokens: Counter[str] = Counter()
    requests, program_cost = 0, Decimal(0)
    for line in lines:
        counts = line.get("tokens")
        for kind, number in counts.items() if isinstance(counts, dict) else ():
            if type(number) is int and 0 <= number <= MAX_INTEGER:
                tokens[kind] += number
        number = line.get("requests", 1 if line.get("event") == "model_call" else 0)
        requests += number if type(number) is int else 0
        program_cost += _read_cost(line.get("cost"))
    if program_cost:
        return UsageRow(agent, model, tokens, requests, _spell(program_cost), None)
    is_priced = tokens.keys() <= {*PRICED, "thinking"}
    price = prices.find(model) if model is not None and is_priced else None
    if not price or not any(tokens[kind] for kind in PRICED):
        return UsageRow(agent, model, tokens, requests, None, None)
    cost = sum(
        (tokens[kind] * price.rates.get(kind, price.rates["input"]) / _MILLION for kind in PRICED),
        Decimal(0),
    )
    return UsageRow(agent, model, tokens, requests, _spell(cost), prices.date)


def _read_cost(value: object) -> Decimal:
    """Return a stated cost in US dollars; 0 where it is absent, no number, negative, or beyond any
    bill, as hooks judge it (`add_cost`)."""
    try:
        cost = Decimal(str(value)) if value is not None else Decimal(0)
    except InvalidOperation:
        return Decimal(0)
    return cost if cost.is_finite() and 0 < cost < _BEYOND else Decimal(0)


def show_cost(cost: object) -> str:
    """Return a cost in US dollars for people: in cents, below ten cents with two digits."""
    amount = _read_cost(cost)
    if not amount:
        return f"${say(cost)}"
    return f"${round(amount, max(2, 1 - amount.adjusted())):,f}"


def _spell(cost: Decimal) -> str:
    """Return an amount with at most six decimals."""
    return format(cost.quantize(Decimal("0.000001")).normalize(), "f")
