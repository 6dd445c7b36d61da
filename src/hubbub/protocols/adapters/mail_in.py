"""Converts an e-mail, however malformed, to messages: one for its text and one for each attachment.

Automatic mail is ignored, since a reply to it could start a loop: auto-replies, bounces, and the
hub's own mail.
"""

from __future__ import annotations

import re
from email import message_from_bytes, policy
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import Message
from email.utils import parseaddr

import msgspec

from hubbub.domain.communication.contents import CONTENT_TYPE, FILE, text_or_bytes
from hubbub.domain.communication.messages import PeerMessage
from hubbub.protocols.adapters.html_text import html_text
from hubbub.protocols.adapters.mail_ids import (
    attachment_id,
    incoming_id,
    own_conversation,
    own_messages,
    own_peer,
    referred,
)

MAX_TEXT_CHARS = 200_000
MAX_HEADER_CHARS = 1000
MAX_REFERENCES = 20
"""The most mails of the hub in one thread; beyond that, two programs are probably replying to each
other."""
MAX_ATTACHMENTS = 20
ATTACHMENT = "ATTACHMENT"
"""The subtype of a message created from an attachment."""
_MAX_PARTS = 5 * MAX_ATTACHMENTS
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_EMBEDDED = policy.compat32.clone(max_line_length=0, linesep="\r\n")
_PREFIX = re.compile(r"^\s*((re|aw|sv|antw|fw|fwd|wg|tr)(\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_ATTRIBUTION = re.compile(r"(On|Am|Le|El|Il|Op)\s.*:", re.IGNORECASE)
_WORD = r"=\?[^?\s]{1,40}\?[bq]\?[^?\s]*\?="
_ENCODED_WORDS = re.compile(rf"{_WORD}(\s+{_WORD})*", re.IGNORECASE)
_REPLY_WORDS = ("x-autoreply", "x-autorespond", "x-autoresponder")
_BULK = ("bulk", "junk", "list", "auto_reply")


class MailRules(msgspec.Struct, frozen=True):
    """How messages of a mailbox are created."""

    type: str = "MAIL"
    subtype: str = ""
    receiver: str = ""
    accept_automatic: bool = False
    """Also accept mail sent by programs, except auto-replies."""
    keep_quotes: bool = False


class Ignored(msgspec.Struct, frozen=True):
    """The mail becomes no message, for this reason."""

    reason: str


class MailRefused(msgspec.Struct, frozen=True):
    """The mail may be from a person but cannot be accepted as a whole."""

    reason: str


class _TooMuch(Exception):
    """The limit that a mail exceeds."""


class _Part(msgspec.Struct, frozen=True):
    """`parent` is the subtype of the enclosing multipart."""

    part: Message
    parent: str
    name: str

    @property
    def kind(self) -> str:
        """`text/plain` or `text/html` if the part is displayed as the mail's text; else empty."""
        kind = self.part.get_content_type()
        inline = not self.name and self.part.get_content_disposition() != "attachment"
        return kind if inline and kind in ("text/plain", "text/html") else ""


def read_mail(raw: bytes, rules: MailRules) -> tuple[PeerMessage, ...] | Ignored | MailRefused:
    """Returns the message with the mail's text, then its attachments."""
    try:
        mail = message_from_bytes(raw)
        return _ignored(mail, rules) or _messages(mail, raw, rules)
    except _TooMuch as error:
        return MailRefused(str(error))
    except (MessageError, RecursionError, ValueError, LookupError) as error:
        return MailRefused(f"it cannot be read ({type(error).__name__})")


def _messages(mail: Message, raw: bytes, rules: MailRules) -> tuple[PeerMessage, ...]:
    parts = _parts(mail)
    texts, attachments = _texts(parts), _attachments(parts)
    message = _message(mail, raw, rules, texts)
    if not attachments:
        return (message,)
    names = ", ".join(each.name for each in attachments if each.name)[:MAX_HEADER_CHARS]
    shown = {"attachments": names} if names else {}
    message = msgspec.structs.replace(message, headers={**message.headers, **shown})
    numbered = enumerate(attachments, 1)
    return (message, *(_attached(message, number, each) for number, each in numbered))


def _attached(message: PeerMessage, number: int, part: _Part) -> PeerMessage:
    """Creates the message of an attachment; it has its mail's conversation and replies to the same
    message."""
    headers = {name: text for name, text in message.headers.items() if name != "attachments"}
    return msgspec.structs.replace(
        message,
        id=attachment_id(message.id, number),
        subtype=ATTACHMENT,
        language="",
        content=text_or_bytes(_data(part.part)),
        headers={
            **headers,
            "mail": message.id,
            CONTENT_TYPE: _line(part.part.get_content_type(), 127),
            **({FILE: part.name} if part.name else {}),
        },
    )


def _message(mail: Message, raw: bytes, rules: MailRules, texts: list[str]) -> PeerMessage:
    references = _header(mail, "references")
    refers_to = referred(_header(mail, "in-reply-to"), references)
    subject = _header(mail, "subject")
    peer = own_peer(_header(mail, "in-reply-to")) or own_peer(references)
    headers = {
        "from": _sender(mail),
        "subject": subject,
        **({"peer": peer} if peer else {}),
    }
    return PeerMessage(
        id=incoming_id(_header(mail, "message-id"), raw),
        type=rules.type,
        subtype=rules.subtype or ("REPLY" if refers_to else "NEW"),
        receiver=rules.receiver,
        conversation_id=own_conversation(references) or _PREFIX.sub("", subject)[:255].strip(),
        language=_header(mail, "content-language")[:35],
        content="\n\n".join(texts if rules.keep_quotes else map(without_quotes, texts)),
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
    """A header in one line, decoded as far as possible; empty if missing."""
    for key, value in mail.raw_items():
        if key.lower() == name:
            return _line(str(value)[: 20 * most], most)
    return ""


def _line(text: str, most: int) -> str:
    """`text` comes from the mail parser and may contain bytes of any charset."""
    decoded = _decoded(text.encode("utf-8", "surrogateescape"), "utf-8")
    words = _ENCODED_WORDS.sub(_decoded_words, decoded)
    return " ".join(_clean(words).split())[:most]


def _decoded_words(found: re.Match[str]) -> str:
    """Decodes encoded words (RFC 2047); unreadable ones stay unchanged."""
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
    """Removes control characters and lone surrogates. Spaces of any width and joiners stay."""
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode()


# -- content --------------------------------------------------------------------------------------


def _parts(mail: Message) -> list[_Part]:
    """The leaf parts, in order. An attached mail is one part."""
    found: list[_Part] = []
    left = [(mail, "")]
    for _ in range(_MAX_PARTS):
        if not left:
            return found
        part, parent = left.pop()
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            around = part.get_content_subtype()
            left += [(each, around) for each in reversed(_inner(part))]
        else:
            found.append(_Part(part, parent, _line(str(part.get_filename() or ""), 255)))
    if not left:
        return found
    raise _TooMuch(f"it has more than {_MAX_PARTS} parts")


def _texts(parts: list[_Part]) -> list[str]:
    """All plain text parts, or else the text of the first HTML part."""
    plain = [_part_text(each.part) for each in parts if each.kind == "text/plain"]
    texts = [text.strip() for text in plain if text.strip()]
    if texts:
        return texts
    for each in parts:
        if each.kind == "text/html":
            return [html_text(_part_text(each.part))]
    return []


def _attachments(parts: list[_Part]) -> list[_Part]:
    """Parts that are not displayed as text. HTML parts are excluded: they repeat the plain text or
    are the only text."""
    found = [each for each in parts if not each.kind]
    pages = [each for each in parts if each.kind == "text/html"]
    shown = any(each.kind == "text/plain" and _part_text(each.part).strip() for each in parts)
    found += [
        each
        for each in (pages if shown else pages[1:])
        if each.parent not in ("alternative", "related")
    ]
    if len(found) > MAX_ATTACHMENTS:
        raise _TooMuch(f"it has {len(found)} attachments; at most {MAX_ATTACHMENTS} are taken")
    return found


def _inner(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [each for each in payload if isinstance(each, Message)] if payload else []


def _part_text(part: Message) -> str:
    text = _decoded(_data(part), part.get_content_charset())
    if len(text) > MAX_TEXT_CHARS:
        raise _TooMuch(f"its text has {len(text)} characters; at most {MAX_TEXT_CHARS} are taken")
    return _clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def _data(part: Message) -> bytes:
    if part.is_multipart():
        return b"".join(each.as_bytes(policy=_EMBEDDED) for each in _inner(part))
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def without_quotes(text: str) -> str:
    """Removes the quoted mail below a reply. A text that consists of quotes only is kept."""
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
