"""How rules fared, laid out for `rules.html`: pictures, and a table whose numbers lead to records.

    shown = lay_out_rules(effect, links, requests)

`links` lead from ids to pages of their records; viewer and collector each have their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from doctrine.text import count
from specify_cli.features.effect.facts import Effect
from specify_cli.libraries.web.pictures import draw_parts

# So many rules a picture and the table have, and so many records a number names.
_DRAWN, _LISTED, _NAMED = 12, 100, 200


def lay_out_rules(
    effect: Effect, links: Mapping[str, str], requests: Mapping[str, str | None]
) -> dict[str, object]:
    """Return what `rules.html` shows of rules, the costliest first."""
    drawn = [(rule.uri.partition("://")[2], rule) for rule in effect.rules[:_DRAWN]]
    fates = ((name, rule.fate.invocations, len(rule.fate.failed)) for name, rule in drawn)
    ended = [(name, {"failed": bad, "share": every - bad}) for name, every, bad in fates]
    costs = [(name, {"share": rule.tokens}) for name, rule in drawn if rule.tokens]
    return {
        "counted": effect.invocations,
        "whole": effect.all,
        "pictures": [
            (
                "What each rule cost",
                draw_parts(costs, "tokens in all contexts together", words={"share": "tokens"}),
            ),
            (
                "How the work behind it ended",
                draw_parts(ended, "invocations that ended badly, of all", words=_ENDS),
            ),
        ],
        "rules": effect.rules[:_LISTED],
        "more": len(effect.rules[_LISTED:]),
        "names": [("in at least 95 % of all contexts", effect.always), ("in none", effect.never)],
        "pairs": [("say the same", effect.alike), ("are set against each other", effect.apart)],
        "links": links,
        "requests": requests,
        "most": _NAMED,
        "said": count(effect.invocations, "invocation"),
    }


# An outcome's colour for what ended badly, failed or abandoned; of the rest some are open.
_ENDS = {"failed": "ended badly", "share": "others"}
