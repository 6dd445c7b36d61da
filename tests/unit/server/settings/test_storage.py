"""The keys of the store: which store they choose, and what is refused or kept secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.server.settings import SettingsError, cautions, describe, load
from hubbub.server.stores import make_store
from hubbub.storage.postgres.store import PostgresStore
from hubbub.storage.sqlite.store import SqliteStore

HOST = "HUBBUB_STORAGE_POSTGRES_HOST"
PASSWORD = "HUBBUB_STORAGE_POSTGRES_PASSWORD"


def problem_of(**keys: object) -> str:
    with pytest.raises(SettingsError) as caught:
        load(None, {}, {name.replace("__", "."): value for name, value in keys.items()})
    (problem,) = caught.value.problems
    return problem


@pytest.mark.spec("OPS-01")
def test_the_store_is_embedded_unless_a_server_is_named() -> None:
    assert isinstance(make_store(load(None, {})), SqliteStore)
    assert isinstance(make_store(load(None, {HOST: "db.example"})), PostgresStore)


@pytest.mark.spec("OPS-01", "CLU-01")
def test_every_key_reaches_the_store(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    settings = load(
        None,
        {HOST: "a.example, b.example", PASSWORD: "hunter2"},
        {
            "storage.postgres.port": 6432,
            "storage.postgres.user": "ann",
            "storage.postgres.dbName": "talk",
            "storage.postgres.sslRootCert": str(file),
            "storage.postgres.statementTimeout": 3,
            "sql.maxConnections": 9,
            "sql.idleConnections": 2,
            "sql.connectionMaxLifetime": 60,
        },
    )
    store = make_store(settings)
    assert isinstance(store, PostgresStore)
    options = store._pool.options
    assert options.hosts == ("a.example", "b.example")
    assert (options.port, options.user, options.database) == (6432, "ann", "talk")
    assert options.password == "hunter2"
    assert options.ssl_root_certificate == file
    assert (options.most_connections, options.idle_connections) == (9, 2)
    assert (options.statement_seconds, options.connection_lifetime_seconds) == (3, 60)


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("host", "mode"),
    [
        ("127.0.0.1", "disable"),
        ("localhost", "disable"),
        ("/run/postgresql", "disable"),
        ("db.example", "verify-full"),
        ("localhost,db.example", "verify-full"),
    ],
)
def test_a_server_elsewhere_must_prove_itself_unless_told_otherwise(host: str, mode: str) -> None:
    store = make_store(load(None, {HOST: host}))
    assert isinstance(store, PostgresStore)
    assert store._pool.options.ssl_mode == mode


@pytest.mark.spec("OPS-01")
def test_the_password_of_the_database_is_never_shown() -> None:
    settings = load(None, {HOST: "db.example", PASSWORD: "hunter2"})
    shown = describe(settings)
    assert "storage.postgres.password = hidden" in shown
    assert "hunter2" not in shown + repr(settings) + repr(settings.storage)
    assert "storage.postgres.password = none" in describe(load(None, {}))


@pytest.mark.spec("OPS-01")
def test_a_password_that_is_no_text_is_not_shown_either(tmp_path: Path) -> None:
    problem = problem_of(storage__postgres__host="x", storage__postgres__password=4711)
    assert "storage.postgres.password" in problem
    assert "4711" not in problem


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"sql__maxConnections": 3}, "sql has no effect without storage.postgres.host"),
        ({"storage__postgres__user": "x"}, "storage.postgres has no effect without"),
        ({"storage__postgres__host": " , "}, "storage.postgres.host names no server"),
        (
            {"storage__postgres__host": "x", "sql__idleConnections": 9},
            "sql.idleConnections is 9; expected at most sql.maxConnections (8)",
        ),
        (
            {"storage__postgres__host": "x", "storage__postgres__sslRootCert": "/nowhere"},
            "storage.postgres.sslRootCert is '/nowhere', where there is no file",
        ),
        (
            {"storage__postgres__host": "x", "storage__postgres__sslMode": "prefer"},
            "expected one of auto, disable, require, verify-ca, verify-full",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(keys: dict[str, object], words: str) -> None:
    assert words in problem_of(**keys)


@pytest.mark.spec("OPS-01")
def test_a_way_to_the_database_that_others_could_listen_on_is_a_caution() -> None:
    keys = {"storage.postgres.host": "db.example", "storage.postgres.sslMode": "require"}
    (caution,) = cautions(load(None, {}, keys))
    assert "storage.postgres.sslMode require" in caution
    assert not cautions(load(None, {}, keys | {"storage.postgres.sslMode": "verify-full"}))
    assert not cautions(load(None, {}, keys | {"storage.postgres.host": "127.0.0.1"}))
