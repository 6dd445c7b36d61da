"""Runs the examples of the ZeroMQ protocol: frames through a plain socket, bytes through TCP."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import groupby
from urllib.parse import urlsplit

import zmq
import zmq.asyncio

from harness.documentation import Mismatch, Values, expect_json, expect_text, fill


async def run_frames(endpoint: str, block: str, dealer: bool, values: Values, where: str) -> None:
    """Requests and their answers, one after the other, on one socket."""
    with zmq.asyncio.Context() as context:
        socket = context.socket(zmq.DEALER if dealer else zmq.REQ)
        with socket:
            socket.linger = 0
            socket.connect(endpoint)
            for sent, lines in groupby(_lines(block), key=lambda line: line[0] == ">"):
                frames = [line[1:].strip() for line in lines]
                if sent:
                    await socket.send_multipart([fill(each, values).encode() for each in frames])
                else:
                    answer = await asyncio.wait_for(socket.recv_multipart(), 5)
                    _compare(frames, [frame.decode() for frame in answer], values, where)


def _lines(block: str) -> list[str]:
    return [line for line in block.splitlines() if line[:1] in (">", "<")]


def _compare(expected: list[str], actual: list[str], values: Values, where: str) -> None:
    if len(expected) != len(actual):
        raise Mismatch(f"{where}: the example says {expected}, but it was {actual}")
    for said, was in zip(expected, actual, strict=True):
        if said.startswith("{"):
            # `…` for a number, and names for numbers, are not JSON before they are texts.
            text = re.sub(r": (…|<[a-z-]+>)", r': "\1"', said)
            expect_json(text, json.loads(was), values, where)
        else:
            expect_text(said, was, values, where)


async def run_bytes(endpoint: str, block: str, where: str) -> None:
    address = urlsplit(endpoint)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        for line in _lines(block):
            words = line[1:].partition("#")[0].split()
            if line[0] == ">":
                writer.write(bytes.fromhex("".join(words)))
                continue
            got = await asyncio.wait_for(reader.readexactly(len(words)), 5)
            for word, byte in zip(words, got, strict=True):
                if word not in ("..", f"{byte:02x}"):
                    raise Mismatch(f"{where}: the example says {line}, but it was {got.hex(' ')}")
    finally:
        writer.close()
        await writer.wait_closed()
