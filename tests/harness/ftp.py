"""An FTP server on loopback."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer


@contextlib.contextmanager
def ftp_server(
    folder: Path,
    password: str,
    masquerade: str | None = None,
    secret_files: Sequence[str] = (),
) -> Iterator[int]:
    """The port of a server with one user, `hub`. `masquerade`: the address that it says to have.
    It lists the secret files and gives them to nobody."""
    authorizer = DummyAuthorizer()
    authorizer.add_user("hub", password, str(folder), perm="elradfmw")

    def ftp_retr(self: FTPHandler, file: str) -> object:
        if Path(file).name in secret_files:
            self.respond("550 No permission.")
            return None
        return FTPHandler.ftp_RETR(self, file)

    handler = type(
        "Handler",
        (FTPHandler,),
        {
            "authorizer": authorizer,
            "masquerade_address": masquerade,
            "log_prefix": "",
            "unicode_errors": "surrogateescape",
            "ftp_RETR": ftp_retr,
        },
    )
    server = FTPServer(("127.0.0.1", 0), handler, ioloop=IOLoop())
    port = server.socket.getsockname()[1]
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            server.ioloop.loop(timeout=0.05, blocking=False)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        ended.set()
        thread.join()
        server.close_all()
