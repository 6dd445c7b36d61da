"""The message that an e-mail becomes, however broken the mail is.

Mail that programs sent by themselves is left out, since an answer to it would be answered by a
program again: automatic replies, reports on undelivered mail, and mail of the hub itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parseaddr

import msgspec

from hubbub.domain.communication.messages import PeerMessage
from hubbub.protocols.adapters.html_text import html_text
from hubbub.protocols.adapters.mail_ids import (
    incoming_id,
    own_conversation,
    own_messages,
    own_peer,
    referred,
)

MAX_TEXT_CHARS = 200_000
MAX_HEADER_CHARS = 1000
MAX_REFERENCES = 20
"""Mails of the hub in one thread. More of them are taken for programs that answer each other."""
_MAX_ATTACHMENTS = 20
_PREFIX = re.compile(r"^\s*((re|aw|sv|antw|fw|fwd|wg|tr)(\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_ATTRIBUTION = re.compile(r"(On|Am|Le|El|Il|Op)\s.*:", re.IGNORECASE)
_WORD = r"=\?[^?\s]{1,40}\?[bq]\?[^?\s]*\?="
_ENCODED_WORDS = re.compile(rf"{_WORD}(\s+{_WORD})*", re.IGNORECASE)
_REPLY_WORDS = ("x-autoreply", "x-autorespond", "x-autoresponder")
_BULK = ("bulk", "junk", "list", "auto_reply")


class MailRules(msgspec.Struct, frozen=True):
    """What the messages of a mailbox are."""

    type: str = "MAIL"
    subtype: str = ""
    receiver: str = ""
    accept_automatic: bool = False
    """Also mail that a program sent, as long as it is no automatic answer."""
    keep_quotes: bool = False


class Ignored(msgspec.Struct, frozen=True):
    """A mail that becomes no message."""

    reason: str


def read_mail(raw: bytes, rules: MailRules) -> PeerMessage | Ignored:
    """`raw` may be cut off at its end."""
    try:
        mail = message_from_bytes(raw)
        return _ignored(mail, rules) or _message(mail, raw, rules)
    except (MessageError, RecursionError, ValueError, LookupError) as error:
        return Ignored(f"it cannot be read ({type(error).__name__})")


def _message(mail: Message, raw: bytes, rules: MailRules) -> PeerMessage:
    references = _header(mail, "references")
    refers_to = referred(_header(mail, "in-reply-to"), references)
    subject = _header(mail, "subject")
    text = _text(mail)
    attachments = _attachments(mail)
    peer = own_peer(_header(mail, "in-reply-to")) or own_peer(references)
    headers = {
        "from": _sender(mail),
        "subject": subject,
        **({"attachments": attachments} if attachments else {}),
        **({"peer": peer} if peer else {}),
    }
    return PeerMessage(
        id=incoming_id(_header(mail, "message-id"), raw),
        type=rules.type,
        subtype=rules.subtype or ("REPLY" if refers_to else "NEW"),
        receiver=rules.receiver,
        conversation_id=own_conversation(references) or _PREFIX.sub("", subject)[:255].strip(),
        language=_header(mail, "content-language")[:35],
        content=text if rules.keep_quotes else without_quotes(text),
        refers_to=refers_to,
        headers=headers,
    )


def _ignored(mail: Message, rules: MailRules) -> Ignored | None:
    automatic = _header(mail, "auto-submitted").partition(";")[0].strip().lower()
    precedence = _header(mail, "precedence").strip().lower()
    sender = _sender(mail).lower()
    if own_messages(_header(mail, "message-id")):
        return Ignored("the hub sent it")
    if automatic == "auto-replied" or any(mail.get(name) for name in _REPLY_WORDS):
        return Ignored("it is an automatic reply")
    if precedence == "auto_reply":
        return Ignored("it is an automatic reply")
    if mail.get_content_type() == "multipart/report" or sender.startswith("mailer-daemon@"):
        return Ignored("it reports on another mail")
    if _header(mail, "return-path").strip() == "<>":
        return Ignored("it reports on another mail")
    if len(own_messages(_header(mail, "references", 100_000))) > MAX_REFERENCES:
        return Ignored(f"its thread has more than {MAX_REFERENCES} mails of the hub")
    if rules.accept_automatic:
        return None
    if automatic not in ("", "no") or precedence in _BULK:
        return Ignored("a program sent it")
    return None


# -- headers --------------------------------------------------------------------------------------


def _header(mail: Message, name: str, most: int = MAX_HEADER_CHARS) -> str:
    """In one line, decoded as far as it can be; empty where it is missing."""
    for key, value in mail.raw_items():
        if key.lower() == name:
            raw = str(value)[: 20 * most].encode("utf-8", "surrogateescape")
            text = _ENCODED_WORDS.sub(_decoded_words, _decoded(raw, "utf-8"))
            return " ".join(_clean(text).split())[:most]
    return ""


def _decoded_words(found: re.Match[str]) -> str:
    """Words in other charsets (RFC 2047), as they stand where they cannot be read."""
    try:
        parts = decode_header(found.group())
    except (HeaderParseError, ValueError):
        return found.group()
    return "".join(
        part if isinstance(part, str) else _decoded(part, charset) for part, charset in parts
    )


def _sender(mail: Message) -> str:
    return parseaddr(_header(mail, "from"))[1][:254]


def _decoded(data: bytes, charset: str | None) -> str:
    for name in (charset, "utf-8", "cp1252"):
        try:
            if name:
                return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")


def _clean(text: str) -> str:
    """Without what no text has: control characters, and halves of characters."""
    kept = "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")
    return kept.encode("utf-8", "replace").decode()


# -- content --------------------------------------------------------------------------------------


def _text(mail: Message) -> str:
    """The first part that is plain text, else the text of the first that is HTML."""
    page = ""
    for part in _parts(mail):
        kind = part.get_content_type()
        if part.get_filename() or kind not in ("text/plain", "text/html"):
            continue
        text = _part_text(part)
        if kind == "text/plain" and text.strip():
            return text.strip()
        page = page or text
    return html_text(page)


def _part_text(part: Message) -> str:
    data = part.get_payload(decode=True)
    body = data if isinstance(data, bytes) else b""
    text = _decoded(body[: 4 * MAX_TEXT_CHARS], part.get_content_charset())
    return _clean(text.replace("\r\n", "\n").replace("\r", "\n"))[:MAX_TEXT_CHARS]


def _attachments(mail: Message) -> str:
    names = [part.get_filename() for part in _parts(mail)]
    return ", ".join(_clean(str(name))[:100] for name in names if name)[:MAX_HEADER_CHARS]


def _parts(mail: Message) -> Iterator[Message]:
    for number, part in enumerate(mail.walk()):
        if number > 5 * _MAX_ATTACHMENTS:
            return
        if not part.is_multipart():
            yield part


def without_quotes(text: str) -> str:
    """An answer without the mail that it quotes below itself. A text of quotes alone is kept."""
    lines = text.splitlines()
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    quoted = any(line.lstrip().startswith(">") for line in lines[end:])
    for count in (1, 2, 3):  # mail programs break the line that says who wrote what
        said = " ".join(lines[max(0, end - count) : end]).strip()
        if quoted and _ATTRIBUTION.fullmatch(said):
            end -= count
            break
    answer = "\n".join(lines[: max(0, end)]).strip()
    return answer if quoted and answer else text.strip()
