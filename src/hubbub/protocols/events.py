"""The events of the socket protocol: one table for both encodings, on the hub and in the client. An
event maps a domain struct to a message of spec/hubbub.proto; `protocols.mapping` derives the
mapping of fields from the two."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from msgspec import Struct

from hubbub.domain import notices, requests
from hubbub.domain.errors import UnknownEvent
from hubbub.protocols import checks
from hubbub.protocols.event_mapping import EventMapping
from hubbub.rooms import modules

_ROOMS = tuple(modules("protocols", "events"))

REQUESTS: tuple[EventMapping, ...] = (
    EventMapping("Ping", requests.Ping, "Heartbeat"),
    EventMapping("Pong", requests.Pong, "Heartbeat"),
    EventMapping("Close", requests.Close, "Heartbeat"),
    EventMapping("Auth", requests.Authenticate, "AuthRequest", checks.check_proof),
    EventMapping("SessionRestore", requests.Restore, "SessionRestoreNotice", checks.check_restore),
    EventMapping("Subscribe", requests.Subscribe, "SubscribeRequest"),
    EventMapping("Unsubscribe", requests.Unsubscribe, "UnsubscribeRequest"),
    EventMapping("Publish", requests.Publish, "ChannelPubRequest"),
    EventMapping("History", requests.History, "HistoryRequest", checks.check_bounds),
    EventMapping("Threads", requests.Threads, "ThreadsRequest", checks.check_threads),
    EventMapping("SetFilter", requests.SetFilter, "SetFilterRequest"),
    EventMapping("UnsetFilter", requests.UnsetFilter, "UnsetFilterRequest"),
    EventMapping("ListFilters", requests.ListFilters, "ListFiltersRequest"),
    EventMapping("Presence", requests.PresenceQuery, "PresenceRequest"),
    EventMapping("TopicSubscribe", requests.TopicSubscribe, "TopicSubscribeRequest"),
    EventMapping("TopicUnsubscribe", requests.TopicUnsubscribe, "TopicUnsubscribeRequest"),
    EventMapping("TopicGet", requests.TopicGet, "TopicGetRequest", checks.check_get),
    EventMapping("TopicAck", requests.TopicAck, "TopicAckRequest", checks.check_ack),
    EventMapping("ProducerOpen", requests.ProducerOpen, "ProducerOpenRequest"),
    EventMapping("TopicList", requests.TopicList, "TopicListRequest"),
    *chain.from_iterable(room.REQUESTS for room in _ROOMS),
    EventMapping("RPC", requests.Call, "RpcRequest", checks.check_call),
    EventMapping("StreamEnqueue", requests.Enqueue, "StreamEnqueueRequest", checks.check_enqueue),
    EventMapping("HCommand", requests.SendCommand, "CommandMessage"),
    EventMapping("HResult", requests.AnswerCommand, "ResultMessage"),
)
"""Events sent by clients. The items of a Publish are checked one by one (`checks.check_item`)."""

NOTICES: tuple[EventMapping, ...] = (
    EventMapping("Ping", notices.Ping, "Heartbeat"),
    EventMapping("Pong", notices.Pong, "Heartbeat"),
    EventMapping("Error", notices.Failed, "ErrorReply"),
    EventMapping("Disconnect", notices.Disconnect, "DisconnectNotice"),
    EventMapping("SessionInfo", notices.SessionInfo, "SessionInfoNotice"),
    EventMapping("Auth", notices.Authenticated, "AuthResponse"),
    EventMapping("SessionRestore", notices.RestoreKey, "SessionRestoreNotice"),
    EventMapping("SessionRestored", notices.SessionRestored, "SessionRestoredNotice"),
    EventMapping("Subscribe", notices.Subscribed, "SubscribeResponse"),
    EventMapping("Unsubscribe", notices.Unsubscribed, "UnsubscribeResponse"),
    EventMapping("Ack", notices.Published, "ChannelPubResponse"),
    EventMapping("Publish", notices.MessageDelivery, "ChannelPublish"),
    EventMapping("History", notices.HistoryPage, "HistoryResponse"),
    EventMapping("Threads", notices.ThreadsPage, "ThreadsResponse"),
    EventMapping("SetFilter", notices.FilterSet, "SetFilterResponse"),
    EventMapping("UnsetFilter", notices.FilterUnset, "UnsetFilterResponse"),
    EventMapping("ListFilters", notices.FilterList, "ListFiltersResponse"),
    EventMapping("ChannelReset", notices.ChannelReset, "ChannelResetNotice"),
    EventMapping("Presence", notices.Presence, "PresenceNotice"),
    EventMapping("Join", notices.Joined, "PresenceNotice"),
    EventMapping("Leave", notices.Left, "PresenceNotice"),
    EventMapping("Occupancy", notices.Occupancy, "OccupancyNotice"),
    EventMapping(
        "TopicSubscription", notices.TopicUnsubscribed, "TopicState", answer="UNSUBSCRIBED"
    ),
    EventMapping("TopicSubscription", notices.TopicSubscribed, "TopicState"),
    EventMapping("TopicMessages", notices.EachTopicMessages, "TopicMessagesNotice", answer=""),
    EventMapping("TopicMessages", notices.TopicMessages, "TopicMessagesNotice"),
    EventMapping("TopicAcked", notices.TopicAcked, "TopicAckedNotice"),
    EventMapping("ProducerOpened", notices.ProducerOpened, "ProducerOpenedNotice"),
    EventMapping("TopicSubscriptions", notices.TopicSubscriptions, "TopicSubscriptionsNotice"),
    *chain.from_iterable(room.NOTICES for room in _ROOMS),
    EventMapping("RPC", notices.CallAnswered, "RpcResponse"),
    EventMapping("StreamEnqueue", notices.Enqueued, "StreamEnqueueResponse"),
    EventMapping("HCommand", notices.CommandReceived, "CommandMessage"),
    EventMapping("HResult", notices.CommandAnswered, "ResultMessage"),
)
"""Events sent by the hub. If an event has several structs, the first one with the matching `answer`
is read."""


def by_name(events: Iterable[EventMapping]) -> dict[str, tuple[EventMapping, ...]]:
    found: dict[str, tuple[EventMapping, ...]] = {}
    for event in events:
        found[event.name] = (*found.get(event.name, ()), event)
    return found


def chosen(events: tuple[EventMapping, ...], record: Any) -> EventMapping:
    """The event that a decoded record belongs to."""
    if len(events) == 1:
        return events[0]
    answer = record.answer or ""
    return next(event for event in events if event.answer in (None, answer))


def of_request(request: Struct) -> EventMapping:
    """Raises `TypeError` for a struct that a client cannot send."""
    try:
        return _REQUESTS[type(request)]
    except KeyError:
        raise TypeError(f"a client cannot send {type(request).__name__}") from None


def of_notice(notice: Struct) -> EventMapping:
    return _NOTICES[type(notice)]


def unknown_event(name: str) -> UnknownEvent:
    if name in _HUB_ONLY:
        return UnknownEvent(f"{name} comes from the hub; a client cannot send it")
    return UnknownEvent(f"the protocol has no event {name[:40]!r}")


_REQUESTS = {event.struct: event for event in REQUESTS}
_NOTICES = {event.struct: event for event in NOTICES}
_HUB_ONLY = {event.name for event in NOTICES} - {event.name for event in REQUESTS}
