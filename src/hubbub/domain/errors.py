"""Every error that a user of the hub can meet, as one tree with stable codes.

HubbubError
├── BadRequest            the input is wrong; sending it again unchanged cannot help
│   ├── Malformed         bytes that cannot be read as the protocol
│   ├── UnknownEvent      an event name that the protocol does not have
│   ├── InvalidName       a hub, channel or event name that breaks the naming rules
│   ├── InvalidPayload    a payload that is not what its content type claims
│   ├── InvalidPatch      operations on a document that are none
│   ├── InvalidAttribute  a field of a message's envelope that is out of its bounds
│   ├── InvalidFilter     a filter that cannot be evaluated
│   │   └── IncompleteFilter  a part of it is missing
│   ├── ValidationFailed  a validator of the collection refuses the document
│   ├── TooLarge          over a size limit
│   │   └── HeadTooLarge  of an HTTP request
│   ├── MethodNotAllowed  the path is right, the HTTP method is not
│   ├── UpgradeRequired   the path is for WebSocket, in its version 13
│   ├── UnsupportedMediaType  a body of a kind that the path does not take
│   ├── WrongChannelKind  the channel's kind does not take this request
│   ├── SecretNeeded      a kept secret was given for another address; give it again
│   ├── ArchiveRefused    an archive of a backup that cannot be restored
│   └── ServiceRefused    the service that was called says no
├── Denied                the caller may not do this
│   ├── NotAuthenticated  nobody has proven who this is
│   ├── InvalidToken      forged, expired, revoked or made for another hub
│   ├── NotPermitted      known, but without the permission
│   │   └── SubjectNotPermitted  the NATS subject is not one of the hub's
│   └── OriginRefused     the browser's origin is not on the list
├── NotFound              a hub, channel or path that is not there
│   ├── HubNotFound       there is no such hub, and none comes into being by use
│   ├── TopicNotFound     nobody has put anything there, or the channel does not store
│   ├── ServiceNotFound   no service of the hub answers this method
│   ├── HistoryGone       of a document, as it was then
│   └── NotSubscribed     the caller has no durable subscription of this name there
├── Conflict              the state does not allow it
│   ├── VersionMismatch   somebody else changed it since it was read
│   ├── PatchFailed       an operation does not fit the document
│   ├── SessionReplaced   the session went on over another connection
│   ├── RestoreFailed     the restore key is unknown, spent or expired
│   ├── SequenceGap       a put leaves out sequence numbers of its producer
│   ├── SequenceReused    a put repeats a sequence number with other content
│   ├── TopicExists       the topic is registered already
│   └── ProducerFenced    another process took the producer id over
├── Limited               too much or too fast; later it may work
│   ├── RateLimited       messages per second
│   ├── QuotaExceeded     a quota of the hub
│   ├── TooManyChannels   channels per session
│   ├── TooManyFilters    filters per session
│   ├── TooManyMatches    channels that match patterns, or patterns
│   ├── SlowConsumer      the client reads slower than its channels publish
│   └── Overloaded        admission control: the server takes no more right now
├── Timeout               nobody answered in time
│   ├── HeartbeatTimeout  no sign of life from the client after a ping
│   ├── AuthenticationTimeout  a hub without anonymity waited long enough
│   ├── ServiceTimeout    the service that was called; it may have done its work
│   └── RequestTimeout    an HTTP request did not arrive in time
├── Unavailable           a part of the system is away; retrying helps
│   ├── AuthProviderFailed  it is down, too slow, or answers nonsense
│   ├── HookFailed        the hook that has to permit it could not be asked
│   ├── ServiceUnavailable  the service that was called cannot be reached
│   ├── ServiceFailed     the service that was called broke down or answers nonsense
│   ├── StreamUnavailable the stream takes nothing right now
│   ├── StoreUnavailable  the disk or the database takes nothing right now
│   ├── StaleOwner        another node owns the channel by now
│   ├── HubRestoring      the hub is being replaced by a backup; reconnect
│   └── GoingAway         the server is draining; reconnect
└── Internal              a fault of the hub itself

The code is the contract (`docs/errors.md` lists them). HTTP statuses and WebSocket close codes
are part of the table too, but only the edges read them. A message goes to strangers: what only
the operator may read (paths, addresses, a driver's words) is the error's detail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self


class HubbubError(Exception):
    """Base of the tree. `retry`: the same request may work later. `reconnect`: after a close with
    this error, a client should connect again by itself."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    close_code: ClassVar[int] = 4500
    retry: ClassVar[bool] = False
    reconnect: ClassVar[bool] = True

    retry_after: float | None = None
    """Seconds after which the same request may succeed, if known."""

    def __init__(self, message: str, detail: str | None = None) -> None:
        """`message` is sent to the caller. `detail` is for the operator only: it may contain paths,
        addresses, settings and messages of drivers or the operating system. Logs write
        `str(error)`, which is the detail if there is one; gateways send the message."""
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.details: dict[str, Any] = {}
        """Machine-readable details in JSON; the names are those of the protocol."""

    def __str__(self) -> str:
        return self.detail or self.message

    def with_detail(self, detail: str | None) -> Self:
        self.detail = detail
        return self


STORE_AWAY = "the store cannot be used right now; try again later"
STORE_FULL = "the store is full: nothing can be stored right now, other requests go on"


class BadRequest(HubbubError):
    code = "bad_request"
    http_status = 400
    close_code = 4400
    reconnect = False


class Malformed(BadRequest):
    code = "malformed"
    close_code = 4401


class UnknownEvent(BadRequest):
    code = "unknown_event"


class InvalidName(BadRequest):
    code = "invalid_name"


class InvalidPayload(BadRequest):
    code = "invalid_payload"
    http_status = 422


class InvalidPatch(BadRequest):
    """`opIndex` in its details: the index of the invalid operation."""

    code = "invalid_patch"
    http_status = 422


class InvalidAttribute(BadRequest):
    code = "invalid_attribute"
    http_status = 422


class InvalidFilter(BadRequest):
    """`at` in its details: the position in the definition."""

    code = "invalid_filter"
    http_status = 422


class IncompleteFilter(InvalidFilter):
    code = "incomplete_filter"


class ValidationFailed(BadRequest):
    """`status` in its details: the status of the command's result."""

    code = "validation_failed"
    http_status = 422

    def __init__(self, message: str, status: int = 7) -> None:
        super().__init__(message)
        self.status = status
        self.details["status"] = status


class TooLarge(BadRequest):
    code = "too_large"
    http_status = 413
    close_code = 4413


class HeadTooLarge(TooLarge):
    code = "head_too_large"
    http_status = 431


class MethodNotAllowed(BadRequest):
    code = "method_not_allowed"
    http_status = 405

    def __init__(self, message: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.allowed = tuple(allowed)


class UpgradeRequired(BadRequest):
    code = "upgrade_required"
    http_status = 426


class UnsupportedMediaType(BadRequest):
    code = "unsupported_media_type"
    http_status = 415

    def __init__(self, message: str, accepted: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.accepted = tuple(accepted)


class WrongChannelKind(BadRequest):
    code = "wrong_channel_kind"
    http_status = 409


class SecretNeeded(BadRequest):
    """`(hidden)` was sent in place of a secret that belongs to another address or was never set."""

    code = "secret_needed"


class ArchiveRefused(BadRequest):
    code = "archive_refused"
    http_status = 422


class ServiceRefused(BadRequest):
    code = "service_refused"
    http_status = 422


class Denied(HubbubError):
    code = "denied"
    http_status = 403
    close_code = 4403
    reconnect = False


class NotAuthenticated(Denied):
    code = "not_authenticated"
    http_status = 401
    close_code = 4410


class InvalidToken(Denied):
    code = "invalid_token"
    http_status = 401
    close_code = 4411


class NotPermitted(Denied):
    code = "not_permitted"


class SubjectNotPermitted(NotPermitted):
    code = "subject_not_permitted"


class OriginRefused(Denied):
    code = "origin_refused"
    close_code = 4412


class NotFound(HubbubError):
    code = "not_found"
    http_status = 404
    close_code = 4404
    reconnect = False


class HubNotFound(NotFound):
    code = "hub_not_found"


class TopicNotFound(NotFound):
    code = "topic_not_found"


class ServiceNotFound(NotFound):
    code = "service_not_found"


class HistoryGone(NotFound):
    code = "history_gone"
    http_status = 410


class NotSubscribed(NotFound):
    code = "not_subscribed"


class Conflict(HubbubError):
    code = "conflict"
    http_status = 409
    close_code = 4409
    reconnect = False


class VersionMismatch(Conflict):
    """The object is not at the version that the caller expects. For a document, the details hold
    its `version` and `epoch`."""

    code = "version_mismatch"
    http_status = 412


class PatchFailed(Conflict):
    """`opIndex` in its details: the index of the failed operation; `reason`: `test`, `missing`,
    `index` or `inside`."""

    code = "patch_failed"

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        if reason:
            self.details["reason"] = reason


class SessionReplaced(Conflict):
    """The session was restored on another connection, which replaced this one."""

    code = "session_replaced"
    close_code = 4415


class RestoreFailed(Conflict):
    code = "restore_failed"


class SequenceGap(Conflict):
    code = "sequence_gap"


class SequenceReused(Conflict):
    code = "sequence_reused"


class TopicExists(Conflict):
    code = "topic_exists"


class ProducerFenced(Conflict):
    code = "producer_fenced"


class Limited(HubbubError):
    code = "limited"
    http_status = 429
    close_code = 4429
    retry = True

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(Limited):
    code = "rate_limited"


class QuotaExceeded(Limited):
    code = "quota_exceeded"
    close_code = 4430


class TooManyChannels(Limited):
    code = "too_many_channels"
    retry = False


class TooManyFilters(Limited):
    code = "too_many_filters"
    retry = False


class TooManyMatches(Limited):
    code = "too_many_matches"
    close_code = 4416
    retry = False
    reconnect = False


class SlowConsumer(Limited):
    code = "slow_consumer"
    close_code = 4431


class Overloaded(Limited):
    code = "overloaded"
    http_status = 503
    close_code = 4432


class Timeout(HubbubError):
    code = "timeout"
    http_status = 504
    close_code = 4408
    retry = True


class HeartbeatTimeout(Timeout):
    code = "heartbeat_timeout"
    close_code = 4406


class AuthenticationTimeout(Timeout):
    code = "authentication_timeout"
    http_status = 408
    close_code = 4407
    reconnect = False


class ServiceTimeout(Timeout):
    code = "service_timeout"


class RequestTimeout(Timeout):
    code = "request_timeout"
    http_status = 408


class Unavailable(HubbubError):
    code = "unavailable"
    http_status = 503
    close_code = 4503
    retry = True


class AuthProviderFailed(Unavailable):
    code = "auth_provider_failed"
    http_status = 502
    close_code = 4502


class HookFailed(Unavailable):
    code = "hook_failed"
    http_status = 502


class ServiceUnavailable(Unavailable):
    code = "service_unavailable"


class ServiceFailed(Unavailable):
    code = "service_failed"
    http_status = 502


class StreamUnavailable(Unavailable):
    code = "stream_unavailable"


class StoreUnavailable(Unavailable):
    """The detail describes the fault of the store: it names files, addresses and settings."""

    code = "store_unavailable"

    @classmethod
    def because(cls, detail: str) -> StoreUnavailable:
        return cls(STORE_AWAY, detail)


class StaleOwner(Unavailable):
    code = "stale_owner"


class HubRestoring(Unavailable):
    code = "hub_restoring"


class GoingAway(Unavailable):
    code = "going_away"
    close_code = 4504


class Internal(HubbubError):
    code = "internal"


def over_quota(hub: str, quota: int) -> QuotaExceeded:
    return QuotaExceeded(
        f"hub {hub!r} has used up its quota of {quota} stored bytes; "
        "shorten its retention, delete what nobody needs, or raise the quota"
    )


HUB_AWAY = (HubNotFound, HubRestoring)
"""The hub is absent: deleted, or being restored."""


def _walk(kind: type[HubbubError]) -> list[type[HubbubError]]:
    return [kind, *(leaf for child in kind.__subclasses__() for leaf in _walk(child))]


def catalogue() -> dict[str, type[HubbubError]]:
    """All error classes of the hub by stable code; the base class shares `internal` with its leaf.
    Errors that exist only in the client are not included."""
    return {kind.code: kind for kind in _walk(HubbubError) if kind.__module__ == __name__}
