"""Retrieval ranks by integers, filters by the first rule that matches, and never changes its inputs."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from charter.model import Policy, PolicyRule
from charter.retrieval import (
    UNIT,
    Hit,
    RetrievalConfig,
    Seeds,
    _count_terms,
    apply_policy,
    decimal,
    fold,
    from_decimal,
    lexical_scores,
    log2,
    matches,
    query_terms,
    retrieve,
    stem,
    words,
)
from doctrine.artifact import Artifact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from charter.model import PolicyAction

CONFIG = RetrievalConfig()


def _artifact(name: str, body: str = "", *, title: str = "", tags: tuple[str, ...] = (), origin: str = "shipped",
              kind: str = "directive", keywords: tuple[str, ...] = ()) -> Artifact:  # fmt: skip
    scheme = "charter://section" if origin == "charter" else f"doctrine://{kind}"
    return Artifact(f"{scheme}/{name}", kind, name, title or name, body, tags, keywords, "d", origin)


def _seeds(action: dict[str, int] | None = None, profile: dict[str, int] | None = None, name: str = "") -> Seeds:
    return Seeds(
        {f"doctrine://directive/{key}": value for key, value in (action or {}).items()},
        {f"doctrine://directive/{key}": value for key, value in (profile or {}).items()},
        (),
        name,
    )


@pytest.mark.parametrize(
    ("family", "root"),
    [
        (("migration", "migrations", "migrate", "migrating", "migrated"), "migr"),
        (("test", "tests", "testing", "tested", "tester"), "test"),
        (("plan", "plans", "planning", "planned"), "plan"),
        (("query", "queries"), "quer"),
        (("cache", "caches", "caching", "cached"), "cach"),
        (("validation", "validate", "validates", "validating"), "valid"),
        (("process",), "process"),
        (("status",), "status"),
        (("überprüfen",), "überprüfen"),
        (("sql",), "sql"),
        (("ties",), "tie"),
    ],
)
def test_the_inflections_of_a_word_share_a_stem(family: tuple[str, ...], root: str) -> None:
    assert {root} == {stem(word) for word in family}


@given(st.text("abdegilnorsty", min_size=1, max_size=14))
def test_a_stem_is_a_beginning_of_its_word(word: str) -> None:
    assert word.startswith(stem(word))
    assert min(3, len(word)) <= len(stem(word))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Fix getUserName in user_store.py", ["fix", "get", "user", "name", "in", "user", "store", "py"]),
        ("HTTPServer", ["http", "server"]),
        ("key \u27e6secret-1\u27e7 end", ["key", "end"]),
        ("\uff26\uff29\uff38", ["fix"]),
        ("修复login测试 页", ["修复", "login", "测试", "页"]),
        ("テストを", ["テス", "スト", "トを"]),
    ],
)
def test_words_are_what_a_person_would_count(text: str, found: list[str]) -> None:
    assert found == words(text)


def test_terms_leave_out_filler_and_repetition() -> None:
    assert ("review", "sql", "migr", "2") == query_terms("Please review the SQL migration, the migrations 2 of x")


def test_terms_are_bounded() -> None:
    assert 48 == len(query_terms(" ".join(f"w{number}" for number in range(100))))
    assert () == query_terms(" " * 4_096 + "late")


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (2, 1), (3, 2), (401, 3), (10**9, 7)])
def test_the_integer_logarithm_is_a_logarithm(numerator: int, denominator: int) -> None:
    assert abs(math.log2(numerator / denominator) - log2(numerator, denominator) / 2**20) < 2e-6


@given(st.integers(0, 10**12))
def test_a_decimal_reads_back(units: int) -> None:
    assert units == from_decimal(decimal(units))


@pytest.mark.parametrize("value", ["", "-1", "1.", ".5", "1.0000000001", "x", None, True, 1.5, "1e3"])
def test_what_is_no_plain_decimal_is_none(value: object) -> None:
    assert from_decimal(value) is None


def test_a_text_with_more_of_the_rare_terms_scores_higher() -> None:
    texts = [
        _artifact("a", "sql sql migration"),
        _artifact("b", "sql"),
        _artifact("c", "nothing at all here"),
        _artifact("d", "review review"),
        _artifact("e", "review"),
    ]
    scores = dict(zip("abcde", lexical_scores(texts, query_terms("review sql migration"), CONFIG), strict=True))

    assert scores["a"] > scores["b"] > scores["c"] == 0
    assert scores["d"] > scores["e"]


@given(
    st.lists(
        st.text(st.sampled_from("sqlSQL tes_TS-\n\u00df\u01c5\u0308\u2460\uff33"), max_size=30), min_size=1, max_size=5
    )
)
def test_words_are_found_in_place_as_if_each_text_were_taken_apart(texts: list[str]) -> None:
    terms = ("sql", "test", "ss", "s")
    counts: list[dict[str, int]] = [{} for _ in texts]
    folded = [fold(text) for text in texts]
    _count_terms(terms, folded, 2, counts)
    apart = [[stem(word) for word in re.findall(r"[^\W_]+", text)] for text in folded]

    assert [{term: 2 * stems.count(term) for term in terms if term in stems} for stems in apart] == counts


@pytest.mark.parametrize(
    ("request_text", "rule", "other"),
    [
        ("修改数据库的迁移脚本", "数据库迁移必须可以回滚", "页面的颜色用主题里的变量"),
        ("データベースの移行を修正して", "データベースの移行は戻せること", "画面の色はテーマから取る"),
        (
            "데이터베이스 이전을 수정해줘",
            "데이터베이스를 옮길 때는 되돌릴 수 있어야 한다",
            "화면 색은 테마에서 가져온다",
        ),
    ],
)
def test_rules_in_languages_without_blanks_are_found_by_requests(request_text: str, rule: str, other: str) -> None:
    found, passed = lexical_scores([_artifact("a", rule), _artifact("b", other)], query_terms(request_text), CONFIG)

    assert found > 10 * passed


def test_a_keyword_of_several_words_counts_when_all_are_asked_for() -> None:
    collection = [_artifact("a", "x", keywords=("api key",)), _artifact("b", "x", keywords=("api",))]

    assert [True, False] == [score == 0 for score in lexical_scores(collection, query_terms("the API docs"), CONFIG)]
    assert [False, False] == [score == 0 for score in lexical_scores(collection, query_terms("API key"), CONFIG)]


def test_what_the_request_names_of_the_projects_own_outranks_what_ships_on_it() -> None:
    collection = [
        _artifact("a", "schema " * 9, keywords=("schema",)),
        _artifact("b", "schema", keywords=("schema",), origin="project", kind="toolguide"),
    ]

    assert ["b", "a"] == _retrieve(collection, "the schema", _seeds({"a": 2}))


@pytest.mark.parametrize(("one", "other"), [("three", "threat"), ("format", "form"), ("platform", "plat")])
def test_words_of_two_meanings_keep_two_stems(one: str, other: str) -> None:
    assert not {*query_terms(one)} & {*query_terms(other)}


def test_a_title_counts_for_more_than_a_mention() -> None:
    titled, mentioned = lexical_scores(
        [_artifact("a", "x" * 20, title="sql plan"), _artifact("b", "sql " + "x" * 16, title="the plan")],
        ("sql",),
        CONFIG,
    )

    assert titled > mentioned


def test_only_whole_words_count() -> None:
    assert [0, 0] == lexical_scores([_artifact("a", "latest contest"), _artifact("b", "testament")], ("test",), CONFIG)


@pytest.mark.parametrize(
    ("texts", "terms"), [([], ("a",)), ([_artifact("a", "b")], ()), ([_artifact("a", "b")], ("z",))]
)
def test_nothing_to_compare_scores_nothing(texts: list[Artifact], terms: tuple[str, ...]) -> None:
    assert [0] * len(texts) == lexical_scores(texts, terms, CONFIG)


def _retrieve(collection: list[Artifact], query: str = "", seeds: Seeds | None = None, policy: Policy | None = None,
              config: RetrievalConfig = CONFIG) -> list[str]:  # fmt: skip
    found = retrieve(collection, query=query, seeds=seeds or _seeds(), config=config, policy=policy or Policy())
    return [hit.artifact.id for hit in found.hits]


def test_candidates_are_near_named_or_the_projects_own() -> None:
    collection = [
        _artifact("near"),
        _artifact("far"),
        _artifact("named", keywords=("sql migration",)),
        _artifact("half-named", keywords=("sql server",)),
        _artifact("section", origin="charter"),
        _artifact("own", origin="project", keywords=("migration",)),
        _artifact("aside", origin="project"),
    ]
    seeds = _seeds({"near": 1, "far": 3})

    assert ["section", "near", "own", "named"] == [
        name for name in ("section", "near", "own", "named", "half-named", "far", "aside")
        if name in _retrieve(collection, "migration for sql", seeds)
    ]  # fmt: skip
    assert {"section", "near", "own", "named"} == set(_retrieve(collection, "migration for sql", seeds))


def test_the_nearer_artifact_comes_first() -> None:
    collection = [_artifact("a"), _artifact("b"), _artifact("c")]

    assert ["c", "b", "a"] == _retrieve(collection, seeds=_seeds({"a": 2, "b": 1, "c": 1}, {"c": 1}))


def test_of_equal_scores_the_projects_own_comes_first() -> None:
    collection = [_artifact("a"), _artifact("b", origin="project", kind="toolguide")]
    seeds = Seeds({}, {"doctrine://directive/a": 1, "doctrine://toolguide/b": 1})

    assert ["b", "a"] == _retrieve(collection, seeds=seeds)


def test_equal_scores_are_ordered_by_uri() -> None:
    collection = [_artifact(name) for name in ("b", "c", "a")]

    assert ["a", "b", "c"] == _retrieve(collection, seeds=_seeds({"a": 1, "b": 1, "c": 1}))


def test_what_hardly_bears_on_a_request_is_left_out_but_never_the_charter() -> None:
    collection = [_artifact("far"), _artifact("near", "login"), _artifact("section", origin="charter")]
    seeds = _seeds({"far": 2, "near": 1})

    assert ["near", "section"] == _retrieve(collection, "login", seeds)


@pytest.mark.parametrize("query", ["", "implement WP03"])
def test_a_request_that_says_nothing_leaves_nothing_out(query: str) -> None:
    collection = [_artifact("far"), _artifact("section", origin="charter")]

    assert ["section", "far"] == _retrieve(collection, query, _seeds({"far": 2}))


def test_k_counts_artifacts_not_charter_sections() -> None:
    collection = [_artifact(name) for name in "abc"] + [_artifact(f"s{n}", origin="charter") for n in range(3)]
    config = CONFIG._replace(k=2)
    found = retrieve(collection, query="", seeds=_seeds(dict.fromkeys("abc", 1)), config=config, policy=Policy())

    assert ["s0", "s1", "s2", "a", "b"] == [hit.artifact.id for hit in found.hits]
    assert ["c"] == [hit.artifact.id for hit in found.cut]


def test_the_action_itself_is_no_term_unless_it_is_all_there_is() -> None:
    collection = [_artifact("a", "review review review"), _artifact("b", "sql")]
    seeds = _seeds({"a": 1, "b": 1}, name="review")

    assert ["b", "a"] == _retrieve(collection, "review the sql", seeds)
    assert ["a", "b"] == _retrieve(collection, "review", seeds)


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (PolicyRule("r", "deny", uris=("doctrine://directive/a",)), True),
        (PolicyRule("r", "deny", uris=("doctrine://directive",)), False),
        (PolicyRule("r", "deny", uris=("doctrine://*",)), True),
        (PolicyRule("r", "deny", uris=("*/a",)), True),
        (PolicyRule("r", "deny", uris=("doc*dir*a",)), True),
        (PolicyRule("r", "deny", uris=("doc*zzz*a",)), False),
        (PolicyRule("r", "deny", uris=("doctrine://directive/a*a",)), False),
        (PolicyRule("r", "deny", uris=("x", "*")), True),
        (PolicyRule("r", "deny", kinds=("directive",)), True),
        (PolicyRule("r", "deny", kinds=("tactic",)), False),
        (PolicyRule("r", "deny", tags=("secret",)), True),
        (PolicyRule("r", "deny", tags=("public",)), False),
        (PolicyRule("r", "deny", uris=("*",), kinds=("tactic",)), False),
        (PolicyRule("r", "deny", uris=("*",), kinds=("directive",), tags=("sec*",)), True),
    ],
)
def test_a_rule_matches_when_all_it_names_fits(rule: PolicyRule, fits: bool) -> None:
    assert fits is matches(rule, _artifact("a", tags=("secret", "x")))


def _hits(*artifacts: Artifact) -> list[Hit]:
    return [Hit(artifact, UNIT, 0, 0, 0) for artifact in artifacts]


def test_the_first_rule_that_matches_decides() -> None:
    policy = Policy(
        (
            PolicyRule("keep", "allow", uris=("*/a",)),
            PolicyRule("mask", "redact", uris=("*/b",), reason="not for models"),
            PolicyRule("drop", "deny", uris=("*/b", "*/c", "*/a")),
        )
    )
    hits = _hits(*(_artifact(name, "body") for name in "abcd"))
    allowed, applied = apply_policy(hits, policy)

    assert [("a", "body"), ("b", "\u27e6mask\u27e7 withheld by policy: not for models"), ("d", "body")] == [
        (hit.artifact.id, hit.artifact.body) for hit in allowed
    ]
    assert [("keep", "allow"), ("mask", "redact"), ("drop", "deny")] == [
        (entry["rule_id"], entry["action"]) for entry in applied
    ]
    assert ["body"] * 4 == [hit.artifact.body for hit in hits]


@pytest.mark.parametrize("action", ["deny", "redact"])
def test_what_policy_withholds_is_ranked_by_nothing_that_is_withheld(action: PolicyAction) -> None:
    policy = Policy((PolicyRule("mask", action, uris=("*/a",)),))
    seeds = _seeds({"a": 1, "b": 1})
    found = [
        retrieve([hidden, _artifact("b", "sql")], query="sql login", seeds=seeds, config=CONFIG, policy=policy)
        for hidden in (
            _artifact("a", "sql login " * 9, title="A rule", keywords=("sql", "login")),
            _artifact("a", "", title="A rule"),
        )
    ]

    assert [(hit.artifact.id, hit.score, hit.lexical, hit.tag) for hit in found[0].hits] == [
        (hit.artifact.id, hit.score, hit.lexical, hit.tag) for hit in found[1].hits
    ]
    assert found[0].filters_applied == found[1].filters_applied


def test_a_redacted_artifact_is_still_found_by_its_title_and_tags() -> None:
    collection = [_artifact("a", "hidden", title="SQL rules"), _artifact("b", "hidden", tags=("sql",)), _artifact("c")]
    policy = Policy((PolicyRule("mask", "redact", uris=("*",)),))
    seeds = _seeds({"a": 2})
    found = retrieve(collection, query="sql", seeds=seeds, config=CONFIG, policy=policy)

    assert {"a", "b"} == {hit.artifact.id for hit in found.hits}
    assert {"\u27e6mask\u27e7 withheld by policy"} == {hit.artifact.body for hit in found.hits}


_word = st.sampled_from(["sql", "login", "review", "index", "token", "plan"])
_body = st.lists(_word, max_size=12).map(" ".join)
_origins = st.sampled_from(["shipped", "project", "charter"])
_collection = st.lists(st.tuples(_body, _origins), max_size=8).map(
    lambda items: [_artifact(f"n{number}", body, origin=origin) for number, (body, origin) in enumerate(items)]
)
_near = st.dictionaries(st.sampled_from([f"n{number}" for number in range(8)]), st.integers(1, 3)).map(_seeds)
_rule = st.builds(
    PolicyRule,
    st.just("r"),
    st.sampled_from(["allow", "deny", "redact"]),
    uris=st.sampled_from([("*",), ("*/n1",), ("charter://*",)]),
)
_policy = st.lists(_rule, max_size=3).map(lambda rules: Policy(tuple(rules)))


@given(_collection, _body, _near, _policy, st.randoms())
def test_the_order_of_the_collection_does_not_matter(
    collection: list[Artifact], query: str, seeds: Seeds, policy: Policy, random: object
) -> None:
    shuffled = sorted(collection, key=lambda _: random.random())  # type: ignore[attr-defined]

    assert retrieve(collection, query=query, seeds=seeds, config=CONFIG, policy=policy) == retrieve(
        shuffled, query=query, seeds=seeds, config=CONFIG, policy=policy
    )


@given(_collection, _body, _near)
def test_every_score_lies_between_none_and_all(collection: list[Artifact], query: str, seeds: Seeds) -> None:
    hits = retrieve(collection, query=query, seeds=seeds, config=CONFIG, policy=Policy()).hits

    assert all(0 <= part <= UNIT for hit in hits for part in (hit.score, hit.lexical, hit.graph, hit.tag))
    assert sorted(hits, key=lambda hit: (-hit.score, hit.artifact.origin == "shipped", hit.artifact.uri)) == list(hits)


@given(_collection, _body, _near, _policy)
def test_a_denied_artifact_is_never_a_hit(collection: list[Artifact], query: str, seeds: Seeds, policy: Policy) -> None:
    found = retrieve(collection, query=query, seeds=seeds, config=CONFIG, policy=policy)
    denied = {entry["uri"] for entry in found.filters_applied if entry["action"] == "deny"}

    assert set() == denied & {hit.artifact.uri for hit in (*found.hits, *found.cut)}
    assert len(found.filters_applied) == len({entry["uri"] for entry in found.filters_applied})


def test_a_profile_without_words_names_nothing() -> None:
    collection = [_artifact("a", tags=("...",), keywords=("sql",))]
    seeds = _seeds({"a": 1})
    worded = seeds._replace(words=("SQL",))
    found = [
        retrieve(collection, query="", seeds=given, config=CONFIG, policy=Policy()).hits[0].tag
        for given in (seeds, worded)
    ]

    assert [0, UNIT // 3] == found


def test_the_memory_for_stems_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("charter.retrieval._stems", dict.fromkeys(map(str, range(20_001)), "x"))
    monkeypatch.setattr("charter.retrieval._labels", {str(number): ["x"] for number in range(20_001)})

    assert "test" == stem("tests")
    assert ["a"] == _retrieve([_artifact("a", keywords=("fresh label",))], "fresh label")
