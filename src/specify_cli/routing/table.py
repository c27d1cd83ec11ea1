"""The router's table as values: which words mean which action.  [pure]"""

from __future__ import annotations

import json

from doctrine.light import TYPE_CHECKING, sha256
from specify_cli.routing.words import Phrase, Verb, fold, folded_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class PhraseIndex:
    """Phrases by their first word.  A cell is cut when the table is read, a phrase when it is asked for."""

    __slots__ = ("_cut", "_texts")

    def __init__(self, rows: Iterable[tuple[str, str]], weight: str) -> None:
        self._texts: dict[str, list[tuple[str, str, str]]] = {}
        self._cut: dict[str, list[Phrase]] = {}
        self.enter(rows, weight)

    def enter(self, rows: Iterable[tuple[str, str]], weight: str) -> None:
        """Add the phrases of rows; not after the first `get`."""
        texts = self._texts
        for action, cell in rows:
            for text in (cell if cell.isascii() else fold(cell)).split(" | "):
                first = text.partition(" ")[0]
                if first in texts:
                    texts[first].append((text, action, weight))
                elif first:
                    texts[first] = [(text, action, weight)]

    def get(self, first: str) -> list[Phrase] | tuple[()]:
        """The phrases that begin with a word, longest first."""
        if first not in self._texts:
            return ()
        cut = self._cut.get(first)
        if cut is None:
            cut = [Phrase(tuple(text.split()), action, weight) for text, action, weight in self._texts[first]]
            cut.sort(key=lambda p: (-len(p.words), p.words))
            self._cut[first] = cut
        return cut


class RouterTable:
    """Everything the router knows about language, as frozen data with the digest of its bytes."""

    __slots__ = (
        "action_roles",
        "aliases",
        "aspect",
        "assembling",
        "aux",
        "back_negations",
        "behaves",
        "boundaries",
        "buildables",
        "commands",
        "conjunctions",
        "containers",
        "data",
        "defects",
        "deliverables",
        "determiners",
        "digest",
        "document_words",
        "extensions",
        "finite",
        "follow",
        "forbidden_behaviour",
        "foreign",
        "foreign_light",
        "foreign_nouns",
        "gerund_negators",
        "halting",
        "homographs",
        "irregular",
        "language_names",
        "language_words",
        "leadins",
        "light",
        "light_phrases",
        "markers",
        "negation_ends",
        "negation_phrases",
        "negations",
        "neutral_labels",
        "no_defects",
        "no_subjects",
        "not_typos",
        "noun_phrases",
        "nouns",
        "objects",
        "openers",
        "phrases",
        "politely",
        "predicate_phrases",
        "predicates",
        "prefixes",
        "preparatory",
        "preparatory_phrases",
        "regions",
        "report_tail",
        "report_words",
        "review_objects",
        "review_question",
        "review_questions",
        "role_actions",
        "role_verbs",
        "signals",
        "stop_words",
        "strict_aux",
        "subordinators",
        "then_words",
        "typo_targets",
        "verbs",
        "verify_objects",
        "verify_tail",
        "version",
        "wh",
        "wh_aux",
        "wh_foreign",
        "wh_phrases",
        "wishes",
    )  # fmt: skip

    def __init__(self, document: Mapping[str, object], data: bytes) -> None:
        self.data = data
        self.digest = sha256(data).hexdigest()
        self.version = int(str(document["version"]))

        def cell(key: str) -> str:
            value = document[key]
            assert isinstance(value, str)
            return value

        def rows(key: str) -> dict[str, str]:
            value = document[key]
            assert isinstance(value, dict)
            return value

        def words(key: str) -> frozenset[str]:
            return frozenset(folded_words(cell(key)))

        def phrases(key: str, weight: str) -> PhraseIndex:
            source = document[key]
            return PhraseIndex(source.items() if isinstance(source, dict) else (("", str(source)),), weight)

        def by_word(key: str) -> dict[str, str]:
            return {word: action for action, text in rows(key).items() for word in folded_words(text)}

        self.aliases = {action: tuple(text.split(" | ")) for action, text in rows("aliases").items()}
        self.verbs: dict[str, Verb] = {}
        for action, text in rows("verbs").items():
            for word in text.split():
                self.verbs[word] = Verb(word, action, "own")
        for action, aliases in self.aliases.items():
            for word in aliases:
                if " " not in word:
                    self.verbs[word] = Verb(word, action, "alias")
        self.irregular = dict(pair.split("=") for pair in cell("irregular").split())
        self.foreign = by_word("foreign")
        self.phrases = phrases("phrases", "own")
        self.phrases.enter(((a, t) for a, words in self.aliases.items() for t in words if " " in t), "alias")
        self.phrases.enter(rows("foreign_phrases").items(), "own")
        self.objects = {
            verb: {word: action for action, text in row.items() for word in text.split()}
            for verb, row in document["objects"].items()  # type: ignore[attr-defined]
        }
        self.nouns = by_word("nouns")
        self.noun_phrases = phrases("noun_phrases", "own")
        self.foreign_nouns = by_word("foreign_nouns")
        self.signals = phrases("signals", "signal")
        self.prefixes = by_word("prefixes")
        self.commands = by_word("commands")
        self.role_verbs = {role: tuple(text.split()) for role, text in rows("role_verbs").items()}
        self.action_roles = {action: tuple(text.split()) for action, text in rows("action_roles").items()}
        self.role_actions = {role: action for action, roles in self.action_roles.items() for role in roles}
        self.review_questions = phrases("review_questions", "")
        self.openers = phrases("openers", "")
        self.wh_phrases = phrases("wh_phrases", "")
        self.negation_phrases = phrases("negation_phrases", "")
        self.predicate_phrases = phrases("predicate_phrases", "")
        self.stop_words = words("stop_words")
        self.leadins = words("leadins")
        self.determiners = words("determiners")
        self.markers = words("objects_markers")
        self.boundaries = words("boundaries")
        self.no_subjects = self.leadins | self.boundaries | self.determiners
        self.subordinators = words("subordinators")
        self.regions = words("regions")
        self.conjunctions = words("conjunctions")
        self.then_words = words("then_words")
        self.negations = words("negations")
        self.back_negations = words("back_negations")
        self.negation_ends = words("negation_ends")
        self.gerund_negators = words("gerund_negators")
        self.wh = words("wh")
        self.wh_aux = words("wh_aux")
        self.wh_foreign = words("wh_foreign")
        self.aux = words("aux")
        self.strict_aux = words("strict_aux")
        self.politely = words("politely")
        self.finite = words("finite")
        self.containers = words("containers")
        self.halting = words("halting")
        self.deliverables = words("deliverables") | words("buildables")
        self.behaves = words("behaves")
        self.forbidden_behaviour = words("forbidden_behaviour")
        self.defects = words("defects")
        self.no_defects = words("no_defects")
        self.wishes = words("wishes")
        self.predicates = words("predicates")
        self.preparatory = words("preparatory")
        self.preparatory_phrases = frozenset(cell("preparatory_phrases").split(" | "))
        self.follow = words("follow")
        self.report_tail = words("report_tail")
        self.report_words = words("report_words")
        self.verify_tail = words("verify_tail")
        self.verify_objects = words("verify_objects")
        self.homographs = words("homographs")
        self.not_typos = words("not_typos")
        self.typo_targets = words("typo_targets")
        self.aspect = words("aspect")
        self.buildables = words("buildables")
        self.light = words("light")
        self.light_phrases = frozenset(cell("light_phrases").split(" | "))
        self.assembling = words("assembling")
        self.foreign_light = words("foreign_light")
        self.document_words = words("document_words")
        self.review_objects = words("review_objects")
        self.review_question = words("review_question")
        self.neutral_labels = words("neutral_labels")
        self.language_words = by_word("languages")
        self.extensions = by_word("extensions")
        self.language_names = rows("language_names")

    @classmethod
    def from_bytes(cls, data: bytes) -> RouterTable:
        """The table these bytes hold."""
        return cls(json.loads(data), data)
