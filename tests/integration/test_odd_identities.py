"""Identities whose claims cannot be kept or told to others are refused, and nobody else notices."""

from __future__ import annotations

import json
from typing import Any

import jwt
import msgspec
import pytest

from harness.running_hub import OPEN, StartHub, open_hub

ODD: list[dict[str, Any]] = [
    {"sub": "\ud800"},
    {"sub": "ann", "extra": {"name": "\udfff"}},
    {"sub": "ann", "extra": {"\ud800": 1}},
    {"sub": "ann", "extra": {"number": 2**70}},
    {"sub": "ann", "extra": {"deep": [{"number": -(2**70)}]}},
    {"sub": "ann", "rpcs": ["\ud800"]},
    {"sub": "ann", "channels": [{"channel": "\ud800"}]},
    {"sub": "ann\nbob"},
    {"sub": ""},
    {"sub": "a" * 254},
    {"sub": "ann", "jti": "\x1b[31m"},
    {"sub": "ann", "channels": [{"channel": "*" * 256}]},
    {"sub": "ann", "channels": [{"channel": "a"}] * 101},
    {"sub": "ann", "rpcs": ["a"] * 101},
]


@pytest.mark.spec("OPS-03", "LIVE-06", "LIVE-15", "SEC-01")
async def test_claims_that_nobody_can_write_are_refused_and_harm_no_one(
    start_server: StartHub,
) -> None:
    rules = msgspec.structs.replace(OPEN, presence=True, store=True)
    secret = "a secret of more than thirty-two bytes"
    hub = await start_server(open_hub(rules=rules), auth__session__secret=secret)
    template = hub.token("ann")
    claims = jwt.decode(template, options={"verify_signature": False})
    header = jwt.get_unverified_header(template)
    neighbour = await hub.socket(token=template)
    key = (await neighbour.find("SessionRestore"))["restoreKey"]
    await neighbour.subscribe("room")
    for odd in ODD:
        # Written in ASCII, as any JSON may be: the odd parts come as escapes.
        token = jwt.encode(json.loads(json.dumps(claims | odd)), secret, headers=header)
        socket = await hub.raw_socket(additional_headers={"Authorization": f"Bearer {token}"})
        code, reason = await socket.closed()
        assert code == 4411, odd
        assert reason.startswith("invalid_token"), odd
        late = await hub.socket()
        await late.send("Auth", reqID=1, token=token)
        assert (await late.expect("Auth"))["error"]["code"] == "invalid_token"
        assert (await late.subscribe("room"))["subscribedChannels"] == ["room"]
    await hub.server.node.restore_keys.flush()
    await neighbour.connection.close()
    back = await hub.socket()
    await back.send("SessionRestore", restoreKey=key)
    assert (await back.expect("SessionRestored"))["userID"] == "ann"
