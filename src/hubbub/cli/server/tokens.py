"""`hubbub token`: creates a signed token, without a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from hubbub.cli.failures import WRONG, clear_failures, fail, note
from hubbub.cli.server.serving import config_option, load_settings
from hubbub.cli.times import Duration
from hubbub.domain.errors import HubbubError, InvalidToken
from hubbub.domain.names import check_name
from hubbub.domain.permissions import Grant, Identity, Level
from hubbub.server.settings import Settings

MAX_SECONDS = 10 * 365 * 86_400


class _Validity(Duration):
    """A duration; a number without a unit is in seconds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = super().convert(f"{value}s" if str(value).isdigit() else value, param, ctx)
        if not 0 < seconds <= MAX_SECONDS:
            self.fail(f"{value!r} is not between a second and ten years", param, ctx)
        return seconds


class _GrantType(click.ParamType[Grant]):
    name = "pattern=ps"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Grant:
        pattern, separator, letters = str(value).rpartition("=")
        if not separator or not pattern or not letters or set(letters) - {"p", "s"}:
            self.fail(
                f"{value!r} is not a pattern and letters (p publish, s subscribe), "
                "such as 'room:*=ps'",
                param,
                ctx,
            )
        return Grant(pattern, publish="p" in letters, subscribe="s" in letters)


@click.command()
@click.option(
    "--hub", envvar="HUBBUB_HUB", default="demo", show_default=True, help="The hub it is for."
)
@click.option("--user", help="The user's id.")
@click.option(
    "--level",
    type=click.Choice([level.value for level in Level]),
    default=Level.CLIENT.value,
    show_default=True,
    help="client: by its grants; viewer: looks on; service: all of the hub; admin: administration.",
)
@click.option(
    "--grant",
    "grants",
    type=_GrantType(),
    multiple=True,
    help="Channels it may use: 'room:*=ps' to publish and subscribe, 'news=s' to subscribe.",
)
@click.option(
    "--rpc", "rpcs", multiple=True, help="Methods of services it may call: 'cart.*', or one name."
)
@click.option("--ttl", type=_Validity(), help="How long it is valid: 90, 15m, 12h, 30d.")
@click.option("--extra", help="Metadata of the user, a JSON object; presence shows it.")
@click.option("--force", is_flag=True, help="Also for a hub that is not there (yet).")
@config_option
def token(
    hub: str,
    user: str | None,
    level: str,
    grants: tuple[Grant, ...],
    rpcs: tuple[str, ...],
    ttl: float | None,
    extra: str | None,
    force: bool,
    config: Path | None,
) -> None:
    """Print a signed token. Uses the key in the data folder of the server, which it makes if there
    is none yet; run it where the server runs."""
    from hubbub.server.access import make_tokens
    from hubbub.server.clock import SystemClock

    with clear_failures():
        if hub != "*":
            try:
                check_name(hub, "hub")
            except HubbubError as error:
                fail(error.message, WRONG)
        elif level == Level.CLIENT.value:
            fail(
                "a token for all hubs (`*`) cannot be of the level client; use --level admin, "
                "viewer or service, or name one hub",
                WRONG,
            )
        if user is None and level == Level.CLIENT.value and not (grants or rpcs):
            fail("a client's token needs --user, --grant or --rpc", WRONG)
        settings = load_settings(config)
        if hub != "*" and not force:
            _check_hub(hub, settings)
        try:
            identity = Identity(
                user_id=user, level=Level(level), grants=grants, rpcs=rpcs, extra=_metadata(extra)
            )
        except InvalidToken as error:
            fail(f"no token can say this: {error.message}", WRONG)
        _note_new_folder(settings)
        if user is None and level == Level.CLIENT.value and not _lets_anyone_in(hub, settings):
            note(
                "it names no user: it opens single channels (`--channel-token`), and logs in only "
                "where the hub's allowAnonymous is on; else give --user"
            )
        tokens = make_tokens(settings, SystemClock())
        click.echo(tokens.issue(hub, identity, ttl or settings.auth.token_ttl))


def _check_hub(hub: str, settings: Settings) -> None:
    """Checks that the server has the hub, by its configuration and its database in the data folder.
    A server that never ran, or one with PostgreSQL, cannot be checked."""
    from hubbub.server.data_folder import DATABASE
    from hubbub.storage.sqlite.inspection import hubs_in

    if settings.engine.allow_dynamic_hubs:
        return
    stored = hubs_in(Path(settings.storage.path) / DATABASE)
    if stored is None or hub in stored or hub in settings.hubs:
        return
    there = ", ".join(sorted({*stored, *settings.hubs})) or "none yet"
    fail(
        f"there is no hub {hub!r} here (there is: {there}); give another with --hub, or --force to "
        "make the token before the hub",
        WRONG,
    )


def _note_new_folder(settings: Settings) -> None:
    """Tokens can be signed before the first start, but a wrong folder is likely: prints a note."""
    from hubbub.server.data_folder import DATABASE
    from hubbub.server.secrets import FILE_NAME

    folder, auth = Path(settings.storage.path), settings.auth
    if auth.session.secret and auth.admin.secret:
        return
    has_keys = (folder / FILE_NAME).exists()
    if has_keys and (settings.storage.postgres.host or (folder / DATABASE).exists()):
        return
    made = "" if has_keys else ", so this makes new signing keys in it"
    note(
        f"no server has run with the data folder {str(folder)!r} yet{made}; one that has another "
        "folder refuses the token: make it there, or give its --config"
    )


def _lets_anyone_in(hub: str, settings: Settings) -> bool:
    """Whether the configuration file permits anonymous sessions."""
    return hub in settings.hubs and settings.hubs[hub].settings.allow_anonymous


def _metadata(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError as error:
        fail(f"--extra is not a JSON object: {error}", WRONG)
