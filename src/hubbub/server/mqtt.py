"""Creates the MQTT door from the settings. Its code is imported only if it is enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub.engine.mqtt.settings import Mqtt
from hubbub.server.settings import Settings

if TYPE_CHECKING:
    from hubbub.engine.node import Node
    from hubbub.gateways.listener import Listener
    from hubbub.gateways.mqtt.door import MqttDoor


def make_door(settings: Settings, node: Node, listener: Listener) -> MqttDoor | None:
    """None if MQTT is not enabled. In developer mode a port that is taken is only a warning."""
    mqtt = settings.of(Mqtt)
    if not mqtt.enabled:
        return None
    from hubbub.gateways.mqtt.door import WORD, MqttDoor

    alone = settings.worker is None and settings.broker.host is None
    door = MqttDoor(node, mqtt, settings.listener, listener, alone, settings.developer)
    listener.add_sockets(WORD, door)
    return door
