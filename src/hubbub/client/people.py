"""Messages to people and tools from Python: `People("ws://127.0.0.1:8000", "demo", token)`.

All requests use HTTP. `send` returns when the message is on disk; its later fate is reported to the
hub's callbacks, and to the sender if that is a peer.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
from base64 import b64decode, urlsafe_b64decode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec

from hubbub.client.connection.link import HttpFailure, parse_address
from hubbub.client.connection.tls import check_trust, without_tls
from hubbub.client.errors import Unreachable
from hubbub.domain.errors import BadRequest, NotFound
from hubbub.domain.fields import wire_name
from hubbub.protocols.checks import error_from_wire

_TIMEOUT_SECONDS = 30.0
_PAGE = 500
_AT_ONCE = 1000
"""The most peers in one request."""
Json = dict[str, Any]
Delivery = Literal["ACKNOWLEDGED", "UNACKNOWLEDGED"]


class People:
    """One hub, with the token of a service or an administrator. A user's token may `send`, if the
    hub allows it (`communication.clientSend`), and manage the channels that the user follows. Every
    method raises `HubbubError`."""

    def __init__(
        self, url: str, hub: str, token: str | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._parts = parse_address(url)
        self._hub = hub
        self._token = token
        self._tls = tls

    @property
    def is_user(self) -> bool:
        """Whether the token claims to be a user's; it is not verified here."""
        try:
            claims = (self._token or "").split(".")[1]
            told = msgspec.json.decode(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
            return bool(told.get("level", "client") == "client")
        except (IndexError, ValueError, AttributeError):
            return False

    # -- messages -------------------------------------------------------------------------------

    async def send(
        self,
        content: str | bytes = "",
        *,
        to: str = "",
        type: str = "MESSAGE",
        subtype: str = "TEXT",
        sender: str = "",
        id: str = "",
        conversation_id: str = "",
        language: str = "",
        ttl_ms: int = 0,
        security_token: str = "",
        delivery_policy: Delivery = "UNACKNOWLEDGED",
        refers_to: str = "",
        headers: Mapping[str, str] | None = None,
        transient: bool = False,
    ) -> str:
        """Returns the message's id once the message is on disk; at once with `transient`. `to` is a
        peer, `collective:x`, `component:x`, or empty. Repeating an id with the same content is
        idempotent; with other content it raises `Conflict`."""
        body = {
            "id": id,
            "type": type,
            "subtype": subtype,
            "sender": sender,
            "receiver": to,
            "conversationID": conversation_id,
            "language": language,
            "content": {"base64": content} if isinstance(content, bytes) else content,
            "ttl": ttl_ms,
            "securityToken": security_token,
            "deliveryPolicy": delivery_policy,
            "refersTo": refers_to,
            "headers": dict(headers or {}),
        }
        given = {name: value for name, value in body.items() if value}
        query = {"transient": "true"} if transient else {}
        found = await self._ask("POST", self._own("comm", "messages"), query, given)
        return str(found["id"])

    async def messages(self, **criteria: object) -> AsyncIterator[Json]:
        """All logged messages with these values, newest first: `id`, `type`, `subtype`, `sender`,
        `receiver`, `conversation`, `since` and `until` (milliseconds since 1970). The `content` of
        a message is a `str`, or `bytes`."""
        async for found in self._pages("messages", **criteria):
            content = found["message"].get("content")
            if isinstance(content, dict):
                found["message"]["content"] = b64decode(content["base64"])
            yield found

    # -- routing rules --------------------------------------------------------------------------

    async def add_routing(
        self,
        route: Iterable[str],
        *,
        type: str = "",
        subtype: str = "",
        receiver: str = "",
        sender: str = "",
    ) -> str:
        """Returns the new rule's id. Raises `BadRequest` for a rule without a route or a
        condition."""
        rule = {"type": type, "subtype": subtype, "receiver": receiver, "sender": sender}
        body = {"route": list(route), **{name: value for name, value in rule.items() if value}}
        found = await self._ask("POST", self._admin("routes"), {}, body)
        return str(found["id"])

    async def remove_routing(self, rule: str) -> Json | None:
        """Returns the removed rule; None if there was none."""
        return await self._remove("routes", rule)

    # -- peers and collectives ------------------------------------------------------------------

    async def set_peer(self, peer: str, addresses: Iterable[Json], **more: Any) -> None:
        """`addresses` in order of preference: `{"adapter": …, "parameters": […]}`. `more`:
        `policy`, `privacy`, and for the policy `IN_ORDER` `next_after_ms`."""
        body = {"addresses": list(addresses), **_on_wire(more)}
        await self._ask("PUT", self._admin("peers", peer), {}, body)

    async def set_peers(self, peers: Iterable[tuple[str, Json]]) -> AsyncIterator[int]:
        """Creates or replaces many peers. Yields the number of completed peers after each
        request."""
        done = 0
        batch: list[Json] = []
        for peer, info in peers:
            batch.append({"id": peer, "peer": info})
            if len(batch) == _AT_ONCE:
                await self._ask("POST", self._admin("peers"), {}, {"peers": batch})
                done, batch = done + len(batch), []
                yield done
        if batch:
            await self._ask("POST", self._admin("peers"), {}, {"peers": batch})
            yield done + len(batch)

    async def peer(self, peer: str) -> Json | None:
        return await self._find("peers", peer)

    async def remove_peer(self, peer: str) -> Json | None:
        return await self._remove("peers", peer)

    async def follow(
        self, peer: str | None, channel: str, start: Literal["new", "first"] = "new"
    ) -> Json:
        """Makes the peer receive the messages of a channel that stores, according to its addresses
        and policy. `first`: including the messages already stored. `peer` None: the user of this
        token, who needs the permission to subscribe to the channel."""
        made: Json = await self._ask("PUT", self._followings(peer, channel), {"start": start})
        return made

    async def unfollow(self, peer: str | None, channel: str) -> bool:
        """Returns whether the peer (None: the user of this token) followed the channel."""
        try:
            await self._ask("DELETE", self._followings(peer, channel))
        except NotFound as error:
            if error.code != "not_found":
                raise
            return False
        return True

    def followed(self, peer: str | None = None) -> AsyncIterator[Json]:
        """The channels that the peer (None: the user of this token) follows: `channel`, `lag`,
        `delivered`, `failed`."""
        return self._pages_at(self._followings(peer))

    def _followings(self, peer: str | None, *channel: str) -> tuple[str, ...]:
        if peer is None:
            return self._own("peer-subscriptions", *channel)
        return self._admin("peers", peer, "subscriptions", *channel)

    async def set_collective(self, name: str, members: Iterable[str], **more: Any) -> None:
        """`more`: `policy`, and for the policy `IN_ORDER` `next_after_ms`."""
        body = {"members": list(members), **_on_wire(more)}
        await self._ask("PUT", self._admin("collectives", name), {}, body)

    async def collective(self, name: str) -> Json | None:
        return await self._find("collectives", name)

    async def remove_collective(self, name: str) -> Json | None:
        return await self._remove("collectives", name)

    # -- adapters -------------------------------------------------------------------------------

    async def set_adapter(
        self,
        name: str,
        kind: str,
        settings: Mapping[str, Any],
        *,
        secrets: Mapping[str, str] | None = None,
        interval_ms: int | None = None,
        delete_if_successful: bool = False,
        max_per_look: int | None = None,
        awaits: str = "",
    ) -> None:
        """`interval_ms`: the polling interval, greater than zero; None: only on request.
        `delete_if_successful`: it is removed after its first message. `max_per_look`: the most
        messages per poll. `awaits`: the id of the message whose reply it polls for."""
        if interval_ms is not None and interval_ms <= 0:
            raise BadRequest(f"interval_ms is {interval_ms}; give a number above zero, or None")
        body: Json = {"kind": kind, "settings": dict(settings), "secrets": dict(secrets or {})}
        if interval_ms is not None:
            body["intervalMs"] = interval_ms
        if delete_if_successful:
            body["deleteIfSuccessful"] = True
        if awaits:
            body["awaits"] = awaits
        if max_per_look is not None:
            body["maxPerLook"] = max_per_look
        await self._ask("PUT", self._admin("adapters", name), {}, body)

    async def remove_adapter(self, name: str) -> Json | None:
        """Returns its settings; None if there is none. Queued messages of an output adapter are
        still sent."""
        return await self._remove("adapters", name)

    async def pull(self, name: str) -> None:
        """Makes an input adapter poll for messages now."""
        await self._ask("POST", self._admin("adapters", name, "pull"))

    # -- callbacks ------------------------------------------------------------------------------

    async def register_callback(self, name: str, url: str, *roles: str) -> str:
        """Messages without a receiver, and reports to senders that are not peers, are posted to
        `url`. `roles`: `notify`, `peerInfo`, `collectiveInfo`, `peerAuth`."""
        body = {"url": url, "roles": list(roles) or ["notify"]}
        await self._ask("PUT", self._admin("callbacks", name), {}, body)
        return name

    async def add_message_info(self, type: str, subtype: str, **more: Any) -> None:
        """Describes messages of this type and subtype, replacing an earlier description. `more`:
        `purpose`, `valid_answer`, `valid_answer_types`, `related_messages`. Raises `BadRequest`."""
        body = {"type": type, "subtype": subtype, **_on_wire(more)}
        await self._ask("PUT", self._admin("message-info", f"{type}.{subtype}"), {}, body)

    async def message_info(self, type: str = "", subtype: str = "", id: str = "") -> Json | None:
        """The description of messages with this type and subtype, or of the message with this id;
        None if there is none."""
        query = {"type": type, "subtype": subtype, "id": id}
        given = {name: text for name, text in query.items() if text}
        return await self._find("message-info-about", **given)

    async def unregister_callback(self, name: str) -> bool:
        return await self._remove("callbacks", name) is not None

    # -- requests -------------------------------------------------------------------------------

    async def _find(self, *path: str, **query: str) -> Json | None:
        try:
            found: Json = await self._ask("GET", self._admin(*path), query)
        except NotFound as error:
            if error.code != "not_found":
                raise
            return None
        return found

    async def _remove(self, *path: str) -> Json | None:
        found = await self._find(*path)
        if found is not None:
            try:
                await self._ask("DELETE", self._admin(*path))
            except NotFound:
                return None  # somebody else did meanwhile
        return found

    def _pages(self, *path: str, **criteria: object) -> AsyncIterator[Json]:
        return self._pages_at(self._admin(*path), **criteria)

    async def _pages_at(self, path: tuple[str, ...], **criteria: object) -> AsyncIterator[Json]:
        cursor: str | None = ""
        while cursor is not None:
            query = {**criteria, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
            page = await self._ask("GET", path, query)
            for item in page["items"]:
                yield item
            cursor = page.get("next")

    def _admin(self, *path: str) -> tuple[str, ...]:
        return ("admin", "hubs", self._hub, *path)

    def _own(self, *path: str) -> tuple[str, ...]:
        return ("hubs", self._hub, *path)

    async def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        query: Mapping[str, object] | None = None,
        body: object = None,
    ) -> Any:
        return await asyncio.to_thread(self._exchange, method, path, query or {}, body)

    def _exchange(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object], body: object
    ) -> Any:
        """Blocking. Opens a connection for each request."""
        parts = self._parts
        target = f"{parts.path.rstrip('/')}/v1/" + "/".join(quote(each, safe="") for each in path)
        target += f"?{urlencode(query)}" if query else ""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        host, port = parts.hostname or "", parts.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=self._tls)
            if parts.scheme in ("https", "wss")
            else http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        )
        try:
            connection.request(method, target, body=data, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            address = parts.geturl()
            check_trust(error, address)
            hint = without_tls(address) if isinstance(error, http.client.HTTPException) else ""
            raise Unreachable(f"no hub answers at {address}: {error}{hint}") from None
        finally:
            connection.close()
        return _understood(answer.status, text)


def _on_wire(fields: Json) -> Json:
    return {wire_name(name): value for name, value in fields.items()}


def _understood(status: int, text: bytes) -> Any:
    try:
        if 200 <= status < 300:
            return msgspec.json.decode(text) if text else None
        failure = msgspec.json.decode(text, type=HttpFailure).error
    except (msgspec.MsgspecError, UnicodeError):
        raise BadRequest(
            f"the server answers with status {status}, but not as a hub does"
        ) from None
    raise error_from_wire(failure.code, failure.message)
