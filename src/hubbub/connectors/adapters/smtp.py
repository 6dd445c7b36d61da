"""E-mail to peers, over SMTP. The first parameter of a peer's address is the e-mail address."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

from hubbub.connectors.adapters.failures import Concealer, need, raise_send_failed
from hubbub.connectors.adapters.tls import Host, Pem, Port, Security, tls_context
from hubbub.domain.errors import Overloaded
from hubbub.domain.fields import TimeoutSeconds
from hubbub.domain.rules import Setting
from hubbub.ports.adapters import (
    AdapterContext,
    AdapterFailed,
    Delivery,
    TemporaryFailure,
    adapter,
)
from hubbub.ports.outgoing import SendFailed
from hubbub.protocols.adapters.mail_out import NoAddress, build_mail, checked_address

if TYPE_CHECKING:
    import aiosmtplib

_QUIT_SECONDS = 2.0
_LOGIN_PAUSE_SECONDS = 60.0
"""A rejected login affects every message until an operator corrects it."""


class SmtpSettings(Setting, frozen=True):
    """A mail server for all peers. Without a user, no login is attempted."""

    host: Host
    sender: str
    """The e-mail address in `From`, to which peers reply."""
    port: Port = 587
    security: Security = "starttls"
    username: str = ""
    password: str = ""
    domain: str = ""
    """The domain of message ids; default: the domain of `sender`."""
    certificate_authorities: Pem = ""
    """Trusted authorities in PEM; default: those of the system."""
    timeout_seconds: TimeoutSeconds = 25.0


@adapter(name="email", settings=SmtpSettings, secrets=frozenset({"password"}))
class SmtpOut:
    """Opens a connection for each mail. 4xx and lost connections are retried with the same
    Message-ID, since a server that dropped the connection after DATA may have accepted the mail."""

    def __init__(self, settings: SmtpSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._conceal = Concealer([settings.password])

    async def push(self, delivery: Delivery) -> None:
        settings = self._settings
        try:
            to = checked_address(next(iter(delivery.address.parameters), ""))
            sender = checked_address(settings.sender)
        except NoAddress as error:
            raise AdapterFailed(str(error)) from None
        domain = settings.domain or sender.rpartition("@")[2]
        now = self._context.clock.now()
        mail = build_mail(delivery.message, delivery.peer, to, sender, domain, now)
        place, seconds = f"{settings.host}:{settings.port}", settings.timeout_seconds
        outgoing = self._context.outgoing
        try:
            async with (
                outgoing.slot(delivery.hub, "adapter", place, seconds) as left,
                asyncio.timeout(left),
            ):
                await self._send(mail, sender, to, domain)
        except TimeoutError:
            raise TemporaryFailure(f"{settings.host!r} took longer than {seconds:g} s") from None
        except Overloaded as error:
            raise TemporaryFailure(error.message) from None
        except SendFailed as error:
            raise_send_failed(error, self._conceal)

    async def close(self) -> None:
        pass

    async def _send(self, mail: EmailMessage, sender: str, to: str, domain: str) -> None:
        try:
            import aiosmtplib
        except ImportError:
            raise need("aiosmtplib", "email") from None
        settings = self._settings
        socket = await self._context.dial.connect(
            settings.host, settings.port, settings.timeout_seconds
        )
        client = aiosmtplib.SMTP(
            hostname=settings.host,
            sock=socket,
            use_tls=settings.security == "tls",
            start_tls=settings.security == "starttls",
            tls_context=None
            if settings.security == "none"
            else tls_context(settings.certificate_authorities),
            timeout=settings.timeout_seconds,
            local_hostname=domain,
        )
        try:
            await client.connect()
            await self._log_in(client)
            await client.send_message(mail, sender=sender, recipients=[to])
            with suppress(aiosmtplib.SMTPException, OSError):  # the mail is taken by now
                await client.quit(timeout=_QUIT_SECONDS)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise self._failure(error) from None
        finally:
            client.close()
            await asyncio.sleep(0)  # the loop closes the connection in its next turn
            socket.close()

    async def _log_in(self, client: aiosmtplib.SMTP) -> None:
        """The server's message is not repeated: it could contain the password that it just
        received."""
        import aiosmtplib

        settings = self._settings
        if not settings.username:
            return
        try:
            await client.login(settings.username, settings.password)
        except (aiosmtplib.SMTPAuthenticationError, aiosmtplib.SMTPNotSupported):
            raise TemporaryFailure(
                f"{settings.host!r} refuses the login of {settings.username!r}",
                _LOGIN_PAUSE_SECONDS,
            ) from None

    def _failure(self, error: Exception) -> Exception:
        code = _code_of(error)
        text = self._conceal(f"{self._settings.host}: {error}")
        import aiosmtplib

        unsendable = isinstance(error, ValueError) and not isinstance(error, OSError)
        refused = unsendable or isinstance(error, aiosmtplib.SMTPNotSupported)
        if refused or (code is not None and 500 <= code < 600):
            return AdapterFailed(text)
        return TemporaryFailure(text)


def _code_of(error: Exception) -> int | None:
    """The server's status code; for a rejected recipient, that recipient's code."""
    recipients: Any = getattr(error, "recipients", None)
    if isinstance(recipients, list) and recipients:
        return _code_of(recipients[0])
    code = getattr(error, "code", None)
    return code if isinstance(code, int) else None
