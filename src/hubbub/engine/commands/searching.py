"""The command that searches all channels that the sender may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from hubbub.domain.commands.attributes import (
    is_number,
    read_moment,
    read_required_text,
    read_text,
)
from hubbub.domain.commands.jids import parse_channel
from hubbub.domain.commands.mapping import from_message
from hubbub.domain.commands.objects import write_message
from hubbub.domain.commands.status import invalid
from hubbub.domain.filters.filters import Filters
from hubbub.domain.permissions import Identity
from hubbub.domain.search import MAX_HITS, RANK, Search, SearchHit, SearchPage
from hubbub.domain.shown import shown
from hubbub.engine.commands.asking import Asker
from hubbub.engine.commands.history import filters_of
from hubbub.engine.commands.parameters import required_object
from hubbub.engine.hub import Hub


class Searcher(Protocol):
    """The room that searches."""

    async def page(
        self, hub: Hub, identity: Identity, request: Search, filters: Filters
    ) -> SearchPage:
        """Raises a `HubbubError`."""


class SearchCommand:
    def __init__(self, service: Callable[[], Searcher]) -> None:
        """`service` is constructed later than the commands."""
        self._service = service

    async def search(self, asker: Asker, params: Any) -> Any:
        """Hits with their scores, and `cursor` where there may be more. The filters of the sender's
        session apply."""
        given = required_object(params)
        chid, limit = read_text(given, "chid"), given.get("limit")
        if limit is not None and (not is_number(limit) or not 1 <= limit <= MAX_HITS):
            raise invalid(f"limit is {shown(limit)}; give a number from 1 to {MAX_HITS}")
        request = Search(
            read_required_text(given, "q"),
            channel=None if chid is None else parse_channel(chid, asker.hub.name),
            since=read_moment(given, "since"),
            until=read_moment(given, "until"),
            order=read_text(given, "order") or RANK,
            limit=int(limit or 0),
            cursor=read_text(given, "cursor"),
        )
        page = await self._service().page(asker.hub, asker.identity, request, filters_of(asker))
        answer: dict[str, Any] = {"hits": list(map(_written, page.hits)), "behind": page.behind}
        if page.cursor is not None:
            answer["cursor"] = page.cursor
        return answer


def _written(hit: SearchHit) -> dict[str, Any]:
    return {"message": write_message(from_message(hit.message)), "score": hit.score}
