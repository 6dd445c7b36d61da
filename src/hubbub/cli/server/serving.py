"""`hubbub serve` and `hubbub config check`: run a server, and show its settings."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from hubbub.cli.failures import clear_failures, fail
from hubbub.cli.server.banner import banner
from hubbub.server.settings import (
    Settings,
    SettingsError,
    cautions,
    describe,
    developer_settings,
    load,
)
from hubbub.server.settings.cluster_checks import signing_problems
from hubbub.server.settings.sources import CLIENT_VARIABLES

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="HUBBUB_CONFIG",
    show_envvar=True,
    help="The YAML configuration file.",
)


_USUAL_NAME = "hubbub.yaml"


def load_settings(
    config: Path | None,
    dev: bool = False,
    host: str | None = None,
    port: int | None = None,
    worker: int | None = None,
) -> Settings:
    """Settings of a whole server, or of one of several workers. Raises `SettingsError`."""
    if config is None and Path(_USUAL_NAME).exists() and worker is None:
        note = f"note: {_USUAL_NAME} lies here and is not used; give it with --config {_USUAL_NAME}"
        click.echo(click.style(note, dim=True), err=True)
    environment = {
        name: value for name, value in os.environ.items() if name not in CLIENT_VARIABLES
    }
    settings = load(config, environment, {"listener.host": host, "listener.port": port})
    problems = list(signing_problems(settings))
    if problems and worker is None:
        raise SettingsError(problems)
    settings = msgspec.structs.replace(settings, worker=worker)
    return developer_settings(settings) if dev else settings


@click.command()
@click.option("--dev", is_flag=True, help="Developer mode: an open hub `demo`, loopback only.")
@config_option
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0: any.")
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Processes that share the port; needs PostgreSQL.",
)
@click.option("--worker", type=int, hidden=True, help="Which of them this is.")
def serve(
    dev: bool,
    config: Path | None,
    host: str | None,
    port: int | None,
    workers: int | None,
    worker: int | None,
) -> None:
    """Run a hub until Ctrl-C or SIGTERM."""
    from hubbub.server.logs import configure

    many = workers is not None and workers > 1
    with clear_failures():
        settings = load_settings(config, dev, host, port, 0 if many else worker)
        configure(settings.debug.level, settings.debug.log_format)
        try:
            if many:
                given = ["--dev"] if dev else []
                given += [] if config is None else ["--config", str(config)]
                _run_workers(settings, workers or 1, given)
            else:
                _run(settings)
        except OSError as error:
            fail(_explain(error, settings))


def _run(settings: Settings) -> None:
    from hubbub.server.lifecycle import run
    from hubbub.server.wiring import Server

    def started(server: Server) -> None:
        ticket = server.tickets.issue() if server.tickets is not None else None
        click.echo(banner(settings, server.port, server.zeromq, ticket, server.mqtt_ports))
        for caution in cautions(settings):
            click.echo(f"{click.style('caution:', fg='yellow')} {caution}", err=True)

    run(settings, started)


def _run_workers(settings: Settings, count: int, arguments: list[str]) -> None:
    from hubbub.server.supervisor import NotReady
    from hubbub.server.workers import run_workers

    def started(shared_port: int) -> None:
        click.echo(banner(settings, shared_port))
        click.echo(f"{count} workers share the port")

    try:
        run_workers(settings, count, arguments, started)
    except NotReady as error:
        fail(str(error))


def _explain(error: OSError, settings: Settings) -> str:
    listener = settings.listener
    address = f"{listener.host}:{listener.port}"
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.filename and error.filename == settings.zeromq.endpoint:
        beside = " or another --port, beside which it lies" if settings.developer else ""
        return (
            f"cannot listen on {error.filename}: {reason}; choose another zeromq.endpoint"
            f" (HUBBUB_ZEROMQ_ENDPOINT){beside}"
        )
    if error.filename:
        return f"{error.filename}: {reason}"
    return f"cannot listen on {address}: {reason}; choose another with --port"


@click.group("config")
def config_group() -> None:
    """Look at the configuration."""


@config_group.command()
@config_option
@click.option("--dev", is_flag=True, help="As `serve --dev` would use it.")
def check(config: Path | None, dev: bool) -> None:
    """List the settings in effect; problems go to stderr with exit code 2."""
    with clear_failures():
        settings = load_settings(config, dev)
        click.echo(describe(settings), nl=False)
        for caution in cautions(settings):
            click.echo(f"{click.style('caution:', fg='yellow')} {caution}", err=True)
