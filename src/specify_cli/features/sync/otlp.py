"""Send one OTLP/HTTP request (https://opentelemetry.io/docs/specs/otlp/#otlphttp) and judge its
answer."""

from __future__ import annotations

import json
from urllib.parse import unquote, urlsplit

from specify_cli.errors import CallerError
from specify_cli.features.sync.consent import checked_endpoint
from specify_cli.features.sync.sending.transport import Headers, failed, post_json

_TRACES = "/v1/traces"


def read_headers(text: str) -> dict[str, str]:
    """Return the headers of OTEL_EXPORTER_OTLP_HEADERS: `name=value` with commas between, values
    URL-encoded.

    Raises CallerError INVALID_VALUE.
    """
    headers = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = pair.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if (
            not equals
            or not name
            or not (name + value).isascii()
            or not (name + value).isprintable()
        ):
            raise CallerError(
                "INVALID_VALUE",
                "OTEL_EXPORTER_OTLP_HEADERS: expected NAME=VALUE,NAME=VALUE, found another form",
                "for example: OTEL_EXPORTER_OTLP_HEADERS='api-key=…'",
            )
        headers[name] = value
    return headers


def send_otlp(url: str, headers: Headers, body: bytes) -> None:
    """Send one request once. Raises EnvironmentFault DELIVERY_FAILED where it was not accepted
    whole."""
    answer = post_json(url, headers, body)
    try:
        partial = json.loads(answer or b"{}").get("partialSuccess") or {}
        rejected = int(partial.get("rejectedSpans") or 0)
    except (ValueError, AttributeError, TypeError):
        return  # An answer in another form than was asked for; by its status it was accepted.
    if rejected:
        raise failed(
            url, f"{rejected} spans were refused: {partial.get('errorMessage', '')}", headers
        )


def send(endpoint: str, headers: str, body: bytes) -> str:
    """Send traces to an endpoint, with headers as in OTEL_EXPORTER_OTLP_HEADERS; return where they
    went.

    Raises CallerError ENDPOINT_INVALID, INVALID_VALUE; EnvironmentFault DELIVERY_FAILED.
    """
    url = checked_endpoint(endpoint, "name one: --endpoint https://collector.example.org/v1/traces")
    if urlsplit(url).path in ("", "/"):  # an address without a path gets OTLP's own
        url = url.rstrip("/") + _TRACES
    send_otlp(url, read_headers(headers), body)
    return url
