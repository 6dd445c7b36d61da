"""Administration of hubs by services and administrators, independent of the gateway. Gateways
(HTTP, NATS) authenticate the caller; validation, execution and the audit log happen here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hubbub.domain.mercure.keys import MercureKey
from hubbub.domain.rules import (
    AUTH_PROVIDERS,
    CHANNELS,
    MERCURE_KEYS,
    NAMESPACES,
    RPC_ROUTES,
    RULES,
    AuthProvider,
    ChannelSettings,
    RpcRoute,
    Rules,
)
from hubbub.engine.access.revocations import Revocations
from hubbub.engine.administration.access import AccessAdministration, LoginSettings
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.analytics import AnalyticsAdministration
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.channel_list import ChannelList
from hubbub.engine.administration.communication import CommunicationAdministration
from hubbub.engine.administration.documents import DocumentAdministration
from hubbub.engine.administration.hubs import Hubs
from hubbub.engine.administration.inspection import Inspector
from hubbub.engine.administration.live import LiveAdministration
from hubbub.engine.administration.notifications import NotificationAdministration
from hubbub.engine.administration.parts import (
    ChannelOverrides,
    Endpoints,
    MercureKeys,
    Namespaces,
)
from hubbub.engine.administration.push import PushAdministration
from hubbub.engine.administration.restoring import Restores, Suspending
from hubbub.engine.administration.settings import NamedSettings, SettingsEditor
from hubbub.engine.administration.stopping import ServerStop
from hubbub.engine.administration.subscriptions import SubscriptionAdministration
from hubbub.engine.administration.survey import NodeFacts, Survey
from hubbub.engine.administration.ticks import Ticker
from hubbub.engine.administration.tracing import Tracer
from hubbub.engine.administration.users import UserAdministration
from hubbub.engine.administration.versions import ANY_VERSION, Condition, Versioned
from hubbub.engine.administration.views import ConfiguredKey
from hubbub.engine.administration.watching import Board
from hubbub.engine.administration.webhooks import WebhookAdministration
from hubbub.engine.node import Node
from hubbub.engine.push.credentials import PushCredentials
from hubbub.engine.push.pusher import Pusher
from hubbub.ports.adapters import AdapterKinds
from hubbub.ports.archives import Archives
from hubbub.ports.authenticator import Authenticator
from hubbub.ports.storage import Store

__all__ = [
    "ANY_VERSION",
    "Actor",
    "Administration",
    "Condition",
    "LoginSettings",
    "NamedSettings",
    "NodeFacts",
    "Survey",
    "Versioned",
]


class Administration:
    """One object per node; each attribute covers one subject."""

    def __init__(
        self,
        *,
        node: Node,
        store: Store,
        revocations: Revocations,
        authenticator: Authenticator,
        login: LoginSettings,
        survey: Survey,
        configuration: Sequence[ConfiguredKey],
        analytics: AnalyticsAdministration,
        credentials: PushCredentials,
        push: Pusher,
        adapters: AdapterKinds,
        archives: Archives,
        suspending: Suspending,
        request_stop: Callable[[], None],
    ) -> None:
        """`configuration` is that at the start, without secrets. `request_stop` makes the server
        drain and exit."""
        self.node = node
        self.audit = AuditLog(store, node.clock, many_nodes=not node.bus.alone)
        self.stop = ServerStop(self.audit, request_stop, survey.node_name)
        editor = SettingsEditor(node.directory, store, self.audit)
        self.hubs = Hubs(editor, node, revocations)
        self.rules = NamedSettings(editor, RULES, Rules)
        self.namespaces = Namespaces(editor, NAMESPACES, str)
        self.channels = ChannelOverrides(editor, CHANNELS, ChannelSettings)
        self.auth_providers = Endpoints(editor, AUTH_PROVIDERS, AuthProvider, node)
        self.rpc_routes = Endpoints(editor, RPC_ROUTES, RpcRoute, node)
        self.mercure_keys = MercureKeys(editor, MERCURE_KEYS, MercureKey)
        self.restores = Restores(store, node.clock, editor, survey, archives, suspending)
        self.live = LiveAdministration(node, self.audit, survey)
        self.channel_list = ChannelList(node, store, survey)
        self.access = AccessAdministration(
            node, store, revocations, self.audit, authenticator, login
        )
        self.analytics = analytics
        self.subscriptions = SubscriptionAdministration(node, self.audit, survey)
        self.webhooks = WebhookAdministration(node, store, self.audit)
        self.notifications = NotificationAdministration(node, self.audit)
        self.documents = DocumentAdministration(node, store, self.audit)
        self.users = UserAdministration(node, store, self.audit)
        self.inspector = Inspector(node, store, self.audit, survey)
        self.configuration = configuration
        self.tracer = Tracer(node, self.audit, self.live)
        self.board = Board(node.clock, node.tokens, node.access)
        self.ticker = Ticker(self.board, survey, self.audit, node.clock)
        self.communication = CommunicationAdministration(node, editor, self.audit, adapters)
        self.push = PushAdministration(node, store, self.audit, credentials, push)
