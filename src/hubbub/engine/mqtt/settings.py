"""The category `mqtt` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

CATEGORY = "mqtt"
USUAL_PORT = 1883
_LARGEST_PACKET = 268_435_455


class MqttTls(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The certificate of one listener."""

    certificate: Path
    key: Path


class MqttListener(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One port for devices."""

    port: Annotated[int, Meta(ge=0, le=65_535)]
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    hub: str | None = None
    tls: MqttTls | None = None


class Mqtt(msgspec.Struct, frozen=True, kw_only=True):
    """Devices over MQTT 3.1.1 and 5."""

    enabled: bool = False
    """Serve MQTT: on `mqtt.listeners`, and over WebSocket at `/v1/hubs/{hub}/mqtt` and `/mqtt`. In
    developer mode it is on."""
    listeners: tuple[MqttListener, ...] = ()
    """Ports for MQTT over TCP: each with `port`, `host` (127.0.0.1), optionally `hub` (the only one
    that it serves) and `tls` with the PEM files `certificate` and `key`. In developer mode port
    1883."""
    default_hub: str | None = None
    """The hub of clients that name none, by their listener, path, user name or token."""
    max_packet_bytes: Annotated[int, Meta(ge=1024, le=_LARGEST_PACKET)] = 262_144
    """Maximum size of a packet from a client; of a CONNECT 65,536."""
    send_buffer_bytes: Annotated[int, Meta(ge=4096, le=1 << 30)] = 1 << 20
    """Bytes that wait for a client at most, also for its acknowledgements; one that reads too
    slowly is cut off."""
    max_filters: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """Topic filters of a client. Each filter with a wildcard is a pattern, for which
    `session.maxPatterns` and `hub.maxPatterns` hold too."""
    max_qos: Annotated[int, Meta(ge=0, le=2)] = 2
    """The highest quality of service that clients may use."""
    receive_maximum: Annotated[int, Meta(ge=1, le=65_535)] = 20
    """Messages with QoS 1 and 2 that a client of MQTT 5 may send without an acknowledgement."""
    max_inflight: Annotated[int, Meta(ge=1, le=65_535)] = 1000
    """Messages with QoS 1 and 2 at most that are sent to a client of MQTT 5 without its
    acknowledgement; to a client of MQTT 3.1.1 at most 20."""
    topic_alias_maximum: Annotated[int, Meta(ge=0, le=65_535)] = 10
    """Topic aliases that a client of MQTT 5 may use."""
    session_expiry: Annotated[float, Meta(ge=0, le=365 * 86_400)] = 7 * 86_400.0
    """How long sessions are kept after their connection at most; those of MQTT 3.1.1 with clean
    session 0 are kept that long. 0: sessions end with their connection, as in a cluster."""
    max_sessions: Annotated[int, Meta(ge=0, le=100_000_000)] = 10_000
    """Sessions that a hub keeps at most, connected or not."""
    max_keep_alive: Annotated[int, Meta(ge=1, le=65_535)] = 3600
    """The longest keep alive of a client of MQTT 5, in seconds."""
    refused_publish: Literal["drop", "close"] = "drop"
    """What happens to a message that a client of MQTT 3.1.1 may not publish, since that version
    cannot say so: acknowledged and dropped, or the connection is closed."""
    metadata: bool = False
    """Add the event, message id, publisher and serial of messages as user properties
    `hubbub-event`, `hubbub-msg-id`, `hubbub-publisher` and `hubbub-serial`."""

    def problems(self) -> Iterator[str]:
        """What is wrong with the keys together."""
        if not self.enabled and self != Mqtt():
            yield "mqtt has no effect without mqtt.enabled; set that to true, or leave it out"
        ports = [(each.host, each.port) for each in self.listeners if each.port]
        if len(set(ports)) < len(ports):
            yield "mqtt.listeners has the same host and port twice"
        if self.send_buffer_bytes < 2 * self.max_packet_bytes:
            yield "mqtt.sendBufferBytes must be at least twice mqtt.maxPacketBytes"

    def for_developers(self, port: int, hub: str) -> Mqtt:
        """The values of developer mode: on, for this machine, with this default hub."""
        return msgspec.structs.replace(
            self,
            enabled=True,
            listeners=self.listeners or (MqttListener(port=port),),
            default_hub=self.default_hub or hub,
        )


SETTINGS = Mqtt
