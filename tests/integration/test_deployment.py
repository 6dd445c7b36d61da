"""The container image and the systemd unit: what can be known without building or booting them."""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import jsonschema
import pytest
import yaml

from harness.documentation import blocks_of
from harness.running_hub import RunningHub
from hubbub.cli.main import main
from hubbub.server.settings import load

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "hubbub.service"
Instruction = tuple[str, str]

pytestmark = pytest.mark.spec("OPS-04")


def instructions() -> list[Instruction]:
    """Of the Dockerfile: each with its arguments, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line]


def last_stage() -> list[Instruction]:
    found = instructions()
    start = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def arguments(stage: list[Instruction], name: str) -> list[str]:
    return [text for word, text in stage if word == name]


def environment() -> dict[str, str]:
    (text,) = arguments(last_stage(), "ENV")
    return dict(pair.split("=", 1) for pair in text.split())


# -- the image --------------------------------------------------------------------------------


def test_the_dockerfile_has_only_instructions_that_there_are() -> None:
    known = {
        *("FROM", "WORKDIR", "RUN", "COPY", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL"),
        *("HEALTHCHECK", "ENTRYPOINT", "CMD", "ARG"),
    }
    assert {name for name, _ in instructions()} <= known


def test_base_images_are_slim_and_pinned_to_a_version() -> None:
    """A build argument names an image by its digest where the tag is not enough."""
    (argument,) = arguments(instructions(), "ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-\w+", argument)
    images = arguments(instructions(), "FROM")
    assert images == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"], "the wheels fit one Python"


def test_packages_are_installed_from_pinned_requirements_only() -> None:
    installs = [text for text in arguments(instructions(), "RUN") if "pip install" in text]
    assert [text.partition("version-check ")[2] for text in installs] == [
        "--require-hashes -r requirements/build.txt -r requirements/run.txt"
        " -r requirements/tracing.txt",
        "--no-build-isolation --no-deps .",
    ]
    assert not any("apt-get" in text for text in arguments(instructions(), "RUN"))


def test_what_is_copied_into_the_build_is_there_and_nothing_else_reaches_it() -> None:
    copied = [text.split()[:-1] for text in arguments(instructions(), "COPY") if "--" not in text]
    names = {name for names in copied for name in names}
    assert all((ROOT / name).exists() for name in names), names
    ignore = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and line[0] != "#"
    ]
    assert ignore[0] == "*"
    assert {line[1:] for line in ignore if line[0] == "!"} == names


def test_the_container_runs_as_an_ordinary_user_whose_data_is_a_volume() -> None:
    stage = last_stage()
    assert arguments(stage, "USER") == ["10001:10001"]
    names = [name for name, _ in stage]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert "RUN" not in names[names.index("USER") :]
    (folders,) = (json.loads(text) for text in arguments(stage, "VOLUME"))
    assert folders == [environment()["HUBBUB_STORAGE_PATH"]]
    (made,) = arguments(stage, "RUN")
    assert f"--mode=0700 {folders[0]}" in made


def test_the_container_opens_itself_to_others_only_when_it_is_told_to() -> None:
    given = {name: value for name, value in environment().items() if name.startswith("HUBBUB_")}
    settings = load(None, given)
    assert settings.listener.host == "127.0.0.1"
    assert arguments(last_stage(), "EXPOSE") == [str(settings.listener.port)]
    assert load(None, {**given, "HUBBUB_LISTENER_HOST": "0.0.0.0"}).listener.host == "0.0.0.0"


def test_the_container_starts_the_command_without_a_shell_and_holds_no_secret() -> None:
    stage = last_stage()
    (entry,), (command,) = arguments(stage, "ENTRYPOINT"), arguments(stage, "CMD")
    assert json.loads(entry) + json.loads(command) == ["hubbub", "serve"]
    assert arguments(stage, "STOPSIGNAL") == ["SIGTERM"]
    assert "secret" not in (ROOT / "Dockerfile").read_text().lower()


async def test_the_health_check_tells_a_living_hub_from_a_dead_one(hub: RunningHub) -> None:
    (text,) = arguments(last_stage(), "HEALTHCHECK")
    program = json.loads(text.partition("CMD ")[2])
    assert program[0] == "python"

    def check(port: int) -> int:
        given = {**os.environ, "HUBBUB_LISTENER_PORT": str(port)}
        done = subprocess.run([sys.executable, *program[1:]], env=given, capture_output=True)
        return done.returncode

    assert await asyncio.to_thread(check, hub.server.port) == 0
    assert await asyncio.to_thread(check, 1) != 0


def container_commands() -> list[tuple[str, list[str]]]:
    """Each line of the documentation that runs a container, and what the container runs."""
    page = ROOT / "docs" / "how-to" / "run-as-a-service.md"
    text = "\n".join(block.text for block in blocks_of(page)).replace("\\\n", " ")
    found = []
    for line in re.findall(r"docker run .+", text):
        words = shlex.split(line)
        behind = words[len(words) - words[::-1].index("hubbub") :]  # the image's name
        found.append((line, behind or json.loads(arguments(last_stage(), "CMD")[0])))
    return found


def test_the_lines_that_try_and_run_the_container_are_right() -> None:
    found = container_commands()
    assert ["serve", "--dev"] in [command for _, command in found], "one line is for trying"
    for line, (name, *options) in found:
        command = main.get_command(click.Context(main), name)
        assert command is not None, line
        with contextlib.suppress(click.exceptions.Exit):
            command.make_context(
                name, [each.replace("/backup.tar.gz", __file__) for each in options]
            )
    # Developer mode listens on loopback only: a published port of a container would lead nowhere.
    assert all("--network host" in line for line, command in found if "--dev" in command)


@pytest.mark.skipif(shutil.which("docker") is None, reason="Docker's client is not installed")
@pytest.mark.parametrize("line", [line for line, _ in container_commands()])
def test_dockers_client_understands_the_lines(line: str, tmp_path: Path) -> None:
    given = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none", "HOME": str(tmp_path)}
    told = subprocess.run(shlex.split(line), env=given, capture_output=True, text=True)
    assert "annot connect to the Docker daemon" in told.stderr, told.stderr


# -- the unit ---------------------------------------------------------------------------------


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def test_the_unit_runs_the_hub_with_settings_that_there_are() -> None:
    service = unit()["Service"]
    assert service["ExecStart"].endswith("bin/hubbub serve --config /etc/hubbub/hubbub.yaml")
    name, _, folder = service["Environment"].partition("=")
    assert str(load(None, {name: folder}).storage.path) == f"/var/lib/{service['StateDirectory']}"
    assert float(service["TimeoutStopSec"]) > load(None, {}).listener.shutdown_timeout
    assert service["RestartPreventExitStatus"] == "2"
    assert service["KillMode"] == "mixed"


@pytest.fixture
def runnable_unit(tmp_path: Path) -> Path:
    """The unit with a program that exists here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    text = UNIT.read_text().replace("/opt/hubbub/bin/hubbub", sys.executable)
    path = tmp_path / UNIT.name
    path.write_text(text)
    return path


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_systemd_understands_every_line_of_the_unit(runnable_unit: Path) -> None:
    verified = analyze("verify", runnable_unit)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_systemd_calls_the_unit_well_protected(runnable_unit: Path) -> None:
    judged = analyze("security", "--offline=true", "--threshold=20", runnable_unit)
    if "unrecognized option" in judged.stderr:
        pytest.skip("this systemd cannot judge a unit that is not installed")
    assert judged.returncode == 0, judged.stdout[-500:]


# -- Docker Compose --------------------------------------------------------------------------------

COMPOSED = sorted((ROOT / "deploy").glob("*/compose.yaml"))
SCHEMA = json.loads((Path(__file__).parent / "compose_spec" / "compose-spec.json").read_text())


@pytest.mark.parametrize("file", COMPOSED, ids=lambda file: file.parent.name)
def test_compose_files_fit_the_schema_of_the_specification(file: Path) -> None:
    composed = yaml.safe_load(file.read_text())
    jsonschema.validate(composed, SCHEMA)
    for service in composed["services"].values():
        service["enviroment"] = service.pop("environment", {})  # a slip is found
    with pytest.raises(jsonschema.ValidationError, match="enviroment"):
        jsonschema.validate(composed, SCHEMA)


def test_the_compose_file_of_one_node_is_closed_and_keeps_its_data() -> None:
    folder = ROOT / "deploy" / "compose-single"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    hub = compose["services"]["hub"]
    assert hub["image"] == "hubbub"
    assert (hub["read_only"], hub["cap_drop"]) == (True, ["ALL"])
    assert all(port.startswith("127.0.0.1:") for port in hub["ports"])
    mounted = dict(volume.split(":")[:2] for volume in hub["volumes"])
    (data,) = arguments(last_stage(), "VOLUME")
    assert mounted["data"] in json.loads(data)
    assert "data" in compose["volumes"]
    assert mounted["./hubbub.yaml"] == hub["environment"]["HUBBUB_CONFIG"]
    variables = {
        name: value for name, value in hub["environment"].items() if name != "HUBBUB_CONFIG"
    }
    settings = load(folder / "hubbub.yaml", variables)
    assert not settings.hubs["main"].settings.allow_anonymous
