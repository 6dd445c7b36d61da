"""Names of hubs and channels: validation, meaning of their parts, and partitions."""

from __future__ import annotations

import enum
import re
from zlib import crc32

from hubbub.domain.errors import InvalidName

MAX_NAME_CHARS = 255
MAX_USER_ID_CHARS = 253
"""`u:<user id>` must still be a valid channel name."""
PARTITIONS = 1024
DEAD_LETTER_SUFFIX = ".dead"
USER_NAMESPACE = "u"
COMMUNICATION_LOG = "comm:log"
"""The channel with a hub's messages to peers. Only the hub itself publishes there."""
MERCURE_LOG = "mercure:log"
"""The channel with the updates of a hub's Mercure publishers, in their one order."""
NOTIFICATIONS = "notification:"
USER_NOTIFICATIONS = f"{NOTIFICATIONS}{USER_NAMESPACE}:"
"""The prefix of users' own notification channels."""

# Control characters, the two pattern wildcards, and lone surrogates (not UTF-8).
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f*#\ud800-\udfff]")
_USERS = re.compile(r"u(?:\.dead)*(?=:)")
_USER_ID = re.compile(f"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{MAX_USER_ID_CHARS}}}")


class ChannelKind(enum.Enum):
    """The kind of a channel, determined by its prefix."""

    DEFAULT = "default"
    DOCUMENT = "doc"
    NOTIFICATION = "notification"


def check_name(name: str, what: str) -> str:
    """Returns `name` if it is valid for a hub or channel; else raises `InvalidName` with the
    reason."""
    if not name:
        raise InvalidName(f"the {what} name is empty; give 1 to {MAX_NAME_CHARS} characters")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidName(
            f"the {what} name {name[:20]!r}… has {len(name)} characters; "
            f"at most {MAX_NAME_CHARS} are allowed"
        )
    found = _FORBIDDEN.search(name)
    if found:
        raise InvalidName(
            f"the {what} name {name!r} contains {found.group()!r}; "
            "control characters, '*' and '#' are not allowed"
        )
    return name


def user_id_problem(user_id: str) -> str | None:
    """The problem of a user id, or of another external name; None if it is valid."""
    if _USER_ID.fullmatch(user_id):
        return None
    return f"is not 1 to {MAX_USER_ID_CHARS} characters without control characters"


def namespace_of(channel: str) -> str | None:
    """The text before the first ':', or None if there is no ':'."""
    head, separator, _ = channel.partition(":")
    return head if separator else None


def kind_of(channel: str) -> ChannelKind:
    if is_document(channel):
        return ChannelKind.DOCUMENT
    return ChannelKind.NOTIFICATION if takes_notifications(channel) else ChannelKind.DEFAULT


def is_document(channel: str) -> bool:
    return channel.startswith("doc:")


def takes_notifications(channel: str) -> bool:
    """Whether the channel is a notification channel, which holds no messages."""
    return channel.startswith(NOTIFICATIONS)


def user_channel(user_id: str) -> str:
    return f"{USER_NAMESPACE}:{user_id}"


def user_notifications(user_id: str) -> str:
    return f"{USER_NOTIFICATIONS}{user_id}"


def dead_letters_of(channel: str) -> str:
    """The channel of its dead letters. For a user's channel it is marked in the namespace, since a
    user id may end with the suffix of dead letters."""
    users = _USERS.match(channel)
    if users is None:
        return channel + DEAD_LETTER_SUFFIX
    return users.group() + DEAD_LETTER_SUFFIX + channel[users.end() :]


def without_dead_letters(channel: str) -> str:
    """The channel whose dead letters this channel holds; the channel itself if it holds none."""
    users = _USERS.match(channel)
    if users is not None:
        return USER_NAMESPACE + channel[users.end() :]
    while channel.endswith(DEAD_LETTER_SUFFIX) and channel != DEAD_LETTER_SUFFIX:
        channel = channel[: -len(DEAD_LETTER_SUFFIX)]
    return channel


def partition_of(hub: str, channel: str) -> int:
    """The partition that decides which node owns a channel. Never change this function: stored data
    contains the partitions."""
    return crc32(f"{hub}\x00{channel}".encode()) % PARTITIONS
