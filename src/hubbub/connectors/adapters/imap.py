"""E-mail from peers over IMAP: each unseen mail of a folder becomes a message, and each of its
attachments another one. Rejected mails stay in the folder, unseen.

The library is blocking and runs in the adapter's own thread. A connection lasts while there is mail
to read.
"""

from __future__ import annotations

import asyncio
import imaplib
import logging
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from hubbub.connectors.adapters.failures import Concealer, need, raise_send_failed, tell_left
from hubbub.connectors.adapters.tls import Host, Pem, Port, Security, tls_context
from hubbub.domain.communication.messages import FieldText, NeededText, PeerMessage
from hubbub.domain.errors import Overloaded
from hubbub.domain.fields import TimeoutSeconds
from hubbub.domain.rules import Setting
from hubbub.ports.adapters import AdapterContext, Pulled, TemporaryFailure, adapter
from hubbub.ports.outgoing import SendFailed
from hubbub.protocols.adapters.mail_in import Ignored, MailRefused, MailRules, read_mail

logger = logging.getLogger(__name__)
T = TypeVar("T")

_MOST_IGNORED = 100
"""The most ignored mails in one pull."""


class ImapSettings(Setting, frozen=True):
    """A mailbox. `seen`, `delete` or `move`: what happens to a mail whose message is stored."""

    host: Host
    username: str
    password: str
    port: Port = 993
    security: Security = "tls"
    folder: str = "INBOX"
    done: Literal["seen", "delete", "move"] = "seen"
    done_folder: str = "Done"
    """The folder to which mails are moved."""
    type: NeededText = "MAIL"
    subtype: FieldText = ""
    """Default: `REPLY` for a reply, `NEW` for other mails."""
    receiver: FieldText = ""
    accept_automatic: bool = False
    """Accepts mail sent by programs, too, except auto-replies."""
    keep_quotes: bool = False
    """Keeps the quoted mail below a reply."""
    max_bytes: Annotated[int, Meta(ge=10_000, le=50_000_000)] = 10_000_000
    """The size limit of a mail with its attachments; larger ones stay in the folder."""
    certificate_authorities: Pem = ""
    timeout_seconds: TimeoutSeconds = 25.0


class _ImapReceipt(msgspec.Struct, frozen=True):
    validity: str
    uid: str
    last: bool
    """Whether this is the mail's last message."""


class _ImapClient(imaplib.IMAP4):
    """An IMAP client on a socket that is already connected."""

    def __init__(self, connected: socket.socket, host: str) -> None:
        self._connected = connected
        super().__init__(host)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        return self._connected


@adapter(name="email-in", settings=ImapSettings, direction="pull", secrets=frozenset({"password"}))
class ImapIn:
    def __init__(self, settings: ImapSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._conceal = Concealer([settings.password])
        self._rules = MailRules(
            settings.type,
            settings.subtype,
            settings.receiver,
            settings.accept_automatic,
            settings.keep_quotes,
        )
        self._pool: ThreadPoolExecutor | None = None
        self._socket: socket.socket | None = None
        self._mailbox: Any = None
        self._validity = ""
        self._found: deque[str] = deque()
        self._messages: deque[PeerMessage] = deque()
        """Messages of the last read mail that were not returned yet."""
        self._uid = ""
        """The last read mail."""
        self._refused: set[str] = set()
        """Unseen mails of the folder that were rejected."""
        self._untold: list[str] = []

    async def pull(self) -> Pulled | None:
        """Raises `AdapterFailed` for rejected mails, after all accepted ones."""
        found = await self._within_slot(self._next)
        if found is None:
            told, self._untold = self._untold, []
            tell_left(self._context, told)
        return found

    async def settle(self, receipt: object) -> None:
        """The mail is marked, moved or deleted after its last message."""
        assert isinstance(receipt, _ImapReceipt)
        if receipt.last:
            await self._within_slot(lambda: self._done(receipt))

    async def refuse(self, receipt: object) -> None:
        """Rejecting one message rejects the whole mail."""
        assert isinstance(receipt, _ImapReceipt)
        if receipt.validity == self._validity:
            self._refused.add(receipt.uid)
            self._messages.clear()

    async def close(self) -> None:
        self._cut()
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)

    async def _within_slot(self, work: Callable[[], T]) -> T:
        """Raises `AdapterFailed` or `TemporaryFailure`."""
        settings, seconds = self._settings, self._settings.timeout_seconds
        place = f"{settings.host}:{settings.port}"
        try:
            async with (
                self._context.outgoing.slot(self._context.hub, "adapter", place, seconds) as left,
                asyncio.timeout(left),
            ):
                if self._mailbox is None:
                    await self._connect()
                return await self._in_thread(work)
        except TimeoutError:
            self._cut()
            raise TemporaryFailure(f"{settings.host!r} took longer than {seconds:g} s") from None
        except Overloaded as error:
            raise TemporaryFailure(error.message) from None
        except SendFailed as error:
            raise_send_failed(error, self._conceal)
        except _errors() as error:
            self._cut()
            raise TemporaryFailure(self._conceal(f"{settings.host}: {error}")) from None
        except asyncio.CancelledError:
            self._cut()
            raise

    async def _connect(self) -> None:
        settings = self._settings
        connected = await self._context.dial.connect(
            settings.host, settings.port, settings.timeout_seconds
        )
        connected.settimeout(settings.timeout_seconds)
        self._socket = connected
        self._found.clear()
        self._messages.clear()  # of a mail that is still unseen, and read once more
        self._mailbox = await self._in_thread(lambda: self._open(connected))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="imap")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _cut(self) -> None:
        """Closes the socket, so that a thread that waits for the server fails at once."""
        connected, mailbox = self._socket, self._mailbox
        self._socket = self._mailbox = None
        if connected is not None and self._pool is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
            self._pool.submit(_close, connected, mailbox)

    # -- in the thread --------------------------------------------------------------------------

    def _open(self, connected: socket.socket) -> Any:
        try:
            from imap_tools import BaseMailBox
        except ImportError:
            raise need("imap-tools", "email") from None
        settings = self._settings
        secure = settings.security != "none"
        context = tls_context(settings.certificate_authorities) if secure else None
        if context is not None and settings.security == "tls":
            connected = context.wrap_socket(connected, server_hostname=settings.host)
        self._socket = connected
        client = _ImapClient(connected, settings.host)
        try:
            if context is not None and settings.security == "starttls":
                client.starttls(context)
                self._socket = client.sock
            mailbox = type("Mailbox", (BaseMailBox,), {"_get_mailbox_client": lambda _: client})()
            self._log_in(mailbox)
        except BaseException:
            with suppress(OSError):
                client.shutdown()
            raise
        validity = str((client.response("UIDVALIDITY")[1] or [b""])[0])
        if validity != self._validity:
            self._refused.clear()
        self._validity = validity
        return mailbox

    def _log_in(self, mailbox: Any) -> None:
        from imap_tools.errors import ImapToolsError

        settings = self._settings
        plain = settings.username.isascii() and settings.password.isascii()
        log_in = mailbox.login if plain else mailbox.login_utf8
        try:
            log_in(settings.username, settings.password, initial_folder=None)
        except (ImapToolsError, imaplib.IMAP4.error):
            # The server's words are not repeated: it has just been told the password.
            raise ValueError(f"the login of {settings.username!r} is refused") from None
        try:
            mailbox.folder.set(settings.folder)
        except ImapToolsError:
            raise ValueError(f"there is no folder {settings.folder!r}") from None

    def _next(self) -> Pulled | None:
        for _ in range(_MOST_IGNORED):
            if self._messages:
                message = self._messages.popleft()
                return Pulled(message, _ImapReceipt(self._validity, self._uid, not self._messages))
            if not self._found:
                self._found.extend(self._search())
            if not self._found:
                mailbox, self._mailbox, self._socket = self._mailbox, None, None
                with suppress(OSError, imaplib.IMAP4.error):
                    mailbox.client.logout()
                return None
            uid = self._found.popleft()
            raw = self._fetch(uid)
            if raw is None:
                continue
            most = self._settings.max_bytes
            if len(raw) > most:
                self._leave(uid, f"it has more than {most} bytes (maxBytes)")
                continue
            found = read_mail(raw, self._rules)
            if isinstance(found, MailRefused):
                self._leave(uid, found.reason)
            elif isinstance(found, Ignored):
                logger.info(
                    "mail %s of %s in hub %r is left out: %s",
                    uid, self._context.name, self._context.hub, found.reason,
                )  # fmt: skip
                self._mailbox.flag(uid, r"\Seen", True)
            else:
                self._uid = uid
                self._messages.extend(found)
        return None

    def _leave(self, uid: str, reason: str) -> None:
        self._refused.add(uid)
        self._untold.append(f"mail {uid} is left where it is: {reason}")

    def _search(self) -> list[str]:
        """Rejected mails are still unseen, and are skipped."""
        kind, data = self._mailbox.client.uid("search", "UNSEEN")
        if kind != "OK":
            raise ValueError("the server cannot search for unseen mail")
        unseen = [uid.decode() for uid in (data[0] or b"").split()]
        self._refused.intersection_update(unseen)
        return [uid for uid in unseen if uid not in self._refused]

    def _fetch(self, uid: str) -> bytes | None:
        """Fetches at most one byte more than the size limit; None if the mail is gone."""
        part = f"(BODY.PEEK[]<0.{self._settings.max_bytes + 1}>)"
        _, data = self._mailbox.client.uid("fetch", uid, part)
        found = [each[1] for each in data if isinstance(each, tuple)]
        return found[0] if found and isinstance(found[0], bytes) else None

    def _done(self, receipt: _ImapReceipt) -> None:
        if receipt.validity != self._validity:
            return  # the server numbered its mails anew: this one is read again
        if self._settings.done == "delete":
            self._mailbox.delete(receipt.uid)
        elif self._settings.done == "move":
            if not self._mailbox.folder.exists(self._settings.done_folder):
                self._mailbox.folder.create(self._settings.done_folder)
            self._mailbox.move(receipt.uid, self._settings.done_folder)
        else:
            self._mailbox.flag(receipt.uid, r"\Seen", True)


def _close(connected: socket.socket, mailbox: Any) -> None:
    with suppress(OSError):
        if mailbox is not None:
            mailbox.client.shutdown()
    connected.close()


def _errors() -> tuple[type[Exception], ...]:
    """The exceptions that a failing mail server causes. Those of imap-tools are included if it is
    installed."""
    usual = (OSError, imaplib.IMAP4.error, LookupError, ValueError)
    try:
        from imap_tools.errors import ImapToolsError
    except ImportError:
        return usual
    return (*usual, ImapToolsError)
