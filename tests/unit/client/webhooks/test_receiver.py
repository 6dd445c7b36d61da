"""The receiver of webhooks: what it confirms, what it lets through, and what it has seen before."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Barrier, Thread
from urllib.parse import urlencode

import pytest

from hubbub.client.webhooks.receiver import Answer, Delivery, Receiver
from hubbub.domain.encryption import encrypt
from hubbub.domain.webhooks import ALGORITHMS, Algorithm, signature

TOPIC = "https://example.org/feed"
HEADERS = {
    "Content-Type": "text/plain",
    "Idempotency-Key": "w1:m1",
    "Hubbub-Message-Id": "m1",
    "Hubbub-Hub": "demo",
    "Hubbub-Channel": "room%3A%C3%B6",
    "Hubbub-Serial": "7",
    "Hubbub-Published-At": "1700000000000",
    "Hubbub-Attempt": "2",
    "Link": f'<http://hub/websub>; rel="hub", <{TOPIC}>; rel="self"',
}


class Application:
    """Remembers what it was told."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.deliveries: list[Delivery] = []

    def post(self, body: bytes = b"hi", **more: str) -> Answer:
        headers = {**HEADERS, **{name.replace("_", "-"): value for name, value in more.items()}}
        return self.receiver.answer("POST", "/in", headers, body, self.deliveries.append)

    def verify(self, **parameters: str) -> Answer:
        query = urlencode({f"hub.{name}": value for name, value in parameters.items()})
        return self.receiver.answer("GET", f"/in?own=1&{query}", {}, b"", self.deliveries.append)


@pytest.mark.spec("WEB-02")
def test_a_message_arrives_with_all_that_the_hub_says_about_it() -> None:
    app = Application(Receiver())

    assert app.post(b'{"a": 1}').status == 200
    (delivery,) = app.deliveries
    assert delivery == Delivery(
        body=b'{"a": 1}',
        content_type="text/plain",
        key="w1:m1",
        message_id="m1",
        hub="demo",
        channel="room:ö",
        serial=7,
        published_at=1_700_000_000_000,
        attempt=2,
        topic=TOPIC,
    )
    assert (delivery.text, delivery.data) == ('{"a": 1}', {"a": 1})


@pytest.mark.spec("WEB-03")
def test_only_what_was_asked_for_is_confirmed() -> None:
    app = Application(Receiver(topics=[TOPIC]))
    asked = {"mode": "subscribe", "topic": TOPIC, "challenge": "c1", "lease_seconds": "60"}

    assert app.verify(**asked) == Answer(200, b"c1")
    assert app.verify(**{**asked, "topic": "https://evil"}).status == 404
    assert app.verify(**{**asked, "mode": "unsubscribe"}).status == 404
    assert app.verify(**{**asked, "mode": "else"}).status == 404
    assert app.verify().status == 404

    app.receiver.topics.clear()
    assert app.verify(**asked).status == 404
    assert app.verify(**{**asked, "mode": "unsubscribe"}) == Answer(200, b"c1")


@pytest.mark.spec("WEB-03")
def test_a_denial_is_kept_if_it_is_about_something_that_was_asked_for() -> None:
    app = Application(Receiver(topics=[TOPIC]))

    assert app.verify(mode="denied", topic=TOPIC, reason="no").status == 200
    assert app.verify(mode="denied", topic="other", reason="no").status == 200
    assert app.receiver.denied == {TOPIC: "no"}


@pytest.mark.spec("WEB-02", "WEB-03")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_what_is_signed_with_the_secret_gets_through(algorithm: Algorithm) -> None:
    app = Application(Receiver(secret="s3cret"))
    right, wrong = (signature(each, algorithm, b"hi") for each in (b"s3cret", b"other"))

    for bad in ("", wrong, right[:-1], "md5=" + right.partition("=")[2], right + "ö"):
        assert app.post(X_Hub_Signature=bad).status == 403
    assert app.post().status == 403
    assert app.post(b"changed", X_Hub_Signature=right).status == 403
    assert app.deliveries == []
    assert app.post(X_Hub_Signature=right).status == 200
    assert len(app.deliveries) == 1


@pytest.mark.spec("WEB-02")
def test_only_what_is_encrypted_with_the_key_gets_through() -> None:
    key = bytes(range(16))
    app = Application(Receiver(key="AAECAwQFBgcICQoLDA0ODw"))
    other = encrypt(bytes(16), os.urandom(16), b"hi")

    assert app.post(b"hi").status == 400
    assert app.post(b"hi", Content_Encoding="aes128gcm").status == 400
    assert app.post(other, Content_Encoding="aes128gcm").status == 400
    data = encrypt(key, os.urandom(16), b"hi")
    assert app.post(data, Content_Encoding="aes128gcm").status == 200
    assert [each.body for each in app.deliveries] == [b"hi"]


@pytest.mark.spec("WEB-02")
@pytest.mark.parametrize("kept", [False, True])
def test_a_repeat_is_answered_and_has_no_effect(tmp_path: Path, kept: bool) -> None:
    app = Application(Receiver(file=tmp_path / "seen.db" if kept else None))

    for number in ("m1", "m1", "m2", "m1"):
        assert app.post(Idempotency_Key=number).status == 200
    app.receiver.close()

    assert [each.key for each in app.deliveries] == ["m1", "m2"]


@pytest.mark.spec("WEB-02")
def test_with_a_file_a_repeat_after_a_restart_is_known(tmp_path: Path) -> None:
    for _ in range(2):
        app = Application(Receiver(file=tmp_path / "seen.db"))
        app.post()
        app.receiver.close()
    assert app.deliveries == []


@pytest.mark.spec("WEB-02")
def test_work_and_the_fact_that_it_was_done_are_kept_together(tmp_path: Path) -> None:
    receiver = Receiver(file=tmp_path / "app.db")

    def work(delivery: Delivery, fail: bool) -> None:
        assert delivery.transaction is not None
        delivery.transaction.execute("CREATE TABLE IF NOT EXISTS bills (item TEXT)")
        delivery.transaction.execute("INSERT INTO bills VALUES (?)", (delivery.text,))
        if fail:
            raise ValueError("out of paper")

    for fail in (True, True, False, True):
        try:
            receiver.answer("POST", "/", HEADERS, b"a", lambda each: work(each, fail))  # noqa: B023
        except ValueError:
            continue
    seen: list[tuple[str]] = []

    def look(delivery: Delivery) -> None:
        assert delivery.transaction is not None
        seen.extend(delivery.transaction.execute("SELECT item FROM bills"))

    receiver.answer("POST", "/", {**HEADERS, "Idempotency-Key": "next"}, b"", look)
    receiver.close()
    assert seen == [("a",)]


@pytest.mark.spec("WEB-02")
def test_a_failed_message_is_handled_again() -> None:
    receiver = Receiver()
    calls: list[Delivery] = []

    def fail_once(delivery: Delivery) -> None:
        calls.append(delivery)
        if len(calls) == 1:
            raise ValueError("later")

    with pytest.raises(ValueError, match="later"):
        receiver.answer("POST", "/", HEADERS, b"", fail_once)
    for _ in range(2):
        assert receiver.answer("POST", "/", HEADERS, b"", fail_once).status == 200
    assert len(calls) == 2


def test_what_another_hub_sends_without_any_id_is_never_a_repeat() -> None:
    receiver = Receiver()
    deliveries: list[Delivery] = []
    for _ in range(2):
        receiver.answer("POST", "/", {"Content-Type": "text/plain"}, b"x", deliveries.append)
    assert len(deliveries) == 2


@pytest.mark.parametrize("kept", [False, True])
def test_two_tries_at_the_same_time_have_one_effect(tmp_path: Path, kept: bool) -> None:
    app = Application(Receiver(file=tmp_path / "seen.db" if kept else None))
    together = Barrier(4)

    def post() -> None:
        together.wait()
        app.post()

    threads = [Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    app.receiver.close()
    assert len(app.deliveries) == 1
