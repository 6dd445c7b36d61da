"""What every adapter of `hubbub.ports.storage.Store` must do.

A module that runs it derives a class from `StoreContract` and overrides `make_store`. Nothing in
here may assume a particular database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from contract.storage.administration import AdministrationContract
from contract.storage.commands import CommandContract
from contract.storage.communication import CommunicationContract
from contract.storage.documents import DocumentsContract
from contract.storage.erasure import ErasureContract
from contract.storage.messages import MessagesContract
from contract.storage.metering import MeteringContract
from contract.storage.notifications import NotificationsContract
from contract.storage.push import PushContract
from contract.storage.records import (
    EPOCH,
    MakeStore,
    append,
    message,
    own,
)
from contract.storage.restoring import RestoringContract
from contract.storage.search import SearchContract
from contract.storage.sessions import SessionsContract
from contract.storage.settings import SettingsContract
from contract.storage.threads import ThreadsContract
from contract.storage.topics import TopicsContract
from contract.storage.usage import Query, UsageContract, check_counts
from contract.storage.webhooks import WebhooksContract
from hubbub.domain.errors import StoreUnavailable
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import (
    ChannelHead,
)


class StoreContract(
    MessagesContract,
    ThreadsContract,
    SearchContract,
    TopicsContract,
    NotificationsContract,
    DocumentsContract,
    WebhooksContract,
    PushContract,
    CommandContract,
    CommunicationContract,
    ErasureContract,
    SettingsContract,
    AdministrationContract,
    SessionsContract,
    RestoringContract,
    MeteringContract,
    UsageContract,
):
    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Makes stores, not yet open, that all stand on the same data, empty at first."""
        raise NotImplementedError

    @pytest.fixture
    def query(self) -> Query:
        """Reads rows beside the store."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, make_store: MakeStore, query: Query) -> AsyncIterator[Store]:
        store = make_store()
        await store.open()
        yield store
        await store.close()
        await check_counts(query)

    async def test_a_store_that_is_not_open_says_so(self, make_store: MakeStore) -> None:
        store = make_store()
        with pytest.raises(StoreUnavailable):
            await store.read_head("demo", "news")
        await store.open()
        await store.close()
        with pytest.raises(StoreUnavailable):
            await store.append([append(message(1), 1)])

    async def test_closing_twice_or_unopened_does_nothing(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.close()
        await store.open()
        await store.close()
        await store.close()

    @pytest.mark.spec("LIVE-12", "OPS-03")
    async def test_closing_finishes_writes_that_were_started(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.open()
        term = await own(store)
        calls = [
            asyncio.ensure_future(store.append([append(message(n), term)])) for n in range(1, 301)
        ]
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*calls) == [[None]] * 300
        await store.open()
        head = await store.read_head("demo", "news")
        await store.close()
        assert head == ChannelHead(EPOCH, 300, 1)
