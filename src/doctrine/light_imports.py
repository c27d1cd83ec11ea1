"""NamedTuple, Protocol and SHA-256 as the standard library has them, without the libraries they
come in.

A command and a hook live for some tens of milliseconds, and a tenth of them each would go into
importing `typing` and into loading OpenSSL for `hashlib`. Type checkers see the originals. A module
that makes a NamedTuple of this puts off its annotations (`from __future__ import annotations`);
what they say is for checkers and readers alone.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256 as sha256
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol
else:
    from collections import _tuplegetter

    try:
        from _sha256 import sha256 as _sha256  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256 as _sha256  # 3.12 and later
        except ImportError:  # an interpreter built without it has OpenSSL
            from hashlib import sha256 as _sha256

    # From this size on OpenSSL, which hashes five times as fast, is worth the 5 ms of its loading.
    _LARGE = 768 * 1024

    def sha256(data=b""):
        """As `hashlib.sha256`; that one itself where it is loaded anyway."""
        module = sys.modules.get("hashlib")
        if module is None:
            if len(data) < _LARGE:
                return _sha256(data)
            import hashlib as module
        return getattr(module, "sha256", _sha256)(data)  # another thread may be loading it just now

    def _make(cls, values):
        """Make a new value from a sequence or an iterable."""
        value = tuple.__new__(cls, values)
        if len(value) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(value)}")
        return value

    def _replace(self, /, **changes):
        """Return a new value with these members replaced."""
        changed = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"Got unexpected field names: {list(changes)!r}")
        return changed

    def _asdict(self):
        """Return the members by name."""
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        members = ", ".join(
            f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)
        )
        return f"{type(self).__name__}({members})"

    _new = tuple.__new__

    # What `collections.namedtuple` gives every class.
    _SHARED = {
        "__slots__": (),
        "_make": classmethod(_make),
        "_replace": _replace,
        "__replace__": _replace,
        "_asdict": _asdict,
        "__repr__": _repr,
        "__getnewargs__": lambda self: tuple(self),
    }

    # What makes a value of so many members: of the usual numbers compiled with this module, else of
    # the first class that has so many.
    _CONSTRUCTORS = {
        2: lambda _cls, a, b: _new(_cls, (a, b)),
        3: lambda _cls, a, b, c: _new(_cls, (a, b, c)),
        4: lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
        5: lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
        6: lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
        7: lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
        8: lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
        9: lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
    }

    def _make_constructor(fields, name, defaults):
        """Return what makes a value of these fields.

        To compile one takes ten times as long as to give the members of another their names.
        """
        constructor = _CONSTRUCTORS.get(len(fields))
        if constructor is None:
            names = ", ".join(fields)
            constructor = eval(f"lambda _cls, {names}: _new(_cls, ({names},))")
            _CONSTRUCTORS[len(fields)] = constructor
        code = constructor.__code__.replace(
            co_name="__new__", co_qualname=name, co_varnames=("_cls", *fields)
        )
        return type(constructor)(code, {"_new": _new}, "__new__", defaults)

    class _Named(type):
        """Makes a named tuple of a class body, as the metaclass of `typing.NamedTuple` does.

        `collections.namedtuple` compiles a constructor for each class, which is most of its cost,
        and many a class is never used in a short process: here the first value of a class has it
        made.
        """

        def __new__(mcs, name, _bases, body):
            annotations = body.pop("__annotations__")
            fields = tuple(annotations)
            defaults = {field: body.pop(field) for field in fields if field in body}
            members = {
                field: _tuplegetter(place, f"Alias for field number {place}")
                for place, field in enumerate(fields)
            }
            named_tuple = type(name, (tuple,), {**_SHARED, **members, **body})
            named_tuple.__annotations__, named_tuple._fields, named_tuple.__match_args__ = (
                annotations,
                fields,
                fields,
            )
            named_tuple._field_defaults = defaults

            def construct(cls, /, *args, **kwargs):
                new = _make_constructor(fields, f"{name}.__new__", tuple(defaults.values()))
                named_tuple.__new__ = staticmethod(new)
                return new(cls, *args, **kwargs)

            named_tuple.__new__ = staticmethod(construct)
            return named_tuple

    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})

    class Protocol:
        """A base for what only a type checker checks."""


def hash_bytes(data: bytes) -> str:
    """Return the SHA-256 of some bytes, lowercase hex: the name of an object that holds them."""
    return sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, lowercase hex."""
    return sha256(text.encode()).hexdigest()
