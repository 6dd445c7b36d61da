"""Runs the whole protocol of docs/zeromq.md with a plain REQ socket, from that page alone.

    python -I topics_client.py ENDPOINT TIMEOUT_MS TOKEN OTHER_TOKEN ADMIN_TOKEN

It uses nothing of Hubbub. It prints a line for each step and ends with "done"; the first surprise
ends it with an error. `../jeromq/TopicsClient.java` does the same in Java.
"""

from __future__ import annotations

import json
import sys

import zmq


class Client:
    def __init__(self, endpoint: str, timeout_milliseconds: int) -> None:
        self.context = zmq.Context()
        self.endpoint = endpoint
        self.timeout_milliseconds = timeout_milliseconds
        self.resent = 0
        self.connect()

    def connect(self) -> None:
        self.socket = self.context.socket(zmq.REQ)
        self.socket.linger = 0
        self.socket.connect(self.endpoint)

    def ask(self, *frames: str) -> list[str]:
        """One request and its answer; without an answer in time, again on a new socket."""
        while True:
            self.socket.send_multipart([frame.encode() for frame in frames])
            if self.socket.poll(self.timeout_milliseconds):
                return [frame.decode() for frame in self.socket.recv_multipart()]
            self.resent += 1
            print("resend", flush=True)
            self.socket.close()
            self.connect()

    def close(self) -> None:
        self.socket.close()
        self.context.term()


def expect(step: str, answer: list[str], *frames: str) -> None:
    """The answer begins with these frames."""
    assert tuple(answer[: len(frames)]) == frames, f"{step}: expected {frames}, got {answer}"
    print("ok", step, flush=True)


def run(client: Client, token: str, other: str, admin: str) -> None:
    ask = client.ask
    expect("ping", ask("ping", token), "Pong", "shop")
    expect("an empty hub", ask("get", token, ""), "NotSubscribed", "")
    expect("no topic", ask("get", token, "orders"), "NonExistentTopic", "orders")
    expect("subscribe", ask("subscribe", token, "orders"), "SUBSCRIBED", "orders", "default")
    expect("nothing yet", ask("get", token, "orders"), "EmptyTopic", "orders")

    def stamp(sequence: int, fence: int) -> str:
        return json.dumps({"producer": "py", "sequence": sequence, "fence": fence})

    def put(payload: str, options: str) -> list[str]:
        return ask("put", token, "orders", payload, options)

    expect("open", ask("open", token, "orders", "py"), "ProducerOpened", "orders", "1", "0")
    expect("put", put("zwei Teekannen ☕", stamp(1, 1)), "PutReply", "orders", "1")
    again = put("zwei Teekannen ☕", stamp(1, 1))
    expect("the same put again", again, "PutReply", "orders", "1")
    assert json.loads(again[3])["duplicate"]
    expect("another payload", put("x", stamp(1, 1)), "ERROR", "sequence_reused")
    expect("a gap", put("x", stamp(3, 1)), "ERROR", "sequence_gap")
    expect("open again", ask("open", token, "orders", "py"), "ProducerOpened", "orders", "2", "1")
    expect("an old fence", put("x", stamp(2, 1)), "ERROR", "producer_fenced")
    expect("the next put", put("a kettle", stamp(2, 2)), "PutReply", "orders", "2")

    article = ask("get", token, "orders")
    expect("get", article, "TopicArticle", "orders", "1", "zwei Teekannen ☕")
    assert json.loads(article[4])["contentType"] == "text/plain"
    expect("get the same", ask("get", token, "orders"), "TopicArticle", "orders", "1")
    both = ask("get", token, "orders", '{"limit": 10}')
    assert len(both) == 9
    expect("two at once", both[5:8], "orders", "2", "a kettle")
    expect("ack", ask("ack", token, "orders", "1"), "Ack", "orders", "1")
    expect("the next one", ask("get", token, "orders"), "TopicArticle", "orders", "2")
    expect("not another's", ask("get", other, "orders"), "NotSubscribed", "orders")

    expect("subscribe to more", ask("subscribe", token, "returns"), "SUBSCRIBED", "returns")
    each = ask("get", token, "")
    assert len(each) == 10
    expect("one of each", each, "TopicArticle", "orders", "2")
    expect("and nothing", each[5:], "EmptyTopic", "returns", "", "", "")
    expect("ack up to", ask("ack", token, "orders", "2", '{"upTo": true}'), "Ack", "orders", "2")
    expect("all done", ask("get", token, "orders", '{"wait": 0.1}'), "EmptyTopic", "orders")

    expect("unsubscribe", ask("unsubscribe", token, "returns"), "UNSUBSCRIBED", "returns")
    archive = '{"subscription": "archive"}'
    expect("none there", ask("unsubscribe", token, "orders", archive), "NotSubscribed", "orders")
    expect("bad option", ask("get", token, "orders", '{"a": 1}'), "ERROR", "bad_request")
    expect("bad command", ask("grab", token), "ERROR", "malformed")
    expect("bad token", ask("get", token + "x", "orders"), "ERROR", "invalid_token")
    expect("no shutdown", ask("shutdown", token), "ERROR", "not_permitted")
    expect("shutdown", ask("shutdown", admin), "Shutdown")
    print("resent", client.resent, flush=True)


if __name__ == "__main__":
    client = Client(sys.argv[1], int(sys.argv[2]))
    run(client, *sys.argv[3:6])
    client.close()
    print("done")
