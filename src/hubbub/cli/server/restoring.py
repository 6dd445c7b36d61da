"""`hubbub restore`: restores an archive as a data folder, or as a hub of a running server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from hubbub.cli.administration.admin_client import AdminClient
from hubbub.cli.administration.options import calling, confirm, connection_options, yes_option
from hubbub.cli.failures import WRONG, clear_failures, fail
from hubbub.cli.messages.options import Trust
from hubbub.cli.printing import to_json
from hubbub.cli.server.backup import data_folder, show, summary, tell_left_out
from hubbub.cli.tables import json_option, show_list
from hubbub.server.backup.archive import BackupError
from hubbub.server.data_folder import SECRETS

_LOOK_SECONDS = 0.2
_WORK = {
    "checking": "checking the archive",
    "loading": "loading",
    "switching": "replacing the hub",
    "clearing": "deleting what was replaced",
}


@click.command()
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--hub", help="Restore only this hub of ARCHIVE, into a running server.")
@click.option("--as", "target", metavar="HUB", help="The hub gets another name.")
@click.option("--dry-run", is_flag=True, help="With --hub: say what would be replaced.")
@click.option("--force", is_flag=True, help="Replace what is there; it is kept beside.")
@yes_option
@json_option
@connection_options
def restore(
    archive: Path,
    hub: str | None,
    target: str | None,
    dry_run: bool,
    force: bool,
    yes: bool,
    as_json: bool,
    url: str,
    token: str | None,
    config: Path | None,
    data: Path | None,
    trust: Trust,
) -> None:
    """Put the content of ARCHIVE into the data folder of a hub that is not running.

    With --hub, replace one hub of a running server, while its other hubs go on. ARCHIVE is a file
    that the server can read. Takes the token of an administrator of all hubs.

    Everything is checked before anything is changed.
    """
    if hub is not None:
        if force:
            fail("--force is for a data folder; leave it out with --hub", WRONG)
        with calling(url, token, config, data, trust) as admin:
            _restore_hub(admin, archive, hub, target or hub, dry_run, yes, as_json)
    elif target is not None or dry_run:
        fail("--as and --dry-run are for one hub; name it with --hub", WRONG)
    else:
        _restore_folder(archive, data, config, force, as_json)


def _restore_folder(
    archive: Path, data: Path | None, config: Path | None, force: bool, as_json: bool
) -> None:
    from hubbub.server.backup.restore import restore as put_back

    if not archive.is_file():
        fail(f"there is no file {archive}", WRONG)
    with clear_failures():
        folder = data_folder(data, config)
        try:
            restored = put_back(archive, folder, force=force, progress=show())
        except BackupError as error:
            fail(str(error))
        manifest, kept = restored.manifest, restored.kept
        if as_json:
            done = {"data": str(folder), "manifest": manifest, "kept": str(kept) if kept else None}
            click.echo(to_json(done))
            return
        click.echo(f"restored {folder}: {summary(manifest)}")
        tell_left_out(manifest)
        if kept is not None:
            click.echo(f"what was there before is in {kept}")
        if not (folder / SECRETS).exists():
            click.echo(
                "no signing keys are in this folder: the hub makes new ones, or takes those of its"
                " settings; tokens signed with others stop working"
            )


def _restore_hub(
    admin: AdminClient,
    archive: Path,
    source: str,
    hub: str,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    place = str(archive.absolute()) if archive.is_file() else str(archive)
    wanted = {"hub": hub, "source": source, "archive": place}
    if not dry_run:
        confirm(f"Replace all that the hub {hub!r} holds by {source!r} of {archive}?", yes)
    ended = _await_end(admin, admin.call("beginRestore", {}, body={**wanted, "dryRun": dry_run}))
    failure = ended.get("error")
    if failure is not None:
        fail(f"{failure['message']} ({failure['code']}); hub {hub!r} is as it was")
    if as_json:
        click.echo(to_json(ended))
        return
    columns = {"TABLE": "table", "IN THE ARCHIVE": "archive", "NOW" if dry_run else "BEFORE": "now"}
    show_list(ended["parts"], columns, "the archive has nothing of this hub", False)
    origin = f"the backup of {ended['createdAt']}, Hubbub {ended['version']}"
    if dry_run:
        click.echo(f"would replace hub {hub!r} by {source!r} of {origin}; nothing was changed")
    else:
        seconds = (ended["endedAt"] - ended["begunAt"]) / 1000
        click.echo(
            f"restored hub {hub!r} from {origin}: {ended['rows']} rows in {seconds:.1f} s,"
            f" {ended['sessions']} sessions were told to connect again"
        )
    if not ended["withSecrets"]:
        click.echo(
            "the archive is without secrets: it has no webhooks that sign or encrypt, and no"
            " headers of routes and auth providers"
        )


def _await_end(admin: AdminClient, begun: dict[str, Any]) -> dict[str, Any]:
    progress = show()
    view = begun
    while view["state"] not in ("done", "failed"):
        loading = view["state"] == "loading" and view["totalRows"]
        share = view["rows"] / view["totalRows"] if loading else 0.0
        progress(_WORK[view["state"]], min(share, 0.99))
        time.sleep(_LOOK_SECONDS)
        view = admin.call("getRestore", {"restore": begun["id"]})
    progress("", 1.0)
    return view
