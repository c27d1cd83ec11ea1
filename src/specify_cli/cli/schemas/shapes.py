"""Make JSON Schemas of what commands print, out of the values that the library returns.

`make schemas` writes the schemas of every room (docs/site/declared.py); tests compare them with the
folder and validate what the real commands print. A room names its own shapes in a module with a
`SHAPES`:

    SHAPES = {"search-hit": shape_of(database.Hit)}
"""

from __future__ import annotations

import builtins
import collections.abc
import sys
import typing
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from specify_cli.cli.tables.assemble import read_rooms

T = TypeVar("T")


class Shape(BaseModel):
    """Base of every shape: no other members, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


def derived(source: Any) -> Callable[[type[T]], type[T]]:
    """Make a shape of a value the library returns; the class names only the members that say more,
    or are added.

    `source` is a NamedTuple or TypedDict of the library. A member that `source` gains is in the
    schema at once; one that the class names must fit what commands print, which tests compare.
    """

    def build(stated: type[T]) -> type[T]:
        own = {
            name: _evaluate(annotation, vars(sys.modules[stated.__module__]))
            for name, annotation in stated.__annotations__.items()
        }
        defaults = {name: getattr(stated, name) for name in own if hasattr(stated, name)}
        _SHAPES_OF[source] = _make_shape(source, stated.__name__, stated.__doc__, own, defaults)
        return _SHAPES_OF[source]  # type: ignore[return-value]

    return build


_SHAPES_OF: dict[object, type[BaseModel]] = {}


def shape_of(source: Any) -> type[BaseModel]:
    """Return the shape of a value the library returns: an object of its members, and so are
    NamedTuples among them.

    `source` is a NamedTuple or TypedDict. Its docstring is the description in the schema.
    """
    if source not in _SHAPES_OF:
        _SHAPES_OF[source] = _make_shape(source, source.__name__, source.__doc__, {}, {})
    return _SHAPES_OF[source]


def _make_shape(
    source: Any, name: str, about: str | None, own: dict[str, Any], defaults: dict[str, Any]
) -> type[BaseModel]:
    """Return the model of a value: its own members, with those that a class states in their
    place."""
    names = _Names(source)
    of_source = {
        name: _evaluate(text, names)
        for name, text in source.__annotations__.items()
        if name not in own
    }
    fields: dict[str, Any] = {
        name: (own.get(name, of_source.get(name)), defaults.get(name, ...))
        for name in dict.fromkeys((*source.__annotations__, *own))
    }
    return create_model(name, __base__=Shape, __doc__=about, __module__=__name__, **fields)


class _Names(dict[str, Any]):
    """The names in a module, each NamedTuple and TypedDict among them as its shape."""

    def __init__(self, source: Any) -> None:
        self._modules = (
            vars(sys.modules[source.__module__]),
            vars(typing),
            vars(collections.abc),
            vars(builtins),
        )

    def __missing__(self, name: str) -> Any:
        value = next(module[name] for module in self._modules if name in module)
        has_fields = isinstance(value, type) and (
            hasattr(value, "_fields") or typing.is_typeddict(value)
        )
        return shape_of(value) if has_fields else value


def _evaluate(annotation: Any, names: Any) -> Any:
    """Return the type that an annotation names."""
    text = getattr(annotation, "__forward_arg__", annotation)
    return eval(text, {}, names) if isinstance(text, str) else text


def one_of(names: Iterable[str]) -> Any:
    """Return a field that is a text out of these `names`; a schema lists them."""
    return Field(json_schema_extra={"enum": list(names)})


def read_shapes() -> dict[str, Any]:
    """Return every shape by its name, as the core and the rooms state them."""
    shapes = dict(import_module("specify_cli.cli.schemas.core_shapes").SHAPES)
    for room in read_rooms():
        if room.feature.shapes:
            shapes |= import_module(f"{room.package}.{room.feature.shapes}").SHAPES
    return shapes
