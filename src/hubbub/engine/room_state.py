"""The state that a room keeps in memory for a channel."""

from __future__ import annotations

from hubbub.ports.bus import Attachment, HeadAnnounced


class RoomState:
    """A room attaches its state to the channel, where it stays until the channel is closed
    (`Channel.state_of`). The state declares what follows from it for the channel as a whole."""

    __slots__ = ()

    @property
    def idle(self) -> bool:
        """Whether the channel may be closed."""
        return True

    @property
    def size(self) -> int:
        """Memory in bytes, for states that may be large. If the states of all channels together are
        too large, channels that are not in use are closed."""
        return 0

    def takes_long(self, queued_bytes: int) -> bool:
        """Whether preparing ordered requests of this many bytes takes milliseconds."""
        return False

    def attach(self, attachment: Attachment) -> Attachment:
        """Adds the state to the answer for a node that begins to follow the channel."""
        return attachment

    def announce(self, head: HeadAnnounced) -> HeadAnnounced:
        """Adds the state to the periodic announcement of the channel's head, so that followers
        notice a lost event."""
        return head
