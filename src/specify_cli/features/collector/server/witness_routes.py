"""What a collector answers as a witness of its clients' logs."""

from __future__ import annotations

import time

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from specify_cli.features.collector.reception import (
    Refused,
)
from specify_cli.features.collector.server.handling import (
    LOG,
    Setting,
    answer_json,
    read_body,
)
from specify_cli.features.collector.witness import Answer, Witness

_MAX_NOTE_BODY = 256 * 1024


def _require_witness(setting: Setting) -> Witness:
    if not setting.witness:
        raise Refused("not-found", "this collector was started without --witness")
    return setting.witness


def _answer_text(answer: Answer) -> Response:
    return Response(answer.body, answer.status, media_type=answer.media_type)


def show_witness_key(setting: Setting, _: Request) -> Response:
    """GET /witness/key: the verifier key of the cosignatures."""
    return _answer_text(Answer(200, f"{_require_witness(setting).key}\n"))


async def add_log(setting: Setting, request: Request) -> Response:
    """POST /witness/add-log: the verifier keys of a client's log."""
    witness, token = _require_witness(setting), request.state.token
    async with setting.bodies:
        body = await read_body(setting._replace(max_body=_MAX_NOTE_BODY), request)
    return _answer_text(await run_in_threadpool(witness.add_log, body, token.name, token.projects))


async def add_checkpoint(setting: Setting, request: Request) -> Response:
    """POST /witness/add-checkpoint (c2sp.org/tlog-witness); the log's signature is all the proof a
    sender needs."""
    witness = _require_witness(setting)
    async with setting.bodies:
        body = await read_body(setting._replace(max_body=_MAX_NOTE_BODY), request)
    answer = await run_in_threadpool(witness.add_checkpoint, body, int(time.time()))
    if answer.status in (409, 422):
        facts = {"status": answer.status, "why": answer.body.strip()}
        LOG.warning("witness: %(status)s for a checkpoint: %(why)s", facts)
    return _answer_text(answer)


def list_logs(setting: Setting, request: Request) -> Response:
    """GET /v1/logs: the newest state of each log that was cosigned, and every contradiction that
    was seen.

    A log names no project, so a token of some projects sees those that a token of its name
    registered.
    """
    witness, token = _require_witness(setting), request.state.token
    owner = None if token.projects is None else token.name
    states = witness.list_states(owner)
    return answer_json(
        {
            "items": [
                {"origin": one.origin, "size": one.size, "root": one.root.hex()} for one in states
            ],
            "forks": witness.list_forks(owner),
        }
    )
