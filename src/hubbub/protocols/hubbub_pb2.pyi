from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNSPECIFIED: _ClassVar[EventType]
    Ping: _ClassVar[EventType]
    Pong: _ClassVar[EventType]
    Close: _ClassVar[EventType]
    Error: _ClassVar[EventType]
    Disconnect: _ClassVar[EventType]
    SessionInfo: _ClassVar[EventType]
    Auth: _ClassVar[EventType]
    SessionRestore: _ClassVar[EventType]
    SessionRestored: _ClassVar[EventType]
    Subscribe: _ClassVar[EventType]
    Unsubscribe: _ClassVar[EventType]
    Publish: _ClassVar[EventType]
    Ack: _ClassVar[EventType]
    History: _ClassVar[EventType]
    ChannelReset: _ClassVar[EventType]
    Threads: _ClassVar[EventType]
    Search: _ClassVar[EventType]
    Presence: _ClassVar[EventType]
    Join: _ClassVar[EventType]
    Leave: _ClassVar[EventType]
    Occupancy: _ClassVar[EventType]
    DocumentGet: _ClassVar[EventType]
    DocumentChange: _ClassVar[EventType]
    DocumentUpdated: _ClassVar[EventType]
    DocumentInfo: _ClassVar[EventType]
    NotificationNew: _ClassVar[EventType]
    NotificationRead: _ClassVar[EventType]
    NotificationInfo: _ClassVar[EventType]
    MarkNotificationAsRead: _ClassVar[EventType]
    NotificationList: _ClassVar[EventType]
    RPC: _ClassVar[EventType]
    StreamEnqueue: _ClassVar[EventType]
    TopicSubscribe: _ClassVar[EventType]
    TopicUnsubscribe: _ClassVar[EventType]
    TopicGet: _ClassVar[EventType]
    TopicAck: _ClassVar[EventType]
    ProducerOpen: _ClassVar[EventType]
    TopicList: _ClassVar[EventType]
    TopicSubscription: _ClassVar[EventType]
    TopicMessages: _ClassVar[EventType]
    TopicAcked: _ClassVar[EventType]
    ProducerOpened: _ClassVar[EventType]
    TopicSubscriptions: _ClassVar[EventType]
    SetFilter: _ClassVar[EventType]
    UnsetFilter: _ClassVar[EventType]
    ListFilters: _ClassVar[EventType]
    HCommand: _ClassVar[EventType]
    HResult: _ClassVar[EventType]
UNSPECIFIED: EventType
Ping: EventType
Pong: EventType
Close: EventType
Error: EventType
Disconnect: EventType
SessionInfo: EventType
Auth: EventType
SessionRestore: EventType
SessionRestored: EventType
Subscribe: EventType
Unsubscribe: EventType
Publish: EventType
Ack: EventType
History: EventType
ChannelReset: EventType
Threads: EventType
Search: EventType
Presence: EventType
Join: EventType
Leave: EventType
Occupancy: EventType
DocumentGet: EventType
DocumentChange: EventType
DocumentUpdated: EventType
DocumentInfo: EventType
NotificationNew: EventType
NotificationRead: EventType
NotificationInfo: EventType
MarkNotificationAsRead: EventType
NotificationList: EventType
RPC: EventType
StreamEnqueue: EventType
TopicSubscribe: EventType
TopicUnsubscribe: EventType
TopicGet: EventType
TopicAck: EventType
ProducerOpen: EventType
TopicList: EventType
TopicSubscription: EventType
TopicMessages: EventType
TopicAcked: EventType
ProducerOpened: EventType
TopicSubscriptions: EventType
SetFilter: EventType
UnsetFilter: EventType
ListFilters: EventType
HCommand: EventType
HResult: EventType

class Frame(_message.Message):
    __slots__ = ("envelopes",)
    ENVELOPES_FIELD_NUMBER: _ClassVar[int]
    envelopes: _containers.RepeatedCompositeFieldContainer[Envelope]
    def __init__(self, envelopes: _Optional[_Iterable[_Union[Envelope, _Mapping]]] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("event", "payload")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    event: EventType
    payload: bytes
    def __init__(self, event: _Optional[_Union[EventType, str]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class ErrorInfo(_message.Message):
    __slots__ = ("code", "message", "retry", "retry_after")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retry: bool
    retry_after: float
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retry: _Optional[bool] = ..., retry_after: _Optional[float] = ...) -> None: ...

class ErrorReply(_message.Message):
    __slots__ = ("req_id", "error")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    error: ErrorInfo
    def __init__(self, req_id: _Optional[int] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class DisconnectNotice(_message.Message):
    __slots__ = ("code", "reason", "reconnect", "retry_after")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: str
    reason: str
    reconnect: bool
    retry_after: float
    def __init__(self, code: _Optional[str] = ..., reason: _Optional[str] = ..., reconnect: _Optional[bool] = ..., retry_after: _Optional[float] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("req_id",)
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    def __init__(self, req_id: _Optional[int] = ...) -> None: ...

class SessionInfoNotice(_message.Message):
    __slots__ = ("hub_id", "session_id", "hub_allow_anonymous", "hub_allow_user_channel", "default_public", "authenticated", "protocol_version", "user_id", "ping_interval", "max_message_bytes", "expires_at", "max_channels", "messages_per_second")
    HUB_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    HUB_ALLOW_ANONYMOUS_FIELD_NUMBER: _ClassVar[int]
    HUB_ALLOW_USER_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_PUBLIC_FIELD_NUMBER: _ClassVar[int]
    AUTHENTICATED_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    PING_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    MAX_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    hub_id: str
    session_id: str
    hub_allow_anonymous: bool
    hub_allow_user_channel: bool
    default_public: bool
    authenticated: bool
    protocol_version: int
    user_id: str
    ping_interval: int
    max_message_bytes: int
    expires_at: int
    max_channels: int
    messages_per_second: float
    def __init__(self, hub_id: _Optional[str] = ..., session_id: _Optional[str] = ..., hub_allow_anonymous: _Optional[bool] = ..., hub_allow_user_channel: _Optional[bool] = ..., default_public: _Optional[bool] = ..., authenticated: _Optional[bool] = ..., protocol_version: _Optional[int] = ..., user_id: _Optional[str] = ..., ping_interval: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., expires_at: _Optional[int] = ..., max_channels: _Optional[int] = ..., messages_per_second: _Optional[float] = ...) -> None: ...

class AuthRequest(_message.Message):
    __slots__ = ("req_id", "token", "credentials")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    token: str
    credentials: bytes
    def __init__(self, req_id: _Optional[int] = ..., token: _Optional[str] = ..., credentials: _Optional[bytes] = ...) -> None: ...

class ChannelAuthorization(_message.Message):
    __slots__ = ("channel", "publish", "subscribe")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    channel: str
    publish: bool
    subscribe: bool
    def __init__(self, channel: _Optional[str] = ..., publish: _Optional[bool] = ..., subscribe: _Optional[bool] = ...) -> None: ...

class AuthResponse(_message.Message):
    __slots__ = ("req_id", "success", "user_id", "token", "channel_authorizations", "rpc_authorizations", "extra", "error", "expires_at")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_AUTHORIZATIONS_FIELD_NUMBER: _ClassVar[int]
    RPC_AUTHORIZATIONS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    success: bool
    user_id: str
    token: str
    channel_authorizations: _containers.RepeatedCompositeFieldContainer[ChannelAuthorization]
    rpc_authorizations: _containers.RepeatedScalarFieldContainer[str]
    extra: bytes
    error: ErrorInfo
    expires_at: int
    def __init__(self, req_id: _Optional[int] = ..., success: _Optional[bool] = ..., user_id: _Optional[str] = ..., token: _Optional[str] = ..., channel_authorizations: _Optional[_Iterable[_Union[ChannelAuthorization, _Mapping]]] = ..., rpc_authorizations: _Optional[_Iterable[str]] = ..., extra: _Optional[bytes] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ..., expires_at: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("channel", "epoch", "serial", "document_version", "document_epoch")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    channel: str
    epoch: str
    serial: str
    document_version: int
    document_epoch: str
    def __init__(self, channel: _Optional[str] = ..., epoch: _Optional[str] = ..., serial: _Optional[str] = ..., document_version: _Optional[int] = ..., document_epoch: _Optional[str] = ...) -> None: ...

class SessionRestoreNotice(_message.Message):
    __slots__ = ("restore_key", "req_id", "positions")
    RESTORE_KEY_FIELD_NUMBER: _ClassVar[int]
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    restore_key: str
    req_id: int
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, restore_key: _Optional[str] = ..., req_id: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class SessionRestoredNotice(_message.Message):
    __slots__ = ("user_id", "authorizations", "extra", "subscribed_channels", "rpcs", "session_id", "req_id", "channels", "failures", "patterns", "expires_at")
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    AUTHORIZATIONS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    RPCS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    user_id: str
    authorizations: _containers.RepeatedCompositeFieldContainer[ChannelAuthorization]
    extra: bytes
    subscribed_channels: _containers.RepeatedScalarFieldContainer[str]
    rpcs: _containers.RepeatedScalarFieldContainer[str]
    session_id: str
    req_id: int
    channels: _containers.RepeatedCompositeFieldContainer[SubscribedChannel]
    failures: _containers.RepeatedCompositeFieldContainer[ChannelFailure]
    patterns: _containers.RepeatedCompositeFieldContainer[SubscribedPattern]
    expires_at: int
    def __init__(self, user_id: _Optional[str] = ..., authorizations: _Optional[_Iterable[_Union[ChannelAuthorization, _Mapping]]] = ..., extra: _Optional[bytes] = ..., subscribed_channels: _Optional[_Iterable[str]] = ..., rpcs: _Optional[_Iterable[str]] = ..., session_id: _Optional[str] = ..., req_id: _Optional[int] = ..., channels: _Optional[_Iterable[_Union[SubscribedChannel, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[ChannelFailure, _Mapping]]] = ..., patterns: _Optional[_Iterable[_Union[SubscribedPattern, _Mapping]]] = ..., expires_at: _Optional[int] = ...) -> None: ...

class ChannelSubscribeInfo(_message.Message):
    __slots__ = ("channel", "timestamp", "serial", "epoch", "document_version", "document_epoch", "by_pattern", "presence", "token")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BY_PATTERN_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    channel: str
    timestamp: int
    serial: str
    epoch: str
    document_version: int
    document_epoch: str
    by_pattern: bool
    presence: bytes
    token: str
    def __init__(self, channel: _Optional[str] = ..., timestamp: _Optional[int] = ..., serial: _Optional[str] = ..., epoch: _Optional[str] = ..., document_version: _Optional[int] = ..., document_epoch: _Optional[str] = ..., by_pattern: _Optional[bool] = ..., presence: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("req_id", "channels")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channels: _containers.RepeatedCompositeFieldContainer[ChannelSubscribeInfo]
    def __init__(self, req_id: _Optional[int] = ..., channels: _Optional[_Iterable[_Union[ChannelSubscribeInfo, _Mapping]]] = ...) -> None: ...

class ChannelFailure(_message.Message):
    __slots__ = ("channel", "error")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    channel: str
    error: ErrorInfo
    def __init__(self, channel: _Optional[str] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class SubscribedChannel(_message.Message):
    __slots__ = ("channel", "epoch", "serial", "recovered")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    channel: str
    epoch: str
    serial: str
    recovered: bool
    def __init__(self, channel: _Optional[str] = ..., epoch: _Optional[str] = ..., serial: _Optional[str] = ..., recovered: _Optional[bool] = ...) -> None: ...

class SubscribedPattern(_message.Message):
    __slots__ = ("pattern", "matches", "recovered")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    matches: int
    recovered: bool
    def __init__(self, pattern: _Optional[str] = ..., matches: _Optional[int] = ..., recovered: _Optional[bool] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("req_id", "subscribed_channels", "failures", "channels", "patterns")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBED_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    PATTERNS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    subscribed_channels: _containers.RepeatedScalarFieldContainer[str]
    failures: _containers.RepeatedCompositeFieldContainer[ChannelFailure]
    channels: _containers.RepeatedCompositeFieldContainer[SubscribedChannel]
    patterns: _containers.RepeatedCompositeFieldContainer[SubscribedPattern]
    def __init__(self, req_id: _Optional[int] = ..., subscribed_channels: _Optional[_Iterable[str]] = ..., failures: _Optional[_Iterable[_Union[ChannelFailure, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[SubscribedChannel, _Mapping]]] = ..., patterns: _Optional[_Iterable[_Union[SubscribedPattern, _Mapping]]] = ...) -> None: ...

class UnsubscribeRequest(_message.Message):
    __slots__ = ("req_id", "channels")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, req_id: _Optional[int] = ..., channels: _Optional[_Iterable[str]] = ...) -> None: ...

class UnsubscribeResponse(_message.Message):
    __slots__ = ("req_id", "unsubscribed_channels", "failures")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBED_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    unsubscribed_channels: _containers.RepeatedScalarFieldContainer[str]
    failures: _containers.RepeatedCompositeFieldContainer[ChannelFailure]
    def __init__(self, req_id: _Optional[int] = ..., unsubscribed_channels: _Optional[_Iterable[str]] = ..., failures: _Optional[_Iterable[_Union[ChannelFailure, _Mapping]]] = ...) -> None: ...

class ChannelPubExtras(_message.Message):
    __slots__ = ("store", "push", "retain", "transient", "push_options")
    STORE_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    PUSH_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    store: bool
    push: bool
    retain: bool
    transient: bool
    push_options: bytes
    def __init__(self, store: _Optional[bool] = ..., push: _Optional[bool] = ..., retain: _Optional[bool] = ..., transient: _Optional[bool] = ..., push_options: _Optional[bytes] = ...) -> None: ...

class PubRequestInfo(_message.Message):
    __slots__ = ("channel", "event", "payload", "extra", "req_id", "content_type", "producer", "attributes", "security_token", "idempotency_key")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SECURITY_TOKEN_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    channel: str
    event: str
    payload: bytes
    extra: ChannelPubExtras
    req_id: int
    content_type: str
    producer: ProducerInfo
    attributes: Attributes
    security_token: str
    idempotency_key: str
    def __init__(self, channel: _Optional[str] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., extra: _Optional[_Union[ChannelPubExtras, _Mapping]] = ..., req_id: _Optional[int] = ..., content_type: _Optional[str] = ..., producer: _Optional[_Union[ProducerInfo, _Mapping]] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ..., security_token: _Optional[str] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class Attributes(_message.Message):
    __slots__ = ("subtype", "author", "sender", "receiver", "conversation_id", "refers_to", "priority", "relevant_until", "ttl", "language", "location", "headers", "delivery_policy")
    SUBTYPE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    REFERS_TO_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RELEVANT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_POLICY_FIELD_NUMBER: _ClassVar[int]
    subtype: str
    author: str
    sender: str
    receiver: str
    conversation_id: str
    refers_to: str
    priority: int
    relevant_until: int
    ttl: int
    language: str
    location: bytes
    headers: bytes
    delivery_policy: str
    def __init__(self, subtype: _Optional[str] = ..., author: _Optional[str] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., conversation_id: _Optional[str] = ..., refers_to: _Optional[str] = ..., priority: _Optional[int] = ..., relevant_until: _Optional[int] = ..., ttl: _Optional[int] = ..., language: _Optional[str] = ..., location: _Optional[bytes] = ..., headers: _Optional[bytes] = ..., delivery_policy: _Optional[str] = ...) -> None: ...

class ProducerInfo(_message.Message):
    __slots__ = ("id", "sequence", "fence")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    sequence: str
    fence: str
    def __init__(self, id: _Optional[str] = ..., sequence: _Optional[str] = ..., fence: _Optional[str] = ...) -> None: ...

class ChannelPubRequest(_message.Message):
    __slots__ = ("publishes",)
    PUBLISHES_FIELD_NUMBER: _ClassVar[int]
    publishes: _containers.RepeatedCompositeFieldContainer[PubRequestInfo]
    def __init__(self, publishes: _Optional[_Iterable[_Union[PubRequestInfo, _Mapping]]] = ...) -> None: ...

class Response(_message.Message):
    __slots__ = ("req_id", "success", "msg_id", "channel_serial", "error", "duplicate")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MSG_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_SERIAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    success: bool
    msg_id: str
    channel_serial: str
    error: ErrorInfo
    duplicate: bool
    def __init__(self, req_id: _Optional[int] = ..., success: _Optional[bool] = ..., msg_id: _Optional[str] = ..., channel_serial: _Optional[str] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class ChannelPubResponse(_message.Message):
    __slots__ = ("published",)
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    published: _containers.RepeatedCompositeFieldContainer[Response]
    def __init__(self, published: _Optional[_Iterable[_Union[Response, _Mapping]]] = ...) -> None: ...

class ChannelPublish(_message.Message):
    __slots__ = ("channel", "event", "payload", "msg_id", "timestamp", "channel_serial", "content_type", "publisher", "retained", "previous_serial", "attributes")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MSG_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_SERIAL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_SERIAL_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    channel: str
    event: str
    payload: bytes
    msg_id: str
    timestamp: int
    channel_serial: str
    content_type: str
    publisher: str
    retained: bool
    previous_serial: str
    attributes: Attributes
    def __init__(self, channel: _Optional[str] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., msg_id: _Optional[str] = ..., timestamp: _Optional[int] = ..., channel_serial: _Optional[str] = ..., content_type: _Optional[str] = ..., publisher: _Optional[str] = ..., retained: _Optional[bool] = ..., previous_serial: _Optional[str] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ("req_id", "channel", "after", "before", "after_time", "before_time", "epoch", "limit", "filter", "conversation_id")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_TIME_FIELD_NUMBER: _ClassVar[int]
    BEFORE_TIME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    after: str
    before: str
    after_time: int
    before_time: int
    epoch: str
    limit: int
    filter: bytes
    conversation_id: str
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., after: _Optional[str] = ..., before: _Optional[str] = ..., after_time: _Optional[int] = ..., before_time: _Optional[int] = ..., epoch: _Optional[str] = ..., limit: _Optional[int] = ..., filter: _Optional[bytes] = ..., conversation_id: _Optional[str] = ...) -> None: ...

class HistoryResponse(_message.Message):
    __slots__ = ("req_id", "channel", "messages", "epoch", "head", "recovered", "more", "error", "next")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    messages: _containers.RepeatedCompositeFieldContainer[ChannelPublish]
    epoch: str
    head: str
    recovered: bool
    more: bool
    error: ErrorInfo
    next: str
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[ChannelPublish, _Mapping]]] = ..., epoch: _Optional[str] = ..., head: _Optional[str] = ..., recovered: _Optional[bool] = ..., more: _Optional[bool] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ..., next: _Optional[str] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("name", "channel", "template", "radius", "relevant", "condition")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    RADIUS_FIELD_NUMBER: _ClassVar[int]
    RELEVANT_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    name: str
    channel: str
    template: bytes
    radius: float
    relevant: bool
    condition: bytes
    def __init__(self, name: _Optional[str] = ..., channel: _Optional[str] = ..., template: _Optional[bytes] = ..., radius: _Optional[float] = ..., relevant: _Optional[bool] = ..., condition: _Optional[bytes] = ...) -> None: ...

class SetFilterRequest(_message.Message):
    __slots__ = ("req_id", "name", "channel", "template", "radius", "relevant", "condition")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    RADIUS_FIELD_NUMBER: _ClassVar[int]
    RELEVANT_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    name: str
    channel: str
    template: bytes
    radius: float
    relevant: bool
    condition: bytes
    def __init__(self, req_id: _Optional[int] = ..., name: _Optional[str] = ..., channel: _Optional[str] = ..., template: _Optional[bytes] = ..., radius: _Optional[float] = ..., relevant: _Optional[bool] = ..., condition: _Optional[bytes] = ...) -> None: ...

class SetFilterResponse(_message.Message):
    __slots__ = ("req_id", "name", "channel")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    name: str
    channel: str
    def __init__(self, req_id: _Optional[int] = ..., name: _Optional[str] = ..., channel: _Optional[str] = ...) -> None: ...

class UnsetFilterRequest(_message.Message):
    __slots__ = ("req_id", "name", "channel")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    name: str
    channel: str
    def __init__(self, req_id: _Optional[int] = ..., name: _Optional[str] = ..., channel: _Optional[str] = ...) -> None: ...

class UnsetFilterResponse(_message.Message):
    __slots__ = ("req_id", "name", "channel", "count")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    name: str
    channel: str
    count: int
    def __init__(self, req_id: _Optional[int] = ..., name: _Optional[str] = ..., channel: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class ListFiltersRequest(_message.Message):
    __slots__ = ("req_id", "channel")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ...) -> None: ...

class ListFiltersResponse(_message.Message):
    __slots__ = ("req_id", "filters")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    filters: _containers.RepeatedCompositeFieldContainer[Filter]
    def __init__(self, req_id: _Optional[int] = ..., filters: _Optional[_Iterable[_Union[Filter, _Mapping]]] = ...) -> None: ...

class ThreadsRequest(_message.Message):
    __slots__ = ("req_id", "channel", "after", "limit", "status")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    after: str
    limit: int
    status: str
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., after: _Optional[str] = ..., limit: _Optional[int] = ..., status: _Optional[str] = ...) -> None: ...

class ThreadsResponse(_message.Message):
    __slots__ = ("req_id", "channel", "threads", "epoch", "more", "error")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    threads: _containers.RepeatedCompositeFieldContainer[Thread]
    epoch: str
    more: bool
    error: ErrorInfo
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., threads: _Optional[_Iterable[_Union[Thread, _Mapping]]] = ..., epoch: _Optional[str] = ..., more: _Optional[bool] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class Thread(_message.Message):
    __slots__ = ("conversation_id", "first", "messages", "last_serial", "updated_at", "status")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAST_SERIAL_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    first: ChannelPublish
    messages: int
    last_serial: str
    updated_at: int
    status: str
    def __init__(self, conversation_id: _Optional[str] = ..., first: _Optional[_Union[ChannelPublish, _Mapping]] = ..., messages: _Optional[int] = ..., last_serial: _Optional[str] = ..., updated_at: _Optional[int] = ..., status: _Optional[str] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("req_id", "query", "channel", "since", "until", "filter", "order", "limit", "cursor")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    query: str
    channel: str
    since: int
    until: int
    filter: bytes
    order: str
    limit: int
    cursor: str
    def __init__(self, req_id: _Optional[int] = ..., query: _Optional[str] = ..., channel: _Optional[str] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., filter: _Optional[bytes] = ..., order: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("req_id", "hits", "cursor", "behind", "error")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    hits: _containers.RepeatedCompositeFieldContainer[SearchHit]
    cursor: str
    behind: int
    error: ErrorInfo
    def __init__(self, req_id: _Optional[int] = ..., hits: _Optional[_Iterable[_Union[SearchHit, _Mapping]]] = ..., cursor: _Optional[str] = ..., behind: _Optional[int] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class SearchHit(_message.Message):
    __slots__ = ("message", "score")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    message: ChannelPublish
    score: float
    def __init__(self, message: _Optional[_Union[ChannelPublish, _Mapping]] = ..., score: _Optional[float] = ...) -> None: ...

class ChannelResetNotice(_message.Message):
    __slots__ = ("channel", "epoch", "serial", "recovered")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    channel: str
    epoch: str
    serial: str
    recovered: bool
    def __init__(self, channel: _Optional[str] = ..., epoch: _Optional[str] = ..., serial: _Optional[str] = ..., recovered: _Optional[bool] = ...) -> None: ...

class PresenceMember(_message.Message):
    __slots__ = ("session_id", "user_id", "extra", "timestamp", "data")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    user_id: str
    extra: bytes
    timestamp: int
    data: bytes
    def __init__(self, session_id: _Optional[str] = ..., user_id: _Optional[str] = ..., extra: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class DocumentValue(_message.Message):
    __slots__ = ("kind", "null", "boolean", "integer", "number", "text", "data", "items", "keys")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SCALAR: _ClassVar[DocumentValue.Kind]
        LIST: _ClassVar[DocumentValue.Kind]
        OBJECT: _ClassVar[DocumentValue.Kind]
    SCALAR: DocumentValue.Kind
    LIST: DocumentValue.Kind
    OBJECT: DocumentValue.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    NULL_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    kind: DocumentValue.Kind
    null: bool
    boolean: bool
    integer: int
    number: float
    text: str
    data: bytes
    items: _containers.RepeatedCompositeFieldContainer[DocumentValue]
    keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[_Union[DocumentValue.Kind, str]] = ..., null: _Optional[bool] = ..., boolean: _Optional[bool] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., items: _Optional[_Iterable[_Union[DocumentValue, _Mapping]]] = ..., keys: _Optional[_Iterable[str]] = ...) -> None: ...

class DocumentOp(_message.Message):
    __slots__ = ("op", "path", "source", "value")
    OP_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    op: str
    path: str
    source: str
    value: DocumentValue
    def __init__(self, op: _Optional[str] = ..., path: _Optional[str] = ..., source: _Optional[str] = ..., value: _Optional[_Union[DocumentValue, _Mapping]] = ...) -> None: ...

class DocumentGetRequest(_message.Message):
    __slots__ = ("req_id", "channel", "path", "since", "epoch", "at", "at_time")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    AT_TIME_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    path: str
    since: int
    epoch: str
    at: int
    at_time: int
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., path: _Optional[str] = ..., since: _Optional[int] = ..., epoch: _Optional[str] = ..., at: _Optional[int] = ..., at_time: _Optional[int] = ...) -> None: ...

class DocumentGetResponse(_message.Message):
    __slots__ = ("req_id", "channel", "epoch", "version", "timestamp", "document", "updates", "more", "error")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    epoch: str
    version: int
    timestamp: int
    document: DocumentValue
    updates: _containers.RepeatedCompositeFieldContainer[DocumentUpdate]
    more: bool
    error: ErrorInfo
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., epoch: _Optional[str] = ..., version: _Optional[int] = ..., timestamp: _Optional[int] = ..., document: _Optional[_Union[DocumentValue, _Mapping]] = ..., updates: _Optional[_Iterable[_Union[DocumentUpdate, _Mapping]]] = ..., more: _Optional[bool] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class DocumentChangeRequest(_message.Message):
    __slots__ = ("req_id", "channel", "ops", "expected_version", "epoch", "change_id", "producer")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    ops: _containers.RepeatedCompositeFieldContainer[DocumentOp]
    expected_version: int
    epoch: str
    change_id: str
    producer: ProducerInfo
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., ops: _Optional[_Iterable[_Union[DocumentOp, _Mapping]]] = ..., expected_version: _Optional[int] = ..., epoch: _Optional[str] = ..., change_id: _Optional[str] = ..., producer: _Optional[_Union[ProducerInfo, _Mapping]] = ...) -> None: ...

class DocumentChangeResponse(_message.Message):
    __slots__ = ("req_id", "channel", "success", "epoch", "version", "timestamp", "duplicate", "error", "op_index", "reason")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OP_INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    success: bool
    epoch: str
    version: int
    timestamp: int
    duplicate: bool
    error: ErrorInfo
    op_index: int
    reason: str
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., success: _Optional[bool] = ..., epoch: _Optional[str] = ..., version: _Optional[int] = ..., timestamp: _Optional[int] = ..., duplicate: _Optional[bool] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ..., op_index: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DocumentUpdate(_message.Message):
    __slots__ = ("channel", "epoch", "version", "timestamp", "author", "change_id", "ops")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    channel: str
    epoch: str
    version: int
    timestamp: int
    author: str
    change_id: str
    ops: _containers.RepeatedCompositeFieldContainer[DocumentOp]
    def __init__(self, channel: _Optional[str] = ..., epoch: _Optional[str] = ..., version: _Optional[int] = ..., timestamp: _Optional[int] = ..., author: _Optional[str] = ..., change_id: _Optional[str] = ..., ops: _Optional[_Iterable[_Union[DocumentOp, _Mapping]]] = ...) -> None: ...

class DocumentInfoNotice(_message.Message):
    __slots__ = ("channel", "epoch", "version", "timestamp", "size")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    channel: str
    epoch: str
    version: int
    timestamp: int
    size: int
    def __init__(self, channel: _Optional[str] = ..., epoch: _Optional[str] = ..., version: _Optional[int] = ..., timestamp: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class PresenceRequest(_message.Message):
    __slots__ = ("req_id", "channel", "data")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    data: bytes
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class PresenceNotice(_message.Message):
    __slots__ = ("channel", "presence", "req_id", "error")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_FIELD_NUMBER: _ClassVar[int]
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    channel: str
    presence: _containers.RepeatedCompositeFieldContainer[PresenceMember]
    req_id: int
    error: ErrorInfo
    def __init__(self, channel: _Optional[str] = ..., presence: _Optional[_Iterable[_Union[PresenceMember, _Mapping]]] = ..., req_id: _Optional[int] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class OccupancyNotice(_message.Message):
    __slots__ = ("channel", "count")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    channel: str
    count: int
    def __init__(self, channel: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Notification(_message.Message):
    __slots__ = ("id", "timestamp", "event", "payload", "content_type", "author", "expires_at", "read", "read_at", "read_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    READ_AT_FIELD_NUMBER: _ClassVar[int]
    READ_BY_FIELD_NUMBER: _ClassVar[int]
    id: str
    timestamp: int
    event: str
    payload: bytes
    content_type: str
    author: str
    expires_at: int
    read: bool
    read_at: int
    read_by: str
    def __init__(self, id: _Optional[str] = ..., timestamp: _Optional[int] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., author: _Optional[str] = ..., expires_at: _Optional[int] = ..., read: _Optional[bool] = ..., read_at: _Optional[int] = ..., read_by: _Optional[str] = ...) -> None: ...

class NotificationItem(_message.Message):
    __slots__ = ("id", "event", "payload", "content_type", "author", "expires_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    event: str
    payload: bytes
    content_type: str
    author: str
    expires_at: int
    def __init__(self, id: _Optional[str] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., author: _Optional[str] = ..., expires_at: _Optional[int] = ...) -> None: ...

class NotificationNewNotice(_message.Message):
    __slots__ = ("channel", "revision", "notification")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    channel: str
    revision: int
    notification: Notification
    def __init__(self, channel: _Optional[str] = ..., revision: _Optional[int] = ..., notification: _Optional[_Union[Notification, _Mapping]] = ...) -> None: ...

class NotificationReadNotice(_message.Message):
    __slots__ = ("channel", "revision", "ids", "up_to", "read_at", "read_by")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    READ_AT_FIELD_NUMBER: _ClassVar[int]
    READ_BY_FIELD_NUMBER: _ClassVar[int]
    channel: str
    revision: int
    ids: _containers.RepeatedScalarFieldContainer[str]
    up_to: int
    read_at: int
    read_by: str
    def __init__(self, channel: _Optional[str] = ..., revision: _Optional[int] = ..., ids: _Optional[_Iterable[str]] = ..., up_to: _Optional[int] = ..., read_at: _Optional[int] = ..., read_by: _Optional[str] = ...) -> None: ...

class NotificationInfoRequest(_message.Message):
    __slots__ = ("req_id", "channel")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ...) -> None: ...

class NotificationInfoNotice(_message.Message):
    __slots__ = ("req_id", "channel", "epoch", "revision", "unread", "total", "newest")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    epoch: str
    revision: int
    unread: int
    total: int
    newest: int
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., epoch: _Optional[str] = ..., revision: _Optional[int] = ..., unread: _Optional[int] = ..., total: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class MarkNotificationRequest(_message.Message):
    __slots__ = ("req_id", "channel", "ids", "up_to", "all")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    ids: _containers.RepeatedScalarFieldContainer[str]
    up_to: int
    all: bool
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., up_to: _Optional[int] = ..., all: _Optional[bool] = ...) -> None: ...

class MarkNotificationResponse(_message.Message):
    __slots__ = ("req_id", "success", "marked", "unread", "unknown", "error")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    MARKED_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    success: bool
    marked: int
    unread: int
    unknown: _containers.RepeatedScalarFieldContainer[str]
    error: ErrorInfo
    def __init__(self, req_id: _Optional[int] = ..., success: _Optional[bool] = ..., marked: _Optional[int] = ..., unread: _Optional[int] = ..., unknown: _Optional[_Iterable[str]] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ...) -> None: ...

class NotificationListRequest(_message.Message):
    __slots__ = ("req_id", "channel", "unread", "after", "before", "limit")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    unread: bool
    after: int
    before: int
    limit: int
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., unread: _Optional[bool] = ..., after: _Optional[int] = ..., before: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class NotificationListResponse(_message.Message):
    __slots__ = ("req_id", "channel", "notifications", "more", "epoch", "revision", "unread", "total", "newest")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    channel: str
    notifications: _containers.RepeatedCompositeFieldContainer[Notification]
    more: bool
    epoch: str
    revision: int
    unread: int
    total: int
    newest: int
    def __init__(self, req_id: _Optional[int] = ..., channel: _Optional[str] = ..., notifications: _Optional[_Iterable[_Union[Notification, _Mapping]]] = ..., more: _Optional[bool] = ..., epoch: _Optional[str] = ..., revision: _Optional[int] = ..., unread: _Optional[int] = ..., total: _Optional[int] = ..., newest: _Optional[int] = ...) -> None: ...

class TopicOptions(_message.Message):
    __slots__ = ("shared", "lease_seconds", "max_unacknowledged", "max_deliveries", "dead_letters")
    SHARED_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_UNACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    shared: bool
    lease_seconds: float
    max_unacknowledged: int
    max_deliveries: int
    dead_letters: str
    def __init__(self, shared: _Optional[bool] = ..., lease_seconds: _Optional[float] = ..., max_unacknowledged: _Optional[int] = ..., max_deliveries: _Optional[int] = ..., dead_letters: _Optional[str] = ...) -> None: ...

class TopicSubscribeRequest(_message.Message):
    __slots__ = ("req_id", "topic", "name", "options", "start")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    topic: str
    name: str
    options: TopicOptions
    start: str
    def __init__(self, req_id: _Optional[int] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ..., options: _Optional[_Union[TopicOptions, _Mapping]] = ..., start: _Optional[str] = ...) -> None: ...

class TopicUnsubscribeRequest(_message.Message):
    __slots__ = ("req_id", "topic", "name")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    topic: str
    name: str
    def __init__(self, req_id: _Optional[int] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class TopicGetRequest(_message.Message):
    __slots__ = ("req_id", "topic", "name", "limit", "wait", "consumer", "ack_up_to", "after")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    ACK_UP_TO_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    topic: str
    name: str
    limit: int
    wait: float
    consumer: str
    ack_up_to: str
    after: str
    def __init__(self, req_id: _Optional[int] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ..., limit: _Optional[int] = ..., wait: _Optional[float] = ..., consumer: _Optional[str] = ..., ack_up_to: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class TopicAckRequest(_message.Message):
    __slots__ = ("req_id", "topic", "name", "serials", "up_to", "consumer", "give_back")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SERIALS_FIELD_NUMBER: _ClassVar[int]
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    GIVE_BACK_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    topic: str
    name: str
    serials: _containers.RepeatedScalarFieldContainer[str]
    up_to: str
    consumer: str
    give_back: bool
    def __init__(self, req_id: _Optional[int] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ..., serials: _Optional[_Iterable[str]] = ..., up_to: _Optional[str] = ..., consumer: _Optional[str] = ..., give_back: _Optional[bool] = ...) -> None: ...

class ProducerOpenRequest(_message.Message):
    __slots__ = ("req_id", "topic", "producer")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    topic: str
    producer: str
    def __init__(self, req_id: _Optional[int] = ..., topic: _Optional[str] = ..., producer: _Optional[str] = ...) -> None: ...

class TopicListRequest(_message.Message):
    __slots__ = ("req_id",)
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    def __init__(self, req_id: _Optional[int] = ...) -> None: ...

class TopicState(_message.Message):
    __slots__ = ("req_id", "answer", "topic", "name", "options", "epoch", "floor", "head", "lag", "handed_out", "created_at", "redeliveries", "dead_letters", "missed", "new")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    HANDED_OUT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    REDELIVERIES_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    answer: str
    topic: str
    name: str
    options: TopicOptions
    epoch: str
    floor: str
    head: str
    lag: int
    handed_out: int
    created_at: int
    redeliveries: int
    dead_letters: int
    missed: int
    new: bool
    def __init__(self, req_id: _Optional[int] = ..., answer: _Optional[str] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ..., options: _Optional[_Union[TopicOptions, _Mapping]] = ..., epoch: _Optional[str] = ..., floor: _Optional[str] = ..., head: _Optional[str] = ..., lag: _Optional[int] = ..., handed_out: _Optional[int] = ..., created_at: _Optional[int] = ..., redeliveries: _Optional[int] = ..., dead_letters: _Optional[int] = ..., missed: _Optional[int] = ..., new: _Optional[bool] = ...) -> None: ...

class TopicArticle(_message.Message):
    __slots__ = ("channel", "event", "payload", "msg_id", "timestamp", "channel_serial", "content_type", "publisher", "deliveries", "redelivered", "attributes")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MSG_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_SERIAL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHER_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    channel: str
    event: str
    payload: bytes
    msg_id: str
    timestamp: int
    channel_serial: str
    content_type: str
    publisher: str
    deliveries: int
    redelivered: bool
    attributes: Attributes
    def __init__(self, channel: _Optional[str] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., msg_id: _Optional[str] = ..., timestamp: _Optional[int] = ..., channel_serial: _Optional[str] = ..., content_type: _Optional[str] = ..., publisher: _Optional[str] = ..., deliveries: _Optional[int] = ..., redelivered: _Optional[bool] = ..., attributes: _Optional[_Union[Attributes, _Mapping]] = ...) -> None: ...

class TopicArticles(_message.Message):
    __slots__ = ("answer", "messages")
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    answer: str
    messages: _containers.RepeatedCompositeFieldContainer[TopicArticle]
    def __init__(self, answer: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[TopicArticle, _Mapping]]] = ...) -> None: ...

class TopicMessagesNotice(_message.Message):
    __slots__ = ("req_id", "answer", "topic", "name", "messages", "topics")
    class TopicsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TopicArticles
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TopicArticles, _Mapping]] = ...) -> None: ...
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    answer: str
    topic: str
    name: str
    messages: _containers.RepeatedCompositeFieldContainer[TopicArticle]
    topics: _containers.MessageMap[str, TopicArticles]
    def __init__(self, req_id: _Optional[int] = ..., answer: _Optional[str] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[TopicArticle, _Mapping]]] = ..., topics: _Optional[_Mapping[str, TopicArticles]] = ...) -> None: ...

class TopicAckedNotice(_message.Message):
    __slots__ = ("req_id", "answer", "topic", "name", "floor")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    answer: str
    topic: str
    name: str
    floor: str
    def __init__(self, req_id: _Optional[int] = ..., answer: _Optional[str] = ..., topic: _Optional[str] = ..., name: _Optional[str] = ..., floor: _Optional[str] = ...) -> None: ...

class ProducerOpenedNotice(_message.Message):
    __slots__ = ("req_id", "topic", "producer", "fence", "sequence")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    topic: str
    producer: str
    fence: str
    sequence: str
    def __init__(self, req_id: _Optional[int] = ..., topic: _Optional[str] = ..., producer: _Optional[str] = ..., fence: _Optional[str] = ..., sequence: _Optional[str] = ...) -> None: ...

class TopicSubscriptionsNotice(_message.Message):
    __slots__ = ("req_id", "subscriptions")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    subscriptions: _containers.RepeatedCompositeFieldContainer[TopicState]
    def __init__(self, req_id: _Optional[int] = ..., subscriptions: _Optional[_Iterable[_Union[TopicState, _Mapping]]] = ...) -> None: ...

class RpcRequest(_message.Message):
    __slots__ = ("req_id", "method", "payload", "content_type", "timeout")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    method: str
    payload: bytes
    content_type: str
    timeout: float
    def __init__(self, req_id: _Optional[int] = ..., method: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., timeout: _Optional[float] = ...) -> None: ...

class RpcResponse(_message.Message):
    __slots__ = ("req_id", "payload", "content_type")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    payload: bytes
    content_type: str
    def __init__(self, req_id: _Optional[int] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class StreamEnqueueRequest(_message.Message):
    __slots__ = ("req_id", "stream", "event", "payload", "content_type")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    stream: str
    event: str
    payload: bytes
    content_type: str
    def __init__(self, req_id: _Optional[int] = ..., stream: _Optional[str] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class StreamEnqueueResponse(_message.Message):
    __slots__ = ("req_id", "msg_id")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    MSG_ID_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    msg_id: str
    def __init__(self, req_id: _Optional[int] = ..., msg_id: _Optional[str] = ...) -> None: ...

class CommandMessage(_message.Message):
    __slots__ = ("req_id", "command")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    command: bytes
    def __init__(self, req_id: _Optional[int] = ..., command: _Optional[bytes] = ...) -> None: ...

class ResultMessage(_message.Message):
    __slots__ = ("req_id", "result")
    REQ_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    req_id: int
    result: bytes
    def __init__(self, req_id: _Optional[int] = ..., result: _Optional[bytes] = ...) -> None: ...

class ServiceCall(_message.Message):
    __slots__ = ("hub_id", "method", "payload", "content_type", "user_id", "session_id")
    HUB_ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    hub_id: str
    method: str
    payload: bytes
    content_type: str
    user_id: str
    session_id: str
    def __init__(self, hub_id: _Optional[str] = ..., method: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., user_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class ServiceAnswer(_message.Message):
    __slots__ = ("payload", "content_type", "error")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    content_type: str
    error: str
    def __init__(self, payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class StreamEvent(_message.Message):
    __slots__ = ("hub_id", "stream", "event", "payload", "content_type", "msg_id", "timestamp", "user_id", "session_id")
    HUB_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    MSG_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    hub_id: str
    stream: str
    event: str
    payload: bytes
    content_type: str
    msg_id: str
    timestamp: int
    user_id: str
    session_id: str
    def __init__(self, hub_id: _Optional[str] = ..., stream: _Optional[str] = ..., event: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., msg_id: _Optional[str] = ..., timestamp: _Optional[int] = ..., user_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class ProviderRequest(_message.Message):
    __slots__ = ("hub_id", "session_id", "credentials", "headers")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HUB_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    hub_id: str
    session_id: str
    credentials: bytes
    headers: _containers.ScalarMap[str, str]
    def __init__(self, hub_id: _Optional[str] = ..., session_id: _Optional[str] = ..., credentials: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ProviderAnswer(_message.Message):
    __slots__ = ("success", "user_id", "extra", "channels", "rpcs", "expires_in", "message")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRA_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    RPCS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    success: bool
    user_id: str
    extra: bytes
    channels: _containers.RepeatedCompositeFieldContainer[ChannelAuthorization]
    rpcs: _containers.RepeatedScalarFieldContainer[str]
    expires_in: float
    message: str
    def __init__(self, success: _Optional[bool] = ..., user_id: _Optional[str] = ..., extra: _Optional[bytes] = ..., channels: _Optional[_Iterable[_Union[ChannelAuthorization, _Mapping]]] = ..., rpcs: _Optional[_Iterable[str]] = ..., expires_in: _Optional[float] = ..., message: _Optional[str] = ...) -> None: ...

class AdminRequest(_message.Message):
    __slots__ = ("token", "path", "query", "body", "if_match", "if_none_match")
    class PathEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class QueryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    IF_MATCH_FIELD_NUMBER: _ClassVar[int]
    IF_NONE_MATCH_FIELD_NUMBER: _ClassVar[int]
    token: str
    path: _containers.ScalarMap[str, str]
    query: _containers.ScalarMap[str, str]
    body: _struct_pb2.Value
    if_match: str
    if_none_match: str
    def __init__(self, token: _Optional[str] = ..., path: _Optional[_Mapping[str, str]] = ..., query: _Optional[_Mapping[str, str]] = ..., body: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., if_match: _Optional[str] = ..., if_none_match: _Optional[str] = ...) -> None: ...

class AdminPublishRequest(_message.Message):
    __slots__ = ("token", "hub_id", "publishes")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    HUB_ID_FIELD_NUMBER: _ClassVar[int]
    PUBLISHES_FIELD_NUMBER: _ClassVar[int]
    token: str
    hub_id: str
    publishes: _containers.RepeatedCompositeFieldContainer[PubRequestInfo]
    def __init__(self, token: _Optional[str] = ..., hub_id: _Optional[str] = ..., publishes: _Optional[_Iterable[_Union[PubRequestInfo, _Mapping]]] = ...) -> None: ...

class AdminReply(_message.Message):
    __slots__ = ("ack", "error", "body", "version", "published")
    ACK_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    ack: bool
    error: ErrorInfo
    body: _struct_pb2.Value
    version: int
    published: _containers.RepeatedCompositeFieldContainer[Response]
    def __init__(self, ack: _Optional[bool] = ..., error: _Optional[_Union[ErrorInfo, _Mapping]] = ..., body: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., version: _Optional[int] = ..., published: _Optional[_Iterable[_Union[Response, _Mapping]]] = ...) -> None: ...
