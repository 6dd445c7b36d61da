"""Common options of administrative commands, and the handling of failed requests."""

from __future__ import annotations

import functools
import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from click.core import ParameterSource

from hubbub.cli.administration.admin_client import AdminClient, Refused
from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.messages.options import Trust, trust_options, url_option
from hubbub.cli.server.backup import data_option
from hubbub.cli.server.serving import config_option, load_settings
from hubbub.client.connection.link import is_loopback
from hubbub.domain.permissions import Identity, Level
from hubbub.server.address import announced
from hubbub.server.settings import Settings

OWN_TOKEN_SECONDS = 300

_REMEDIES = {
    "not_authenticated": "give a token with --token or HUBBUB_TOKEN",
    "invalid_token": (
        "make another where the server runs: `hubbub token --hub '*' --level admin`, or leave out"
        " --token and give that server's --config or --data"
    ),
    "not_permitted": "use a token of that level (`hubbub token --level admin --hub '*'`)",
    "hub_not_found": "`hubbub hubs list` shows those that are there; give one with --hub",
    "not_found": "the `list` of the same command shows what is there",
    "version_mismatch": "somebody else changed it meanwhile; look at it and try again",
    "internal": "the server's log has more",
}
_LATER = frozenset(("rate_limited", "overloaded", "store_unavailable", "going_away", "timeout"))

_token = click.option(
    "--token",
    envvar="HUBBUB_TOKEN",
    show_envvar=True,
    help="An administrator's or a service's token; without it, one is signed with the server's own"
    " keys where --config or --data leads to them.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
json_lines_option = click.option(
    "--json", "as_json", is_flag=True, help="A line of JSON for each entry."
)


def admin_options(command: Callable[..., None]) -> Callable[..., None]:
    """Passes a client of the admin API to the command as its first argument."""

    @functools.wraps(command)
    def with_admin(
        url: str,
        token: str | None,
        config: Path | None,
        data: Path | None,
        trust: Trust,
        **arguments: Any,
    ) -> None:
        with calling(url, token, config, data, trust) as admin:
            command(admin, **arguments)

    return connection_options(with_admin)


def connection_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for `calling`."""
    return url_option(_token(config_option(data_option(trust_options(command)))))


@contextmanager
def calling(
    url: str, token: str | None, config: Path | None, data: Path | None, trust: Trust
) -> Iterator[AdminClient]:
    """Yields a client of the admin API; errors end the command. A command with a data folder calls
    the server of that folder, unless it also names an address."""
    with clear_failures():
        if data is not None and _source("token") is ParameterSource.ENVIRONMENT:
            token = None  # the environment's token is for the environment's server
        url = _address(url, config, data)
        token = token or _sign_token(url, config, data)
        with closing(AdminClient(url, token, trust.context(url))) as admin:
            try:
                yield admin
            except Refused as error:
                _explain(error)


def _address(url: str, config: Path | None, data: Path | None) -> str:
    source = _source("url")
    if data is not None and source is not ParameterSource.COMMANDLINE:
        found = announced(data)
        if found is None:
            fail(f"no server runs with the data folder {data}; start it, or give its --url", WRONG)
        return found
    if config is not None and source is ParameterSource.DEFAULT:
        return announced(Path(load_settings(config).storage.path)) or url
    return url


def _source(option: str) -> ParameterSource | None:
    return click.get_current_context().get_parameter_source(option)


def _explain(error: Refused) -> NoReturn:
    remedy = _REMEDIES.get(error.reason, "try again later" if error.reason in _LATER else "")
    fail(f"{error.message} ({error.reason})" + (f"; {remedy}" if remedy else ""))


def _sign_token(url: str, config: Path | None, data: Path | None) -> str:
    """A short-lived token, signed like the server's. Keys found in the current folder are used only
    for a server on this machine: no other server may receive such a token."""
    from hubbub.server.access import make_tokens
    from hubbub.server.clock import SystemClock

    if config is None and data is None and not is_loopback(url):
        fail("this needs a token: give it with --token or HUBBUB_TOKEN", WRONG)
    settings = load_settings(config)
    if data is not None:
        storage = msgspec.structs.replace(settings.storage, path=str(data))
        settings = msgspec.structs.replace(settings, storage=storage)
    if not _has_keys(settings):
        fail(
            "this needs a token: give it with --token or HUBBUB_TOKEN, or give the server's"
            f" --config or --data (there are no signing keys in {settings.storage.path})",
            WRONG,
        )
    identity = Identity(user_id=_user_name(), level=Level.ADMIN)
    return make_tokens(settings, SystemClock()).issue("*", identity, OWN_TOKEN_SECONDS)


def _has_keys(settings: Settings) -> bool:
    """Whether signing keys exist, without creating any: new ones would be useless for a server that
    has others."""
    from hubbub.server.data_folder import SECRETS

    configured = settings.auth.admin.secret and settings.auth.session.secret
    return bool(configured) or (Path(settings.storage.path) / SECRETS).exists()


def _user_name() -> str:
    """The user name for the audit log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"


def confirm(question: str, yes: bool) -> None:
    """Asks for confirmation; without a terminal, requires --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("this deletes for good; confirm it with --yes", WRONG)
    if not click.confirm(question):
        fail("nothing was deleted")
