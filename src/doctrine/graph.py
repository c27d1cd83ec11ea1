"""Which doctrine bears on which work: a small directed graph.  [pure]

Nodes are names: `action:review`, `role:REVIEWER`, `profile:<id>` and artifact uris. An edge may
name its relation, which is shown to people; one that sets two rules against each other (`APART`)
brings nothing nearer. Distances depend on the set of edges only, never on their order.

    graph = Graph(parse_edges({"edges": [{"from": "action:review", "to": "doctrine://tactic/x"}]}))
    graph.distances(["action:review"], limit=2)  # {"action:review": 0, "doctrine://tactic/x": 1}
"""

from __future__ import annotations

from doctrine.artifact import KINDS
from doctrine.light_imports import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Relations of an edge between rules that do not go together.
APART = ("in_tension_with", "rejects")
# How the graph files of spec-kitty 3.2 name nodes: `directive:ID`, `action:software-dev/review`.
_URNS = {
    "agent_profile:": "profile:",
    "action:software-dev/": "action:",
    **{f"{kind}:": f"doctrine://{kind}/" for kind in KINDS},
}


class Edge(NamedTuple):
    """One tie from a node to another.

    `source` and `target` are names of nodes; a target that no file defines does no harm.
    """

    source: str
    target: str
    relation: str = ""


class GraphError(ValueError):
    """A graph document that cannot be read; `path` leads to the entry at fault.

    The caller adds file and line and reports a `Problem`.
    """

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.repair = "write each edge as {from: action:review, to: [uri, ...]}"


class Graph:
    """An immutable set of edges with breadth-first distances.

    A circle is allowed: each node is reached once, by its shortest way.
    """

    __slots__ = ("_targets", "edges")

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self.edges = tuple(sorted(set(edges)))
        targets: dict[str, list[str]] = {}
        for edge in self.edges:
            if edge.relation in APART:
                continue
            targets.setdefault(edge.source, []).append(edge.target)
        self._targets = targets

    def targets(self, node: str) -> tuple[str, ...]:
        """Return the nodes one edge away, sorted."""
        return tuple(dict.fromkeys(self._targets.get(node, ())))

    def distances(self, starts: Iterable[str], *, limit: int) -> Mapping[str, int]:
        """Return how many edges from the nearest start each node is, up to the limit; the starts
        are at 0."""
        distances = dict.fromkeys(sorted(set(starts)), 0)
        frontier = list(distances)
        for distance in range(1, limit + 1):
            frontier = [target for node in frontier for target in self._targets.get(node, ())]
            frontier = [node for node in dict.fromkeys(frontier) if node not in distances]
            if not frontier:
                break
            for node in frontier:
                distances[node] = distance
        return distances


def parse_edges(document: object) -> tuple[Edge, ...]:
    """Return the edges of a parsed graph document: `edges: [{from, to, relation}]`, where `to` may
    be a list. The edges of spec-kitty's own files, `{source, target, relation}`, are read as well.

    Raises GraphError.

    `document` is what the YAML parser returned. The edges are in the order of the file.
    """
    if document is None:
        return ()
    entries = document.get("edges") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise GraphError((), "expected a mapping with a list `edges`")
    edges = []
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise GraphError(("edges", position), "expected a mapping with `from` and `to`")
        source, relation = entry.get("from"), entry.get("relation", "")
        targets = entry.get("to")
        if "source" in entry and "from" not in entry:
            source, targets = _name_node(entry["source"]), _name_node(entry.get("target"))
            if source == "" or targets == "":
                continue  # a kind of node that contexts know nothing of
        listed = targets if isinstance(targets, list) else [targets]
        if not isinstance(source, str) or not source:
            raise GraphError(("edges", position), "`from` is not the name of a node")
        if not isinstance(relation, str):
            raise GraphError(("edges", position), "`relation` is not text")
        for target in listed:
            if not isinstance(target, str) or not target:
                raise GraphError(("edges", position), "`to` is not a node or a list of nodes")
            edges.append(Edge(source, target, relation))
    return tuple(edges)


def _name_node(urn: object) -> object:
    """Return the name of a node that a file of spec-kitty 3.2 names; an empty text for a kind that
    is none here."""
    if not isinstance(urn, str):
        return urn
    for prefix, name in _URNS.items():
        if urn.startswith(prefix):
            return name + urn.removeprefix(prefix)
    return ""
