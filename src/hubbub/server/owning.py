"""Builds the owner's side of a process: the channels that it owns, and the features that act on
them."""

from __future__ import annotations

from hubbub.engine.administration import Survey
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.node import Node
from hubbub.engine.retention import Retention
from hubbub.engine.topics.durable import DurableSubscriptions
from hubbub.engine.topics.lags import LagSurvey
from hubbub.engine.tracing.storing import traced_append
from hubbub.engine.webhooks.driver import Driver
from hubbub.engine.webhooks.service import Webhooks
from hubbub.server.access import HubAccess
from hubbub.server.communication import make_communication
from hubbub.server.foundation import Foundation
from hubbub.server.outgoing import OutgoingConnections
from hubbub.server.push import make_credentials, make_push
from hubbub.server.rooms import owner_rooms
from hubbub.server.settings import Settings


class OwnerSide:
    """Constructs the owner with its rooms."""

    def __init__(
        self,
        settings: Settings,
        base: Foundation,
        access: HubAccess,
        outgoing: OutgoingConnections,
        node: Node,
        survey: Survey,
    ) -> None:
        store = base.store
        parts = OwnerParts(
            store,
            base.clock,
            access.directory.get,
            base.limits,
            node.quotas.channels,
            base.bus,
        )
        self.driver = Driver(
            parts,
            access=access.registry,
            outgoing=outgoing.gate,
            limits=outgoing.limits,
            publish_fetched=lambda hub, *fetched: node.feature(Webhooks).publish_fetched(
                node.hub(hub), *fetched
            ),
            journal=base.journal,
            spans=base.spans,
        )
        self.push_credentials = make_credentials(node, store)
        self.push = make_push(
            settings.push, node, parts.terms, store, survey, self.push_credentials, outgoing.http2
        )
        self.communication = make_communication(
            node, parts.terms, store, self.push, outgoing.limits, settings.adapters
        )
        append = store.append
        self.owner = ChannelOwner(
            parts,
            (
                *owner_rooms(parts, access.registry, base.journal),
                self.driver,
                self.push,
                self.communication,
            ),
            base.journal,
            append if base.spans is None else traced_append(base.spans, append),
        )
        self.retention = Retention(
            store,
            base.clock,
            self.owner,
            access.directory.get,
            None if base.writer is None else store.read_exported,
        )
        self.lags = LagSurvey(
            store, parts.terms, self.owner.room(DurableSubscriptions), base.limits.lag_series
        )
