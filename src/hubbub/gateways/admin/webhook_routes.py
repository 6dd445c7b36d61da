"""Routes for the webhooks of a hub, of all owners, and their topics. No response contains a secret
or a key."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hubbub.domain.errors import Conflict, NotFound, Unavailable
from hubbub.domain.fields import Name
from hubbub.domain.messages import JSON, TEXT, Message
from hubbub.domain.webhooks import WebhookStatus
from hubbub.engine.administration import Administration
from hubbub.gateways.admin import shapes
from hubbub.gateways.admin.paging import PageQuery, Search, counted, make_page
from hubbub.gateways.admin.shapes import into
from hubbub.gateways.calls import NoQuery, given
from hubbub.gateways.public_shapes import Serial
from hubbub.gateways.routes import Access, AdminRequest, Routes
from hubbub.protocols.json.webhooks import WebhookView, view_of

WEBHOOK_ROUTES = Routes("/v1/admin/hubs/{hub}", "Webhooks", Access.SERVICE, (NotFound, Unavailable))


class WebhookQuery(PageQuery, frozen=True, forbid_unknown_fields=True):
    channel: Annotated[Name, Meta(description="Only those of this channel.")] | UnsetType = UNSET
    status: Annotated[bool, Meta(description="With how each of them is doing.")] = False
    q: Search = ""
    sort: Annotated[
        Literal["id", "-lag"],
        Meta(
            description="By id; or only those that are behind, the farthest first, as last counted."
        ),
    ] = "id"


class ReplayQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Annotated[
        int, Meta(ge=0, le=10**15, description="`after` of the answer before; 0 at first.")
    ] = 0


class WebTopicView(shapes.Shape, frozen=True):
    """A topic that was registered, or that is fetched from `url`. `withKey`: who publishes must
    know a key. `pingedAt`: there is something new at `url` that was not fetched yet, after
    `fetchFailures` tries, the last of which failed with `fetchError`. Times are in ms since
    1970."""

    channel: str
    with_key: bool
    created_at: int
    url: str | None
    content_type: str | None
    pinged_at: int | None
    fetch_failures: int
    fetch_error: str | None


class ReplayView(shapes.Shape, frozen=True):
    """How many dead letters arrived this time, and how many did not. `more`: the time for one
    request was over before all were tried; send `after` to go on."""

    delivered: int
    failed: int
    more: bool
    after: int


@WEBHOOK_ROUTES.serve("GET", "/webhooks", name="listWebhooksAsAdmin")
async def list_webhooks(
    admin: Administration, request: AdminRequest[WebhookQuery, None]
) -> shapes.CountedPage[WebhookView]:
    """List the webhooks of a hub."""
    query, hub, channel = request.query, request.hub, given(request.query.channel)
    if query.sort == "-lag":
        keys, following, total = await admin.subscriptions.farthest(
            hub, query.rows, query.cursor, channel, q=query.q, webhooks=True
        )
        page = await admin.webhooks.some(hub, [key.name for key in keys])
    else:
        page, following, total = await admin.webhooks.page(
            hub, query.rows, query.cursor, channel, query.q
        )
    statuses: list[WebhookStatus | None] = [None] * len(page)
    if query.status:
        statuses = await admin.webhooks.statuses(page)
    views = [view_of(each, status) for each, status in zip(page, statuses, strict=True)]
    return counted(views, following, total)


@WEBHOOK_ROUTES.serve("GET", "/webhooks/{webhook}", name="getWebhookAsAdmin")
async def get_webhook(admin: Administration, request: AdminRequest[NoQuery, None]) -> WebhookView:
    """Read how a webhook is doing."""
    found = await admin.webhooks.get(request.hub, request.path["webhook"])
    (status,) = await admin.webhooks.statuses([found])
    return view_of(found, status)


@WEBHOOK_ROUTES.serve("DELETE", "/webhooks/{webhook}", name="deleteWebhookAsAdmin")
async def delete_webhook(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Remove a webhook for good."""
    await admin.webhooks.remove(request.actor, request.hub, request.path["webhook"])


@WEBHOOK_ROUTES.serve("POST", "/webhooks/{webhook}/replay", name="replayWebhookAsAdmin")
async def replay_webhook(
    admin: Administration, request: AdminRequest[ReplayQuery, None]
) -> ReplayView:
    """Send what a webhook gave up once more, as much as a moment allows."""
    webhook, after = request.path["webhook"], request.query.after
    return into(ReplayView, await admin.webhooks.replay(request.actor, request.hub, webhook, after))


class DeadLetterView(shapes.Shape, frozen=True):
    """A message that was given up. `serial` is its place among the dead letters, `originalSerial`
    that in the channel; `at` is when it was given up, in ms since 1970. `payload` is there where
    one dead letter was asked for and is text, else `payloadBase64`."""

    serial: Serial
    original_serial: Serial
    event: str
    content_type: str
    bytes: int
    at: int
    publisher: str | None = None
    payload: str | None = None
    payload_base64: str | None = None


class DeadLetterQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=200, description="Dead letters to look at.")] = 100
    cursor: Annotated[int, Meta(ge=0, le=10**15, description="`next` of the page before.")] = 0


def _dead_letter(message: Message, whole: bool = False) -> DeadLetterView:
    headers = (message.attributes.headers if message.attributes else None) or {}
    text = whole and message.content_type in (JSON, TEXT)
    return DeadLetterView(
        serial=str(message.serial),
        original_serial=str(headers.get("deadSerial", "")),
        event=message.event,
        content_type=message.content_type,
        bytes=len(message.payload),
        at=message.published_at,
        publisher=message.publisher,
        payload=message.payload.decode(errors="replace") if text else None,
        payload_base64=b64encode(message.payload).decode() if whole and not text else None,
    )


_LETTERS = "/webhooks/{webhook}/dead-letters"


def _serial(request: AdminRequest[NoQuery, None]) -> int:
    """Raises `NotFound`: what is no serial is no dead letter."""
    text = request.path["serial"]
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 16):
        raise NotFound(f"{text[:40]!r} is not the serial of a dead letter")
    return int(text)


@WEBHOOK_ROUTES.serve("POST", "/webhooks/{webhook}/pause", errors=(NotFound, Conflict, Unavailable))
async def pause_webhook(admin: Administration, request: AdminRequest[NoQuery, None]) -> WebhookView:
    """Stop sending to a webhook; what comes meanwhile waits."""
    webhook = request.path["webhook"]
    return view_of(await admin.webhooks.pause(request.actor, request.hub, webhook, True), None)


@WEBHOOK_ROUTES.serve(
    "POST", "/webhooks/{webhook}/resume", errors=(NotFound, Conflict, Unavailable)
)
async def resume_webhook(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> WebhookView:
    """Go on sending to a webhook, from where it was paused."""
    webhook = request.path["webhook"]
    return view_of(await admin.webhooks.pause(request.actor, request.hub, webhook, False), None)


@WEBHOOK_ROUTES.serve("GET", _LETTERS)
async def list_dead_letters(
    admin: Administration, request: AdminRequest[DeadLetterQuery, None]
) -> shapes.Page[DeadLetterView]:
    """List what a webhook gave up, without payloads."""
    query = request.query
    found, following = await admin.webhooks.dead_letters(
        request.hub, request.path["webhook"], query.cursor, query.limit
    )
    cursor = str(following) if following is not None else None
    return make_page([_dead_letter(each) for each in found], cursor)


@WEBHOOK_ROUTES.serve("GET", f"{_LETTERS}/{{serial}}", payloads=True)
async def get_dead_letter(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> DeadLetterView:
    """Read a dead letter with its payload."""
    webhook, serial = request.path["webhook"], _serial(request)
    found = await admin.webhooks.dead_letter(request.actor, request.hub, webhook, serial)
    return _dead_letter(found, whole=True)


@WEBHOOK_ROUTES.serve("POST", f"{_LETTERS}/{{serial}}/replay")
async def replay_dead_letter(
    admin: Administration, request: AdminRequest[NoQuery, None]
) -> ReplayView:
    """Send one dead letter once more."""
    webhook, serial = request.path["webhook"], _serial(request)
    return into(
        ReplayView, await admin.webhooks.replay_one(request.actor, request.hub, webhook, serial)
    )


@WEBHOOK_ROUTES.serve("DELETE", f"{_LETTERS}/{{serial}}")
async def discard_dead_letter(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Give a dead letter up for good."""
    await admin.webhooks.discard(
        request.actor, request.hub, request.path["webhook"], _serial(request)
    )


@WEBHOOK_ROUTES.serve("GET", "/web-topics")
async def list_web_topics(
    admin: Administration, request: AdminRequest[PageQuery, None]
) -> shapes.Page[WebTopicView]:
    """List the topics that were registered or are fetched."""
    query = request.query
    page, following = await admin.webhooks.topics(request.hub, query.limit, query.cursor)
    return make_page([into(WebTopicView, topic) for topic in page], following)


@WEBHOOK_ROUTES.serve("DELETE", "/web-topics/{channel}")
async def delete_web_topic(admin: Administration, request: AdminRequest[NoQuery, None]) -> None:
    """Remove a topic and its subscriptions of Light-PubSubHubbub; its channel stays."""
    await admin.webhooks.remove_topic(request.actor, request.hub, request.path["channel"])
