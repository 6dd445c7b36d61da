"""The handshake on a new connection: restores or authenticates the session, and resubscribes to
every channel from the last received serial."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from hubbub.client.connection.conversation import Conversation
from hubbub.client.connection.state import ClientState
from hubbub.client.errors import ConnectionLost
from hubbub.client.filters import SUBSCRIPTION_FILTER
from hubbub.client.proof import Proof
from hubbub.client.tracker import PatternTracker, Tracker
from hubbub.domain.errors import HubbubError, NotFound, RequestTimeout
from hubbub.domain.names import user_channel
from hubbub.domain.notices import (
    Authenticated,
    ChannelFailure,
    FilterList,
    FilterSet,
    FilterUnset,
    SessionRestored,
    Subscribed,
    Unsubscribed,
)
from hubbub.domain.requests import (
    ListFilters,
    Ping,
    Restore,
    SetFilter,
    Subscribe,
    SubscribeItem,
    UnsetFilter,
    Unsubscribe,
)
from hubbub.protocols.checks import MAX_ITEMS

logger = logging.getLogger("hubbub.client")

SUBSCRIBE_BATCH = 500


async def establish(conversation: Conversation, state: ClientState, key: str | None) -> bool:
    """Waits for the greeting, then restores the previous session with its key, or authenticates.
    Returns whether the session was restored."""
    info = await asyncio.shield(conversation.greeting)
    for tracker in state.registry.trackers():
        tracker.recovering = True
    restored = key is not None and await _restore(conversation, state, key)
    if not restored and state.proof.given and not info.authenticated:
        await authenticate(conversation, state.proof)
    await _set_filters(conversation, state, restored)
    return restored


async def _set_filters(conversation: Conversation, state: ClientState, restored: bool) -> None:
    """Sets the application's filters on a new session, and removes stale ones from a restored
    session. Filters of subscriptions are set when channels are subscribed to."""
    if not state.filtered:
        return
    if restored:
        wanted = [*state.filters.values(), *(each.filter for each in state.registry.trackers())]
        listed = (await conversation.ask(ListFilters(), FilterList)).filters
        for stale in [each for each in listed if each not in wanted]:
            # Without a channel all of its name go: what is wanted of them is set again below.
            await _unset_filter(conversation, stale.name, stale.channel)
        if all(each in listed for each in state.filters.values()):
            return
    for definition in list(state.filters.values()):
        try:
            await conversation.ask(SetFilter(definition), FilterSet)
        except HubbubError as error:
            if error.retry:
                raise
            logger.warning("the hub refuses the filter %r: %s", definition.name, error.message)


async def _unset_filter(conversation: Conversation, name: str, channel: str | None) -> None:
    with contextlib.suppress(NotFound):
        await conversation.ask(UnsetFilter(name, channel), FilterUnset)


async def authenticate(conversation: Conversation, proof: Proof) -> Authenticated:
    answer = await conversation.ask(await proof.request(), Authenticated)
    conversation.identify(answer.user_id, answer.expires_at)
    return answer


async def _restore(conversation: Conversation, state: ClientState, key: str) -> bool:
    """Returns whether the key restored the session. If not, the client must authenticate again."""
    positions = state.registry.positions()
    begun = sum(
        tracker.began
        for tracker in state.registry.trackers()
        if not isinstance(tracker, PatternTracker)
    )
    if len(positions) < begun or len(positions) > MAX_ITEMS:
        return False  # the hub would go on from its own idea of the positions
    try:
        restore = Restore(key, positions=tuple(positions))
        answer = await conversation.ask(restore, SessionRestored)
    except (ConnectionLost, RequestTimeout):
        raise  # the key may still be good
    except HubbubError:
        if state.restore_key == key:
            state.restore_key = None
        return False
    conversation.identify(answer.user_id, answer.expires_at, answer.session_id)
    await conversation.link.send(Ping())  # from here on the old key is worthless
    present = {confirmed.channel for confirmed in answer.channels}
    present |= {confirmed.pattern for confirmed in answer.patterns}
    conversation.requested |= present
    # Those that match are confirmed next, without being asked for.
    conversation.requested |= {
        tracker.channel
        for tracker in state.registry.trackers()
        if tracker.pattern is not None and tracker.pattern.channel in present
    }
    _refuse(state, answer.failures)
    own = {user_channel(answer.user_id)} if answer.user_id is not None else set()
    unwanted = [each for each in present - own if each not in state.registry]
    if unwanted:
        await unsubscribe(conversation, unwanted)
    return True


async def subscribe_pending(conversation: Conversation, state: ClientState) -> None:
    """Subscribes to the channels that were not requested on this connection yet."""
    while True:
        pending = [
            tracker
            for tracker in state.registry.trackers()
            if tracker.channel not in conversation.requested
        ]
        if not pending:
            return
        pending.sort(key=lambda tracker: not isinstance(tracker, PatternTracker))
        batch = pending[:SUBSCRIBE_BATCH]
        conversation.requested.update(tracker.channel for tracker in batch)
        batch = [each for each in batch if await _filter_first(conversation, state, each)]
        await _subscribe(conversation, state, [tracker.request() for tracker in batch])


async def _filter_first(conversation: Conversation, state: ClientState, tracker: Tracker) -> bool:
    """Sets a subscription's filter before it begins. Returns whether that succeeded."""
    if tracker.filter is None:
        return True
    try:
        await conversation.ask(SetFilter(tracker.filter), FilterSet)
    except HubbubError as error:
        if error.retry:
            raise
        conversation.requested.discard(tracker.channel)
        state.registry.refuse([ChannelFailure(tracker.channel, error)])
        return False
    return True


async def resubscribe(
    conversation: Conversation, state: ClientState, request: SubscribeItem
) -> None:
    """Subscribes again from a position: the hub sends the messages after it."""
    await _subscribe(conversation, state, [request])


async def _subscribe(
    conversation: Conversation, state: ClientState, channels: list[SubscribeItem]
) -> None:
    if not channels:
        return
    try:
        answer = await conversation.ask(Subscribe(tuple(channels)), Subscribed)
    except HubbubError as error:
        if error.retry:  # so are lost connections and timeouts
            raise
        await _subscribe_one_by_one(conversation, state, channels, error)
        return
    conversation.requested.difference_update(failure.channel for failure in answer.failures)
    _refuse(state, answer.failures)


async def _subscribe_one_by_one(
    conversation: Conversation,
    state: ClientState,
    channels: list[SubscribeItem],
    error: HubbubError,
) -> None:
    """The hub refused the whole request, perhaps because of one invalid channel name: finds that
    name."""
    if len(channels) > 1:
        for channel in channels:
            await _subscribe(conversation, state, [channel])
        return
    refused = ChannelFailure(channels[0].channel, error)
    conversation.requested.discard(refused.channel)
    state.registry.refuse([refused])


async def unsubscribe(
    conversation: Conversation, channels: Iterable[str], filtered: Iterable[str] = ()
) -> None:
    """`filtered`: the channels whose subscription has set a filter."""
    wanted = tuple(channels)
    conversation.requested.difference_update(wanted)
    await conversation.ask(Unsubscribe(wanted), Unsubscribed)
    for channel in filtered:
        await _unset_filter(conversation, SUBSCRIPTION_FILTER, channel)


def _refuse(state: ClientState, failures: Iterable[ChannelFailure]) -> None:
    """Ends the subscriptions that the hub refuses. If a refused one had begun and the hub allows a
    retry, raises its error, and the connection starts over."""
    begun = {tracker.channel for tracker in state.registry.trackers() if tracker.began}
    for failure in failures:
        if failure.error.retry and failure.channel in begun:
            raise failure.error
    state.registry.refuse(failures)
