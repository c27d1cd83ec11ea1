"""Why a profile was chosen, in plain English: records keep the router's own words.  [pure]

    explain_choice("critic-cato was chosen by its role")
    # "critic-cato was chosen because its role is to do this"

The words in a record never change, because a replay compares them. So they are translated when they
are shown. Words that no row knows are shown as they are.
"""

_PLAIN = {
    "was chosen by generalist": "was chosen because no other profile is made for this",
    "was chosen by routing priority": "was chosen because it comes first among those that fit",
    "was chosen by specialization": "was chosen because this is its speciality",
    "was chosen by language": "was chosen because it knows the language",
    "was chosen by project language": "was chosen because it knows the project's language",
    "was chosen by project profile": "was chosen because it is the project's own",
    "was chosen by the only profile": "was chosen because it is the only one that can do this",
    "was chosen by its own verb": "was chosen because this verb is its own",
    "was chosen by first role": "was chosen because this is its first role",
    "was chosen by its role": "was chosen because its role is to do this",
    "(leading verb)": "(its main verb)",
    "not routed: ROUTER_NO_MATCH;": "no action covers it, so",
    "not routed: EMPTY_REQUEST;": "it says nothing to choose by, so",
    "not routed: ROUTER_AMBIGUOUS;": "it can be read in several ways, so",
}


def explain_choice(reason: str) -> str:
    """Return the router's reason for a choice as a sentence for people."""
    for words, plain in _PLAIN.items():
        reason = reason.replace(words, plain)
    return reason
