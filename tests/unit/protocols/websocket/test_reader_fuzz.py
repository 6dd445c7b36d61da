"""Our framing against wsproto's: the same bytes, in any pieces, must come to the same end.

Compared are the messages and control frames that come out, whether the stream is refused, and the
close code. Hostile streams are followed by zeros, which complete any frame of a permitted size
and then are an unmasked frame: so both sides reach a verdict, however early or late they look.

Intended differences, each shown by a test at the end:

* wsproto has no limit on messages; ours refuses with 1009.
* wsproto does not know close code 1014 (bad gateway); ours takes it, as IANA registered it.
* wsproto forgets that a message is compressed when a control frame comes between its fragments.
* wsproto takes compressed data that ends inside a block; ours refuses with 1007.
* wsproto drops what follows a final deflate block; ours reads on (RFC 7692, 7.2.3.4).
* Where a compressed frame is both out of place and bad, wsproto may say 1007 and ours 1002; hostile
  streams are therefore compared without deflate, and damaged compressed messages one at a time.
"""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.speedups import apply_mask
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol, ParseFailed

from hubbub.protocols.websocket import (
    Deflate,
    FrameError,
    FrameReader,
    Opcode,
    close_frame,
    frame,
    parse_close,
)

pytestmark = pytest.mark.spec("LIVE-01")

LIMIT = 1500
ZEROS = b"\x00" * (LIMIT + 32)
DEFLATE = Deflate()

fuzz = settings(
    derandomize=True,
    max_examples=300,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Content = bytes | tuple[int, str]


class Outcome(NamedTuple):
    """What came out, and the close code of the refusal (None: not refused)."""

    events: list[tuple[int, Content]]
    refused: int | None


def ours(chunks: list[bytes], deflate: Deflate | None = None, limit: int = LIMIT) -> Outcome:
    reader = FrameReader(limit, deflate)
    events = []
    refused = None
    for chunk in chunks:
        try:
            events += reader.feed(chunk)
        except FrameError as error:
            events += error.events
            refused = error.close_code
            break
    return Outcome([(e.opcode, _content(e.opcode, e.data)) for e in events], refused)


def _content(opcode: int, data: bytes) -> Content:
    return parse_close(data) if opcode == Opcode.CLOSE else data


def theirs(chunks: list[bytes], compressed: bool = False, client: bool = False) -> Outcome:
    protocol = FrameProtocol(client, [_wsproto_deflate()] if compressed else [])
    events: list[tuple[int, Content]] = []
    message = b""
    try:
        for chunk in chunks:
            protocol.receive_bytes(chunk)
            for got in protocol.received_frames():
                payload = got.payload.encode() if isinstance(got.payload, str) else got.payload
                if got.opcode >= Opcode.CLOSE:
                    events.append((int(got.opcode), payload))
                    continue
                assert not isinstance(payload, tuple)
                message += payload
                if got.frame_finished and got.message_finished:
                    events.append((int(got.opcode), message))
                    message = b""
    except ParseFailed as error:
        return Outcome(events, int(error.code))
    return Outcome(events, None)


def _wsproto_deflate() -> PerMessageDeflate:
    extension = PerMessageDeflate()
    extension.finalize("_; client_no_context_takeover; server_no_context_takeover")
    return extension


def masked(first: int, payload: bytes, mask: bytes = b"\x9a\x01\xfe\x40") -> bytes:
    plain = frame(Opcode.BINARY, payload)
    header = bytes((first, plain[1] | 0x80)) + plain[2 : len(plain) - len(payload)]
    return header + mask + apply_mask(payload, mask)


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    chunks: list[bytes] = []
    at = 0
    for size in cycle(sizes):
        if at >= len(stream):
            return chunks
        chunks.append(stream[at : at + size])
        at += size
    raise AssertionError("sizes is never empty")


# --- strategies ---

sizes = st.lists(st.sampled_from([1, 2, 3, 5, 8, 13, 100, 1000, 10_000]), min_size=1, max_size=6)
masks = st.binary(min_size=4, max_size=4)
texts = st.text(max_size=60).map(str.encode) | st.integers(100, 300).map(lambda n: b"t" * n)
binaries = st.binary(max_size=300) | st.integers(100, 1000).map(lambda n: b"\xfe" * n)
close_codes = st.sampled_from([1000, 1001, 1003, 1007, 1011, 1013, 3000, 4999])

control_frames = st.builds(masked, st.sampled_from([0x89, 0x8A]), st.binary(max_size=125), masks)
close_frames = st.builds(
    lambda code, reason: masked(0x88, close_frame(code, reason)[2:]),
    close_codes | st.just(1005),
    st.text(max_size=70),
)


@st.composite
def messages(draw: st.DrawFn, compressed: bool = False) -> bytes:
    """A message in one or more frames, control frames between them unless compressed."""
    opcode = draw(st.sampled_from([1, 2]))
    payload = draw(texts if opcode == 1 else binaries)
    packed = compressed and draw(st.booleans())
    data = DEFLATE.compress(payload) if packed else payload
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=4)))
    bounds = [0, *cuts, len(data)]
    stream = b""
    for number, (start, end) in enumerate(pairwise(bounds)):
        first = (opcode | (0x40 if packed else 0)) if number == 0 else 0
        final = 0x80 if number == len(bounds) - 2 else 0
        stream += masked(first | final, data[start:end], draw(masks))
        if not (packed or final) and draw(st.booleans()):
            stream += draw(control_frames)
    return stream


def open_streams(compressed: bool = False) -> st.SearchStrategy[bytes]:
    return st.lists(messages(compressed) | control_frames, max_size=5).map(b"".join)


def streams(compressed: bool = False) -> st.SearchStrategy[bytes]:
    return st.builds(bytes.__add__, open_streams(compressed), st.just(b"") | close_frames)


lengths = st.one_of(
    st.integers(0, 127).map(lambda n: (n,)),
    st.sampled_from([0, 1, 125, 126, 300, 1500, 65535]).map(lambda n: (126, *n.to_bytes(2, "big"))),
    st.sampled_from([0, 65535, 65536, 1 << 40, 1 << 63, (1 << 64) - 1]).map(
        lambda n: (127, *n.to_bytes(8, "big"))
    ),
)


@st.composite
def hostile_frames(draw: st.DrawFn) -> bytes:
    """A frame with any header at all."""
    first = draw(st.integers(0, 255) | st.sampled_from([0x01, 0x81, 0x80, 0x00, 0x88, 0x82]))
    length = draw(lengths)
    masked_bit = 0x80 if draw(st.integers(0, 9)) else 0
    payload = draw(st.binary(max_size=8) | texts | binaries)
    return bytes((first, length[0] | masked_bit, *length[1:])) + draw(masks) + payload


@st.composite
def mutated(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """A stream with a few bits flipped, bytes put in or taken out, or its end cut off."""
    stream = bytearray(draw(originals))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(stream) - 1, 0)))
        match draw(st.sampled_from(["flip", "flip", "insert", "delete", "cut"])):
            case "flip" if stream:
                stream[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                stream[at:at] = draw(st.binary(min_size=1, max_size=4))
            case "delete":
                del stream[at : at + draw(st.integers(1, 4))]
            case "cut":
                del stream[at:]
            case _:
                pass
    return bytes(stream)


closes = st.builds(
    lambda code, rest: masked(0x88, code.to_bytes(2, "big") + rest),
    (st.integers(990, 1030) | st.integers(0, 65535)).filter(lambda code: code != 1014),
    st.binary(max_size=4) | texts.filter(lambda text: len(text) < 120),
) | st.binary(max_size=1).map(lambda payload: masked(0x88, payload))

raw_text = st.builds(
    lambda parts: b"".join(
        masked((0 if number else 1) | (0x80 if number == len(parts) - 1 else 0), part)
        for number, part in enumerate(parts)
    ),
    st.lists(
        st.sampled_from(
            [b"a", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"\xf0\x9f", b"\xed\xa0", b""]
        )
        | st.binary(max_size=3),
        min_size=1,
        max_size=4,
    ),
)


# --- properties ---


@fuzz
@given(streams(), sizes)
def test_valid_streams_are_read_as_wsproto_reads_them(stream: bytes, pieces: list[int]) -> None:
    got = ours(cut(stream, pieces))
    assert got.refused is None
    assert got == theirs([stream])


@fuzz
@given(streams(compressed=True), sizes)
def test_valid_compressed_streams_are_read_as_wsproto_reads_them(
    stream: bytes, pieces: list[int]
) -> None:
    got = ours(cut(stream, pieces), DEFLATE)
    assert got.refused is None
    assert got == theirs([stream], compressed=True)


def assert_same_verdict(stream: bytes, pieces: list[int]) -> None:
    stream += ZEROS
    got, reference = ours(cut(stream, pieces)), theirs([stream])
    assert got == ours([stream]), "the pieces made a difference"
    if got.refused == 1009:  # wsproto has no limit and reads on
        assert got.events == reference.events[: len(got.events)]
    else:
        assert got == reference


@fuzz
@given(mutated(streams()), sizes)
def test_mutated_streams_get_the_same_verdict(stream: bytes, pieces: list[int]) -> None:
    assert_same_verdict(stream, pieces)


@fuzz
@given(open_streams(), st.lists(hostile_frames(), min_size=1, max_size=4).map(b"".join), sizes)
def test_hostile_frames_get_the_same_verdict(
    start: bytes, hostile: bytes, pieces: list[int]
) -> None:
    assert_same_verdict(start + hostile, pieces)


@fuzz
@given(st.binary(max_size=200), sizes)
def test_noise_gets_the_same_verdict(stream: bytes, pieces: list[int]) -> None:
    assert_same_verdict(stream, pieces)


@fuzz
@given(closes, sizes)
def test_close_frames_get_the_same_verdict(stream: bytes, pieces: list[int]) -> None:
    assert_same_verdict(stream, pieces)


@fuzz
@given(raw_text, sizes)
def test_doubtful_text_gets_the_same_verdict(stream: bytes, pieces: list[int]) -> None:
    assert_same_verdict(stream, pieces)


def test_every_two_byte_start_gets_the_same_verdict() -> None:
    for first in range(256):
        for second in (0x00, 0x05, 0x7E, 0x7F, 0x80, 0x85, 0xFD, 0xFE, 0xFF):
            for before in (b"", masked(0x01, b"open")):
                assert_same_verdict(before + bytes((first, second)) + b"\x01" * 12, [10_000])


@fuzz
@given(binaries, st.data())
def test_damaged_compressed_messages_are_refused_or_read_alike(
    payload: bytes, data: st.DataObject
) -> None:
    damaged = data.draw(mutated(st.just(DEFLATE.compress(payload))))
    stream = masked(0xC2, damaged)
    got = ours([stream], DEFLATE, limit=1 << 20)
    reference = theirs([stream], compressed=True)
    if got.refused is None:
        assert reference.refused is None
        ((_, message),), ((_, expected),) = got.events, reference.events
        assert isinstance(message, bytes)
        assert isinstance(expected, bytes)
        assert message.startswith(expected)  # wsproto stops at a final block
    else:
        assert got.refused == 1007
        assert reference.refused in (1007, None)  # None: ends inside a block


@fuzz
@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 9, 10]), st.text(max_size=30), st.booleans())),
    st.none() | st.tuples(close_codes, st.text(max_size=80)),
)
def test_wsproto_as_a_client_reads_what_we_send(
    contents: list[tuple[int, str, bool]], close: tuple[int, str] | None
) -> None:
    stream = b""
    for opcode, text, packed in contents:
        packed = packed and opcode < 8
        payload = text.encode()
        stream += frame(opcode, DEFLATE.compress(payload) if packed else payload, rsv1=packed)
    expected: list[tuple[int, Content]] = [(opcode, text.encode()) for opcode, text, _ in contents]
    if close is not None:
        stream += close_frame(*close)
        expected.append((8, parse_close(close_frame(*close)[2:])))
    assert theirs([stream], compressed=True, client=True) == Outcome(expected, None)


# --- intended differences ---


def test_difference_message_limit() -> None:
    stream = [masked(0x82, b"x" * (LIMIT + 1))]
    assert ours(stream).refused == 1009
    assert theirs(stream).refused is None


def test_difference_close_code_1014() -> None:
    stream = [masked(0x88, close_frame(1014)[2:])]
    assert ours(stream) == Outcome([(8, (1014, ""))], None)
    assert theirs(stream).refused == 1002


def test_difference_control_frame_between_compressed_fragments() -> None:
    packed = DEFLATE.compress(b"Hello " * 20)
    stream = [masked(0x42, packed[:4]) + masked(0x89, b"") + masked(0x80, packed[4:])]
    assert ours(stream, DEFLATE).events == [(9, b""), (2, b"Hello " * 20)]
    assert theirs(stream, compressed=True) != ours(stream, DEFLATE)


def test_difference_compressed_data_that_ends_inside_a_block() -> None:
    stream = [masked(0xC2, DEFLATE.compress(b"Hello " * 20)[:4])]
    assert ours(stream, DEFLATE).refused == 1007
    assert theirs(stream, compressed=True).refused is None


def test_difference_data_after_a_final_block() -> None:
    stream = [masked(0xC2, bytes.fromhex("f348cdc9c90700") + DEFLATE.compress(b"!"))]
    assert ours(stream, DEFLATE).events == [(2, b"Hello!")]
    assert theirs(stream, compressed=True).events == [(2, b"Hello")]


def test_difference_code_for_a_bad_compressed_frame_out_of_place() -> None:
    packed = DEFLATE.compress(b"Hello " * 20)
    stream = [masked(0x42, packed) + masked(0xC2, b"\xff\xff\xff")]
    assert ours(stream, DEFLATE).refused == 1002
    assert theirs(stream, compressed=True).refused == 1007


@fuzz
@given(
    opcode=st.sampled_from([Opcode.TEXT, Opcode.BINARY]),
    first=st.integers(0, 255) | st.sampled_from([0x81, 0x82, 0xC1]),
    second=st.integers(0, 255) | st.sampled_from([0xFE, 0xFF]),
    rest=st.binary(max_size=200),
    whole=st.booleans(),
)
def test_a_message_that_is_read_alone_is_what_the_general_reader_finds(
    opcode: Opcode, first: int, second: int, rest: bytes, whole: bool
) -> None:
    """Or is left to the general reader."""
    if whole:
        sent = frame(opcode, rest)
        header = len(sent) - len(rest)
        mask = b"\x01\x02\x03\x04"
        data = bytes((sent[0], sent[1] | 0x80)) + sent[2:header] + mask + apply_mask(rest, mask)
    else:
        data = bytes((first, second)) + rest
    reader = FrameReader(LIMIT, DEFLATE)
    alone = reader.read_alone(data, opcode)
    if alone is not None:
        (event,) = FrameReader(LIMIT, DEFLATE).feed(data)
        assert (event.opcode, event.data) == (opcode, alone)
        assert not reader.held_bytes
    elif whole and opcode is Opcode.BINARY and len(rest) > 1:
        pytest.fail("a whole message was not recognized")
