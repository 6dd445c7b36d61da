"""The events of the socket protocol: the one table from which both encodings follow, at the hub and
at the client. An event is a struct of the domain and a message of spec/hubbub.proto; what a field
is on the wire follows from the two (`protocols.mapping`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor
from msgspec import Struct

from hubbub.domain import notices, requests
from hubbub.domain.errors import UnknownEvent
from hubbub.protocols import checks
from hubbub.protocols import hubbub_pb2 as pb


class Event(NamedTuple):
    name: str
    struct: type[Struct]
    message_name: str
    check: Callable[[Any], Any] | None = None
    """Of what a client wrote: answers the request, or raises what is wrong with it."""
    answer: str | None = None
    """Where an event has several structs: the value of `answer` that tells this one."""

    @property
    def message(self) -> Descriptor:
        return pb.DESCRIPTOR.message_types_by_name[self.message_name]

    @property
    def number(self) -> int:
        return pb.EventType.Value(self.name)


REQUESTS = (
    Event("Ping", requests.Ping, "Heartbeat"),
    Event("Pong", requests.Pong, "Heartbeat"),
    Event("Close", requests.Close, "Heartbeat"),
    Event("Auth", requests.Authenticate, "AuthRequest", checks.check_proof),
    Event("SessionRestore", requests.Restore, "SessionRestoreNotice", checks.check_restore),
    Event("Subscribe", requests.Subscribe, "SubscribeRequest"),
    Event("Unsubscribe", requests.Unsubscribe, "UnsubscribeRequest"),
    Event("Publish", requests.Publish, "ChannelPubRequest"),
    Event("History", requests.History, "HistoryRequest", checks.check_bounds),
    Event("Threads", requests.Threads, "ThreadsRequest", checks.check_threads),
    Event("SetFilter", requests.SetFilter, "SetFilterRequest"),
    Event("UnsetFilter", requests.UnsetFilter, "UnsetFilterRequest"),
    Event("ListFilters", requests.ListFilters, "ListFiltersRequest"),
    Event("Presence", requests.PresenceQuery, "PresenceRequest"),
    Event("DocumentGet", requests.DocumentGet, "DocumentGetRequest", checks.check_document_get),
    Event(
        "DocumentChange",
        requests.DocumentChange,
        "DocumentChangeRequest",
        checks.check_document_change,
    ),
    Event("TopicSubscribe", requests.TopicSubscribe, "TopicSubscribeRequest"),
    Event("TopicUnsubscribe", requests.TopicUnsubscribe, "TopicUnsubscribeRequest"),
    Event("TopicGet", requests.TopicGet, "TopicGetRequest", checks.check_get),
    Event("TopicAck", requests.TopicAck, "TopicAckRequest", checks.check_ack),
    Event("ProducerOpen", requests.ProducerOpen, "ProducerOpenRequest"),
    Event("TopicList", requests.TopicList, "TopicListRequest"),
    Event(
        "MarkNotificationAsRead",
        requests.MarkNotifications,
        "MarkNotificationRequest",
        checks.check_mark,
    ),
    Event("NotificationInfo", requests.NotificationStateQuery, "NotificationInfoRequest"),
    Event(
        "NotificationList",
        requests.NotificationQuery,
        "NotificationListRequest",
        checks.check_notification_query,
    ),
    Event("RPC", requests.Call, "RpcRequest", checks.check_call),
    Event("StreamEnqueue", requests.Enqueue, "StreamEnqueueRequest", checks.check_enqueue),
    Event("HCommand", requests.SendCommand, "CommandMessage"),
    Event("HResult", requests.AnswerCommand, "ResultMessage"),
)
"""From clients. The items of a Publish are checked one by one (`checks.check_item`)."""

NOTICES = (
    Event("Ping", notices.Ping, "Heartbeat"),
    Event("Pong", notices.Pong, "Heartbeat"),
    Event("Error", notices.Failed, "ErrorReply"),
    Event("Disconnect", notices.Disconnect, "DisconnectNotice"),
    Event("SessionInfo", notices.SessionInfo, "SessionInfoNotice"),
    Event("Auth", notices.Authenticated, "AuthResponse"),
    Event("SessionRestore", notices.RestoreKey, "SessionRestoreNotice"),
    Event("SessionRestored", notices.SessionRestored, "SessionRestoredNotice"),
    Event("Subscribe", notices.Subscribed, "SubscribeResponse"),
    Event("Unsubscribe", notices.Unsubscribed, "UnsubscribeResponse"),
    Event("Ack", notices.Published, "ChannelPubResponse"),
    Event("Publish", notices.Delivery, "ChannelPublish"),
    Event("History", notices.HistoryPage, "HistoryResponse"),
    Event("Threads", notices.ThreadsPage, "ThreadsResponse"),
    Event("SetFilter", notices.FilterSet, "SetFilterResponse"),
    Event("UnsetFilter", notices.FilterUnset, "UnsetFilterResponse"),
    Event("ListFilters", notices.FilterList, "ListFiltersResponse"),
    Event("ChannelReset", notices.ChannelReset, "ChannelResetNotice"),
    Event("DocumentGet", notices.DocumentFound, "DocumentGetResponse"),
    Event("DocumentChange", notices.DocumentChanged, "DocumentChangeResponse"),
    Event("DocumentUpdated", notices.DocumentUpdated, "DocumentUpdate"),
    Event("DocumentInfo", notices.DocumentInfo, "DocumentInfoNotice"),
    Event("Presence", notices.Presence, "PresenceNotice"),
    Event("Join", notices.Joined, "PresenceNotice"),
    Event("Leave", notices.Left, "PresenceNotice"),
    Event("Occupancy", notices.Occupancy, "OccupancyNotice"),
    Event("TopicSubscription", notices.TopicUnsubscribed, "TopicState", answer="UNSUBSCRIBED"),
    Event("TopicSubscription", notices.TopicSubscribed, "TopicState"),
    Event("TopicMessages", notices.EachTopicMessages, "TopicMessagesNotice", answer=""),
    Event("TopicMessages", notices.TopicMessages, "TopicMessagesNotice"),
    Event("TopicAcked", notices.TopicAcked, "TopicAckedNotice"),
    Event("ProducerOpened", notices.ProducerOpened, "ProducerOpenedNotice"),
    Event("TopicSubscriptions", notices.TopicSubscriptions, "TopicSubscriptionsNotice"),
    Event("NotificationNew", notices.NotificationNew, "NotificationNewNotice"),
    Event("NotificationRead", notices.NotificationRead, "NotificationReadNotice"),
    Event("NotificationInfo", notices.NotificationInfo, "NotificationInfoNotice"),
    Event("MarkNotificationAsRead", notices.NotificationsMarked, "MarkNotificationResponse"),
    Event("NotificationList", notices.NotificationPage, "NotificationListResponse"),
    Event("RPC", notices.CallAnswered, "RpcResponse"),
    Event("StreamEnqueue", notices.Enqueued, "StreamEnqueueResponse"),
    Event("HCommand", notices.CommandReceived, "CommandMessage"),
    Event("HResult", notices.CommandAnswered, "ResultMessage"),
)
"""From the hub. Of several structs for an event, the first whose `answer` fits is read."""


def by_name(events: Iterable[Event]) -> dict[str, tuple[Event, ...]]:
    found: dict[str, tuple[Event, ...]] = {}
    for event in events:
        found[event.name] = (*found.get(event.name, ()), event)
    return found


def chosen(events: tuple[Event, ...], record: Any) -> Event:
    """The event that a record, which was read, is about."""
    if len(events) == 1:
        return events[0]
    answer = record.answer or ""
    return next(event for event in events if event.answer in (None, answer))


def of_request(request: Struct) -> Event:
    """Raises `TypeError` for what a client cannot send."""
    try:
        return _REQUESTS[type(request)]
    except KeyError:
        raise TypeError(f"a client cannot send {type(request).__name__}") from None


def of_notice(notice: Struct) -> Event:
    return _NOTICES[type(notice)]


def unknown_event(name: str) -> UnknownEvent:
    if name in _HUB_ONLY:
        return UnknownEvent(f"{name} comes from the hub; a client cannot send it")
    return UnknownEvent(f"the protocol has no event {name[:40]!r}")


_REQUESTS = {event.struct: event for event in REQUESTS}
_NOTICES = {event.struct: event for event in NOTICES}
_HUB_ONLY = {event.name for event in NOTICES} - {event.name for event in REQUESTS}
