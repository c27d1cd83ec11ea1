"""The JSON that this room's commands print."""

from __future__ import annotations

from typing import Any, Literal

from specify_cli.cli.schemas.core_shapes import VerifyReport
from specify_cli.cli.schemas.shapes import Shape
from specify_cli.libraries.work.shapes import SourceFailure


class _SignedState(Shape):
    origin: str
    size: int
    root: str


class SignedCheckpoint(_SignedState):
    """Printed by trail checkpoint: `checkpoint` is the signed note, `keys` are its verifier
    keys."""

    keys: list[str]
    checkpoint: str


class TrailEnrolled(Shape):
    """Printed by trail enroll: the keys an SSH key vouches for, and the signed statement."""

    keys: list[str]
    enrollment: str


class TrailProof(_SignedState):
    """Printed by trail proof: `proof` is a C2SP tlog-proof of the leaf with this number."""

    invocation_id: str
    kind: Literal["start", "close"]
    seal: str
    number: int
    proof: str


class TestimonyWritten(Shape):
    """Printed by invocations export --format testimony."""

    path: str
    invocation_id: str
    approvals: int
    sha256: str


class TrailExported(_SignedState):
    """Printed by trail export."""

    folder: str
    files: int


class SourceVerified(Shape):
    """Printed by invocations verify --source, for each project and archive: its report, or why
    there is none."""

    source: str
    report: VerifyReport | None
    failure: SourceFailure | None


SHAPES: dict[str, Any] = {
    "source-verified": SourceVerified,
    "signed-checkpoint": SignedCheckpoint,
    "trail-enrolled": TrailEnrolled,
    "trail-proof": TrailProof,
    "trail-exported": TrailExported,
    "testimony-written": TestimonyWritten,
}
