"""Mail servers on loopback: dovecot for mailboxes, aiosmtpd for what is sent over SMTP."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import imaplib
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult

from benchmarks.servers import free_port

PASSWORD = "s3cr3t-of-the-tests"
_START_SECONDS = 20.0

# -- IMAP -----------------------------------------------------------------------------------------


class Dovecot:
    """Every user has a mailbox, with one password for all."""

    def __init__(self, port: int, tls_port: int) -> None:
        self.port = port
        self.tls_port = tls_port

    def client(self, user: str) -> imaplib.IMAP4:
        client = imaplib.IMAP4("127.0.0.1", self.port, 10)
        client.login(user, PASSWORD)
        client.select("INBOX")
        return client

    def append(self, user: str, raw: bytes) -> None:
        with self.client(user) as client:
            kind, answer = client.append("INBOX", "", "", raw)
            assert kind == "OK", answer

    def mails(self, user: str, criteria: str = "ALL", folder: str = "INBOX") -> list[EmailMessage]:
        """The mails in the user's mailbox."""
        found = []
        with self.client(user) as client:
            client.select(folder, readonly=True)
            _, numbers = client.search(None, criteria)
            for number in numbers[0].split():
                _, data = client.fetch(number, "(BODY.PEEK[])")
                assert isinstance(data[0], tuple)
                mail = message_from_bytes(data[0][1], policy=policy.default)
                assert isinstance(mail, EmailMessage)
                found.append(mail)
        return found


_CONFIGURATION = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
default_internal_user = {user}
default_login_user = {login_user}
default_internal_group = {group}
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
disable_plaintext_auth = no
ssl = yes
ssl_cert = <{certificate}
ssl_key = <{key}
passdb {{
  driver = static
  args = password={{plain}}{password}
}}
userdb {{
  driver = static
  args = uid={mail_user} gid={mail_group} home={folder}/mail/%u
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
"""


@contextlib.contextmanager
def dovecot(folder: Path, certificate: tuple[Path, Path]) -> Iterator[Dovecot]:
    """Skips where dovecot is not installed."""
    program = shutil.which("dovecot") or shutil.which("/usr/sbin/dovecot")
    if program is None:
        pytest.skip("dovecot is missing: sh scripts/dovecot.sh")
    root = os.getuid() == 0
    user = pwd.getpwuid(os.getuid()).pw_name
    group = grp.getgrgid(os.getgid()).gr_name
    mail_user, mail_group, login_user = user, group, user
    if root:  # dovecot logs nobody in as root; these come with its package
        user, group, login_user = "dovecot", "dovecot", "dovenull"
        mail_user, mail_group = "nobody", "nogroup"
    ports = (free_port(), free_port())
    mail = folder / "mail"
    mail.mkdir(parents=True)
    (folder / "state").mkdir()
    if root:
        shutil.chown(mail, mail_user, mail_group)
        for each in (folder, *folder.parents):
            if each.stat().st_uid == 0 and each != Path("/"):
                each.chmod(each.stat().st_mode | 0o011)
    file = folder / "dovecot.conf"
    file.write_text(
        _CONFIGURATION.format(
            folder=folder,
            user=user,
            login_user=login_user,
            group=group,
            mail_user=mail_user,
            mail_group=mail_group,
            certificate=certificate[0],
            key=certificate[1],
            password=PASSWORD,
            port=ports[0],
            tls_port=ports[1],
        )
    )
    process = subprocess.Popen([program, "-F", "-c", str(file)], stderr=subprocess.PIPE)
    try:
        _wait_for(ports[0], process, folder / "log")
        yield Dovecot(*ports)
    finally:
        process.terminate()
        process.communicate()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as one:
            if one.recv(4) == b"* OK":
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    said = log.read_text() if log.exists() else ""
    raise AssertionError(f"dovecot did not start: {said[-2000:]}")


# -- SMTP -----------------------------------------------------------------------------------------


class MailServer:
    """Takes mail, and answers as it is told."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.rcpt_answer = "250 OK"
        self.data_answer = "250 OK"
        self.drops_after_data = 0
        """Mails that are taken without a word, after which the connection ends."""
        self.hangs = False
        self.password = ""
        self.deliver: Callable[[str, bytes], None] | None = None
        """Puts a mail into the mailbox of an address."""
        self.port = 0

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.hangs:
            await asyncio.Event().wait()
        if self.rcpt_answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.rcpt_answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.data_answer.startswith("250"):
            mail = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
            self.recipients += envelope.rcpt_tos
            if self.deliver is not None:
                for address in envelope.rcpt_tos:
                    await asyncio.to_thread(self.deliver, address, envelope.content)
        if self.drops_after_data:
            self.drops_after_data -= 1
            server.transport.abort()
        return self.data_answer

    def authenticate(self, server: Any, session: Any, envelope: Any, way: str, data: Any) -> Any:
        right = data.password.decode() == self.password
        return AuthResult(success=right, handled=right)


@contextlib.asynccontextmanager
async def mail_server(
    tls: ssl.SSLContext | None = None, from_the_start: bool = False, login: bool = False
) -> AsyncIterator[MailServer]:
    server = MailServer()

    def connection() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a login without TLS, on this machine
            return SMTP(
                server,
                hostname="mail.example",
                enable_SMTPUTF8=True,
                tls_context=None if from_the_start else tls,
                require_starttls=tls is not None and not from_the_start,
                authenticator=server.authenticate if login else None,
                auth_require_tls=False,
            )

    loop = asyncio.get_running_loop()
    listening = await loop.create_server(
        connection, "127.0.0.1", 0, ssl=tls if from_the_start else None
    )
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
