"""PostgreSQL over TLS: who is trusted, and who is not."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.postgres import LocalPostgres, local_postgres, programs
from contract.storage.records import append, message, opened, own, why_it_cannot_open
from harness.postgres import TestDatabase, new_database
from hubbub.storage.postgres.store import PostgresStore


def has_tls() -> bool:
    """Not so of the server that a PyPI package carries."""
    libraries = subprocess.run(
        ["ldd", programs() / "postgres"], capture_output=True, text=True, check=False
    )
    return "libssl" in libraries.stdout


pytestmark = [
    pytest.mark.spec("CLU-01", "OPS-03"),
    pytest.mark.skipif(not has_tls(), reason="this PostgreSQL was built without TLS"),
]


def write_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    paths[1].chmod(0o600)
    return paths


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgres]:
    with local_postgres() as server:
        server.stop()
        owner = server.data.stat()
        for path in write_certificate(server.data, "server"):
            os.chown(path, owner.st_uid, owner.st_gid)
        server.configure(ssl="on", ssl_cert_file="server.crt", ssl_key_file="server.key")
        server.start()
        yield server


@pytest.fixture
async def database(server: LocalPostgres) -> TestDatabase:
    return await new_database(server)


@pytest.fixture
def trusted(server: LocalPostgres) -> Path:
    return server.data / "server.crt"


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_the_store_works_over_an_encrypted_connection(
    database: TestDatabase, trusted: Path, mode: str
) -> None:
    options = database.with_options(ssl_mode=mode, ssl_root_certificate=trusted)
    async with opened(PostgresStore(options)) as store:
        assert await store.append([append(message(1), await own(store))]) == [None]
        await asyncio.gather(*(store.read_head("demo", "news") for _ in range(5)))
        async with database.operator() as operator:
            rows = await operator.fetch(
                "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = $1",
                database.name,
            )
    assert {row["ssl"] for row in rows} == {True}


@pytest.mark.parametrize("mode", ["verify-ca", "verify-full"])
async def test_a_server_that_nobody_vouches_for_gets_no_password(
    database: TestDatabase, tmp_path: Path, mode: str
) -> None:
    other, _ = write_certificate(tmp_path, "other")
    options = database.with_options(ssl_mode=mode, ssl_root_certificate=other)
    reason = await why_it_cannot_open(PostgresStore(options))
    assert "cannot be trusted: check storage.postgres.sslRootCert" in reason


async def test_a_certificate_must_be_for_the_host(database: TestDatabase, trusted: Path) -> None:
    options = database.with_options(
        hosts=("localhost",), ssl_mode="verify-full", ssl_root_certificate=trusted
    )
    reason = await why_it_cannot_open(PostgresStore(options))
    assert "that the certificate is for this host" in reason
    by_authority = database.with_options(
        hosts=("localhost",), ssl_mode="verify-ca", ssl_root_certificate=trusted
    )
    async with opened(PostgresStore(by_authority)) as store:
        await own(store)


async def test_a_server_without_tls_is_refused_where_it_is_asked_for(
    postgres: LocalPostgres,
) -> None:
    database = TestDatabase(postgres)
    reason = await why_it_cannot_open(PostgresStore(database.with_options(ssl_mode="require")))
    assert "does not encrypt: configure TLS there" in reason


async def test_certificates_that_cannot_be_read_are_named(
    database: TestDatabase, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    options = database.with_options(ssl_mode="verify-full", ssl_root_certificate=broken)
    reason = await why_it_cannot_open(PostgresStore(options))
    assert "certificates" in reason
    assert "storage.postgres.sslRootCert" in reason
