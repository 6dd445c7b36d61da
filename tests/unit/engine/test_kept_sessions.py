"""Sessions of devices that outlive their connections."""

from __future__ import annotations

import pytest

from hubbub.engine.mqtt.devices import DeviceKey
from hubbub.engine.mqtt.kept import hash_of
from hubbub.engine.sessions.restore_keys import hash_of as restore_hash

pytestmark = pytest.mark.spec("MQTT-02")


def test_two_devices_never_share_a_row_and_no_restore_key_has_one() -> None:
    keys = [
        DeviceKey("acme", "ann", "x"),
        DeviceKey("acme", None, "x"),
        DeviceKey("acme", "", "x"),
        DeviceKey("acme", "annx", ""),
        DeviceKey("acmeann", None, "x"),
    ]
    hashes = {hash_of(key) for key in keys}
    assert len(hashes) == len(keys)
    assert restore_hash("acme\x00uann\x00x\x00") not in hashes
