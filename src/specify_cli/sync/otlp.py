"""Send one OTLP/HTTP request (https://opentelemetry.io/docs/specs/otlp/#otlphttp) and judge its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import httpx

from specify_cli.errors import CallerError, EnvironmentFault
from specify_cli.sync.consent import checked_endpoint
from specify_cli.sync.transport import ANSWER_SECONDS, MAX_ANSWER, open_client, shown, stop_after

_TRACES = "/v1/traces"


def read_endpoint(text: str) -> str:
    """Return where traces go: an address without a path gets OTLP's own. Raises CallerError ENDPOINT_INVALID."""
    url = checked_endpoint(text)
    return url.rstrip("/") + _TRACES if urlsplit(url).path in ("", "/") else url


def read_headers(text: str) -> dict[str, str]:
    """Return the headers of OTEL_EXPORTER_OTLP_HEADERS: `name=value` with commas between, values URL-encoded.

    Raises CallerError INVALID_VALUE.
    """
    found = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = pair.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not equals or not name or not (name + value).isascii() or not (name + value).isprintable():
            raise CallerError(
                "INVALID_VALUE",
                "OTEL_EXPORTER_OTLP_HEADERS: expected NAME=VALUE,NAME=VALUE, found another form",
                "for example: OTEL_EXPORTER_OTLP_HEADERS='api-key=…'",
            )
        found[name] = value
    return found


def send_otlp(url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Send one request once. Raises EnvironmentFault DELIVERY_FAILED where it was not taken whole."""
    answer = b""
    try:
        with (
            stop_after(ANSWER_SECONDS),
            open_client(url, {"Accept": "application/json", **headers}) as client,
            client.stream("POST", url, content=body, headers={"Content-Type": "application/json"}) as response,
        ):
            for piece in response.iter_raw():
                answer += piece
                if len(answer) > MAX_ANSWER:
                    break
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        raise _fail(url, f"{type(error).__name__}: {error}", headers) from error
    if not 200 <= status < 300:
        raise _fail(url, f"status {status} {answer[:300].decode('utf-8', 'replace')}", headers)
    try:
        told = json.loads(answer or b"{}").get("partialSuccess") or {}
        rejected = int(told.get("rejectedSpans") or 0)
    except (ValueError, AttributeError, TypeError):
        return  # An answer in another form than was asked for; the status says that it was taken.
    if rejected:
        raise _fail(url, f"{rejected} spans were refused: {told.get('errorMessage', '')}", headers)


def _fail(url: str, why: str, headers: Mapping[str, str]) -> EnvironmentFault:
    for secret in filter(None, headers.values()):
        why = why.replace(secret, "⟦header⟧")
    return EnvironmentFault(
        "DELIVERY_FAILED", f"{url} did not take the traces: {shown(why, '')}", "mend that, then run the command again"
    )
