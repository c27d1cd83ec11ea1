"""Distances over the doctrine graph depend on its edges alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctrine.graph import Edge, Graph, GraphError, parse_edges

CHAIN = [Edge("a", "b"), Edge("b", "c"), Edge("c", "d"), Edge("a", "c")]


@pytest.mark.parametrize(
    ("starts", "limit", "found"),
    [
        (["a"], 0, {"a": 0}),
        (["a"], 1, {"a": 0, "b": 1, "c": 1}),
        (["a"], 9, {"a": 0, "b": 1, "c": 1, "d": 2}),
        (["b", "c"], 1, {"b": 0, "c": 0, "d": 1}),
        (["nowhere"], 3, {"nowhere": 0}),
    ],
)
def test_a_distance_is_the_fewest_edges(starts: list[str], limit: int, found: dict[str, int]) -> None:
    assert found == Graph(CHAIN).distances(starts, limit=limit)


def test_targets_are_named_once_in_order() -> None:
    graph = Graph([Edge("a", "c", "x"), Edge("a", "b"), Edge("a", "c", "y")])

    assert ("b", "c") == graph.targets("a")


_edges = st.lists(st.builds(Edge, st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=20)


@given(_edges, st.randoms())
def test_the_order_of_edges_does_not_matter(edges: list[Edge], random: object) -> None:
    shuffled = sorted(edges, key=lambda _: random.random())  # type: ignore[attr-defined]

    assert list(Graph(edges).distances(["a"], limit=4).items()) == list(
        Graph(shuffled).distances(["a"], limit=4).items()
    )


@given(_edges)
def test_no_edge_skips_a_distance(edges: list[Edge]) -> None:
    found = Graph(edges).distances(["a"], limit=9)

    assert all(found[edge.target] <= found[edge.source] + 1 for edge in edges if edge.source in found)


def test_a_document_lists_targets_alone_or_together() -> None:
    document = {"edges": [{"from": "a", "to": ["b", "c"], "relation": "r"}, {"from": "b", "to": "c"}]}

    assert (Edge("a", "b", "r"), Edge("a", "c", "r"), Edge("b", "c")) == parse_edges(document)


def test_an_empty_document_has_no_edges() -> None:
    assert () == parse_edges(None)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], ()),
        ({}, ()),
        ({"edges": ["x"]}, ("edges", 0)),
        ({"edges": [{"from": "a", "to": "b"}, {"to": "b"}]}, ("edges", 1)),
        ({"edges": [{"from": "a"}]}, ("edges", 0)),
        ({"edges": [{"from": "a", "to": [1]}]}, ("edges", 0)),
        ({"edges": [{"from": "a", "to": "b", "relation": 1}]}, ("edges", 0)),
    ],
)
def test_a_broken_entry_is_pointed_at(document: object, path: tuple[str | int, ...]) -> None:
    with pytest.raises(GraphError) as caught:
        parse_edges(document)

    assert path == caught.value.path
