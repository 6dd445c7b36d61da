"""Contents for media that accept only text."""

from __future__ import annotations

from hubbub.domain.communication.contents import CONTENT_TYPE
from hubbub.domain.communication.messages import PeerMessage


class NotText(ValueError):
    """The medium accepts only text, but the content is binary."""


def text_for(medium: str, message: PeerMessage) -> str:
    """Returns a text content. Raises `NotText`."""
    if isinstance(message.content, str):
        return message.content
    kind = message.headers.get(CONTENT_TYPE, "")[:100]
    raise NotText(
        f"the content is {len(message.content)} bytes{f' of {kind}' if kind else ''}, and {medium} "
        "takes text; reach the peer by an adapter that takes bytes (email, rest, channel)"
    )
