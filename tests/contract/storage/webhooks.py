"""What every adapter of `hubbub.ports.storage.Store` must do with webhooks and their topics."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hubbub.domain.names import partition_of
from hubbub.domain.webhooks import PendingVerification, Webhook, WebTopic, webhook_id
from hubbub.ports.storage import Store


def webhook(
    channel: str = "news",
    callback: str = "http://a.example/x",
    hub: str = "demo",
    **more: Any,
) -> Webhook:
    identifier = webhook_id("websub", hub, channel, callback)
    fields = {"kind": "websub", "topic": channel, "secret": b"\x00secret", "created_at": 5, **more}
    return Webhook(hub, channel, identifier, callback=callback, **fields)


class WebhooksContract:
    """Part of `StoreContract`, which has the fixtures."""

    @pytest.mark.spec("WEB-02")
    async def test_a_topic_is_added_once_and_replaced_by_saving(self, store: Store) -> None:
        topic = WebTopic("demo", "news", b"hash", 7)
        assert await store.read_web_topic("demo", "news") is None
        assert await store.add_web_topic(topic) is True
        assert await store.add_web_topic(msgspec.structs.replace(topic, key_hash=None)) is False
        assert await store.read_web_topic("demo", "news") == topic
        fetched = WebTopic("demo", "news", None, 8, "http://a/b", '"e"', "Mon", b"d", "text/html")
        await store.save_web_topic(fetched)
        assert await store.read_web_topic("demo", "news") == fetched
        assert await store.delete_web_topic("demo", "news") is True
        assert await store.delete_web_topic("demo", "news") is False

    @pytest.mark.spec("WEB-03", "SEC-05")
    async def test_a_ping_is_there_until_it_ends_and_a_newer_one_stays(self, store: Store) -> None:
        url, partition = "http://a/b", partition_of("demo", "news")
        await store.note_ping("demo", "news", url, 7)
        assert await store.read_pinged([partition]) == [
            WebTopic("demo", "news", None, 7, url, pinged_at=7)
        ]
        assert await store.read_pinged([partition + 1]) == []
        await store.note_failed_fetch("demo", "news", 2, "away")
        await store.note_ping("demo", "news", url, 7)
        assert await store.end_ping("demo", "news", 7, well=True) is False
        (topic,) = await store.read_pinged([partition])
        assert (topic.pinged_at, topic.fetch_failures, topic.fetch_error) == (8, 2, "away")
        await store.save_web_topic(msgspec.structs.replace(topic, etag='"e"'))
        assert await store.end_ping("demo", "news", 8, well=False) is True
        assert await store.read_pinged([partition]) == []
        (topic,) = await store.list_web_topics("demo", "", 9)
        assert (topic.etag, topic.pinged_at, topic.fetch_error) == ('"e"', None, "away")
        await store.note_ping("demo", "news", url, 9)
        assert await store.end_ping("demo", "news", 9, well=True) is True
        topic_now = await store.read_web_topic("demo", "news")
        assert topic_now == WebTopic("demo", "news", None, 7, url, '"e"')

    async def test_topics_are_listed_in_order_of_a_hub(self, store: Store) -> None:
        for hub, channel in (("demo", "b"), ("demo", "a"), ("demo", "c"), ("other", "a")):
            await store.add_web_topic(WebTopic(hub, channel))
        page = await store.list_web_topics("demo", "", 2)
        assert [topic.channel for topic in page] == ["a", "b"]
        assert [topic.channel for topic in await store.list_web_topics("demo", "b", 9)] == ["c"]

    @pytest.mark.spec("WEB-02", "WEB-03")
    async def test_a_webhook_is_read_as_it_was_saved(self, store: Store) -> None:
        pending = PendingVerification("subscribe", 9, 600, b"new secret", "sha512")
        first = webhook(
            state="pending", pending=pending, key=b"k" * 16, owner="u:ann", expires_at=2**40
        )
        await store.save_webhook(first)
        assert await store.read_webhook("demo", first.id) == first
        active = msgspec.structs.replace(first, state="active", pending=None, secret=None)
        await store.save_webhook(active)
        assert await store.read_webhook("demo", first.id) == active
        assert await store.read_webhook("other", first.id) is None
        assert await store.count_webhooks("demo") == 1
        assert await store.delete_webhook("demo", first.id) is True
        assert await store.delete_webhook("demo", first.id) is False
        assert await store.read_webhook("demo", first.id) is None

    async def test_webhooks_are_found_by_hub_channel_and_partition(self, store: Store) -> None:
        made = [
            webhook(channel, f"http://a.example/{n}", hub=hub)
            for hub in ("demo", "other")
            for channel in ("news", "sport")
            for n in range(3)
        ]
        for each in made:
            await store.save_webhook(each)
        in_order = sorted(made, key=lambda each: (each.hub, each.id))
        assert await store.read_webhooks() == in_order
        assert await store.read_webhooks("demo") == [w for w in in_order if w.hub == "demo"]
        of_news = await store.read_webhooks("demo", "news")
        assert {w.channel for w in of_news} == {"news"}
        assert len(of_news) == 3
        partition = partition_of("other", "sport")
        found = await store.read_webhooks(partitions=[partition, 1023])
        assert {w.id for w in made if w.hub == "other" and w.channel == "sport"} <= {
            w.id for w in found
        }
        assert {partition_of(w.hub, w.channel) for w in found} <= {partition, 1023}
        assert await store.read_webhooks(partitions=[]) == []
        page = await store.read_webhooks("demo", limit=2)
        rest = await store.read_webhooks("demo", after=("demo", page[-1].id))
        assert page + rest == await store.read_webhooks("demo")
        found = await store.read_webhooks("demo", "news", text="example/2")
        assert [w.callback for w in found] == ["http://a.example/2"]
        assert await store.count_webhooks("demo", text="example/2") == 2
        assert await store.count_webhooks("demo", "news", "sport") == 0

    async def test_peer_subscriptions_are_found_apart_and_by_their_owner(
        self, store: Store
    ) -> None:
        of_ann = [webhook(owner="u:ann"), webhook("sport", kind="peer", owner="u:ann")]
        of_bob = webhook("sport", "http://b.example/", kind="peer", owner="u:bob")
        for each in (*of_ann, of_bob):
            await store.save_webhook(each)
        in_order = sorted(of_ann, key=lambda each: each.id)
        assert await store.read_webhooks("demo", owner="u:ann") == in_order
        assert await store.read_webhooks("demo", owner="u:ann", peers=True) == of_ann[1:]
        assert await store.read_webhooks("demo", peers=False) == of_ann[:1]
        assert await store.count_webhooks("demo", peers=True) == 2
        assert await store.count_webhooks("demo", "sport", owner="u:bob", peers=True) == 1

    @pytest.mark.spec("ADMIN-01")
    async def test_webhooks_and_topics_go_with_their_hub(self, store: Store) -> None:
        gone, stays = webhook(hub="gone"), webhook(hub="stays")
        for each in (gone, stays):
            await store.save_webhook(each)
            await store.add_web_topic(WebTopic(each.hub, "news"))
        await store.delete_hub("gone")
        assert await store.read_webhooks() == [stays]
        assert await store.read_web_topic("gone", "news") is None
        assert await store.read_web_topic("stays", "news") is not None
