"""Services, as a client uses them: calls, and events for streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.messages import decode_data, encode_data
from hubbub.domain import notices
from hubbub.domain.errors import RequestTimeout
from hubbub.domain.requests import Call, Enqueue, Request

N = TypeVar("N", notices.CallAnswered, notices.Enqueued)


class Answer(msgspec.Struct, frozen=True):
    """What a service answered."""

    payload: bytes
    content_type: str

    @property
    def data(self) -> Any:
        """The payload as its content type says: a JSON value, a text, or bytes."""
        return decode_data(self.payload, self.content_type)


class Services:
    """Nothing is asked twice: a service may have done its work when the connection breaks."""

    def __init__(self, supervisor: Supervisor, request_timeout: float) -> None:
        self._supervisor = supervisor
        self._seconds = request_timeout

    async def call(
        self, method: str, data: object, timeout: float | None, content_type: str | None
    ) -> Answer:
        payload, content_type = encode_data(data, content_type)
        seconds = timeout or 0.0
        answer = await self._ask(
            lambda req_id: Call(method, payload, content_type, seconds, req_id),
            notices.CallAnswered,
            self._seconds if timeout is None else timeout,
        )
        return Answer(answer.payload, answer.content_type)

    async def submit(self, stream: str, data: object, event: str, content_type: str | None) -> str:
        payload, content_type = encode_data(data, content_type)
        answer = await self._ask(
            lambda req_id: Enqueue(stream, event, payload, content_type, req_id), notices.Enqueued
        )
        return answer.message_id

    async def _ask(
        self, make: Callable[[int], Request], kind: type[N], more_seconds: float = 0.0
    ) -> N:
        try:
            async with asyncio.timeout(self._seconds):
                conversation = await self._supervisor.conversation()
        except TimeoutError:
            raise RequestTimeout(f"no connection to the hub for {self._seconds:g} s") from None
        return await conversation.ask(make, kind, more_seconds)
