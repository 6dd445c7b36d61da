"""Slack and compatible services (Mattermost, Rocket.Chat): sends texts to a channel.

`SlackIn` receives signed events.
"""

from __future__ import annotations

from collections.abc import Mapping

from hubbub.connectors.adapters.http import AdapterHttp, HttpSettings, is_success
from hubbub.domain.communication.messages import FieldText, NeededText
from hubbub.domain.communication.settings import CallbackUrl
from hubbub.domain.errors import BadRequest, NotPermitted
from hubbub.domain.fields import TimeoutSeconds
from hubbub.domain.rules import Setting
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    Delivery,
    HttpAnswer,
    Publish,
    adapter,
)
from hubbub.protocols.adapters.slack import BadSignature, check_signature, read_event, webhook_body
from hubbub.protocols.adapters.text_only import NotText


class SlackSettings(HttpSettings, frozen=True):
    """The URL of an incoming webhook is the first parameter of the peer's address, or else this
    setting."""

    url: CallbackUrl | None = None
    timeout_seconds: TimeoutSeconds = 10.0


class SlackEventSettings(Setting, frozen=True):
    signing_secret: str
    type: NeededText = "CHAT"
    receiver: FieldText = ""


@adapter(name="slack", settings=SlackSettings, secrets=frozenset({"url"}))
class SlackOut:
    """Incoming webhooks have no idempotency keys: after a crash a text may appear twice."""

    def __init__(self, settings: SlackSettings, context: AdapterContext) -> None:
        self._url = settings.url
        self._context = context
        self._timeout_seconds = settings.timeout_seconds

    async def push(self, delivery: Delivery) -> None:
        url = next(iter(delivery.address.parameters), "") or self._url
        if not url:
            raise AdapterFailed(f"the address of {delivery.peer!r} has no URL of a webhook")
        path = url.partition("://")[2].partition("/")[2]  # who knows it may write there
        http = AdapterHttp(self._context, [url, path], self._timeout_seconds)
        try:
            body = webhook_body(delivery.message)
        except NotText as error:
            raise AdapterFailed(str(error)) from None
        answer = await http.send("POST", url, {"Content-Type": "application/json"}, body)
        if not is_success(answer):
            raise http.failure(answer, answer.body[:100].decode("utf-8", "replace"))

    async def close(self) -> None:
        pass


@adapter(
    name="slack-in",
    settings=SlackEventSettings,
    direction="push",
    secrets=frozenset({"signingSecret"}),
)
class SlackIn:
    """Implements `ports.adapters.HttpInput`: the signature authenticates Slack's requests."""

    def __init__(self, settings: SlackEventSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._clock = context.clock
        self._publish: Publish | None = None

    async def start(self, publish: Publish) -> None:
        self._publish = publish

    async def stop(self) -> None:
        self._publish = None

    async def receive(self, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        settings = self._settings
        try:
            check_signature(settings.signing_secret, headers, body, self._clock.now())
            event = read_event(body, settings.type, settings.receiver)
        except BadSignature as error:
            raise NotPermitted(str(error)) from None
        except ValueError as error:
            raise BadRequest(str(error)) from None
        if event.challenge is not None:
            return HttpAnswer(200, event.challenge.encode())
        if event.message is not None and self._publish is not None:
            await self._publish(event.message)
        return HttpAnswer(200)
