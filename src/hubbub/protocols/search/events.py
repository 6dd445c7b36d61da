"""A client's search, and the hub's answer."""

from __future__ import annotations

from hubbub.domain import search
from hubbub.protocols.event_mapping import EventMapping

REQUESTS = (EventMapping("Search", search.Search, "SearchRequest"),)
NOTICES = (EventMapping("Search", search.SearchPage, "SearchResponse"),)
