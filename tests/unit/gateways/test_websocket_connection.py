"""A WebSocket connection that is told to wait, by more than one."""

from __future__ import annotations

import asyncio

import pytest

from hubbub.gateways.encoders import encoder_for
from hubbub.gateways.websocket import WebSocketConnection
from hubbub.protocols.json.codec import JSON_V1


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.spec("LIVE-16", "OPS-03")
async def test_who_is_told_to_wait_by_two_waits_for_both() -> None:
    """Else a client that floods would be read on as soon as one of them has room."""
    transport = FakeTransport()
    connection = WebSocketConnection(transport, encoder_for(JSON_V1, None), 1000, 1000)
    connection.pause_reading()
    connection.pause_reading()
    connection.resume_reading()
    assert not transport.reading
    connection.resume_reading()
    assert transport.reading
