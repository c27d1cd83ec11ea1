"""The headers that every answer of viewer and collector has: nothing from elsewhere runs, loads or
embeds it."""

from __future__ import annotations

from starlette.types import Message, Send

_BASE = (
    "default-src 'none'; style-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'"
)
POLICY = f"{_BASE}; frame-ancestors 'none'"
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def add_headers(send: Send, policy: str = POLICY) -> Send:
    """Return a sender that adds the headers an answer does not set itself."""
    headers = {"Content-Security-Policy": policy, **_HEADERS}

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            added = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            message["headers"] = [
                *message["headers"],
                *(pair for pair in added if pair[0] not in present),
            ]
        await send(message)

    return sending


def allow_framing(policy: str = _BASE) -> dict[str, str]:
    """Return the header of an answer that a page of this origin may show in a frame."""
    return {"Content-Security-Policy": f"{policy}; frame-ancestors 'self'"}
