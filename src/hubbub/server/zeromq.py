"""Creates the ZeroMQ endpoint from the settings. pyzmq is imported only if enabled."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hubbub.domain.permissions import Identity, Level
from hubbub.engine.administration.stopping import ServerStop
from hubbub.server.settings import Settings
from hubbub.server.settings.zeromq import Curve, CurveClient

if TYPE_CHECKING:
    from hubbub.engine.node import Node
    from hubbub.gateways.zeromq import ZeroMqDoor
    from hubbub.gateways.zeromq_curve import CurveSettings
    from hubbub.gateways.zeromq_service import KnownKey

logger = logging.getLogger(__name__)


def make_door(settings: Settings, node: Node, stop: ServerStop) -> ZeroMqDoor | None:
    """None if no endpoint is configured; of several workers the first has it. Raises
    `SettingsError`."""
    zeromq = settings.zeromq
    if zeromq.endpoint is None or not settings.first_of_its_folder:
        return None
    from hubbub.gateways.zeromq import ZeroMqDoor, ZeroMqSettings
    from hubbub.gateways.zeromq_service import TopicService

    return ZeroMqDoor(
        TopicService(node, stop),
        ZeroMqSettings(
            endpoint=zeromq.endpoint,
            max_message_bytes=zeromq.max_message_bytes,
            max_in_flight=zeromq.max_in_flight,
            max_in_flight_per_peer=zeromq.max_in_flight_per_peer,
            max_connections=zeromq.max_connections,
            max_buffered_bytes=zeromq.max_buffered_bytes,
            curve=_curve_settings(zeromq.curve),
        ),
    )


def _curve_settings(curve: Curve) -> CurveSettings | None:
    if curve.secret_key_file is None:
        return None
    import zmq
    from zmq.utils import z85

    from hubbub.gateways.zeromq_curve import CurveSettings
    from hubbub.server.curve_key import load_or_create

    secret = load_or_create(curve.secret_key_file)
    public = zmq.curve_public(secret).decode()
    logger.info("the public key of the ZeroMQ door is %s", public)
    return CurveSettings(
        secret_key=secret,
        clients={z85.decode(each.public_key): _known(each) for each in curve.clients},
        allow_unknown=curve.allow_unknown,
    )


def _known(client: CurveClient) -> KnownKey:
    from hubbub.gateways.zeromq_service import KnownKey

    identity = Identity(
        user_id=client.user,
        level=Level(client.level),
        grants=client.channels,
        issued_at=client.since * 1000,
    )
    return KnownKey(client.hub, identity)
