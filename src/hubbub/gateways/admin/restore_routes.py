"""Routes of restores: one hub is replaced by its state in a backup, while the server runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hubbub.domain.errors import Conflict, NotFound
from hubbub.domain.fields import Name
from hubbub.engine.administration import Administration
from hubbub.engine.administration.views import RestoreView
from hubbub.gateways.admin.routes import Access, AdminRequest, AdminResponse, Routes
from hubbub.gateways.admin.shapes import Shape
from hubbub.gateways.calls import NoQuery

RESTORE_ROUTES = Routes("/v1/admin/restores", "Restores", Access.ADMIN)


class RestoreRequest(Shape, frozen=True, forbid_unknown_fields=True):
    """`source` is the hub in the archive, where it has another name. A dry run checks the archive
    and says what would be replaced by what."""

    hub: Name
    archive: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="The path of the archive, on the disk of the node that is asked.",
            examples=["/var/backups/hubbub/hubbub-20261117T031500Z.tar.gz"],
        ),
    ]
    source: Name | None = None
    dry_run: bool = False


@RESTORE_ROUTES.serve("POST", "", answers={202: RestoreView}, errors=(Conflict,))
async def begin_restore(
    admin: Administration, request: AdminRequest[NoQuery, RestoreRequest]
) -> AdminResponse:
    """Replace a hub by its state in the archive of a backup, while other hubs go on. The answer
    comes at once; ask for the restore until its `state` is `done` or `failed`."""
    wanted = request.body
    begun = admin.restores.begin(
        request.actor, wanted.hub, wanted.archive, wanted.source, wanted.dry_run
    )
    return AdminResponse(begun, 202)


@RESTORE_ROUTES.serve("GET", "")
async def list_restores(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> list[RestoreView]:
    """List the last restores of all nodes, the newest first."""
    return await admin.restores.all()


@RESTORE_ROUTES.serve("GET", "/{restore}", errors=(NotFound,))
async def get_restore(admin: Administration, request: AdminRequest[NoQuery, None]) -> RestoreView:
    """Read how far a restore is, or what became of it."""
    return await admin.restores.find(request.path["restore"])
