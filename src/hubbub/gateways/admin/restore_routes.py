"""Routes of restores, which replace one hub by its state in a backup while the server runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from hubbub.domain.errors import Conflict, NotFound
from hubbub.domain.fields import Name
from hubbub.engine.administration import Administration
from hubbub.engine.administration.views import RestoreView
from hubbub.gateways.admin.shapes import Shape
from hubbub.gateways.calls import NoQuery
from hubbub.gateways.routes import Access, AdminRequest, AdminResponse, Routes

RESTORE_ROUTES = Routes("/v1/admin/restores", "Restores", Access.ADMIN)


class RestoreRequest(Shape, frozen=True, forbid_unknown_fields=True):
    """`source` is the hub's name in the archive, if it differs. A dry run checks the archive and
    reports what would be replaced."""

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
    """Replace a hub by its state in a backup archive, while other hubs stay in service. The
    response comes at once; poll the restore until its `state` is `done` or `failed`."""
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
    """Read the progress or the result of a restore."""
    return await admin.restores.find(request.path["restore"])
