"""The command line as somebody meets it who has just installed it."""

from __future__ import annotations

import ast
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from harness.command import Ended
from hubbub.cli.failures import advice
from hubbub.cli.main import GROUPS, main
from hubbub.cli.numbers import FiniteRange
from hubbub.cli.server.banner import banner
from hubbub.domain.errors import NotPermitted
from hubbub.rooms import places
from hubbub.server.data_folder import DATABASE
from hubbub.server.settings import developer_settings, load
from hubbub.storage.sql.schema import SQLITE, load_migrations

pytestmark = pytest.mark.spec("UI-03")


def run(*arguments: str, cwd: Path | None = None) -> Ended:
    runner = CliRunner(env=dict.fromkeys(("HUBBUB_CONFIG", "HUBBUB_HUB"), None))
    before = Path.cwd()
    try:
        if cwd is not None:
            os.chdir(cwd)
        result = runner.invoke(main, arguments)
    finally:
        os.chdir(before)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return Ended(result.exit_code, result.stdout, result.stderr)


def test_the_version_loads_no_command() -> None:
    code = (
        "import sys\nfrom hubbub.cli.main import main\n"
        "try: main(['--version'])\nexcept SystemExit: pass\n"
        "print(sorted(each for each in sys.modules if each.startswith('hubbub.')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, modules = found.stdout.splitlines()
    assert version.startswith("hubbub, version ")
    assert ast.literal_eval(modules) == [
        "hubbub.cli",
        "hubbub.cli.main",
        *sorted(f"hubbub.cli.{room}" for room, _ in places("cli", "commands")),
        "hubbub.rooms",
    ]


def test_help_shows_every_command_in_its_group() -> None:
    text = run("--help").out
    places = [text.index(f"{title}:") for title in GROUPS]
    assert places == sorted(places)
    for group in GROUPS.values():
        for name in group:
            assert f"\n  {name} " in text
            assert run(name, "--help").code == 0


def test_client_commands_load_nothing_of_the_server() -> None:
    code = (
        "import sys, importlib\n"
        "for name in ('publishing', 'reading', 'putting', 'getting', 'topics', 'shell'):\n"
        "    importlib.import_module(f'hubbub.cli.messages.{name}')\n"
        "heavy = ('aiohttp', 'asyncpg', 'nats', 'uvloop', 'yaml', 'jwt', 'prometheus_client')\n"
        "print([each for each in heavy if each in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_command_whose_packages_are_missing_says_what_to_install() -> None:
    code = (
        "import sys\nsys.modules['yaml'] = None\n"
        "from hubbub.cli.main import main\nmain(['serve', '--dev'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 1
    assert "pip install '.[server]'" in found.stderr


def test_after_make_run_the_command_is_typed_as_the_how_tos_type_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make run` starts `.venv/bin/hubbub`, which is on the path after the line that it prints."""
    folder = tmp_path / "my project" / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "hubbub").write_text("#!/bin/sh\necho it is me\n")
    (folder / "hubbub").chmod(0o755)
    monkeypatch.chdir(tmp_path / "my project")
    monkeypatch.setattr(sys, "argv", [".venv/bin/hubbub"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    developer = developer_settings(load(None, {}))
    (line,) = [each for each in banner(developer, 8000).splitlines() if "export PATH" in each]
    command = ["sh", "-c", f"{line}\ncd / && hubbub"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "it is me\n"
    monkeypatch.setenv("PATH", str(folder))
    assert "export PATH" not in banner(developer, 8000), "it is on the path already"


@pytest.mark.parametrize(
    ("own", "address"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"port": 9000}, "http://127.0.0.1:9000"),
        ({"host": "localhost"}, "http://localhost:8000"),
        ({"host": "localhost:8001"}, "http://localhost:8001"),
        ({"host": "[::1]", "port": 9000}, "http://[::1]:9000"),
    ],
)
def test_the_link_to_the_dashboard_leads_to_its_own_origin(
    own: dict[str, Any], address: str
) -> None:
    keys = {f"listener.dashboard.{name}": value for name, value in own.items()}
    printed = banner(developer_settings(load(None, {}, keys)), 8000, ticket="once")
    assert f" {address}/dashboard#ticket=once " in printed


def test_a_configuration_file_that_lies_here_is_mentioned(tmp_path: Path) -> None:
    (tmp_path / "hubbub.yaml").write_text("listener:\n  port: 1234\n")
    ended = run("config", "check", cwd=tmp_path)
    assert "hubbub.yaml lies here and is not used" in ended.err
    assert "lies here" not in run("config", "check", "--config", "hubbub.yaml", cwd=tmp_path).err


@pytest.mark.spec("OPS-03")
def test_no_token_is_signed_for_a_hub_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "hubbub.yaml").write_text("hubs:\n  shop: {}\n")
    (tmp_path / "data").mkdir(mode=0o700)
    with sqlite3.connect(tmp_path / "data" / DATABASE) as database:
        for migration in load_migrations(SQLITE):
            for statement in migration.statements:
                database.execute(statement)
        database.execute("INSERT INTO settings VALUES ('hub', 'stored', '', '', 1)")
    given = ("token", "--config", "hubbub.yaml", "--user", "ann", "--hub")
    refused = run(*given, "shpo", cwd=tmp_path)
    assert refused.code == 2
    assert "there is no hub 'shpo' here (there is: shop, stored)" in refused.err
    for hub in (("shop",), ("stored",), ("shpo", "--force")):
        assert run(*given, *hub, cwd=tmp_path).code == 0


def test_keys_are_listed_and_rotated(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    assert run("keys", "rotate", "session", *data).code == 1  # there are none
    run("token", "--user", "ann", "--hub", "demo", "--force", cwd=tmp_path)
    data = ("--data", str(tmp_path / "data"))
    rotated = run("keys", "rotate", "session", *data)
    assert rotated.code == 0
    listed = run("keys", "list", *data).out.splitlines()
    assert listed[0].split() == ["KEY", "FOR", "SIGNS"]
    assert listed[1].split() == [rotated.out.strip(), "session", "on"]
    assert len(listed) == 4
    assert run("keys", "rotate", "session", "--keep", "0", *data).code == 2  # nobody to ask
    assert run("keys", "rotate", "session", "--keep", "0", "--yes", *data).code == 0
    assert len(run("keys", "list", *data).out.splitlines()) == 3


def test_hints_name_the_right_option() -> None:
    assert "--rpc 'cart.add'" in advice(NotPermitted("no permission to call 'cart.add'"))
    refused = NotPermitted("no permission to submit to the stream 'clicks'")
    assert "--grant 'stream:clicks=p'" in advice(refused)
    assert "--grant 'PATTERN=ps'" in advice(NotPermitted("no permission to publish to 'a'"))
    hooked = advice(NotPermitted("the hub's hook does not permit to publish in 'a': be nice"))
    assert "--level service" in hooked
    assert "--grant" not in hooked
    refused = NotPermitted("only an administrator of all hubs may shut the server down")
    assert advice(refused) == "; use such a token: `hubbub token --level admin --hub '*'`"


@pytest.mark.spec("OPS-03")
def test_no_option_takes_nan_for_a_number() -> None:
    """Click takes `nan` for a number within every range."""
    floats = [
        (path, option.name, type(option.type))
        for path, command in every_command(main, ())
        for option in command.params
        if isinstance(option.type, click.types.FloatParamType | click.FloatRange)
    ]
    assert floats, "there are such options"
    assert [each for each in floats if each[2] is not FiniteRange] == []


def every_command(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            part = command.get_command(context, name)
            assert part is not None
            yield from every_command(part, (*path, name))
