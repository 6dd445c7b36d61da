"""E-mail as messages and messages as e-mail, however broken the mail is."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.adapters import message
from hubbub.domain.communication.contents import text_or_bytes
from hubbub.domain.communication.messages import PeerMessage, check_sent
from hubbub.protocols.adapters.mail_ids import (
    conversation_reference,
    incoming_id,
    message_id,
    own_conversation,
    own_messages,
    reference,
)
from hubbub.protocols.adapters.mail_in import (
    Ignored,
    MailRefused,
    MailRules,
    read_mail,
    without_quotes,
)
from hubbub.protocols.adapters.mail_out import NoAddress, build_mail, checked_address

pytestmark = [pytest.mark.spec("COMM-03")]
RULES = MailRules()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
HEAD = b"From: Ann <ann@example.org>\r\nMessage-ID: <x@example.org>\r\n"


def sent(**fields: object) -> EmailMessage:
    """A mail as it arrives elsewhere."""
    mail = build_mail(message(**fields), "ann", "ann@example.org", "hub@example.org", "ex.org", 1e9)
    found = message_from_bytes(mail.as_bytes(), policy=policy.default)
    assert isinstance(found, EmailMessage)
    return found


def read_all(raw: bytes, rules: MailRules = RULES) -> tuple[PeerMessage, ...]:
    """The message of the mail, and those of its attachments."""
    found = read_mail(raw, rules)
    assert isinstance(found, tuple), found
    return found


def read(raw: bytes, rules: MailRules = RULES) -> PeerMessage:
    return read_all(raw, rules)[0]


def reason(raw: bytes, rules: MailRules = RULES) -> str:
    found = read_mail(raw, rules)
    assert isinstance(found, Ignored), found
    return found.reason


# -- out ------------------------------------------------------------------------------------------


def test_a_mail_says_whose_and_which_message_it_is() -> None:
    mail = sent(conversation_id="build 7", content="Zeile\nübergroß", language="de")
    assert mail["From"] == "ci <hub@example.org>"
    assert mail["Subject"] == "build 7"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Content-Language"] == "de"
    assert mail["X-Hubbub-Type"] == "BUILD/FAILED"
    assert own_messages(mail["Message-ID"]) == ["m-1"]
    assert own_conversation(mail["References"]) == "build 7"
    assert mail.get_content().splitlines() == ["Zeile", "übergroß"]


def test_an_answer_refers_to_the_mail_that_it_answers() -> None:
    first = sent()
    answer = sent(id="m-2", refers_to="m-1")
    assert answer["In-Reply-To"] == first["Message-ID"]
    assert answer["Subject"] == "Re: BUILD/FAILED"
    assert answer["Auto-Submitted"] == "auto-replied"
    to_a_mail = sent(id="m-3", refers_to="mail:abc@example.com")
    assert to_a_mail["In-Reply-To"] == "<abc@example.com>"


def test_line_breaks_begin_no_header() -> None:
    mail = sent(sender="ci\r\nBcc: eve@example.org", conversation_id="a\r\nBcc: eve@example.org")
    assert mail["Bcc"] is None
    assert mail["Subject"] == "a Bcc: eve@example.org"


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_sent(content: str, conversation: str, sender: str) -> None:
    mail = build_mail(
        message(content=content, conversation_id=conversation, sender=sender),
        "ann", "ann@example.org", "hub@example.org", "ex.org", 1e9,
    )  # fmt: skip
    raw = mail.as_bytes()
    arrived = message_from_bytes(raw, policy=policy.default)
    assert arrived["To"] == "ann@example.org"
    assert len(arrived.get_all("Subject", [])) == 1


@pytest.mark.parametrize(
    "address", ["", "ann", "ann@", "@b", "a b@c", "a@b>c", "a@b\r\nx", "a,b@c", "x" * 300 + "@b"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(NoAddress):
        checked_address(address)


def test_a_domain_of_another_script_goes_out_in_ascii() -> None:
    assert checked_address("ann@bücher.example") == "ann@xn--bcher-kva.example"


# -- ids ------------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_ids_are_read_back_from_message_ids(id: str, peer: str) -> None:
    encodable = id.encode("utf-8", "replace").decode()
    made = message_id(encodable, peer.encode("utf-8", "replace").decode(), "a@b", "ex.org")
    assert made.isascii()
    if len(encodable.encode()) <= 40:
        assert own_messages(f"<foreign@x> {made}") == [encodable]
        assert own_conversation(conversation_reference(encodable, "ex.org")) == encodable


def test_an_id_that_is_too_long_is_the_same_each_time() -> None:
    assert message_id("x" * 5000, "ann", "a@b", "c") == message_id("x" * 5000, "ann", "a@b", "c")
    assert incoming_id(f"<{'x' * 500}@y>", b"") == incoming_id(f"<{'x' * 500}@y>", b"other")
    assert reference(incoming_id(f"<{'x' * 500}@y>", b""), "ann", "a@b", "c") is None


def test_a_mail_without_an_id_is_known_by_its_bytes() -> None:
    first, other = b"From: a@b\r\n\r\nhello", b"From: a@b\r\n\r\nhullo"
    assert read(first).id == read(first).id != read(other).id


# -- in -------------------------------------------------------------------------------------------


def test_an_answer_by_mail_is_a_message_that_refers_to_the_first() -> None:
    first = sent(conversation_id="build 7")
    raw = (
        HEAD
        + (
            f"Subject: Re: build 7\r\nIn-Reply-To: {first['Message-ID']}\r\n"
            f"References: {first['References']} {first['Message-ID']}\r\n\r\n"
            "I am on it.\r\n\r\nOn Tuesday ci\r\nwrote:\r\n> it is red\r\n"
        ).encode()
    )
    found = read(raw)
    assert found.refers_to == "m-1"
    assert found.conversation_id == "build 7"
    assert found.content == "I am on it."
    assert (found.type, found.subtype) == ("MAIL", "REPLY")
    assert found.headers["from"] == "ann@example.org"
    assert found.headers["peer"] == "ann"
    assert found.id == "mail:x@example.org"


def test_a_new_mail_is_a_conversation_of_its_subject() -> None:
    found = read(HEAD + b"Subject: Re: Fwd: AW: lunch\r\n\r\nwhen?")
    assert found.conversation_id == "lunch"
    assert found.subtype == "NEW"
    assert read(HEAD + b"\r\nx", MailRules("T", "S", "bob")).receiver == "bob"


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"Auto-Submitted: auto-replied", "automatic reply"),
        (b"X-Autoreply: yes", "automatic reply"),
        (b"Precedence: auto_reply", "automatic reply"),
        (b"Auto-Submitted: auto-generated", "program"),
        (b"Precedence: bulk", "program"),
        (b"Content-Type: multipart/report; boundary=x", "reports on another"),
        (b"Return-Path: <>", "reports on another"),
    ],
)
def test_mail_of_programs_is_left_out(header: bytes, why: str) -> None:
    assert why in reason(HEAD + header + b"\r\n\r\naway until Monday")


def test_mail_of_programs_is_taken_where_it_is_wanted_but_never_their_answers() -> None:
    wanted = MailRules(accept_automatic=True)
    assert read(HEAD + b"Auto-Submitted: auto-generated\r\n\r\ncron", wanted).content == "cron"
    assert reason(HEAD + b"Auto-Submitted: auto-replied\r\n\r\naway", wanted)


def test_mail_of_the_hub_itself_and_endless_threads_are_left_out() -> None:
    assert reason(sent().as_bytes()) == "the hub sent it"
    ids = " ".join(message_id(f"m-{number}", "ann", "a@b", "c") for number in range(21))
    assert "more than 20" in reason(HEAD + f"References: {ids}\r\n\r\nx".encode())


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("iso-8859-1", b"gr\xfc\xdfe", "grüße"),
        ("utf-8", "grüße".encode(), "grüße"),
        ("windows-1251", "привет".encode("cp1251"), "привет"),
        ("no-such-charset", "grüße".encode(), "grüße"),
        ("utf-8", b"gr\xfc\xdfe", "grüße"),
        ("gb2312", "你好".encode("gb2312"), "你好"),
    ],
)
def test_charsets_are_read_also_where_they_are_wrong(charset: str, data: bytes, text: str) -> None:
    head = f'Content-Type: text/plain; charset="{charset}"\r\n\r\n'.encode()
    assert read(HEAD + head + data).content == text


def test_headers_in_words_of_other_charsets_are_read() -> None:
    raw = HEAD + b"Subject: =?utf-8?q?gr=C3=BC=C3=9Fe?= =?broken?x?y?= \xff\r\n\r\nx"
    assert "grüße" in read(raw).headers["subject"]


def test_the_text_is_found_among_parts_and_attachments() -> None:
    mail = EmailMessage()
    mail["From"] = "ann@example.org"
    mail.set_content("the text")
    mail.add_alternative("<p>the <b>page</b></p>", subtype="html")
    mail.add_attachment(b"%PDF" * 100_000, "application", "pdf", filename="big.pdf")
    found = read(mail.as_bytes())
    assert found.content == "the text"
    assert found.headers["attachments"] == "big.pdf"
    page = b"Content-Type: text/html\r\n\r\n<style>x</style><p>one</p><p>two <i>3</i></p>"
    assert read(HEAD + page).content == "one\ntwo 3"


@pytest.mark.spec("COMM-12")
def test_each_attachment_is_a_message_with_its_bytes() -> None:
    inner = EmailMessage()
    inner["Subject"] = "forwarded"
    inner.set_content("inside")
    mail = EmailMessage()
    mail["From"], mail["Message-ID"] = "ann@example.org", "<x@example.org>"
    mail["In-Reply-To"] = message_id("m-1", "ann", "ann@example.org", "ex.org")
    mail.set_content("see below")
    mail.add_attachment(PNG, "image", "png", filename="übersicht.png")
    mail.add_attachment("a;b\r\n", subtype="csv", filename="a.csv")
    mail.add_attachment(inner)
    text, picture, table, forwarded = read_all(mail.as_bytes(policy=policy.SMTP))
    assert (text.content, text.subtype) == ("see below", "REPLY")
    assert text.headers["attachments"] == "übersicht.png, a.csv"
    assert (picture.content, picture.subtype) == (PNG, "ATTACHMENT")
    assert picture.headers["file"] == "übersicht.png"
    assert picture.headers["contentType"] == "image/png"
    assert table.content == "a;b\r\n"
    assert isinstance(forwarded.content, str)
    assert "inside" in forwarded.content
    for each in (picture, table, forwarded):
        assert (each.refers_to, each.conversation_id) == (text.refers_to, text.conversation_id)
        assert each.headers["mail"] == text.id
        check_sent(msgspec.structs.replace(each, sender="ann"))
    assert len({each.id for each in (text, picture, table, forwarded)}) == 4
    assert read_all(mail.as_bytes(policy=policy.SMTP))[1].id == picture.id


@pytest.mark.spec("COMM-12")
@given(st.binary(max_size=300), st.text(max_size=40), st.sampled_from(["image/png", "x", "a/b\n"]))
def test_bytes_that_go_out_by_mail_come_in_the_same(data: bytes, name: str, kind: str) -> None:
    headers = {"file": name, "contentType": kind}
    mail = sent(content=data, headers=headers, language="binary", sender="desk")
    del mail["Message-ID"], mail["Auto-Submitted"]
    _, attached = read_all(mail.as_bytes(policy=policy.SMTP))
    assert attached.content == text_or_bytes(data)
    assert "Content-Language" not in mail


@pytest.mark.spec("COMM-12")
def test_texts_between_pictures_are_all_read() -> None:
    mail = EmailMessage()
    mail["From"] = "ann@example.org"
    mail.set_content("before")
    mail.add_attachment(PNG, "image", "png", disposition="inline")
    mail.add_attachment("after", disposition="inline")
    mail.add_attachment("<p>page</p>", subtype="html", disposition="inline")
    text, picture, page = read_all(mail.as_bytes())
    assert text.content == "before\n\nafter"
    assert picture.content == PNG
    assert str(page.content).strip() == "<p>page</p>"


@pytest.mark.spec("COMM-12")
def test_a_mail_that_cannot_be_taken_as_a_whole_is_refused() -> None:
    long = read_mail(HEAD + b"\r\n" + b"x" * 200_001, RULES)
    many = EmailMessage()
    for _ in range(21):
        many.add_attachment(b"x", "image", "png")
    boundary = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    parts = read_mail(HEAD + boundary + b"--b\r\n\r\nx\r\n" * 200 + b"--b--\r\n", RULES)
    for found in (long, parts, read_mail(many.as_bytes(), RULES)):
        assert isinstance(found, MailRefused), found
        assert "more than" in found.reason or "at most" in found.reason


@pytest.mark.spec("COMM-12")
def test_spaces_and_joined_letters_of_a_text_stay() -> None:
    text = "10\u00a0kg, \u200d\u200c, 👩\u200d👧, \u00ad"
    head = b"Content-Type: text/plain; charset=utf-8\r\n\r\n"
    assert read(HEAD + head + text.encode()).content == text
    assert read(HEAD + head + b"a\x00\x1b[0mb\xc2\x85").content == "a[0mb"


def test_parts_inside_parts_end_somewhere() -> None:
    deep = HEAD + b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (number, number)
        for number in range(3000)
    )
    read_mail(deep, RULES)


def test_quotes_are_cut_from_answers_only() -> None:
    assert without_quotes("yes\n\nOn Mon X wrote:\n> a\n> b\n") == "yes"
    assert without_quotes("> a\n> b") == "> a\n> b"
    assert without_quotes("> a\nno:\n> b\nbecause") == "> a\nno:\n> b\nbecause"
    assert without_quotes("three reasons:\n1\n2") == "three reasons:\n1\n2"


@given(st.binary(max_size=2000))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    read_mail(raw, RULES)


_LINES = st.sampled_from(
    [
        b"Content-Type: multipart/mixed; boundary=x", b"Content-Type: text/plain; charset*=a'b'c",
        b"Content-Type: text/html; charset=utf-16", b"Content-Transfer-Encoding: base64", b"--x",
        b"Content-Transfer-Encoding: quoted-printable", b"Content-Transfer-Encoding: uuencode",
        b'Content-Disposition: attachment; filename*0*=utf-8\'\'%ff; filename="=?utf-8?b?!!?="',
        b"From: =?utf-8?q?=ff?= <a@b", b"Subject: =?x?b?\xff?=", b"", b"--x--", b"begin 666 x",
        b"References: <hubbub.%ff.0123456789abcdef@x>", b"=ff=", b"\xff\xfe", b"<p><!--", b">",
        b"Content-Type: ;;;", b"Content-Type: text/plain; charset=\x00", b"=?utf-8?b?", b"\t",
        b"Content-Type: message/rfc822", b"In-Reply-To: <>", b"Message-ID: >x<", b"Precedence:",
    ]
)  # fmt: skip


@given(st.lists(_LINES, max_size=30))
def test_no_broken_mail_breaks_the_reader(lines: list[bytes]) -> None:
    found = read_mail(b"\r\n".join(lines), RULES)
    for each in found if isinstance(found, tuple) else ():
        for value in each.headers.values():
            value.encode()
            assert "\n" not in value
