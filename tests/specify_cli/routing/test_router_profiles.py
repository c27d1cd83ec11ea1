"""From an action to one profile: specialization, project languages, priority, generalist, and honest ties."""

from __future__ import annotations

import pytest

from doctrine.agent_profiles.profile import AgentProfile
from doctrine.agent_profiles.repository import AgentProfileRepository
from profiles import profile
from specify_cli.routing.registry import shipped_table
from specify_cli.routing.router import (
    ProjectFacts,
    RouterAmbiguityError,
    RouterDecision,
    route,
)

TABLE = shipped_table()


GENERAL = profile("general", "IMPLEMENTER")
PYTHON = profile("python", "IMPLEMENTER", languages=("python",), file_patterns=("*.py",), routing_priority=60)
WEB = profile(
    "web",
    "IMPLEMENTER",
    languages=("TypeScript", "javascript"),
    frameworks=("react",),
    file_patterns=("src/ui/**", "*.tsx"),
    routing_priority=60,
)
DATA = profile("data", "IMPLEMENTER", "REVIEWER", languages=("sql",), domain_keywords=("migration", "slow query"))
OPS = profile("ops", "IMPLEMENTER", file_patterns=("Dockerfile*", "deploy/Makefile", "Makefile"))
GOPHER = profile("gopher", "IMPLEMENTER", languages=("golang",))
REVIEWER = profile("reviewer", "REVIEWER")
GUARD = profile("guard", "REVIEWER", domain_keywords=("access control", "auth token"), routing_priority=70)
TEAM = [GENERAL, PYTHON, WEB, DATA, OPS, GOPHER, REVIEWER, GUARD]


def chosen(request: str, team: list[AgentProfile], languages: tuple[str, ...] = ()) -> str:
    answer = route(request, team, TABLE, ProjectFacts(languages))
    return answer.profile_id if isinstance(answer, RouterDecision) else answer.error_code


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("fix the Python parser", "python"),
        ("fix parser.py", "python"),
        ("fix `src/app/views.py` please", "python"),
        ("fix the TypeScript types", "web"),
        ("fix the ts compiler options", "web"),
        ("fix the React button", "web"),
        ("fix src/ui/button.css", "web"),
        ("fix ./src/ui/readme.txt", "web"),
        ("fix the SQL view", "data"),
        ("fix the migrations of orders", "data"),
        ("fix two slow queries", "data"),
        ("fix the slow page", "general"),
        ("fix the Dockerfile", "ops"),
        ("fix the Dockerfile.dev file", "ops"),
        ("fix the Makefile", "ops"),
        ("fix the MakefileParser", "general"),
        ("fix the Go service", "gopher"),
        ("go fix the service", "general"),
        ("fix the Rust crate", "general"),
        ("implement WP03", "general"),
        ("review the auth tokens", "guard"),
        ("review the access-control rules", "guard"),
        ("review the access of controls", "reviewer"),
        ("review WP03", "reviewer"),
        ("review the SQL migration", "data"),
    ],
)
def test_the_request_chooses_among_profiles_of_one_role(request_text: str, expected: str) -> None:
    assert expected == chosen(request_text, TEAM)


def test_the_language_of_the_project_leads_to_its_specialist() -> None:
    assert chosen("fix the login test", TEAM, ("python",)) == "python"


def test_another_language_in_the_request_outweighs_that_of_the_project() -> None:
    assert chosen("fix the Rust login test", TEAM, ("python",)) == "general"


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Translate the Python script into Go", "gopher"),
        ("Port the Go client to Python", "python"),
        ("Rewrite this Go function in idiomatic Python", "python"),
        ("Convert the Python code that checks if a number is even to Go code", "gopher"),
    ],
)
def test_a_translation_is_work_in_the_language_it_ends_in(request_text: str, expected: str) -> None:
    assert chosen(request_text, TEAM) == expected


def test_a_project_of_two_languages_without_a_hint_in_the_request_goes_to_the_generalist() -> None:
    assert chosen("fix the login test", TEAM, ("javascript", "python")) == "general"


def test_a_project_also_of_a_language_that_no_specialist_knows_goes_to_the_generalist() -> None:
    """A `package.json` beside a Cargo.toml or a Gemfile does not make each request one of the frontend."""
    assert chosen("fix the login test", TEAM, ("javascript", "rust", "typescript")) == "general"
    assert chosen("fix the login test", TEAM, ("javascript", "ruby")) == "general"
    assert chosen("fix the login test", TEAM, ("javascript", "typescript")) == "web"
    assert chosen("fix the React button", TEAM, ("javascript", "ruby")) == "web"

    own = profile("own", "IMPLEMENTER", languages=("python",), origin="project")
    assert chosen("fix the login test", [GENERAL, own], ("python", "rust")) == "own"


def test_a_specialist_of_a_language_the_project_does_not_use_is_behind_the_generalist() -> None:
    star = profile("star", "IMPLEMENTER", languages=("perl",), routing_priority=90, origin="project")

    assert chosen("fix it", [GENERAL, star], ("python",)) == "general"


def test_the_higher_routing_priority_wins() -> None:
    low, high = profile("a", "IMPLEMENTER"), profile("b", "IMPLEMENTER", routing_priority=80)

    assert chosen("fix it", [low, high]) == "b"


def test_specialization_outranks_routing_priority() -> None:
    assert chosen("fix parser.py", [PYTHON, profile("b", "IMPLEMENTER", routing_priority=100)]) == "python"


def test_a_preferred_specialist_of_the_project_outranks_the_generalist() -> None:
    own = profile("own", "IMPLEMENTER", languages=("python",), routing_priority=80, origin="project")

    assert chosen("implement WP03", [GENERAL, own]) == "own"


def test_a_shipped_specialist_outside_its_field_does_not_outrank_the_generalist() -> None:
    assert chosen("review the PR", [REVIEWER, GUARD]) == "reviewer"


def test_among_equals_the_profile_that_names_the_verb_wins() -> None:
    coder = profile("coder", "IMPLEMENTER", canonical_verbs=("implement", "fix"), origin="project")
    releaser = profile("releaser", "IMPLEMENTER", canonical_verbs=("Deploy",), origin="project")
    team = [coder, releaser]

    assert (chosen("deploy WP03", team), chosen("fix WP03", team), chosen("write WP03", team)) == (
        "releaser",
        "coder",
        "ROUTER_AMBIGUOUS",
    )


def test_a_verb_of_the_contract_does_not_prefer_a_shipped_profile_that_names_it() -> None:
    mender = profile("mender", "IMPLEMENTER", canonical_verbs=("fix", "debug"), domain_keywords=("crash",))

    assert (chosen("fix WP03", [GENERAL, mender]), chosen("debug WP03", [GENERAL, mender])) == ("general", "mender")


def test_a_keyword_in_a_path_or_in_code_does_not_make_a_request() -> None:
    assert (chosen("src/migration.md", TEAM), chosen("see `migration`", TEAM), chosen("migration", TEAM)) == (
        "ROUTER_NO_MATCH",
        "ROUTER_NO_MATCH",
        "data",
    )


def test_a_keyword_does_not_turn_a_prohibition_into_a_request() -> None:
    assert chosen("don't fix the auth tokens", TEAM) == "ROUTER_NO_MATCH"


def test_a_profile_with_keywords_only_is_more_general_than_one_of_a_language() -> None:
    words = profile("words", "IMPLEMENTER", domain_keywords=("parser",))
    tongue = profile("tongue", "IMPLEMENTER", languages=("python",))

    assert chosen("implement WP03", [words, tongue]) == "words"


def test_a_profile_for_any_language_is_a_generalist() -> None:
    every = profile("every", "IMPLEMENTER", languages=("any",))
    tongue = profile("tongue", "IMPLEMENTER", languages=("python",))

    assert chosen("implement WP03", [every, tongue]) == "every"


def test_a_first_role_outranks_a_second() -> None:
    first, second = profile("z-first", "IMPLEMENTER"), profile("a-second", "REVIEWER", "IMPLEMENTER")

    assert chosen("fix it", [first, second]) == "z-first"


def test_a_project_profile_outranks_an_equal_shipped_one() -> None:
    assert chosen("fix it", [GENERAL, profile("own", "IMPLEMENTER", origin="project")]) == "own"


def test_a_specialist_of_the_project_outranks_a_shipped_one_of_the_same_field() -> None:
    own = profile("own", "IMPLEMENTER", languages=("python",), origin="project")

    assert (
        chosen("fix parser.py", [GENERAL, PYTHON, own]),
        chosen("fix it", [GENERAL, PYTHON, own], ("python",)),
        chosen("fix the Python and SQL code of parser.py", [GENERAL, PYTHON, DATA, own]),
    ) == ("own", "own", "own")


def test_a_generalist_of_the_project_keeps_the_work_in_the_projects_languages() -> None:
    own = profile("own", "IMPLEMENTER", origin="project")

    assert (
        chosen("fix the login test", [GENERAL, PYTHON, own], ("python",)),
        chosen("fix parser.py", [GENERAL, PYTHON, own], ("python",)),
        chosen("fix parser.py", [GENERAL, PYTHON, own], ("rust",)),
    ) == ("own", "own", "python")


def test_a_profile_of_the_project_keeps_the_work_in_the_languages_it_names() -> None:
    own = profile("own", "IMPLEMENTER", languages=("python",), origin="project")
    petra = PYTHON._replace(frameworks=("asyncio",), file_patterns=("requirements*.txt",))

    assert (
        chosen("bump requirements.txt", [GENERAL, petra, own], ("python",)),
        chosen("fix the asyncio timeout", [GENERAL, petra, own], ("python",)),
        chosen("fix the React button", [GENERAL, petra, WEB, own], ("python",)),
    ) == ("own", "own", "web")


def test_where_only_the_projects_own_remains_the_reason_is_that_it_is_the_projects() -> None:
    own = profile("own", "IMPLEMENTER", languages=("python",), origin="project")
    answer = route("fix parser.py", [PYTHON, own], TABLE, ProjectFacts())

    assert isinstance(answer, RouterDecision)
    assert answer.match_reason.endswith("own was chosen by project profile; language python.")


def test_a_narrow_profile_of_the_project_does_not_take_the_work_of_a_language() -> None:
    narrow = profile("billing", "IMPLEMENTER", domain_keywords=("invoice",), origin="project")

    assert chosen("fix parser.py", [GENERAL, PYTHON, narrow], ("python",)) == "python"


def test_equal_generalists_of_a_python_project_are_a_tie_beside_the_shipped_specialist() -> None:
    a, b = profile("a", "IMPLEMENTER", origin="project"), profile("b", "IMPLEMENTER", origin="project")

    assert chosen("fix the login test", [GENERAL, PYTHON, a, b], ("python",)) == "ROUTER_AMBIGUOUS"


@pytest.mark.parametrize("request_text", ["fix the caching", "fix what was cached", "fix the logging", "fix the ui"])
def test_a_keyword_is_met_in_any_light_inflection(request_text: str) -> None:
    words = profile("words", "IMPLEMENTER", domain_keywords=("cache", "log", "ui"))

    assert chosen(request_text, [GENERAL, words]) == "words"


def test_the_reason_names_the_criterion_that_decided() -> None:
    high = profile("high", "IMPLEMENTER", routing_priority=80)
    answers = [
        route(text, team, TABLE, ProjectFacts(("python",)))
        for text, team in (
            ("fix it", [GENERAL, high]),
            ("fix it", [GENERAL, OPS]),
            ("fix it", [GENERAL, PYTHON]),
            ("fix the SQL view", [GENERAL, DATA]),
        )
    ]

    assert [a.match_reason.partition("chosen by ")[2] for a in answers if isinstance(a, RouterDecision)] == [
        "routing priority.",
        "generalist.",
        "project language; project language python.",
        "specialization; language sql.",
    ]


def test_a_profile_behind_because_of_the_projects_language_says_so() -> None:
    answer = route("fix it", [GENERAL, WEB], TABLE, ProjectFacts(("python",)))

    assert isinstance(answer, RouterDecision)
    assert answer.considered[2]["reason"] == "not a project language"


def test_the_projects_language_is_no_reason_where_the_request_speaks_of_the_field() -> None:
    answer = route("fix the React button", [GENERAL, WEB], TABLE, ProjectFacts(("javascript",)))

    assert isinstance(answer, RouterDecision)
    assert answer.considered[2]["reason"] == "framework react"


def test_a_negated_verb_of_a_profile_does_not_route() -> None:
    odd = profile("odd", "REVIEWER", canonical_verbs=("wibble",))

    assert chosen("don't wibble the page", [odd, GENERAL]) == "ROUTER_NO_MATCH"


def test_a_profile_cannot_redefine_a_verb_of_the_table() -> None:
    odd = profile("odd", "REVIEWER", canonical_verbs=("export",))

    assert chosen("page exports of guests", [odd, GENERAL]) == "ROUTER_NO_MATCH"


def test_a_keyword_shared_by_two_roles_of_one_action_goes_to_the_first_role_of_its_row() -> None:
    a = profile("a", "DESIGNER", domain_keywords=("ledger",))
    b = profile("b", "ARCHITECT", domain_keywords=("ledger",))

    assert chosen("ledger of guests", [a, b]) == "b"


def test_a_keyword_in_two_inflections_counts_once() -> None:
    twice = profile("twice", "IMPLEMENTER", domain_keywords=("crash", "crashes"))
    once = profile("once", "IMPLEMENTER", domain_keywords=("startup crash",))

    assert chosen("fix the startup crash", [twice, once]) == "once"


def test_an_excluded_word_rules_a_profile_out() -> None:
    picky = profile("picky", "IMPLEMENTER", routing_priority=90, excluding=("login", "*.css"))

    assert tuple(chosen(text, [GENERAL, picky]) for text in ("fix the login", "fix page.css", "fix the page")) == (
        "general",
        "general",
        "picky",
    )


def test_equal_profiles_are_a_tie_that_names_the_action() -> None:
    a, b = profile("a", "IMPLEMENTER"), profile("b", "IMPLEMENTER")

    answer = route("fix it", [a, b], TABLE, ProjectFacts())

    assert isinstance(answer, RouterAmbiguityError)
    assert (
        answer.error_code,
        [(c["profile_id"], c["action"]) for c in answer.candidates],
    ) == ("ROUTER_AMBIGUOUS", [("a", "implement"), ("b", "implement")])
    assert answer.message == "The action is implement; these profiles fit it equally well: a, b."


def test_equal_specialists_the_request_speaks_of_are_a_tie_even_beside_a_generalist() -> None:
    a, b = (
        profile("a", "IMPLEMENTER", languages=("python",)),
        profile("b", "IMPLEMENTER", languages=("python",)),
    )

    assert chosen("fix parser.py", [a, b, GENERAL]) == "ROUTER_AMBIGUOUS"


def test_shipped_specialists_of_different_fields_leave_it_to_the_generalist() -> None:
    scribe = profile("scribe", "IMPLEMENTER", file_patterns=("*.md",))
    snake = profile("snake", "IMPLEMENTER", file_patterns=("*.py",))
    own = snake._replace(profile_id="own", origin="project")

    assert chosen("fix loader.py and README.md", [scribe, snake, GENERAL]) == "general"
    assert chosen("fix loader.py and README.md", [scribe, snake]) == "ROUTER_AMBIGUOUS"
    assert chosen("fix loader.py and README.md", [scribe, own, GENERAL]) == "own"


def test_equal_specialists_without_a_generalist_are_a_tie() -> None:
    a, b = (
        profile("a", "IMPLEMENTER", languages=("python",)),
        profile("b", "IMPLEMENTER", languages=("rust",)),
    )

    assert chosen("implement WP03", [a, b]) == "ROUTER_AMBIGUOUS"


def test_the_second_role_of_a_row_serves_when_the_first_is_missing() -> None:
    designer, architect = profile("a", "DESIGNER"), profile("b", "ARCHITECT")

    assert (chosen("specify WP03", [designer]), chosen("specify WP03", [designer, architect])) == ("a", "b")


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("design the wireframe", "drawer"),
        ("design the API", "builder"),
        ("design the wireframe of the event bus", "builder"),
    ],
)
def test_a_later_role_comes_first_only_where_the_request_speaks_of_it_alone(request_text: str, expected: str) -> None:
    builder = profile("builder", "ARCHITECT", domain_keywords=("event bus",))
    drawer = profile("drawer", "DESIGNER", domain_keywords=("wireframe",))
    decision = route(request_text, [builder, drawer], TABLE, ProjectFacts())

    assert isinstance(decision, RouterDecision)
    assert (decision.action, decision.profile_id) == ("specify", expected)


def test_a_profile_that_names_the_verb_serves_when_no_role_does() -> None:
    odd = profile("odd", "ORACLE", canonical_verbs=("Audit",))
    able = profile("able", "SEER", capabilities=("curate",))

    assert (chosen("review WP03", [odd, able]), chosen("curate WP03", [odd, able])) == ("odd", "able")


def test_an_action_nobody_serves_is_named_in_the_refusal() -> None:
    answer = route("review WP03", [GENERAL], TABLE, ProjectFacts())

    assert isinstance(answer, RouterAmbiguityError)
    assert (
        answer.error_code,
        "review" in answer.message,
        "REVIEWER" in answer.suggestion,
    ) == ("ROUTER_NO_MATCH", True, True)


def test_a_domain_keyword_routes_a_text_without_a_verb() -> None:
    answer = route("auth tokens of guests", TEAM, TABLE, ProjectFacts())

    assert isinstance(answer, RouterDecision)
    assert (*answer[:3], answer.token) == ("guard", "review", "domain_keyword", "auth token")


def test_a_domain_keyword_of_two_actions_is_ambiguous() -> None:
    a = profile("a", "IMPLEMENTER", domain_keywords=("ledger",))
    b = profile("b", "REVIEWER", domain_keywords=("ledger",))

    answer = route("the ledger of guests", [a, b], TABLE, ProjectFacts())

    assert isinstance(answer, RouterAmbiguityError)
    assert [c["action"] for c in answer.candidates] == ["implement", "review"]


def test_a_forbidden_action_is_not_taken_from_a_domain_keyword() -> None:
    a = profile("a", "IMPLEMENTER", domain_keywords=("ledger",))

    assert chosen("don't fix the ledger", [a]) == "ROUTER_NO_MATCH"


def test_a_verb_only_a_profile_knows_routes_to_its_role() -> None:
    odd = profile("odd", "REVIEWER", canonical_verbs=("wibble",))

    answer = route("please wibble the page", [odd, GENERAL], TABLE, ProjectFacts())

    assert isinstance(answer, RouterDecision)
    assert (*answer[:3], answer.token) == ("odd", "review", "canonical_verb", "wibble")


def test_every_profile_asked_is_listed_with_why_it_lost_or_won() -> None:
    answer = route("fix parser.py", [GENERAL, PYTHON, WEB], TABLE, ProjectFacts())

    assert isinstance(answer, RouterDecision)
    assert [(row["profile_id"], row["won"]) for row in answer.considered[1:]] == [
        ("general", False),
        ("python", True),
        ("web", False),
    ]
    assert answer.considered[3]["reason"] == "the request speaks of python"


def test_a_document_that_is_read_asks_for_nobody_who_writes_documents() -> None:
    scribe = profile("scribe", "IMPLEMENTER", file_patterns=("*.md",), domain_keywords=("docs",))
    team = [scribe, GENERAL]
    read = [
        "Implement the plan in docs/plan.md",
        "implement WP03 per kitty-specs/042-login/tasks/WP03.md",
        "Read docs/plan.md and wire the queue",
        "fix the loader as described in docs/loader.md",
        "# Open tabs:\n- plan.md: docs/plan.md\n\n## My request for Codex:\nrename the flag",
    ]
    changed = [
        "update docs/plan.md",
        "add a section to README.md",
        "fix the link in docs/a.md",
        "write the guide to docs/guide.md",
        "read the code and update docs/plan.md",
        "implement the flag and document it in docs/a.md",
        "using the new names, update docs/a.md",
        "add the build badge to README.md",
    ]

    assert [chosen(request, team) for request in read] == ["general"] * len(read)
    assert [chosen(request, team) for request in changed] == ["scribe"] * len(changed)


def test_a_program_that_shows_markdown_is_no_work_for_who_writes_documents() -> None:
    """Of 128 commits of published projects that speak of Markdown 95 changed no document at all."""
    shipped = list(AgentProfileRepository().all())
    code = [
        "fix the Markdown editor's toolbar",
        "render markdown in comments",
        "Update dependency @types/markdown-it to v13.0.5",
        "Add markdown rendering for assistant messages in autopilot",
    ]
    documents = [
        "fix broken markdown links in README.md",
        "format docs/a.md as Markdown",
        "fix a typo in the changelog",
    ]

    assert {chosen(request, shipped) for request in code} == {"builder-bea"}
    assert {chosen(request, shipped) for request in documents} == {"scribe-sana"}
    assert chosen("fix the login test", shipped, ("python",)) == "pythonist-petra"
    assert chosen("fix the login test", shipped, ("go",)) == "builder-bea"
