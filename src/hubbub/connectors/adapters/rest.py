"""REST: posts messages as JSON to a URL of the peer, and polls a URL for messages.

Adapters in any language are connected this way: a POST of `{message, address}` is a push.
"""

from __future__ import annotations

import msgspec

from hubbub.connectors.adapters.http import (
    AdapterHttp,
    HttpSettings,
    is_success,
    with_authorization,
)
from hubbub.domain.communication.settings import CallbackUrl
from hubbub.domain.communication.wire import from_wire
from hubbub.domain.errors import BadRequest
from hubbub.domain.fields import Headers, TimeoutSeconds
from hubbub.ports.adapters import AdapterContext, AdapterFailed, Delivery, Pulled, adapter
from hubbub.protocols.adapters.rest import push_body

_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class RestSettings(HttpSettings, frozen=True):
    """A URL for all peers, or one per peer: the first parameter of the peer's address."""

    url: CallbackUrl | None = None
    headers: Headers = msgspec.field(default_factory=dict)
    authorization: str = ""
    """The value of the header `Authorization`, such as `Bearer …`."""
    timeout_seconds: TimeoutSeconds = 10.0


class RestPullSettings(HttpSettings, frozen=True):
    """The URL returns 200 with a message in JSON, or 204."""

    url: CallbackUrl
    headers: Headers = msgspec.field(default_factory=dict)
    authorization: str = ""
    """The value of the header `Authorization`, such as `Bearer …`."""
    timeout_seconds: TimeoutSeconds = 10.0


@adapter(name="rest", settings=RestSettings, secrets=frozenset({"authorization"}))
class RestOut:
    """POST with `Idempotency-Key`. 2xx is a success; 408, 425, 429 and 5xx are retried."""

    def __init__(self, settings: RestSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._headers = with_authorization({**_JSON, **settings.headers}, settings.authorization)
        self._http = AdapterHttp(context, [settings.authorization], settings.timeout_seconds)

    async def push(self, delivery: Delivery) -> None:
        url = self._settings.url or next(iter(delivery.address.parameters), "")
        if not url:
            raise AdapterFailed(
                f"the address of {delivery.peer!r} has no URL, and the adapter has none either"
            )
        headers = {**self._headers, "Idempotency-Key": delivery.key}
        body = push_body(delivery.message, delivery.address)
        answer = await self._http.send("POST", url, headers, body)
        if not is_success(answer):
            raise self._http.failure(answer)

    async def close(self) -> None:
        pass


@adapter(
    name="rest-pull",
    settings=RestPullSettings,
    direction="pull",
    secrets=frozenset({"authorization"}),
    per_look=1,
)
class RestIn:
    """Sends a GET per pull, and pulls once per poll: some URLs always have a message. If the
    response has an `ETag`, the server keeps the message until it receives a DELETE with it in
    `If-Match`; otherwise the server returns each message once."""

    def __init__(self, settings: RestPullSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._headers = with_authorization({**_JSON, **settings.headers}, settings.authorization)
        self._http = AdapterHttp(context, [settings.authorization], settings.timeout_seconds)
        self._refused: str | None = None
        """The tag of a rejected message, which stays at the server and blocks later ones."""

    async def pull(self) -> Pulled | None:
        answer = await self._http.send("GET", self._settings.url, self._headers)
        if answer.status == 204:
            return None
        if answer.status != 200:
            raise self._http.failure(answer)
        tag = answer.headers.get("etag")
        if tag is not None and tag == self._refused:
            return None
        try:
            message = from_wire(answer.body, by_stranger=True)
        except BadRequest as error:
            raise AdapterFailed(self._http.conceal(error)) from None
        return Pulled(message, tag)

    async def settle(self, receipt: object) -> None:
        if isinstance(receipt, str):
            headers = {**self._headers, "If-Match": receipt}
            answer = await self._http.send("DELETE", self._settings.url, headers)
            if not is_success(answer) and answer.status not in (404, 410, 412):
                raise self._http.failure(answer)

    async def refuse(self, receipt: object) -> None:
        """The server keeps the message and must remove it itself."""
        self._refused = receipt if isinstance(receipt, str) else None

    async def close(self) -> None:
        pass
