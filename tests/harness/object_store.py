"""An object store on this machine: a server that speaks S3."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

BUCKET = "hubbub"
AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The same in every Azurite, and public."""


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """Its address as `127.0.0.1:PORT`; it has a bucket."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _make_bucket(f"http://127.0.0.1:{port}/{BUCKET}")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def azure_store() -> Iterator[dict[str, str]]:
    """Azurite, where it is installed (`npm install --global azurite`); variables of the environment
    for programs that use it. It has a container."""
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("azurite is not installed: npm install --global azurite")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    where = ("--blobHost", "127.0.0.1", "--blobPort", str(port))
    memory = ("--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry")
    server = subprocess.Popen([program, *where, *memory])
    try:
        _wait_for(port)
        yield {
            "AZURE_STORAGE_ACCOUNT_NAME": "devstoreaccount1",
            "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/devstoreaccount1",
            "AZURE_ALLOW_HTTP": "true",
        }
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _make_bucket(url: str) -> None:
    """Once the server is there."""
    deadline = time.monotonic() + 60
    while True:
        try:
            urlopen(Request(url, method="PUT"), timeout=5).close()
            return
        except URLError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def variables(address: str) -> dict[str, str]:
    """Environment variables for programs that use the store."""
    return {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
