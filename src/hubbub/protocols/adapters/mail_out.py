"""Converts a message to an e-mail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime, formataddr

from hubbub.domain.communication.contents import CONTENT_TYPE, FILE
from hubbub.domain.communication.messages import BINARY_LANGUAGE, PeerMessage, name_of
from hubbub.protocols.adapters.mail_ids import conversation_reference, message_id, reference

MAX_SUBJECT_CHARS = 200
_ADDRESS = re.compile(r'[^\s<>@,;:"()\[\]\\\x00-\x1f\x7f]{1,64}@[^\s<>@,;:"()\[\]\\\x00-\x1f\x7f]+')
_ATTACHED = ("application", "audio", "font", "image", "model", "video")
_TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")
_LANGUAGE = re.compile(r"[A-Za-z0-9-]{1,35}")


class NoAddress(ValueError):
    """The text is not an e-mail address."""


def checked_address(text: str) -> str:
    """Returns the address in the form for SMTP, with the domain in ASCII. Raises `NoAddress`."""
    if len(text) > 254 or not _ADDRESS.fullmatch(text):
        raise NoAddress(f"{text[:100]!r} is no e-mail address such as ann@example.org")
    local, _, domain = text.rpartition("@")
    try:
        return f"{local}@{domain.encode('idna').decode()}"
    except UnicodeError:
        raise NoAddress(f"the domain of {text[:100]!r} is no name") from None


def build_mail(
    message: PeerMessage, peer: str, to: str, sender_address: str, domain: str, now: float
) -> EmailMessage:
    """The subject is the message's header `subject`, else its conversation, else its type. `now` is
    in seconds since 1970."""
    local = to.rpartition("@")[0]
    mail = EmailMessage(policy=SMTP if local.isascii() else SMTPUTF8)
    mail["From"] = formataddr((_line(name_of(message.sender), 100), sender_address))
    mail["To"] = to
    mail["Subject"] = _subject(message)
    mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    mail["Message-ID"] = message_id(message.id, peer, to, domain)
    references = []
    if message.conversation_id:
        references.append(conversation_reference(message.conversation_id, domain))
    if message.refers_to:
        answered = reference(message.refers_to, peer, to, domain)
        if answered is not None:
            mail["In-Reply-To"] = answered
            references.append(answered)
    if references:
        mail["References"] = " ".join(references)
    mail["Auto-Submitted"] = "auto-replied" if message.refers_to else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "OOF, AutoReply"
    mail["X-Hubbub-Type"] = _line(f"{message.type}/{message.subtype}", 200)
    if isinstance(message.content, bytes):
        _attach(mail, message.content, message.headers)
    else:
        mail.set_content(message.content.encode("utf-8", "replace").decode(), cte="base64")
    if _LANGUAGE.fullmatch(message.language) and message.language != BINARY_LANGUAGE:
        mail["Content-Language"] = message.language
    return mail


def _attach(mail: EmailMessage, content: bytes, headers: Mapping[str, str]) -> None:
    """Attaches the content as the only part, without a text part."""
    name = _line(headers.get(FILE, ""), 200).replace("/", "_")
    main, _, sub = headers.get(CONTENT_TYPE, "").partition(";")[0].strip().partition("/")
    if main not in _ATTACHED or not _TOKEN.fullmatch(sub):
        main, sub = "application", "octet-stream"
    mail.set_content(content, main, sub, disposition="attachment", filename=name or "content")


def _subject(message: PeerMessage) -> str:
    given = message.headers.get("subject") or message.conversation_id
    subject = _line(given or f"{message.type}/{message.subtype}", MAX_SUBJECT_CHARS)
    answers = message.refers_to and not subject.lower().startswith("re:")
    return f"Re: {subject}" if answers else subject


def _line(text: str, most: int) -> str:
    """Replaces line breaks: one in a header would begin another header."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(printable.encode("utf-8", "replace").decode()[:most].split())
