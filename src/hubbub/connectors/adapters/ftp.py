"""Files of a folder on an FTP server as messages. What was taken is moved or deleted there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hubbub.connectors.adapters.failures import Concealer, need, raise_send_failed
from hubbub.connectors.adapters.tls import Host, Pem, Port, tls_context
from hubbub.domain.errors import Overloaded
from hubbub.domain.fields import TimeoutSeconds
from hubbub.ports.adapters import AdapterContext, Pulled, TemporaryFailure, adapter
from hubbub.ports.outgoing import SendFailed
from hubbub.protocols.adapters.files import (
    FileSettings,
    FileState,
    Sightings,
    file_message,
    is_wanted,
)

if TYPE_CHECKING:
    import aioftp

_MOST_FILES = 10_000


class FtpSettings(FileSettings, frozen=True, kw_only=True):
    host: Host
    port: Port = 21
    username: str = "anonymous"
    password: str = "anonymous@"  # noqa: S105  what servers without users expect
    security: Literal["starttls", "none"] = "starttls"
    path: str = "/"
    done: Literal["move", "delete"] = "move"
    """Moved to the folder `.done` below `path`, or deleted."""
    certificate_authorities: Pem = ""
    timeout_seconds: TimeoutSeconds = 25.0


class _Receipt(msgspec.Struct, frozen=True):
    name: str


@adapter(name="ftp", settings=FtpSettings, direction="pull", secrets=frozenset({"password"}))
class FtpIn:
    """A connection for each pull. Data connections go to the same address as the first one,
    whatever the server says."""

    def __init__(self, settings: FtpSettings, context: AdapterContext) -> None:
        self._settings = settings
        self._context = context
        self._conceal = Concealer([settings.password])
        self._sightings = Sightings(settings.stable_seconds)

    async def pull(self) -> Pulled | None:
        async with self._session() as client:
            files = await self._list(client)
            for name in self._sightings.stable(files, self._context.clock.monotonic()):
                data = await self._download(client, name, files[name].size)
                if data is not None:
                    message = file_message(self._context.name, name, data, self._settings)
                    return Pulled(message, _Receipt(name))
        return None

    async def settle(self, receipt: object) -> None:
        assert isinstance(receipt, _Receipt)
        folder = PurePosixPath(self._settings.path)
        async with self._session() as client:
            if not await client.exists(folder / receipt.name):
                return  # it was put away before a crash
            if self._settings.done == "delete":
                await client.remove_file(folder / receipt.name)
                return
            done = folder / ".done"
            if not await client.exists(done):
                await client.make_directory(done)
            await client.rename(folder / receipt.name, done / receipt.name)

    async def close(self) -> None:
        pass

    # -- sessions -------------------------------------------------------------------------------

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aioftp.Client]:
        """Logged in. Raises `AdapterFailed` or `TemporaryFailure`, also for what is done inside."""
        try:
            import aioftp
        except ImportError:
            raise need("aioftp", "ftp") from None
        settings, seconds = self._settings, self._settings.timeout_seconds
        place = f"{settings.host}:{settings.port}"
        client = aioftp.Client(socket_timeout=seconds, connection_timeout=seconds)
        client._open_connection = lambda _, port: self._open(client, port)
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
        self, client: Any, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection for commands or data, through the gate that checks addresses."""
        settings = self._settings
        connected = await self._context.dial.connect(settings.host, port, settings.timeout_seconds)
        secure = _session_of(client)
        return await asyncio.open_connection(
            sock=connected, ssl=secure, server_hostname=settings.host if secure else None
        )

    # -- files ----------------------------------------------------------------------------------

    async def _list(self, client: aioftp.Client) -> dict[str, FileState]:
        found: dict[str, FileState] = {}
        async for path, about in client.list(self._settings.path):
            if len(found) < _MOST_FILES and about.get("type") == "file":
                size = str(about.get("size", ""))
                if is_wanted(path.name, self._settings) and size.isdecimal():
                    found[path.name] = FileState(int(size), str(about.get("modify", "")))
        return {
            name: state for name, state in found.items() if state.size <= self._settings.max_bytes
        }

    async def _download(self, client: aioftp.Client, name: str, size: int) -> bytes | None:
        """None: it is not what the list said, since somebody is writing it."""
        data = bytearray()
        path = PurePosixPath(self._settings.path) / name
        async with client.download_stream(path) as stream:
            async for block in stream.iter_by_block():
                data += block
                if len(data) > size:
                    break
        return bytes(data) if len(data) == size else None


def _session_of(client: Any) -> ssl.SSLContext | None:
    """Data connections go on with the TLS session of the first one, as servers demand."""
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
