"""The prices of models that this version ships, as they were on a day (`prices.json`).

    read_prices().find("claude-sonnet-4-5").rates["input"]     # US dollars for a million tokens

Prices change after a version is out, so every cost that is made with them states their day
(`record.reading.usage`). Nothing is fetched: an estimate must not need the network.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from functools import lru_cache

from specify_cli.record.reading.usage import PRICED, Price, Prices


@lru_cache(maxsize=1)
def read_prices() -> Prices:
    """Return the shipped table.

    It is read once for each process. Rates are Decimals of US dollars for a million tokens.
    """
    with open(os.path.join(os.path.dirname(__file__), "prices.json"), encoding="utf-8") as file:
        table = json.load(file)
    models = (
        Price(
            tuple(row["equals"]),
            tuple(row["starts"]),
            {kind: Decimal(row[kind]) for kind in PRICED if kind in row},
        )
        for row in table["models"]
    )
    return Prices(table["date"], tuple(models))
