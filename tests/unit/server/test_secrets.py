"""Signing keys: made once, kept private, replaced by settings, refused when unsafe or damaged."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hubbub.server.secrets import FILE_NAME, Secrets, SecretsError, load_or_create, rotate
from hubbub.server.settings.keys import Auth, Secret, SettingsError, SigningSecret

CONFIGURED = "correct-horse-battery-staple-0123456789"


@pytest.mark.spec("OPS-02")
def test_first_start_makes_keys_that_only_the_owner_may_read(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    made = load_or_create(folder)
    path = folder / "secrets.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [each.name for each in folder.iterdir()] == ["secrets.json"]
    assert len(made.session[0].secret) == len(made.admin[0].secret) == 64
    assert made.session[0].secret != made.admin[0].secret
    assert made.session[0].id != made.admin[0].id


@pytest.mark.spec("OPS-02")
def test_keys_are_the_same_after_a_restart_and_differ_between_hubs(tmp_path: Path) -> None:
    assert load_or_create(tmp_path / "a") == load_or_create(tmp_path / "a")
    assert load_or_create(tmp_path / "a") != load_or_create(tmp_path / "b")


def test_processes_that_start_together_agree_on_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starters = 8
    together = Barrier(starters)
    link: Callable[..., None] = os.link

    def link_together(source: Path, target: Path) -> None:
        together.wait(timeout=10)
        link(source, target)

    monkeypatch.setattr(os, "link", link_together)
    with ThreadPoolExecutor(starters) as pool:
        results = list(pool.map(load_or_create, [tmp_path] * starters))
    assert all(result == results[0] for result in results)
    assert [each.name for each in tmp_path.iterdir()] == ["secrets.json"]


@pytest.mark.spec("OPS-02")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_file_that_others_may_use_is_refused_with_the_remedy(tmp_path: Path, mode: int) -> None:
    load_or_create(tmp_path)
    path = tmp_path / "secrets.json"
    path.chmod(mode)
    with pytest.raises(SecretsError, match=rf"mode {mode:o}.*chmod 600 {path}"):
        load_or_create(tmp_path)
    path.chmod(0o600)
    load_or_create(tmp_path)


GOOD = {"id": "a", "secret": "A" * 88}
SHORT = {"id": "a", "secret": "c2hvcnQ="}


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "damaged"),
        ("{", "damaged"),
        ("\x00" * 100, "damaged"),
        ("[]", "damaged"),
        (json.dumps({"version": 1, "session": [GOOD]}), "admin"),
        (json.dumps({"version": 2, "session": [GOOD], "admin": [GOOD]}), "version is 2, not 1"),
        (json.dumps({"version": 1, "session": [GOOD], "admin": []}), "list of keys is empty"),
        (json.dumps({"version": 1, "session": [GOOD, GOOD], "admin": [GOOD]}), "the same id"),
        (json.dumps({"version": 1, "session": [SHORT], "admin": [GOOD]}), "'a' has 5 bytes"),
        (
            json.dumps({"version": 1, "session": [{"id": "a", "secret": "?"}], "admin": [GOOD]}),
            "'a' is not base64",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_the_remedy_and_left_as_it_is(
    tmp_path: Path, content: str, reason: str
) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(SecretsError, match="restore it from a backup, or remove it") as caught:
        load_or_create(tmp_path)
    assert reason in str(caught.value)
    assert path.read_text() == content


def test_several_keys_are_kept_in_order_so_that_they_can_rotate(tmp_path: Path) -> None:
    load_or_create(tmp_path)
    path = tmp_path / "secrets.json"
    content = json.loads(path.read_text())
    before = content["session"][0]
    content["session"].insert(0, {"id": "newer", "secret": "B" * 88})
    path.write_text(json.dumps(content))
    assert [key.id for key in load_or_create(tmp_path).session] == ["newer", before["id"]]


@pytest.mark.spec("OPS-02")
def test_a_secret_in_the_settings_replaces_the_files_keys(tmp_path: Path) -> None:
    stored = load_or_create(tmp_path)
    auth = Auth(session=SigningSecret(secret=Secret(CONFIGURED)))
    chosen = load_or_create(tmp_path, auth)
    assert [key.secret for key in chosen.session] == [CONFIGURED.encode()]
    assert chosen.admin == stored.admin
    assert chosen.session[0].id == load_or_create(tmp_path, auth).session[0].id


def test_no_file_is_made_where_the_settings_have_both_secrets(tmp_path: Path) -> None:
    both = Auth(
        session=SigningSecret(secret=Secret(CONFIGURED)),
        admin=SigningSecret(secret=Secret(CONFIGURED[::-1])),
    )
    load_or_create(tmp_path / "data", both)
    assert not (tmp_path / "data").exists()


@pytest.mark.spec("OPS-03")
def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be written: Not a directory; make the folder"):
        load_or_create(tmp_path / "file" / "data")


@pytest.mark.spec("OPS-02")
def test_keys_do_not_show_in_a_repr(tmp_path: Path) -> None:
    made: Secrets = load_or_create(tmp_path)
    assert made.session[0].id in repr(made)
    assert repr(made.session[0].secret) not in repr(made)


@pytest.mark.spec("ADMIN-03")
def test_a_configured_secret_can_be_replaced_while_the_one_before_it_verifies(
    tmp_path: Path,
) -> None:
    before = Secret(CONFIGURED)
    after = Secret(CONFIGURED[::-1])
    old = load_or_create(tmp_path, Auth(session=SigningSecret(secret=before)))
    new = load_or_create(
        tmp_path, Auth(session=SigningSecret(secret=after, previous_secret=before))
    )
    assert new.session[1] == old.session[0]
    assert new.session[0] != old.session[0]


@pytest.mark.spec("ADMIN-03")
def test_rotating_puts_a_new_key_in_front_and_keeps_a_few(tmp_path: Path) -> None:
    first = load_or_create(tmp_path)
    ids = [rotate(tmp_path, "session") for _ in range(4)]
    keys = load_or_create(tmp_path)
    assert [key.id for key in keys.session] == [ids[3], ids[2], ids[1]]
    assert keys.admin == first.admin
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.spec("ADMIN-03", "OPS-03")
def test_a_damaged_file_is_not_rotated_away(tmp_path: Path) -> None:
    load_or_create(tmp_path)
    path = tmp_path / FILE_NAME
    path.write_text("{")
    with pytest.raises(SecretsError):
        rotate(tmp_path, "session")
    assert path.read_text() == "{"
