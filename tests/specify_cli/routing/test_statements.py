"""What statements, wishes and titles ask for that hold no order, and what an order to a program asks for.

Each test is one thing that people say in many ways. The answers that must not change with it stand beside it.
"""

from __future__ import annotations

import pytest

from doctrine.agent_profiles.repository import AgentProfileRepository
from specify_cli.routing.registry import shipped_table
from specify_cli.routing.router import ProjectFacts, RouterDecision, route

TABLE, PROFILES = shipped_table(), list(AgentProfileRepository().all())


def asked(request: str) -> str:
    answer = route(request, PROFILES, TABLE, ProjectFacts())
    return answer.action if isinstance(answer, RouterDecision) else "refuse"


IMPLEMENT = {
    "what a thing should not do or be": [
        "Table cells should not be inside a list item",
        "Preview nodes should never be editable",
        "the installer shouldn't be creating a home folder",
    ],
    "a fault whose subject is left out": [
        "Does not respect the quiet flag",
        "Could not open a file twice",
        "Should not warn about an unmounted widget",
    ],
    "a state that nobody wants, after a form of be": [
        "the playlist is choppy on weak phones",
        "sorting is laggy with a thousand rows",
        "the invoice mail is truncated for long names",
    ],
    "what a thing does that has a name": [
        "RowReader permits illegal widths",
        "`Table` pads the cells with zeros",
        "`pack()` supports links, but no folders",
    ],
    "trouble with doing something": [
        "Problems installing on an old laptop",
        "issues connecting through a proxy",
        "trouble signing in with a hardware key",
        "Last line issue",
    ],
    "what is amiss, at the beginning of a title": [
        "Outdated pictures in the guide",
        "Overlapping labels on the map",
        "Circular dependency between two roles",
    ],
    "what is wished, at the beginning of a title": [
        "Configurable log format",
        "Custom colours",
        "Parallel reading of archives",
    ],
    "something to be built that is named with what it serves": [
        "SSO for schools",
        "login via magic links",
        "rate limiting on the upload route",
    ],
    "an act as a subject": [
        "Defining a port on the command line can cause a crash",
        "Validating `a.json` in a pipe gives a warning",
    ],
    "what still or only happens": [
        "nobody can log in since the last release",
        "Search only finds exact words",
        "the nightly job never finishes",
        "there is no loading indicator",
    ],
    "what a program that has a name should do": [
        "`Counter` should report the number of lines",
        "the parser should report the column, too",
    ],
    "a user's story": [
        "As an admin, I want to see who is logged in",
        "as a guest I can compare two rooms",
        "I want to be able to cancel a running export",
    ],
    "what somebody would rather have or is said to have forgotten": [
        "I'd rather have the settings in one file",
        "you forgot to handle the empty list",
        "could we have the rows sorted by age",
    ],
    "a thought that is an order": ["Consider inlining the getter", "maybe consider using a set here"],
    "the kind of a text before a colon": [
        "Feature request: review page for guests",
        "Bug report: check boxes vanish",
        "ERROR: could not build the wheel",
    ],
    "what is kept": ["Keep column widths", "ui/grid: keep row heights"],
    "what is grouped or split in a program": [
        "Group the settings by kind in the dialog",
        "split the contract between two modules",
    ],
    "a fault in another language": [
        "Die Tests laufen auf dem Mac nicht",
        "le formulaire ne s'envoie pas quand un champ est vide",
        "les tests échouent depuis hier",
        "Der Export dauert zu lange",
    ],
    "a fault beside a word of reviews": ["PR 27 breaks the option of the same kind"],
    "a title that says it is under way": ["[WIP] guest basket"],
}


@pytest.mark.parametrize("claim", IMPLEMENT)
def test_it_is_to_be_implemented(claim: str) -> None:
    assert {text: asked(text) for text in IMPLEMENT[claim]} == dict.fromkeys(IMPLEMENT[claim], "implement")


def test_words_that_look_alike_keep_their_answer() -> None:
    answers = {
        "the meeting should not be moved": "refuse",
        "roses are red": "refuse",
        "the new release is great": "refuse",
        "Let's consider the options": "analyze",
        "check code before merging": "review",
        "verify the tests before refactoring": "review",
        "`parser.py` should be reviewed": "review",
        "PR 12 is not reviewed yet": "review",
        "As a developer I want you to review this": "review",
        "new plan for the migration": "plan",
        "group the issues by component": "curate",
        "split the work between the agents": "coordinate",
        "keep me posted": "coordinate",
        "Bitte die Tests nicht ändern": "refuse",
        "ne touche pas à la base": "refuse",
        "Ich verstehe den Code nicht": "analyze",
    }

    assert answers == {text: asked(text) for text in answers}


def test_a_plan_or_a_spec_is_asked_for_by_what_is_made() -> None:
    answers = {
        "think about how to split the service and write a plan": "plan",
        "what are the next steps for WP06? write them down": "plan",
        "what's the best order to fix these tickets?": "plan",
        "plan only: replace the date library": "plan",
        "add the new tasks to the roadmap": "plan",
        "add acceptance criteria to the spec": "specify",
    }

    assert answers == {text: asked(text) for text in answers}


def test_a_judgement_of_work_is_a_review_and_other_questions_ask_to_analyze() -> None:
    answers = {
        "make sure the PR doesn't hold secrets": "review",
        "tell me if the wording of this PR is good enough": "review",
        "does WP03 meet its acceptance criteria?": "review",
        "any concerns with PR 31?": "review",
        "validate my changes against the guide": "review",
        "do you see any problem with this approach?": "review",
        "is the code in billing/ production ready?": "review",
        "since when does the test fail?": "analyze",
        "I get other results on CI, why?": "analyze",
        "accented names in the archive?": "analyze",
        "When is the cache emptied?": "analyze",
    }

    assert answers == {text: asked(text) for text in answers}


def test_where_a_document_is_asks_for_nothing() -> None:
    assert asked("the spec is in docs/rows.md") == "refuse"
