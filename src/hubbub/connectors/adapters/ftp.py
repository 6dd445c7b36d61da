"""Files of a folder on an FTP server as messages. Read files are moved or deleted there; unreadable
files stay."""

from __future__ import annotations

import asyncio
import codecs
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from hubbub.connectors.adapters.failures import Concealer, need, raise_send_failed, tell_left
from hubbub.connectors.adapters.tls import Host, Pem, Port, tls_context
from hubbub.domain.errors import Overloaded
from hubbub.domain.fields import TimeoutSeconds
from hubbub.ports.adapters import AdapterContext, Pulled, TemporaryFailure, adapter
from hubbub.ports.outgoing import SendFailed
from hubbub.protocols.adapters.files import (
    FileSettings,
    FileState,
    Sightings,
    TakenFile,
    file_message,
    is_wanted,
)

if TYPE_CHECKING:
    import aioftp

_MOST_FILES = 10_000
_ENCODING = "utf_8_surrogateescape"
"""The encoding of names: preserves arbitrary bytes, even invalid UTF-8."""


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != _ENCODING:
        return None
    return codecs.CodecInfo(
        lambda text, _="": codecs.utf_8_encode(text, "surrogateescape"),
        lambda data, _="": codecs.utf_8_decode(data, "surrogateescape", True),
        name=_ENCODING,
    )


codecs.register(_codec)


class FtpSettings(FileSettings, frozen=True, kw_only=True):
    host: Host
    port: Port = 21
    username: str = "anonymous"
    password: str = "anonymous@"  # noqa: S105  what servers without users expect
    security: Literal["starttls", "none"] = "starttls"
    path: str = "/"
    done: Literal["move", "delete"] = "move"
    """Whether read files are moved to the folder `.done` below `path`, or deleted."""
    certificate_authorities: Pem = ""
    timeout_seconds: TimeoutSeconds = 25.0


@adapter(name="ftp", settings=FtpSettings, direction="pull", secrets=frozenset({"password"}))
class FtpIn:
    """Opens a connection for each pull. Data connections go to the same address as the control
    connection, whatever the server says."""

    def __init__(self, settings: FtpSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._conceal = Concealer([settings.password])
        self._sightings = Sightings(settings.stable_seconds, settings.max_bytes)

    async def pull(self) -> Pulled | None:
        """Raises `AdapterFailed` for unreadable files, after all readable ones."""
        async with self._session() as client:
            files = await self._list(client)
            for name in self._sightings.stable(files, self._context.clock.monotonic()):
                data = await self._download(client, name, files[name])
                if data is not None:
                    message = file_message(self._context.name, name, data, self._settings)
                    return Pulled(message, TakenFile(name, files[name], message.id))
        tell_left(self._context, self._sightings.untold())
        return None

    async def settle(self, receipt: object) -> None:
        """A file changed since it was read stays, and is read next."""
        assert isinstance(receipt, TakenFile)
        folder = PurePosixPath(self._settings.path)
        async with self._session() as client:
            path = folder / receipt.name
            if not await client.exists(path):
                return  # it was put away before a crash
            if _state(await client.stat(path)) != receipt.state:
                return
            if self._settings.done == "delete":
                await client.remove_file(path)
                return
            done = folder / ".done"
            if not await client.exists(done):
                await client.make_directory(done)
            taken = await client.exists(done / receipt.name)
            name = f"{receipt.name}.{receipt.mark}" if taken else receipt.name
            await client.rename(path, done / name)

    def pending_seconds(self) -> float:
        return self._sightings.pending_seconds(self._context.clock.monotonic())

    async def refuse(self, receipt: object) -> None:
        assert isinstance(receipt, TakenFile)
        self._sightings.leave(receipt)

    async def close(self) -> None:
        pass

    # -- sessions -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aioftp.Client]:
        """An authenticated client. Raises `AdapterFailed` or `TemporaryFailure`, also for errors
        inside the block."""
        try:
            import aioftp
        except ImportError:
            raise need("aioftp", "ftp") from None
        settings, seconds = self._settings, self._settings.timeout_seconds
        place = f"{settings.host}:{settings.port}"
        client = aioftp.Client(
            socket_timeout=seconds, connection_timeout=seconds, encoding=_ENCODING
        )
        opened: list[asyncio.StreamWriter] = []
        client._open_connection = lambda _, port: self._open(client, port, opened)
        try:
            async with (
                self._context.outgoing.slot(self._context.hub, "adapter", place, seconds) as left,
                asyncio.timeout(left),
            ):
                await self._log_in(client)
                yield client
                await client.quit()
        except TimeoutError:
            raise TemporaryFailure(f"{settings.host!r} took longer than {seconds:g} s") from None
        except Overloaded as error:
            raise TemporaryFailure(error.message) from None
        except SendFailed as error:
            raise_send_failed(error, self._conceal)
        except (aioftp.AIOFTPException, OSError, ValueError, LookupError) as error:
            raise TemporaryFailure(self._conceal(f"{settings.host}: {error}")) from None
        finally:
            client.close()
            for each in opened:  # the library forgets one whose command is refused
                each.close()

    async def _log_in(self, client: aioftp.Client) -> None:
        import aioftp

        settings = self._settings
        await client.connect(settings.host, settings.port)
        if settings.security == "starttls":
            await client.upgrade_to_tls(tls_context(settings.certificate_authorities))
        try:
            await client.login(settings.username, settings.password)
        except aioftp.StatusCodeError:
            # The server's words are not repeated: it has just been told the password.
            raise ValueError(f"the login of {settings.username!r} is refused") from None

    async def _open(
        self, client: Any, port: int, opened: list[asyncio.StreamWriter]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A control or data connection to a checked address."""
        settings = self._settings
        connected = await self._context.dial.connect(settings.host, port, settings.timeout_seconds)
        secure = _session_of(client)
        reader, writer = await asyncio.open_connection(
            sock=connected, ssl=secure, server_hostname=settings.host if secure else None
        )
        opened.append(writer)
        return reader, writer

    # -- files ----------------------------------------------------------------------------------

    async def _list(self, client: aioftp.Client) -> dict[str, FileState]:
        found: dict[str, FileState] = {}
        async for path, about in client.list(self._settings.path):
            if len(found) < _MOST_FILES and about.get("type") == "file":
                state = _state(about)
                if is_wanted(path.name, self._settings) and state is not None:
                    found[path.name] = state
        return found

    async def _download(self, client: aioftp.Client, name: str, state: FileState) -> bytes | None:
        """None if the file does not match its list entry because it is being written, or if the
        server refuses it."""
        import aioftp

        data = bytearray()
        path = PurePosixPath(self._settings.path) / name
        try:
            async with client.download_stream(path) as stream:
                async for block in stream.iter_by_block():
                    data += block
                    if len(data) > state.size:
                        break
        except aioftp.StatusCodeError as error:
            if not error.received_codes[-1].matches("55x"):
                raise
            self._sightings.refuse(name, state, "the server does not give it")
            return None
        return bytes(data) if len(data) == state.size else None


def _state(about: Mapping[str, Any]) -> FileState | None:
    """None if the server does not report the file's size."""
    size = str(about.get("size", ""))
    return FileState(int(size), str(about.get("modify", ""))) if size.isdecimal() else None


def _session_of(client: Any) -> ssl.SSLContext | None:
    """Data connections resume the control connection's TLS session, as servers require."""
    from aioftp.client import SSLSessionBoundContext

    if client._stream is None:
        return None
    secure = client._stream.writer.transport.get_extra_info("ssl_object")
    if secure is None:
        return None
    found: ssl.SSLContext = SSLSessionBoundContext(
        ssl.PROTOCOL_TLS_CLIENT, context=secure.context, session=secure.session
    )
    return found
