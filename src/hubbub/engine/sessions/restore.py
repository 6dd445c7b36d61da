"""Session restore: a client continues its session on a new connection after a short absence.

After authentication a client receives a key. With it a new connection takes over the session:
identity, session id, subscriptions and missed messages. Only the key's hash is stored. The key
becomes invalid with the first frame after the restore; until then a client whose connection broke
during the restore may use it again."""

from __future__ import annotations

from collections.abc import Container

from hubbub.domain.commands.jids import Jid
from hubbub.domain.errors import BadRequest, HubbubError, RestoreFailed, SessionReplaced
from hubbub.domain.filters.filters import Filters, compile_filter
from hubbub.domain.notices import Failed, RestoreKey, SessionRestored
from hubbub.domain.permissions import Reader
from hubbub.domain.requests import Position, Restore, ResumedSession, SubscribeItem
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.access.throttle import Throttle
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.hub import SessionState
from hubbub.engine.sessions.heartbeats import Heartbeats
from hubbub.engine.sessions.journal import RESTORED, Chronicle
from hubbub.engine.sessions.restore_keys import RestorableState, RestoreKeys, hash_of
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.bus import Bus, SessionTaken


class Restorer:
    """Turns a new connection into the continuation of an earlier session."""

    def __init__(
        self,
        bus: Bus,
        tokens: Tokens,
        throttle: Throttle,
        keys: RestoreKeys,
        subscriptions: Subscriptions,
        heartbeats: Heartbeats,
        chronicle: Chronicle,
    ) -> None:
        self._bus = bus
        self._tokens = tokens
        self._throttle = throttle
        self._keys = keys
        self._subscriptions = subscriptions
        self._heartbeats = heartbeats
        self._chronicle = chronicle

    async def restore(self, session: SessionState, request: Restore) -> None:
        """Makes `session` the continuation of the session to which the key belongs."""
        try:
            with self._throttle.guess(session.hub.name, session.address):
                state, key_hash = await self._find(session, request)
            filters = _compiled(state)
        except HubbubError as error:
            session.send(Failed(error, request.req_id))
            return
        if session.closed:
            return
        seen = {position.channel: position for position in request.positions}
        wanted = [
            _request_for(seen.get(position.channel, position)) for position in state.positions
        ]
        matched = {
            position.channel: _request_for(seen.get(position.channel, position), by_pattern=True)
            for position in state.matched
        }
        old = session.hub.sessions.get(state.session_id)
        self._adopt(session, state, filters, key_hash)
        patterns = await self._subscriptions.patterns.prepare(
            session,
            [SubscribeItem(pattern, timestamp=state.saved_at) for pattern in state.patterns],
            {*matched, *(each.channel for each in wanted)},
        )
        plans, failures = await self._subscriptions.prepare(session, wanted)
        if not session.closed:
            session.send(
                SessionRestored(
                    session_id=session.id,
                    user_id=state.identity.user_id,
                    grants=state.identity.grants,
                    rpcs=state.identity.rpcs,
                    extra=state.identity.extra,
                    channels=tuple(plan.confirmation() for plan in plans),
                    failures=(*failures, *patterns.failures),
                    req_id=request.req_id,
                    patterns=tuple(patterns.confirmed),
                    expires_at=state.identity.expires_at,
                ),
                RestoreKey(self._keys.issue_rival(session, state, key_hash)),
            )
        kept = {plan.feed.channel for plan in plans}
        if old is not None:
            self.replace(old, kept)
        else:
            taken = SessionTaken(session.hub.name, session.id, tuple(sorted(kept)))
            self._bus.send(taken)
        await self._subscriptions.begin(session, plans)
        await self._subscriptions.patterns.begin(session, matched | patterns.matched)

    async def _find(self, session: SessionState, request: Restore) -> tuple[RestorableState, bytes]:
        hub = session.hub
        if session.restore_hash is not None:
            raise RestoreFailed("this session is authenticated already")
        key_hash = hash_of(request.restore_key)
        restores = hub.configuration.settings.session_restore
        state = await self._keys.find(key_hash, hub.name) if restores else None
        if state is None:
            raise RestoreFailed(
                "the restore key is unknown, used or expired, or the hub restores no sessions; "
                "authenticate"
            )
        if request.attachment is not None:
            _check(request.attachment, state, hub.configuration)
        self._tokens.check(state.identity, hub.name)
        return state, key_hash

    def _adopt(
        self, session: SessionState, state: RestorableState, filters: Filters, key_hash: bytes
    ) -> None:
        """Takes over the identity and the id of the old session."""
        session.hub.remove_session(session)
        self._chronicle.session_closed(session, RESTORED)
        goes_on = state.session_id in session.hub.sessions
        session.id = state.session_id
        session.identity = state.identity
        session.hub.add_session(session)
        session.presence_data = dict(state.presence) or None
        session.channel_readers = {n: Reader(each) for n, each in state.readers.items()} or None
        session.filters = filters
        if not goes_on:
            self._chronicle.session_opened(session, RESTORED)
        self._heartbeats.authenticated(session)
        self._keys.used(key_hash, state, session.hub.name)

    def replace(self, old: SessionState, kept: Container[str]) -> None:
        """Closes the old connection; its successor takes over the `kept` channels, and presence
        shows no change."""
        self._keys.end(old)
        self._subscriptions.abandon_to(old, kept)
        old.connection.disconnect(SessionReplaced("the session was restored on a new connection"))


def _compiled(state: RestorableState) -> Filters:
    """Compiles the session's filters. Raises `RestoreFailed` if one is invalid: without it the
    session would receive unwanted messages."""
    try:
        return Filters(compile_filter(each) for each in state.filters)
    except BadRequest as error:
        raise RestoreFailed(
            f"a filter of the session is no longer accepted ({error.message}); authenticate and "
            "set the filters again"
        ) from None


def _check(attachment: ResumedSession, state: RestorableState, hub: HubConfiguration) -> None:
    """Raises `RestoreFailed`."""
    if attachment.publisher != str(Jid(state.identity.user_id or "", hub.hub, state.session_id)):
        raise RestoreFailed("the session belongs to another publisher")
    window = hub.settings.rid_window
    if window < 0 or state.rid is None:
        return
    if attachment.rid is None or abs(attachment.rid - state.rid) > window:
        raise RestoreFailed(f"rid is missing, or not within {window} of the events that were sent")


def _request_for(position: Position, by_pattern: bool = False) -> SubscribeItem:
    return SubscribeItem(
        position.channel,
        serial=position.serial,
        epoch=position.epoch or None,
        document_version=position.document_version,
        document_epoch=position.document_epoch,
        by_pattern=by_pattern,
    )
