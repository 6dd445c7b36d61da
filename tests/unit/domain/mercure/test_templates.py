"""URI templates as patterns: what they match, and how long that takes."""

from __future__ import annotations

import random
import re

import pytest

from hubbub.domain.mercure.templates import Template, compile_template

pytestmark = pytest.mark.spec("MERCURE-01")

_UNRESERVED = r"A-Za-z0-9\-._~"
_CLASSES = {
    "": rf"[{_UNRESERVED},]", "+": rf"[{_UNRESERVED}:/?#\[\]@!$&'()*+,;=]",
    "#": rf"[{_UNRESERVED}:/?#\[\]@!$&'()*+,;=]", ".": rf"[{_UNRESERVED},]",
    "/": rf"[{_UNRESERVED},]", ";": rf"[{_UNRESERVED},=]", "?": rf"[{_UNRESERVED},=]",
    "&": rf"[{_UNRESERVED},=]",
}  # fmt: skip
_FIRST = {"": "", "+": "", "#": "#", ".": ".", "/": "/", ";": ";", "?": "?", "&": "&"}
_BETWEEN = {"": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";", "?": "&", "&": "&"}


def as_expression(template: str) -> re.Pattern[str]:
    """The same language as a regular expression, which may backtrack."""
    made, end = "", 0
    for found in re.finditer(r"\{([+#./;?&]?)([^}]*)\}", template):
        operator, names = found[1], found[2].split(",")
        value = rf"(?:{_CLASSES[operator]}|%[0-9A-Fa-f]{{2}})*"
        more = f"(?:{re.escape(_BETWEEN[operator])}{value})?" * (len(names) - 1)
        made += re.escape(template[end : found.start()])
        made += f"(?:{re.escape(_FIRST[operator])}{value}{more})?"
        end = found.end()
    return re.compile(made + re.escape(template[end:]))


def compiled(text: str) -> Template:
    template = compile_template(text)
    assert template is not None
    return template


def test_templates_match_what_an_equal_regular_expression_matches_in_20_000_pairs() -> None:
    rng = random.Random(7)
    variables = ["{a}", "{+a}", "{#a}", "{.a}", "{/a}", "{;a}", "{?a}", "{&a}", "{a,b}", "{/a,b}"]
    texts = ["/", "a", "ab", "https://x/", "b.", "?", "&a=", "%2F", "é"]
    characters = ["a", "b", "/", ".", "?", "&", "=", ",", "%2F", "x", ";", "#", "é", "https://x/"]
    matched = 0
    for _ in range(20_000):
        template = rng.choice(variables) + "".join(
            rng.choice(variables + texts) for _ in range(rng.randint(0, 4))
        )
        topic = "".join(rng.choice(characters) for _ in range(rng.randint(0, 7)))
        expected = as_expression(template).fullmatch(topic) is not None
        assert compiled(template).matches(topic) is expected, (template, topic)
        matched += expected
    assert matched > 1_000


# The expansions of RFC 6570, with var="value", hello="Hello World!", path="/foo/bar", x=1024,
# y=768, empty="", undef undefined.
_EXPANSIONS = [
    ("{var}", "value"), ("{hello}", "Hello%20World%21"), ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"), ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"), ("X{#var}", "X#value"),
    ("X{#hello}", "X#Hello%20World!"), ("map?{x,y}", "map?1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"), ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"), ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"), ("X{.var}", "X.value"), ("X{.x,y}", "X.1024.768"),
    ("{/var}", "/value"), ("{/var,x}/here", "/value/1024/here"), ("{;x,y}", ";x=1024;y=768"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"), ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="), ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="), ("O{undef}X", "OX"),
]  # fmt: skip


@pytest.mark.parametrize(("template", "topic"), _EXPANSIONS)
def test_a_template_matches_its_expansions(template: str, topic: str) -> None:
    assert compiled(template).matches(topic)


@pytest.mark.parametrize(
    ("template", "topic"),
    [
        ("https://x/{id}", "https://x/1/2"),
        ("https://x/{id}", "https://y/1"),
        ("https://x/{id}", "https://x/%zz"),
        ("/books{/id}", "/books?id=1"),
        ("{a}", "ä"),
    ],
)
def test_a_template_matches_no_other_topic(template: str, topic: str) -> None:
    assert not compiled(template).matches(topic)


@pytest.mark.parametrize(
    "text", ["https://x/1", "{a*}", "{a:3}", "{", "a}", "{}", "{=a}", "{a}" * 17]
)
def test_what_is_no_template_of_the_levels_1_to_3_is_compared_as_it_is(text: str) -> None:
    assert compile_template(text) is None


@pytest.mark.parametrize(
    ("template", "topic"),
    [
        ("{a}a" * 16, "a" * 2047 + "!"),
        ("{a}aaaaaaaaab" * 16, "a" * 2048),
        ("{+a}{+b}{+c}{+d}{+e}{+f}{+g}{+h}!", "x" * 2048),
    ],
)
def test_templates_that_make_expressions_backtrack_take_few_steps(
    template: str, topic: str
) -> None:
    """A regular expression would take more than the age of the universe for the first of them."""
    assert not compiled(template).matches(topic)
