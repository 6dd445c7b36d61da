"""Requests of clients about documents, and what clients are told about them."""

from __future__ import annotations

from hubbub.domain import notices, requests
from hubbub.domain.errors import Malformed
from hubbub.protocols.event_mapping import EventMapping


def check_document_get(request: requests.DocumentGet) -> requests.DocumentGet:
    given = (request.since, request.at, request.at_time)
    if sum(bound is not None for bound in given) > 1:
        raise Malformed("DocumentGet: give at most one of `since`, `at` and `atTime`")
    if any(bound is not None and bound < 0 for bound in given):
        raise Malformed("DocumentGet: versions and times begin at 0")
    return request


def check_document_change(request: requests.ChangeDocument) -> requests.ChangeDocument:
    if request.expected_version is not None and request.expected_version < 0:
        raise Malformed(
            f"DocumentChange: `expectedVersion` is {request.expected_version}; versions begin at 0"
        )
    return request


REQUESTS = (
    EventMapping("DocumentGet", requests.DocumentGet, "DocumentGetRequest", check_document_get),
    EventMapping(
        "DocumentChange",
        requests.ChangeDocument,
        "DocumentChangeRequest",
        check_document_change,
    ),
)

NOTICES = (
    EventMapping("DocumentGet", notices.DocumentFound, "DocumentGetResponse"),
    EventMapping("DocumentChange", notices.DocumentChangeResult, "DocumentChangeResponse"),
    EventMapping("DocumentUpdated", notices.DocumentUpdated, "DocumentUpdate"),
    EventMapping("DocumentInfo", notices.DocumentInfo, "DocumentInfoNotice"),
)
