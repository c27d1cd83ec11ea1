"""Share work out over many items: in this process, among processes of this machine, or on a Dask
cluster.

    engine = Engine(workers=4)  # or Engine(scheduler="dask://10.0.0.5:8786"), or Engine()
    for result in share_out(engine, act, items, lose):
        ...

`act` takes items and yields one result for each, in their order; it is a function of a module, or a
`partial` of one, so that another process finds it. The results come in the order of the items on
every engine: a report made of them is the same, byte for byte. A worker that dies costs a
repetition of what it was at. What kills every worker that tries it is tried alone, and `lose` makes
the result that stands for it.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import specify_cli
from doctrine import os
from specify_cli.errors import CallerError, EnvironmentFault, InvocationError
from specify_cli.invocation.ends.opening import build_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")
    R = TypeVar("R")
    Act = Callable[[Iterable[T]], Iterator[R]]
    # Each part with its results, in order: a list, an error of ours, or None where no worker
    # survives it.
    Found = Generator[tuple[Sequence[Any], Any], None, None]

SCHEMES = {"dask": "tcp", "dask+tls": "tls"}
# A worker takes so many items at a time at the most, and fewer where that gives each worker several
# parts; so many parts are on their way for each worker.
_LARGEST, _PARTS, _AHEAD = 500, 4, 3
# How often a part may lose its worker before it is tried alone. Dask counts by itself, up to three.
_TRIES = 3
_CONNECT_SECONDS = 5
# Results are waited for so long before the cluster is asked for its workers; so often it may have
# none: on a busy machine one that died is started again after some ten seconds.
_IDLE_SECONDS, _EMPTY_LOOKS = 3.0, 10
# What `share_out` itself raises; every other error is of the work.
ENGINE_CODES = ("ENGINE_UNAVAILABLE", "EXTRA_MISSING")


class Engine(NamedTuple):
    """Where work is done: in this process, in `workers` processes, or on the cluster of a
    `scheduler`.

    `tell` receives (items done, items in all) after each.
    """

    workers: int = 1
    scheduler: str | None = None
    tell: Callable[[int, int], None] | None = None


HERE = Engine()


class _Refused(NamedTuple):
    """An error of ours on its way between processes, where an exception with members of its own
    does not travel."""

    family: type[InvocationError]
    code: str
    message: str
    suggestion: str


def parse_scheduler(text: str) -> str:
    """Return the address Dask knows a scheduler by. Raises CallerError INVALID_VALUE."""
    scheme, mark, place = text.partition("://")
    host, _, port = place.rpartition(":")
    if scheme not in SCHEMES or not mark or not host or not (port.isascii() and port.isdigit()):
        raise CallerError(
            "INVALID_VALUE",
            f"--engine: expected dask://HOST:PORT or dask+tls://HOST:PORT, found {text!r}",
            "dask scheduler prints its address; --workers N needs no cluster",
        )
    return f"{SCHEMES[scheme]}://{place}"


def share_out(
    engine: Engine, act: Act[T, R], items: Sequence[T], lose: Callable[[T, str], R]
) -> Iterator[R]:
    """Yield the result of each item, in the order of the items.

    Raises what `act` raises, and EnvironmentFault ENGINE_UNAVAILABLE where there is no cluster or
    it goes away.
    """
    for done, result in enumerate(_run(engine, act, items, lose), 1):
        if engine.tell is not None:
            engine.tell(done, len(items))
        yield result


def _run(
    engine: Engine, act: Act[T, R], items: Sequence[T], lose: Callable[[T, str], R]
) -> Iterator[R]:
    if engine.scheduler is not None:
        parts_done = _run_on_cluster(engine.scheduler, act, items)
    elif engine.workers > 1 and len(items) > 1:
        parts_done = _run_among_processes(engine.workers, act, items)
    else:
        yield from act(items)
        return
    with closing(parts_done):
        for part, results in parts_done:
            if isinstance(results, _Refused):
                raise results.family(results.code, results.message, results.suggestion)
            yield from (lose(item, _WHY) for item in part) if results is None else results


_WHY = f"each worker that tried it died, {_TRIES} and more times"


def _cut(items: Sequence[T], workers: int) -> deque[Sequence[T]]:
    size = max(1, min(_LARGEST, -(-len(items) // (_PARTS * workers))))
    return deque(items[at : at + size] for at in range(0, len(items), size))


def _run_part(act: Act[T, R], part: Sequence[T]) -> list[R] | _Refused:
    """Return the results of a part, in the process of a worker."""
    try:
        return list(act(part))
    except InvocationError as error:
        return _Refused(type(error), error.code, error.message, error.suggestion)


def _run_among_processes(workers: int, act: Act[T, R], items: Sequence[T]) -> Found:
    """Yield each part with its results; None for an item that no process survives."""
    # a fifth of the time of a `list`, which loads this module
    from concurrent.futures import process

    rest = _cut(items, workers)
    waiting: deque[tuple[Sequence[T], Any]] = deque()
    tries = 0
    pool = process.ProcessPoolExecutor(workers)
    try:
        while rest or waiting:
            try:
                while rest and len(waiting) < _AHEAD * workers:
                    waiting.append((rest[0], pool.submit(_run_part, act, rest[0])))
                    rest.popleft()
                results = waiting[0][1].result()
            except process.BrokenProcessPool:
                # With one process all that was on its way is lost.
                rest.extendleft(part for part, _ in reversed(waiting))
                waiting.clear()
                pool.shutdown(cancel_futures=True)
                pool, tries = process.ProcessPoolExecutor(workers), tries + 1
                if tries == _TRIES:
                    tries, part = 0, rest.popleft()
                    results = _run_alone(act, part)
                    if results is None and len(part) > 1:
                        rest.extendleft(reversed(_split(part)))
                    else:
                        yield part, results
                continue
            tries = 0
            yield waiting.popleft()[0], results
    finally:
        pool.shutdown(cancel_futures=True)


def _split(part: Sequence[T]) -> list[Sequence[T]]:
    return [part[at : at + 1] for at in range(len(part))]


def _run_alone(act: Act[T, R], part: Sequence[T]) -> list[R] | _Refused | None:
    """Return the results of a part that has a process of its own; None where that dies."""
    from concurrent.futures import process  # as above

    with process.ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(_run_part, act, part).result()
        except process.BrokenProcessPool:
            return None


def _run_on_cluster(address: str, act: Act[T, R], items: Sequence[T]) -> Found:
    """Yield each part with its results; None for an item that no worker survives."""
    try:
        # Of the extra `fleet`; it loads for half a second.
        from distributed import CancelledError, Client, KilledWorker
    except ImportError as error:
        from specify_cli.installation import advise_install

        raise EnvironmentFault(
            "EXTRA_MISSING",
            f"--engine needs the extra `fleet`; {error.name} is not installed",
            advise_install("fleet"),
        ) from error
    _quieten()
    try:
        with Client(address, set_as_default=False, timeout=_CONNECT_SECONDS) as client:  # type: ignore[no-untyped-call]
            threads = sum(client.nthreads().values())
            if not threads:
                raise _describe_outage(address, "it has no worker")
            run = partial(_run_checked, read_build()[0], act)
            _require_same_build(_ask_builds(client, address))

            def get_results(future: Any) -> Any:
                # A worker that died is started again by its nanny, mostly within two seconds.
                empty = 0
                while empty < _EMPTY_LOOKS:
                    try:
                        return future.result(timeout=_IDLE_SECONDS)
                    except KilledWorker:
                        return None
                    except TimeoutError:
                        empty = 0 if client.nthreads() else empty + 1
                raise _describe_outage(address, "no worker is left")

            rest = _cut(items, threads)
            waiting: deque[tuple[Sequence[T], Any]] = deque()
            while rest or waiting:
                while rest and len(waiting) < _AHEAD * threads:
                    part = rest.popleft()
                    waiting.append((part, client.submit(run, part, pure=False)))
                part, future = waiting.popleft()
                results = get_results(future)
                if results is None and len(part) > 1:
                    waiting.extendleft(
                        (one, client.submit(run, one, pure=False)) for one in reversed(_split(part))
                    )
                    continue
                if results is None:
                    # A cluster blames whatever was on its way when a worker died; alone, only what
                    # kills one.
                    for _, other in waiting:
                        get_results(other)
                    results = get_results(client.submit(run, part, pure=False))
                yield part, results
    except (OSError, CancelledError) as error:
        raise _describe_outage(address, str(error) or type(error).__name__) from error


def _quieten() -> None:
    """Keep what Dask says of workers that come and go from who waits for a report; its loggers have
    own levels."""
    import logging  # only a cluster logs

    for name in [
        name for name in logging.root.manager.loggerDict if name.startswith("distributed")
    ]:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _run_checked(build: str, act: Act[T, R], part: Sequence[T]) -> list[R] | _Refused:
    """Return the results of a part, on a worker that may have joined after the others were asked
    for their build."""
    own_build, host = read_build()
    if own_build != build:
        return _Refused(EnvironmentFault, *_describe_other_build(own_build, build, host))
    return _run_part(act, part)


def read_build() -> tuple[str, str]:
    """Return which spec-kitty this process runs, and on which machine."""
    checkout = f"the checkout in {os.path.dirname(specify_cli.__file__)}"
    return build_digest() or checkout, os.uname().nodename


def _ask_builds(client: Any, address: str) -> dict[str, tuple[str, str]]:
    """Return what each worker of a cluster says it runs. Raises EnvironmentFault
    ENGINE_UNAVAILABLE."""
    try:
        builds: dict[str, tuple[str, str]] = client.run(read_build)
    except Exception as error:  # whatever a worker raises that cannot even load this module
        why = f"a worker cannot run spec-kitty: {type(error).__name__}: {error}"
        raise _describe_outage(address, why[:300]) from error
    return builds


def _require_same_build(found: dict[str, tuple[str, str]]) -> None:
    """Raise EnvironmentFault ENGINE_UNAVAILABLE where a worker runs another spec-kitty: it might
    judge otherwise."""
    own = read_build()[0]
    for build, host in found.values():
        if build != own:
            raise EnvironmentFault(*_describe_other_build(build, own, host))


def _describe_other_build(found: str, own: str, host: str) -> tuple[str, str, str]:
    message = (
        f"the worker on {host} runs another spec-kitty ({found[:40]}) than this one ({own[:40]})"
    )
    return (
        "ENGINE_UNAVAILABLE",
        message,
        "install the same version on every worker, then start them again",
    )


def _describe_outage(address: str, why: str) -> EnvironmentFault:
    return EnvironmentFault(
        "ENGINE_UNAVAILABLE",
        f"the Dask scheduler at {address}: {why}",
        "start it, or leave --engine out",
    )
