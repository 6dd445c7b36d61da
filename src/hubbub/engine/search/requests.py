"""A session's searches."""

from __future__ import annotations

from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity
from hubbub.domain.search import Search, SearchPage
from hubbub.engine.hub import SessionState
from hubbub.engine.rooms import Room
from hubbub.engine.search.service import SearchService
from hubbub.engine.session_requests import Beside, Subject

_SEARCHES = 4
"""The most searches of a session at once."""


class SearchRequests(Room):
    """A search may take long: the session's other requests do not wait for it. As with history, it
    begins when the client has read most of what was sent before."""

    def __init__(self, search: SearchService) -> None:
        self._search = search
        subject = Subject("search", _SEARCHES)
        self.session_requests = (Beside(Search, subject, self._answer, only_waits=True),)

    async def _answer(self, session: SessionState, identity: Identity, request: Search) -> Notice:
        try:
            await session.connection.drain()
            return await self._search.page(session.hub, identity, request, session.filters)
        except HubbubError as error:
            return SearchPage(error=error, req_id=request.req_id)
