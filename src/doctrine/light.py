"""NamedTuple, Protocol and SHA-256 as the standard library has them, without the libraries they come in.

A command and a hook live for some tens of milliseconds, and a tenth of them each would go into importing `typing` and
into loading OpenSSL for `hashlib`. Type checkers see the originals. A module that makes a NamedTuple of this puts off
its annotations (`from __future__ import annotations`); what they say is for checkers and readers alone.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import sha256 as sha256
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol
else:
    from collections import namedtuple

    try:
        from _sha256 import sha256 as _sha256  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256 as _sha256  # 3.12 and later
        except ImportError:  # an interpreter built without it has OpenSSL
            from hashlib import sha256 as _sha256

    # From this size on OpenSSL, which hashes five times as fast, is worth its loading.
    _LARGE = 256 * 1024

    def sha256(data=b""):
        """As `hashlib.sha256`; that one itself where it is loaded anyway."""
        found = sys.modules.get("hashlib")
        if found is None:
            if len(data) < _LARGE:
                return _sha256(data)
            import hashlib as found
        return getattr(found, "sha256", _sha256)(data)  # another thread may be loading it just now

    class _Named(type):
        """Makes a named tuple of a class body, as the metaclass of `typing.NamedTuple` does."""

        def __new__(mcs, name, _bases, body):
            fields = body.pop("__annotations__")
            given = [body.pop(field) for field in fields if field in body]
            made = namedtuple(name, fields, defaults=given, module=body.pop("__module__"))
            made.__annotations__ = fields
            for key, value in body.items():
                setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})

    class Protocol:
        """A base for what only a type checker checks."""
