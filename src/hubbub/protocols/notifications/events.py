"""Requests of clients about notifications, and what clients are told about them."""

from __future__ import annotations

from hubbub.domain import notices, requests
from hubbub.domain.errors import Malformed
from hubbub.domain.notifications import Selection
from hubbub.protocols.event_mapping import EventMapping


def check_mark(request: requests.MarkNotifications) -> requests.MarkNotifications:
    Selection(request.ids, request.up_to, request.all).checked("MarkNotificationAsRead")
    return request


def check_notification_query(request: requests.NotificationQuery) -> requests.NotificationQuery:
    if request.after is not None and request.before is not None:
        raise Malformed("NotificationList: give at most one of `after` and `before`")
    if request.limit < 0:
        raise Malformed(f"NotificationList: `limit` is {request.limit}; it cannot be negative")
    return request


REQUESTS = (
    EventMapping(
        "MarkNotificationAsRead",
        requests.MarkNotifications,
        "MarkNotificationRequest",
        check_mark,
    ),
    EventMapping("NotificationInfo", requests.NotificationStateQuery, "NotificationInfoRequest"),
    EventMapping(
        "NotificationList",
        requests.NotificationQuery,
        "NotificationListRequest",
        check_notification_query,
    ),
)

NOTICES = (
    EventMapping("NotificationNew", notices.NotificationNew, "NotificationNewNotice"),
    EventMapping("NotificationRead", notices.NotificationRead, "NotificationReadNotice"),
    EventMapping("NotificationInfo", notices.NotificationInfo, "NotificationInfoNotice"),
    EventMapping("MarkNotificationAsRead", notices.NotificationsMarked, "MarkNotificationResponse"),
    EventMapping("NotificationList", notices.NotificationPage, "NotificationListResponse"),
)
