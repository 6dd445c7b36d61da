"""Matrix: sends messages to rooms, and reads people's messages, over the client-server API."""

from __future__ import annotations

import logging
from collections import deque
from typing import Annotated, Any

import msgspec
from msgspec import Meta

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
from hubbub.protocols.adapters import matrix as wire
from hubbub.protocols.adapters.text_only import NotText

logger = logging.getLogger(__name__)

_CREDENTIALS_PAUSE_SECONDS = 60.0
"""A rejected token affects every message until an operator corrects it."""
_MOST_ALIASES = 1000


class MatrixSettings(HttpSettings, frozen=True):
    """An account of a homeserver. The first parameter of a peer's address is the room, by id or
    alias; further ones may be the ids of the peer's users, which identify replies."""

    homeserver: CallbackUrl
    access_token: str
    room: str = ""
    """The room for addresses without one."""
    timeout_seconds: TimeoutSeconds = 20.0


class MatrixPullSettings(HttpSettings, frozen=True):
    homeserver: CallbackUrl
    access_token: str
    type: NeededText = "CHAT"
    receiver: FieldText = ""
    accept_invitations: bool = False
    """The account joins rooms that others invite it to."""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    """The most events of a room per request."""
    timeout_seconds: TimeoutSeconds = 20.0


class _Homeserver:
    def __init__(
        self, settings: MatrixSettings | MatrixPullSettings, context: AdapterContext
    ) -> None:
        self._base = settings.homeserver.rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {settings.access_token}",
            "Content-Type": "application/json",
        }
        self._http = AdapterHttp(context, [settings.access_token], settings.timeout_seconds)

    async def ask(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        """Returns a successful response. Raises `AdapterFailed` or `TemporaryFailure`."""
        answer = await self.answer(method, path, body)
        if not is_success(answer):
            raise self.failure(answer)
        return answer

    async def answer(self, method: str, path: str, body: bytes = b"") -> HttpResponse:
        return await self._http.send(
            method, self._base + path, self._headers, body, max_bytes=20_000_000
        )

    def failure(self, answer: HttpResponse) -> Exception:
        said = wire.read_error(answer.body)
        if answer.status == 401:
            text = f"the homeserver refuses the access token: {said.errcode}"
            return TemporaryFailure(self._http.conceal(text), _CREDENTIALS_PAUSE_SECONDS)
        failure = self._http.failure(answer, f"{said.errcode} {said.error}".strip())
        if isinstance(failure, TemporaryFailure) and said.retry_after_ms > 0:
            failure.retry_after_seconds = min(said.retry_after_ms / 1000, 3600.0)
        return failure

    def nonsense(self, what: object) -> AdapterFailed:
        return AdapterFailed(f"the homeserver's answer cannot be read: {self._http.conceal(what)}")


@adapter(name="matrix", settings=MatrixSettings, secrets=frozenset({"accessToken"}))
class MatrixOut:
    """The delivery's key is the transaction id, by which the homeserver drops repeats."""

    def __init__(self, settings: MatrixSettings, context: AdapterContext) -> None:
        self._room = settings.room
        self._server = _Homeserver(settings, context)
        self._aliases: dict[str, str] = {}

    async def push(self, delivery: Delivery) -> None:
        named = next(iter(delivery.address.parameters), "") or self._room
        if not named.startswith(("!", "#")):
            raise AdapterFailed(
                f"the address of {delivery.peer!r} names no room: {named[:100]!r} is neither an id "
                "(!…) nor an alias (#…)"
            )
        try:
            body = wire.event_content(delivery.message)
        except NotText as error:
            raise AdapterFailed(str(error)) from None
        room = await self._room_of(named)
        answer = await self._server.ask("PUT", wire.send_path(room, delivery.key), body)
        if not json_object(answer.body).get("event_id"):
            raise self._server.nonsense("no event_id")

    async def close(self) -> None:
        pass

    async def _room_of(self, named: str) -> str:
        if named.startswith("!"):
            return named
        known = self._aliases.get(named)
        if known is None:
            answer = await self._server.ask("GET", wire.alias_path(named))
            found = json_object(answer.body).get("room_id")
            if not isinstance(found, str):
                raise self._server.nonsense("no room_id")
            if len(self._aliases) >= _MOST_ALIASES:
                self._aliases.clear()
            known = self._aliases[named] = found
        return known


class _MatrixReceipt(msgspec.Struct, frozen=True):
    event: str


@adapter(
    name="matrix-in",
    settings=MatrixPullSettings,
    direction="pull",
    secrets=frozenset({"accessToken"}),
)
class MatrixIn:
    """The read position is stored at the homeserver, in the account's data, and advances once all
    messages of a response are stored."""

    def __init__(self, settings: MatrixPullSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._server = _Homeserver(settings, context)
        self._user = ""
        self._since = ""
        self._next_batch = ""
        self._waiting: deque[wire.SyncedMessage] = deque()
        self._given: set[str] = set()

    async def pull(self) -> Pulled | None:
        if not self._user:
            await self._begin()
        if not self._waiting:
            await self._sync()
        if not self._waiting:
            return None
        synced = self._waiting[0]
        answered = await self._answered(synced) if synced.answers else {}
        self._waiting.popleft()
        self._given.add(synced.event)
        message = wire.chat_message(synced, answered, self._settings.type, self._settings.receiver)
        return Pulled(message, _MatrixReceipt(synced.event))

    async def settle(self, receipt: object) -> None:
        assert isinstance(receipt, _MatrixReceipt)
        self._given.discard(receipt.event)
        if not self._waiting and not self._given:
            await self._move_on()

    async def close(self) -> None:
        pass

    async def _begin(self) -> None:
        who = json_object((await self._server.ask("GET", wire.whoami_path())).body).get("user_id")
        if not isinstance(who, str):
            raise self._server.nonsense("no user_id")
        kept = await self._server.answer("GET", wire.position_path(who))
        if kept.status not in (200, 404):
            raise self._server.failure(kept)
        since = json_object(kept.body).get("since")
        self._since = since if isinstance(since, str) else ""
        self._user = who

    async def _sync(self) -> None:
        """Messages that were returned but not settled are requested again."""
        answer = await self._server.ask("GET", wire.sync_path(self._since, self._settings.limit))
        try:
            found = wire.read_sync(answer.body, self._user)
        except ValueError as error:
            raise self._server.nonsense(error) from None
        self._given.clear()
        self._waiting.extend(found.messages)
        self._next_batch = found.next_batch
        if not found.messages and self._since:
            self._since = found.next_batch
        elif not found.messages:
            await self._move_on()
        if self._settings.accept_invitations:  # at the end: it may take longer than a pull has
            for room in found.invitations:
                await self._join(room)

    async def _join(self, room: str) -> None:
        """Joins a room. A failing invitation, such as to a deleted room, does not block others."""
        try:
            await self._server.ask("POST", wire.join_path(room), b"{}")
        except (AdapterFailed, TemporaryFailure) as error:
            logger.warning(
                "adapter %s of hub %r does not join %r: %s",
                self._context.name, self._context.hub, room[:100], error,
            )  # fmt: skip

    async def _move_on(self) -> None:
        body = msgspec.json.encode({"since": self._next_batch})
        await self._server.ask("PUT", wire.position_path(self._user), body)
        self._since = self._next_batch

    async def _answered(self, synced: wire.SyncedMessage) -> dict[str, Any]:
        """The content of the event to which this one replies; empty if it is unavailable."""
        answer = await self._server.answer("GET", wire.event_path(synced.room, synced.answers))
        content = json_object(answer.body).get("content") if answer.status == 200 else None
        return content if isinstance(content, dict) else {}
