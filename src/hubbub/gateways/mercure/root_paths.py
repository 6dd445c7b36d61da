"""The path of Mercure that names no hub: `/.well-known/mercure`."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import BadRequest
from hubbub.engine.mercure.settings import MercureSettings
from hubbub.engine.node import Node


def resolve(node: Node, segments: Sequence[str], host: str | None) -> tuple[str, ...] | None:
    """Raises `BadRequest` if no hub belongs to the host."""
    if tuple(segments[:2]) != (".well-known", "mercure"):
        return None
    settings = node.limits.of(MercureSettings)
    if not settings.enabled:
        return None
    name = (host or "").lower()
    hub = settings.hosts.get(name) or settings.hosts.get(name.partition(":")[0])
    hub = hub or settings.default_hub or _only_hub(node)
    return ("v1", "hubs", hub, "mercure", *segments[2:])


def _only_hub(node: Node) -> str:
    names = node.directory.names()
    if len(names) != 1:
        raise BadRequest(
            "it is not clear which hub /.well-known/mercure means; set mercure.defaultHub or "
            "mercure.hosts, or use /v1/hubs/{hub}/mercure"
        )
    return names[0]
