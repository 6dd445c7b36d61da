"""Framing of WebSockets as RFC 6455 and RFC 7692 ask for it, one rule at a time."""

from __future__ import annotations

import random
import sys
import time
import zlib

import pytest
from websockets.speedups import apply_mask

from hubbub.protocols.websocket import (
    Deflate,
    Event,
    FrameError,
    FrameReader,
    Opcode,
    accept_key,
    close_frame,
    frame,
    parse_close,
)

pytestmark = pytest.mark.spec("LIVE-01")

LIMIT = 1 << 16
MASK = b"\x12\x34\x56\x78"
BOTH_FLAGS = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"


def sent(
    first: int, payload: bytes = b"", length: bytes | None = None, masked: bool = True
) -> bytes:
    """A client's frame with any first byte; `length` overrides the minimal length field."""
    plain = frame(Opcode.BINARY, payload)
    field = length if length is not None else plain[1 : len(plain) - len(payload)]
    if not masked:
        return bytes((first,)) + field + payload
    field = bytes((field[0] | 0x80,)) + field[1:]
    return bytes((first,)) + field + MASK + apply_mask(payload, MASK)


def refusal(data: bytes, limit: int = LIMIT, deflate: Deflate | None = None) -> FrameError:
    with pytest.raises(FrameError) as caught:
        FrameReader(limit, deflate).feed(data)
    return caught.value


def read(data: bytes, limit: int = LIMIT, deflate: Deflate | None = None) -> list[Event]:
    return FrameReader(limit, deflate).feed(data)


def dripped(data: bytes) -> list[Event]:
    reader = FrameReader(LIMIT)
    return [event for byte in data for event in reader.feed(bytes((byte,)))]


def noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def deflate() -> Deflate:
    agreed = Deflate.negotiate("permessage-deflate")
    assert agreed is not None
    return agreed[0]


# --- what a server sends ---


def test_accept_key_is_the_example_of_rfc_6455() -> None:
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    ("size", "header"),
    [
        (0, "8200"),
        (125, "827d"),
        (126, "827e007e"),
        (65535, "827effff"),
        (65536, "827f0000000000010000"),
    ],
)
def test_frames_use_the_shortest_length_field(size: int, header: str) -> None:
    assert frame(Opcode.BINARY, b"x" * size) == bytes.fromhex(header) + b"x" * size


def test_rsv1_marks_a_compressed_frame() -> None:
    assert frame(Opcode.TEXT, b"hi", rsv1=True) == b"\xc1\x02hi"


def test_a_control_frame_over_125_bytes_is_not_built() -> None:
    with pytest.raises(ValueError, match="125"):
        frame(Opcode.PING, b"x" * 126)


@pytest.mark.parametrize("reason", ["", "bye", "é" * 62, "€" * 50, "😀" * 40, "a" + "😀" * 40])
def test_close_reason_is_cut_between_characters_to_fit(reason: str) -> None:
    built = close_frame(4000, reason)
    code, kept = parse_close(built[2:])
    assert len(built) <= 127
    assert code == 4000
    assert reason.startswith(kept)
    assert kept == reason or len(kept.encode()) > 123 - 4


def test_close_reason_that_has_no_utf8_form_is_still_sent() -> None:
    assert parse_close(close_frame(1000, "\ud800!")[2:]) == (1000, "?!")


def test_close_without_status_is_echoed_without_status() -> None:
    assert close_frame(*parse_close(b"")) == b"\x88\x00"


@pytest.mark.parametrize("code", [0, 999, 1004, 1006, 1015, 2999, 5000, 70000])
def test_close_codes_that_may_not_be_sent_are_not_built(code: int) -> None:
    with pytest.raises(ValueError, match=str(code)):
        close_frame(code)


# --- what a client sends ---


@pytest.mark.parametrize("size", [0, 1, 2, 125, 126, 127, 65535, 65536])
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.BINARY])
def test_messages_of_every_length_encoding_are_read(opcode: Opcode, size: int) -> None:
    payload = b"x" * size
    assert read(sent(0x80 | opcode, payload)) == [Event(opcode, payload)]


def test_many_frames_in_one_feed_come_out_in_order() -> None:
    payloads = [b"%d" % number * (number % 90) for number in range(500)]
    assert read(b"".join(sent(0x82, payload) for payload in payloads)) == [
        Event(Opcode.BINARY, payload) for payload in payloads
    ]


def test_frames_are_the_same_read_byte_by_byte() -> None:
    stream = b"".join(
        [sent(0x81, "é".encode() * 100), sent(0x89, b"p"), sent(0x02, b"a"), sent(0x80, b"b")]
    )
    assert dripped(stream) == read(stream)
    assert len(read(stream)) == 3


def test_fragments_make_one_message() -> None:
    stream = sent(0x01, b"a") + sent(0x00, b"") + sent(0x00, b"b") + sent(0x80, b"c")
    assert read(stream) == [Event(Opcode.TEXT, b"abc")]


def test_control_frames_may_come_between_fragments() -> None:
    stream = sent(0x02, b"a") + sent(0x89, b"ping") + sent(0x8A) + sent(0x80, b"b")
    assert read(stream) == [
        Event(Opcode.PING, b"ping"),
        Event(Opcode.PONG, b""),
        Event(Opcode.BINARY, b"ab"),
    ]


def test_a_character_may_be_split_between_fragments() -> None:
    euro = "€".encode()
    stream = sent(0x01, euro[:1]) + sent(0x00, euro[1:2]) + sent(0x80, euro[2:])
    assert read(stream) == [Event(Opcode.TEXT, euro)]


def test_an_empty_feed_changes_nothing() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(b"") == []
    assert reader.feed(sent(0x81, b"hi")[:3]) == []
    assert reader.feed(b"") == []
    assert reader.feed(sent(0x81, b"hi")[3:]) == [Event(Opcode.TEXT, b"hi")]


PROTOCOL_ERRORS = {
    "rsv1 without deflate": sent(0xC1, b"x"),
    "rsv2": sent(0xA1, b"x"),
    "rsv3": sent(0x91, b"x"),
    "rsv2 on a control frame": sent(0xA9),
    **{f"opcode {opcode}": sent(0x80 | opcode) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "ping in fragments": sent(0x09),
    "close in fragments": sent(0x08),
    "ping of 126 bytes": sent(0x89, b"x" * 126),
    "close of 126 bytes": sent(0x88, b"\x03\xe8" + b"x" * 124),
    "text not masked": sent(0x81, b"x", masked=False),
    "long text not masked": sent(0x81, b"x" * 300, masked=False),
    "ping not masked": sent(0x89, masked=False),
    "125 in 16 bits": sent(0x82, b"x" * 125, length=b"\x7e\x00\x7d"),
    "0 in 16 bits": sent(0x82, b"", length=b"\x7e\x00\x00"),
    "65535 in 64 bits": sent(0x82, b"x" * 65535, length=b"\x7f" + (65535).to_bytes(8, "big")),
    "top bit of a 64-bit length": sent(0x82, b"", length=b"\x7f\x80" + b"\x00" * 7),
    "continuation of nothing": sent(0x80, b"x"),
    "continuation after a whole message": sent(0x81, b"x") + sent(0x00, b"x"),
    "text inside a fragmented message": sent(0x01, b"x") + sent(0x81, b"y"),
    "binary inside a fragmented message": sent(0x01, b"x") + sent(0x02, b"y"),
    "close of one byte": sent(0x88, b"\x03"),
}


@pytest.mark.parametrize("stream", PROTOCOL_ERRORS.values(), ids=PROTOCOL_ERRORS.keys())
def test_protocol_errors_are_refused_with_1002(stream: bytes) -> None:
    assert refusal(stream).close_code == 1002


@pytest.mark.parametrize("stream", PROTOCOL_ERRORS.values(), ids=PROTOCOL_ERRORS.keys())
def test_protocol_errors_are_refused_byte_by_byte_too(stream: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        dripped(stream)
    assert caught.value.close_code == 1002


@pytest.mark.parametrize("first", [0xF1, 0x83, 0x09, 0x80])
def test_a_bad_start_is_refused_before_its_payload_arrives(first: int) -> None:
    assert refusal(bytes((first, 0x85))).close_code == 1002


# --- close ---


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999])
def test_close_with_a_valid_code_is_read(code: int) -> None:
    payload = code.to_bytes(2, "big") + "grüezi".encode()
    (event,) = read(sent(0x88, payload))
    assert event.opcode is Opcode.CLOSE
    assert parse_close(event.data) == (code, "grüezi")


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535])
def test_close_with_an_invalid_code_is_refused_with_1002(code: int) -> None:
    assert refusal(sent(0x88, code.to_bytes(2, "big"))).close_code == 1002


def test_close_without_a_code_means_1005() -> None:
    (event,) = read(sent(0x88))
    assert parse_close(event.data) == (1005, "")


def test_close_reason_that_is_not_utf8_is_refused_with_1007() -> None:
    assert refusal(sent(0x88, b"\x03\xe8\xff")).close_code == 1007


def test_whatever_follows_a_close_is_discarded() -> None:
    reader = FrameReader(LIMIT)
    stream = sent(0x88) + sent(0x81, b"late") + b"\xff\xff\xff"
    assert [event.opcode for event in reader.feed(stream)] == [Opcode.CLOSE]
    assert reader.feed(sent(0x81, b"later") + b"\xff\xff") == []


def test_whatever_follows_an_error_is_discarded() -> None:
    reader = FrameReader(LIMIT)
    with pytest.raises(FrameError):
        reader.feed(b"\xff\xff")
    assert reader.feed(sent(0x81, b"later")) == []


def test_messages_before_an_error_are_not_lost() -> None:
    error = refusal(sent(0x81, b"a" * 200) + sent(0x89, b"p") + sent(0x81, b"\xff"))
    assert error.events == [Event(Opcode.TEXT, b"a" * 200), Event(Opcode.PING, b"p")]
    assert error.close_code == 1007
    assert error.message


# --- text ---

NOT_UTF8 = [b"\xff", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"ok\x80" * 80]


@pytest.mark.parametrize("text", NOT_UTF8)
def test_text_that_is_not_utf8_is_refused_with_1007(text: bytes) -> None:
    assert refusal(sent(0x81, text)).close_code == 1007
    assert refusal(sent(0x01, text) + sent(0x80)).close_code == 1007
    assert refusal(sent(0x01) + sent(0x80, text)).close_code == 1007


@pytest.mark.parametrize("text", NOT_UTF8)
def test_binary_may_hold_any_bytes(text: bytes) -> None:
    assert read(sent(0x82, text)) == [Event(Opcode.BINARY, text)]


def test_bad_text_in_a_fragment_is_refused_before_the_last_one() -> None:
    assert refusal(sent(0x01, b"fine") + sent(0x00, b"\xf4\x90")).close_code == 1007


# --- limits ---


def test_a_message_at_the_limit_is_read() -> None:
    assert len(read(sent(0x82, b"x" * 300), limit=300)) == 1
    assert len(read(sent(0x02, b"x" * 200) + sent(0x80, b"x" * 100), limit=300)) == 1


@pytest.mark.parametrize(
    "start",
    [
        sent(0x82, b"x" * 301)[:4],
        sent(0x82, b"x" * 301),
        sent(0x82, b"", length=b"\x7f\x7f" + b"\xff" * 7)[:10],
        sent(0x02, b"x" * 200) + sent(0x80, b"x" * 101)[:2],
    ],
    ids=["header", "whole", "64-bit header", "sum of fragments"],
)
def test_a_message_over_the_limit_is_refused_at_its_header(start: bytes) -> None:
    assert refusal(start, limit=300).close_code == 1009


def test_control_frames_do_not_count_against_the_limit() -> None:
    stream = sent(0x02, b"x" * 10) + sent(0x89, b"y" * 100) + sent(0x80)
    assert len(read(stream, limit=10)) == 2


def test_many_tiny_fragments_take_no_more_memory_than_the_message() -> None:
    reader = FrameReader(LIMIT)
    reader.feed(sent(0x02) + sent(0x00, b"x") * 10_000)
    message = reader._message
    assert message is not None
    assert sys.getsizeof(message.data) < 20_000


def test_an_idle_reader_holds_no_buffer_and_is_small() -> None:
    reader = FrameReader(LIMIT)
    reader.feed(sent(0x01, b"x" * 999)[:500])
    reader.feed(sent(0x01, b"x" * 999)[500:] + sent(0x80))
    assert reader._partial is None
    assert reader._message is None
    assert sys.getsizeof(reader) <= 80
    assert not hasattr(reader, "__dict__")


def test_a_megabyte_dripped_in_costs_linear_time() -> None:
    """Quadratic handling would copy the megabyte 65,536 times: more than a second of memcpy even
    at 32 GB/s, against some 50 ms here."""
    stream = sent(0x82, noise(1 << 20))
    reader = FrameReader(1 << 20)
    started = time.process_time()
    events = [e for at in range(0, len(stream), 16) for e in reader.feed(stream[at : at + 16])]
    assert len(events) == 1
    assert time.process_time() - started < 1


# --- permessage-deflate: agreement ---


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        ("permessage-deflate", BOTH_FLAGS),
        ("permessage-deflate; client_max_window_bits", BOTH_FLAGS),
        ("permessage-deflate; client_max_window_bits=8", BOTH_FLAGS),
        ("permessage-deflate;server_no_context_takeover", BOTH_FLAGS),
        (BOTH_FLAGS, BOTH_FLAGS),
        (
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits",
            BOTH_FLAGS + "; server_max_window_bits=10",
        ),
        (
            'permessage-deflate ;\tserver_max_window_bits = "1\\2"',
            BOTH_FLAGS + "; server_max_window_bits=12",
        ),
        ("permessage-deflate; server_max_window_bits=8, permessage-deflate", BOTH_FLAGS),
        ("permessage-deflate; unknown, permessage-deflate; client_max_window_bits", BOTH_FLAGS),
        ('x-other; a="b"; c, , permessage-deflate,', BOTH_FLAGS),
        (
            "permessage-deflate; server_max_window_bits=9, permessage-deflate",
            BOTH_FLAGS + "; server_max_window_bits=9",
        ),
    ],
)
def test_the_first_offer_that_can_be_met_is_accepted(offer: str, answer: str) -> None:
    agreed = Deflate.negotiate(offer)
    assert agreed is not None
    assert agreed[1] == answer


@pytest.mark.parametrize(
    "offer",
    [
        "",
        "x-webkit-deflate-frame",
        "permessage-bzip2",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=8",
        "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits=+10",
        "permessage-deflate; server_max_window_bits=x",
        "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_max_window_bits=16",
        "permessage-deflate; client_max_window_bits=08",
        "permessage-deflate; client_max_window_bits=",
        "permessage-deflate; client_max_window_bits; client_max_window_bits",
        "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover=true",
        "permessage-deflate; unknown_parameter",
    ],
)
def test_offers_that_are_invalid_or_cannot_be_met_are_declined(offer: str) -> None:
    assert Deflate.negotiate(offer) is None


@pytest.mark.parametrize(
    "header", ["permessage-deflate;", "permessage-deflate; =1", "permessage-deflate x", "@", '"a"']
)
def test_a_malformed_header_is_declined_as_a_whole(header: str) -> None:
    assert Deflate.negotiate(f"{header}, permessage-deflate") is None
    assert Deflate.negotiate(f"permessage-deflate, {header}") is None


def test_a_hostile_header_is_parsed_in_linear_time() -> None:
    started = time.process_time()
    for header in (" \t" * 50_000 + "@", "a;" * 50_000, "a=" + '"\\a' * 30_000, "," * 100_000):
        assert Deflate.negotiate(header) is None
    assert time.process_time() - started < 1


def test_connections_with_the_same_parameters_share_one_deflate() -> None:
    assert deflate() is deflate()


# --- permessage-deflate: data ---


@pytest.mark.parametrize("payload", [b"", b"Hello", b"x" * 100_000, bytes(range(256)) * 200])
@pytest.mark.parametrize("window_bits", range(9, 16))
def test_compressed_messages_fit_the_agreed_window(payload: bytes, window_bits: int) -> None:
    agreed = Deflate.negotiate(f"permessage-deflate; server_max_window_bits={window_bits}")
    assert agreed is not None
    compressed = agreed[0].compress(payload)
    inflater = zlib.decompressobj(-window_bits)
    assert inflater.decompress(compressed + b"\x00\x00\xff\xff") == payload
    assert not compressed.endswith(b"\x00\x00\xff\xff")


RFC_7692_EXAMPLES = {
    "one block": ("f248cdc9c90700", b"Hello"),
    "no compression": ("000500faff48656c6c6f00", b"Hello"),
    "final block": ("f348cdc9c9070000", b"Hello"),
    "two blocks": ("f248050000 00ffffcac9c90700".replace(" ", ""), b"Hello"),
    "empty": ("00", b""),
}


@pytest.mark.parametrize(
    ("encoded", "message"), RFC_7692_EXAMPLES.values(), ids=RFC_7692_EXAMPLES.keys()
)
def test_the_examples_of_rfc_7692_are_read(encoded: str, message: bytes) -> None:
    stream = sent(0xC1, bytes.fromhex(encoded))
    assert read(stream, deflate=deflate()) == [Event(Opcode.TEXT, message)]


def test_a_compressed_message_of_no_bytes_is_empty() -> None:
    assert read(sent(0xC1), deflate=deflate()) == [Event(Opcode.TEXT, b"")]


def test_blocks_after_a_final_one_belong_to_the_message() -> None:
    final = bytes.fromhex("f348cdc9c90700")
    assert deflate().decompress(final * 2 + deflate().compress(b"!"), LIMIT) == b"HelloHello!"
    assert deflate().decompress(final, LIMIT) == b"Hello"


def test_a_block_after_a_final_one_may_refer_back() -> None:
    first = zlib.compressobj(wbits=-15)
    second = zlib.compressobj(wbits=-15, zdict=b"Hello, Hello, Hello")
    data = first.compress(b"Hello, Hello, Hello") + first.flush()
    data += second.compress(b"Hello, Hello") + second.flush(zlib.Z_SYNC_FLUSH)
    assert deflate().decompress(data[:-4], LIMIT) == b"Hello, Hello, HelloHello, Hello"


def test_endless_final_blocks_are_refused_quickly() -> None:
    started = time.process_time()
    assert refusal(sent(0xC2, b"\x03\x00" * 30_000), deflate=deflate()).close_code == 1007
    assert time.process_time() - started < 0.5


def test_compressed_fragments_make_one_message_around_control_frames() -> None:
    packed = deflate().compress(b"Hello " * 50)
    stream = sent(0x41, packed[:3]) + sent(0x89) + sent(0x00, packed[3:]) + sent(0x80)
    assert read(stream, deflate=deflate())[1:] == [Event(Opcode.TEXT, b"Hello " * 50)]


def test_uncompressed_messages_are_read_with_deflate_too() -> None:
    stream = sent(0x81, b"plain" * 40) + sent(0xC1, deflate().compress(b"packed"))
    assert [event.data for event in read(stream, deflate=deflate())] == [b"plain" * 40, b"packed"]


@pytest.mark.parametrize(
    "stream",
    [sent(0x02, b"x") + sent(0xC0, b"x"), sent(0xC9), sent(0xC8), sent(0xE1), sent(0xD2)],
    ids=["continuation", "ping", "close", "rsv2", "rsv3"],
)
def test_rsv1_is_only_for_the_start_of_a_data_message(stream: bytes) -> None:
    assert refusal(stream, deflate=deflate()).close_code == 1002


@pytest.mark.parametrize(
    "payload",
    [
        b"\xff\xff\xff",
        b"\x07",
        b"not deflate",
        bytes.fromhex("f248cdc9"),
        b"\x00\x05\x00\xfa\xffHe",
    ],
    ids=["bad block", "bad type", "text", "cut in a block", "cut in a stored block"],
)
def test_bad_compressed_data_is_refused_with_1007(payload: bytes) -> None:
    assert refusal(sent(0xC2, payload), deflate=deflate()).close_code == 1007


def test_compressed_text_that_is_not_utf8_is_refused_with_1007() -> None:
    packed = deflate().compress(b"\xff" * 20)
    assert refusal(sent(0xC1, packed), deflate=deflate()).close_code == 1007
    fragments = sent(0x41, packed[:2]) + sent(0x80, packed[2:])
    assert refusal(fragments, deflate=deflate()).close_code == 1007


@pytest.mark.parametrize("limit", [0, 1, 1000, LIMIT])
def test_the_limit_holds_for_the_decompressed_size(limit: int) -> None:
    fits = sent(0xC2, deflate().compress(b"\x00" * limit))
    assert len(read(fits, limit, deflate())[0].data) == limit
    bomb = sent(0xC2, deflate().compress(b"\x00" * (limit + 1)))
    assert refusal(bomb, limit, deflate()).close_code == 1009


def test_a_bomb_is_refused_without_unpacking_it() -> None:
    bomb = deflate().compress(b"\x00" * 50_000_000)
    started = time.process_time()
    assert refusal(sent(0xC2, bomb), 100_000, deflate()).close_code == 1009
    assert time.process_time() - started < 0.05


def test_a_message_at_the_limit_gets_in_when_compression_makes_it_longer() -> None:
    message = noise(LIMIT)
    packed = deflate().compress(message)
    assert len(packed) > LIMIT
    assert read(sent(0xC2, packed), LIMIT, deflate()) == [Event(Opcode.BINARY, message)]


def test_a_compressed_message_far_over_the_limit_is_refused_at_its_header() -> None:
    header = sent(0xC2, b"x" * 60_000)[:4]
    assert refusal(header, 1000, deflate()).close_code == 1009
