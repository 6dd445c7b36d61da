"""A message as the hub writes it in protobuf, read back: the same in a delivery and in a topic."""

from __future__ import annotations

from hubbub.domain.messages import BINARY, Message
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.envelopes import parse_serial


def read_serial(text: str) -> int:
    """0 where there is none."""
    return parse_serial(text, "the hub's serial") if text else 0


def read_message(proto: pb.ChannelPublish | pb.TopicArticle) -> Message:
    """The hub is not on the wire: whoever opened the connection knows it."""
    return Message(
        proto.msg_id,
        "",
        proto.channel,
        proto.event,
        proto.payload,
        proto.content_type or BINARY,
        proto.timestamp,
        read_serial(proto.channel_serial),
        proto.publisher or None,
    )
