"""Telegram: a bot that writes to chats and reads messages to it."""

from __future__ import annotations

from collections import deque

from hubbub.connectors.adapters.http import AdapterHttp, HttpSettings, is_success, json_object
from hubbub.domain.communication.messages import FieldText, NeededText
from hubbub.domain.communication.settings import CallbackUrl
from hubbub.domain.fields import TimeoutSeconds
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    Delivery,
    Pulled,
    TemporaryFailure,
    adapter,
)
from hubbub.ports.outgoing import HttpResponse
from hubbub.protocols.adapters import telegram as wire
from hubbub.protocols.adapters.text_only import NotText

_JSON = {"Content-Type": "application/json"}
_CREDENTIALS_PAUSE_SECONDS = 60.0


class TelegramSettings(HttpSettings, frozen=True):
    """A bot. The first parameter of a peer's address is the chat."""

    token: str
    url: CallbackUrl = "https://api.telegram.org"
    timeout_seconds: TimeoutSeconds = 20.0


class TelegramPullSettings(HttpSettings, frozen=True):
    token: str
    url: CallbackUrl = "https://api.telegram.org"
    type: NeededText = "CHAT"
    receiver: FieldText = ""
    timeout_seconds: TimeoutSeconds = 20.0


class _Bot:
    def __init__(
        self, settings: TelegramSettings | TelegramPullSettings, context: AdapterContext
    ) -> None:
        self._base = f"{settings.url.rstrip('/')}/bot{settings.token}"
        self._http = AdapterHttp(context, [settings.token], settings.timeout_seconds)

    async def ask(self, method: str, body: bytes) -> dict[str, object]:
        """Raises `AdapterFailed` or `TemporaryFailure`."""
        answer = await self._http.send(
            "POST", f"{self._base}/{method}", _JSON, body, max_bytes=10_000_000
        )
        found = json_object(answer.body)
        if not is_success(answer) or found.get("ok") is not True:
            raise self._failure(answer, found)
        return found

    def _failure(self, answer: HttpResponse, found: dict[str, object]) -> Exception:
        said = wire.read_error(found)
        if answer.status in (401, 404) and "chat" not in said.description:
            return TemporaryFailure("Telegram refuses the bot's token", _CREDENTIALS_PAUSE_SECONDS)
        failure = self._http.failure(answer, said.description or "no answer of the Bot API")
        if isinstance(failure, TemporaryFailure) and said.retry_after_seconds:
            failure.retry_after_seconds = said.retry_after_seconds
        return failure


@adapter(name="telegram", settings=TelegramSettings, secrets=frozenset({"token"}))
class TelegramOut:
    """The Bot API has no idempotency keys: after a crash a text may appear twice."""

    def __init__(self, settings: TelegramSettings, context: AdapterContext) -> None:
        self._bot = _Bot(settings, context)

    async def push(self, delivery: Delivery) -> None:
        chat = next(iter(delivery.address.parameters), "")
        if not chat:
            raise AdapterFailed(f"the address of {delivery.peer!r} names no chat")
        try:
            body = wire.send_body(delivery.message, chat)
        except NotText as error:
            raise AdapterFailed(str(error)) from None
        await self._bot.ask("sendMessage", body)

    async def close(self) -> None:
        pass


@adapter(
    name="telegram-in",
    settings=TelegramPullSettings,
    direction="pull",
    secrets=frozenset({"token"}),
)
class TelegramIn:
    """Polls a bot's updates. Telegram keeps an update for a day, or until a later offset is
    requested."""

    def __init__(self, settings: TelegramPullSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._bot = _Bot(settings, context)
        self._waiting: deque[wire.TelegramUpdate] = deque()
        self._given: set[int] = set()
        self._offset = 0
        self._last = 0

    async def pull(self) -> Pulled | None:
        if not self._waiting:
            await self._ask()
        while self._waiting:
            update = self._waiting.popleft()
            if update.message is not None:
                self._given.add(update.number)
                return Pulled(update.message, update.number)
        if not self._given:
            self._offset = self._last + 1
        return None

    async def settle(self, receipt: object) -> None:
        assert isinstance(receipt, int)
        self._given.discard(receipt)
        if not self._waiting and not self._given:
            self._offset = self._last + 1

    async def close(self) -> None:
        pass

    async def _ask(self) -> None:
        """Requests updates after all settled ones, which Telegram then deletes."""
        wanted = b'{"offset":%d,"timeout":0,"allowed_updates":["message"]}' % self._offset
        found = await self._bot.ask("getUpdates", wanted)
        try:
            updates = wire.read_updates(found, self._settings.type, self._settings.receiver)
        except ValueError as error:
            raise AdapterFailed(f"the answer cannot be read: {error}") from None
        self._given.clear()
        self._waiting.extend(updates)
        self._last = max((update.number for update in updates), default=self._offset - 1)
