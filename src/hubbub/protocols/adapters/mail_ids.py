"""Message ids in e-mail: maps mails to messages, so that replies refer to the right message."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote, unquote

MAIL_PREFIX = "mail:"
"""The prefix of ids of messages received by e-mail; the rest is the mail's Message-ID."""
_LONGEST_QUOTED = 120
_LONGEST_FOREIGN = 150
_QUOTED = r"[A-Za-z0-9_~%-]+"
_OWN = re.compile(rf"<hubbub\.({_QUOTED})\.({_QUOTED})\.[0-9a-f]{{16}}@[^\s<>@]+>")
_CONVERSATION = re.compile(rf"<hubbub-conversation\.({_QUOTED})@[^\s<>@]+>")
_ANY = re.compile(r"<([^\s<>]+)>")


def message_id(id: str, peer: str, address: str, domain: str) -> str:
    """The Message-ID of the mail with this message to this address of the peer. Deterministic, so
    that later messages can refer to it."""
    place = hashlib.sha256(f"{peer}\n{address}".encode()).hexdigest()[:16]
    return f"<hubbub.{_quoted(id)}.{_quoted(peer)}.{place}@{domain}>"


def reference(refers_to: str, peer: str, address: str, domain: str) -> str | None:
    """The Message-ID of the mail that carried the message from or to this address; None if the
    message came from a mail whose Message-ID was too long to store."""
    if not refers_to.startswith(MAIL_PREFIX):
        return message_id(refers_to, peer, address, domain)
    foreign = refers_to.removeprefix(MAIL_PREFIX)
    return f"<{foreign}>" if "@" in foreign else None


def conversation_reference(conversation: str, domain: str) -> str:
    """A Message-ID that no mail has: mail clients group mails that refer to it as one thread."""
    return f"<hubbub-conversation.{_quoted(conversation)}@{domain}>"


def own_messages(text: str) -> list[str]:
    """Ids of the messages whose mails a header refers to, in order."""
    return [unquote(id) for id, _ in _OWN.findall(text)]


def own_peer(text: str) -> str:
    """The peer whose mail a header refers to last; empty if none."""
    found = _OWN.findall(text)
    return unquote(found[-1][1]) if found else ""


def own_conversation(text: str) -> str:
    """The conversation that a header refers to; empty if it refers to none."""
    found = _CONVERSATION.search(text)
    return unquote(found.group(1)) if found else ""


def incoming_id(header: str, raw: bytes) -> str:
    """The id of a mail's message: the same each time the mail is read."""
    found = _ANY.search(header)
    if found and len(found.group(1)) <= _LONGEST_FOREIGN and found.group(1).isascii():
        return MAIL_PREFIX + found.group(1)
    return MAIL_PREFIX + hashlib.sha256(header.strip().encode() or raw).hexdigest()[:32]


def attachment_id(mail: str, number: int) -> str:
    """The id of an attachment's message, derived from its mail's id. No mail has such an id."""
    return f"attachment:{number}:{mail.removeprefix(MAIL_PREFIX)}"


def referred(in_reply_to: str, references: str) -> str:
    """The id of the message to which a mail replies; empty if the hub cannot know it."""
    for header in (in_reply_to, references):
        own = own_messages(header)
        if own:
            return own[-1]
    found = _ANY.search(in_reply_to)
    return incoming_id(found.group(), b"") if found else ""


def _quoted(text: str) -> str:
    """Percent-encodes a text for use in a Message-ID; reversible if the text is short enough."""
    quoted = quote(text, safe="").replace(".", "%2E")
    if 0 < len(quoted) <= _LONGEST_QUOTED:
        return quoted
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
