"""collector token: who may send to a collector and read from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from shlex import quote

from specify_cli.cli import shell
from specify_cli.cli.terminal.output import write_answer, write_json, write_note, write_text
from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.features.collector.engines.ledger import open_database, read_now
from specify_cli.features.collector.reading import explained, require_made
from specify_cli.features.collector.storage import StorageError
from specify_cli.features.collector.tokens import SEND, Token, Tokens
from specify_cli.record.ids import rfc3339
from specify_cli.room import Values

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_MOST_DAYS = 3650
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def create_token(values: Values) -> int:
    """Make a token and print it. Raises CallerError, StoredDataError, EnvironmentFault."""
    name, rate = str(values["name"]), values["rate"]
    projects = _parse_projects(shell.get_texts(values, "project"))
    if not _NAME.fullmatch(name):
        raise CallerError(
            "INVALID_VALUE",
            f"expected a name like ada or ci-runner.2, found {name[:80]!r}",
            "name it",
        )
    if rate is not None and (not isinstance(rate, int) or rate < 1):
        raise CallerError(
            "INVALID_VALUE", f"--rate: expected at least 1 a minute, found {rate}", "leave it out"
        )
    days = values["days"]
    if days is not None and (not isinstance(days, int) or not 1 <= days <= _MOST_DAYS):
        raise CallerError(
            "INVALID_VALUE", f"--days: expected 1 to {_MOST_DAYS}, found {days}", "leave it out"
        )
    scopes = values["scope"] or [SEND]
    assert isinstance(scopes, list)
    with _opened_tokens(values, makes=True) as (tokens, now):
        moment = datetime.fromisoformat(now) + timedelta(days=days or 0)
        end = None if days is None else rfc3339(round(moment.timestamp() * 1000))
        token, secret = tokens.create(
            name, map(str, scopes), projects, rate=rate, now=now, expires_at=end
        )
    if values["json"]:
        write_json({**_describe_token(token), "token": secret})
        return 0
    write_text(secret)
    write_note(
        f"token {token.id} of {name} is shown this once; to end it: "
        f"spec-kitty collector token revoke {token.id} --db {quote(str(values['db']))}"
    )
    return 0


def list_tokens(values: Values) -> int:
    """Show every token without its secret. Raises StoredDataError, EnvironmentFault."""
    with _opened_tokens(values) as (tokens, now):
        rows = tokens.list_all()
    lines = []
    for token in rows:
        projects = "all projects" if token.projects is None else f"{len(token.projects)} projects"
        if token.projects is not None and len(token.projects) == 1:
            (projects,) = token.projects
        rate = "" if token.rate is None else f", {token.rate} requests a minute"
        end = token.expires_at
        ended = "" if end is None else f", {'ends' if now < end else 'ended'} {end[:10]}"
        ended += "" if token.revoked_at is None else f", revoked {token.revoked_at[:10]}"
        used = (
            "never used" if token.last_used_at is None else f"last used {token.last_used_at[:13]}h"
        )
        lines.append(
            f"{token.id}  {token.name}  {','.join(sorted(token.scopes))}  {projects}{rate}, "
            f"{used}{ended}"
        )
    write_answer(values, [_describe_token(token) for token in rows], lines)
    return 0


def revoke_token(values: Values) -> int:
    """End a token by its id. Raises CallerError, StoredDataError, EnvironmentFault."""
    with _opened_tokens(values) as (tokens, now):
        token = tokens.revoke(str(values["id"]), now)
    if not token:
        raise CallerError(
            "INVALID_VALUE",
            f"there is no token with the id {str(values['id'])[:80]!r}",
            f"spec-kitty collector token list --db {quote(str(values['db']))}",
        )
    said = f"revoked {token.id} of {token.name}: the next request with it is refused"
    write_answer(values, _describe_token(token), [said])
    return 0


def _describe_token(token: Token) -> dict[str, object]:
    projects = None if token.projects is None else sorted(token.projects)
    return {**token._asdict(), "scopes": sorted(token.scopes), "projects": projects}


def _parse_projects(names: list[str]) -> frozenset[str] | None:
    """Return the projects a token is for; None for `all`. Raises CallerError."""
    wrong = [name for name in names if name != "all" and not _UUID.fullmatch(name)]
    if wrong or ("all" in names and len(names) > 1):
        raise CallerError(
            "INVALID_VALUE",
            "--project: expected uuids of projects in lowercase, or all alone, found "
            f"{(wrong or names)[0][:80]!r}",
            "a project's uuid stands in its .kittify/config.yaml",
        )
    return None if names == ["all"] else frozenset(names)


@contextmanager
def _opened_tokens(values: Values, *, makes: bool = False) -> Iterator[tuple[Tokens, str]]:
    """Yield the tokens of a database, and the time; a new database only where that is meant."""
    with explained():
        if not makes:
            require_made(str(values["db"]))
        database = open_database(str(values["db"]))
    try:
        yield Tokens(database), read_now()
    except StorageError as error:
        raise EnvironmentFault(
            "ACCESS_FAILED", f"--db: {error}", "try again when the database answers"
        ) from error
    finally:
        database.close()
