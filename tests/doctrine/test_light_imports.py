"""What `doctrine.light_imports` gives is what the standard library gives, at a smaller price."""

from __future__ import annotations

import copy
import hashlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple as Original

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctrine import light_imports

SRC = Path(light_imports.__file__).parents[1]


class Here(light_imports.NamedTuple):
    """A place."""

    name: str
    line: int = 1

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.line}"


class There(Original):
    """A place."""

    name: str
    line: int = 1

    @property
    def shown(self) -> str:
        return f"{self.name}:{self.line}"


@pytest.mark.parametrize(
    "told",
    [
        lambda kind: kind("a").shown,
        lambda kind: (kind("a", 2)._replace(line=3), kind("a")._asdict(), kind._fields, kind._field_defaults),
        lambda kind: repr(kind(name="a", line=2)).partition("(")[2],
        lambda kind: (kind.__doc__, kind.__module__, kind.__mro__[1:], list(kind.__annotations__)),
        lambda kind: pickle.loads(pickle.dumps(kind("a"))) == kind("a") == copy.deepcopy(kind("a")),
        lambda kind: kind("a") == ("a", 1) and hash(kind("a")) == hash(("a", 1)),
    ],
)
def test_a_named_tuple_is_as_that_of_typing(told: Callable[[type], object]) -> None:
    assert told(Here) == told(There)


def test_a_member_too_few_is_an_error() -> None:
    with pytest.raises(TypeError, match="name"):
        Here()  # type: ignore[call-arg]


@given(st.binary(max_size=5000))
def test_sha256_is_that_of_hashlib(data: bytes) -> None:
    assert light_imports.sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1000, 300_000, 768 * 1024, 1_000_000])
def test_openssl_is_loaded_for_large_data_alone(size: int) -> None:
    program = (
        f"import sys\nfrom doctrine.light_imports import sha256\nprint(sha256(b'x' * {size}).hexdigest())\n"
        "print('hashlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, cwd=SRC)

    assert done.stdout.split() == [hashlib.sha256(b"x" * size).hexdigest(), str(size >= 768 * 1024)]
