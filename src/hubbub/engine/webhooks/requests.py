"""HTTP requests that carry messages to webhooks."""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from hubbub.domain.encryption import CONTENT_ENCODING, SALT_BYTES, encrypt
from hubbub.domain.envelope_headers import header_text, to_headers
from hubbub.domain.messages import Message
from hubbub.domain.webhooks import Webhook, signature
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.ports import randomness
from hubbub.ports.outgoing import USER_AGENT, HttpRequest

Headers = tuple[tuple[str, str], ...]


def lasting_headers(webhook: Webhook, hub_url: str | None) -> Headers:
    """The headers shared by all requests of a webhook."""
    headers = [
        ("User-Agent", USER_AGENT),
        ("Hubbub-Hub", quote(webhook.hub, safe="")),
        ("Hubbub-Channel", quote(webhook.channel, safe="")),
    ]
    if webhook.kind == "websub":
        links = [f'<{_as_link(webhook.topic)}>; rel="self"']
        if hub_url:
            links.insert(0, f'<{_as_link(hub_url)}>; rel="hub"')
        headers.append(("Link", ", ".join(links)))
    return tuple(headers)


def with_query(callback: str, fields: dict[str, str]) -> str:
    """Appends parameters to the callback's own query."""
    parts = urlsplit(callback)
    query = urlencode(fields)
    joined = f"{parts.query}&{query}" if parts.query else query
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", joined, ""))


def _as_link(url: str) -> str:
    return quote(url, safe="/:?#[]@!$&'()*+,;=%-._~")


class Sealed:
    """A message as sent to one webhook: the body is created once for all attempts."""

    __slots__ = ("_body", "_headers", "_hub", "_limits", "_url")

    def __init__(
        self,
        webhook: Webhook,
        lasting: Headers,
        message: Message,
        limits: WebhookLimits,
        message_id: str | None = None,
        serial: int | None = None,
    ) -> None:
        """`message_id` and `serial` are those of the original message, if this is its dead
        letter."""
        identifier = message_id or message.id
        body = message.payload
        spelt = message.attributes.media_type if message.attributes is not None else None
        headers = [
            ("Content-Type", spelt or message.content_type),
            *lasting,
            ("Hubbub-Message-Id", identifier),
            ("Idempotency-Key", f"{webhook.id}:{identifier}"),
            ("Hubbub-Serial", str(serial or message.serial)),
            ("Hubbub-Published-At", str(message.published_at)),
        ]
        if message.event:
            headers.append(("Hubbub-Event", header_text(message.event)))
        if message.publisher is not None:
            headers.append(("Hubbub-Publisher", header_text(message.publisher)))
        if message.attributes is not None:
            headers += to_headers(message.attributes)
        if webhook.key is not None:
            body = encrypt(webhook.key, randomness.token_bytes(SALT_BYTES), body)
            headers.append(("Content-Encoding", CONTENT_ENCODING))
        if webhook.secret is not None:
            headers.append(("X-Hub-Signature", signature(webhook.secret, webhook.algorithm, body)))
        self._hub = webhook.hub
        self._url = webhook.callback
        self._headers = headers
        self._body = body
        self._limits = limits

    def attempt(self, number: int) -> HttpRequest:
        return HttpRequest(
            self._hub,
            "POST",
            self._url,
            (*self._headers, ("Hubbub-Attempt", str(number))),
            self._body,
            self._limits.timeout_seconds,
            self._limits.answer_bytes,
        )
