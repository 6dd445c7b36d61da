"""Static analysis of plugins: each rule, and the ways around it that attackers know."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.plugins.allowed import MODULES
from hubbub.domain.plugins.analysis import analyse
from hubbub.domain.plugins.findings import MAX_SOURCE_BYTES, Violation

pytestmark = pytest.mark.spec("CMD-04")

RUN = "async def run(command, context):\n    return command\n"


def refusals(code: str) -> list[tuple[int, str]]:
    return [(found.line, found.rule) for found in analyse((code + "\n" + RUN).encode()).violations]


def in_function(code: str) -> list[str]:
    """The rules that statements of a function break."""
    body = "\n".join(f"    {line}" for line in code.splitlines())
    return [rule for _, rule in refusals(f"def helper(x, json=None):\n{body}\n")]


GOOD = '''
"""Counts words."""
from __future__ import annotations

import asyncio
import collections.abc
import re
from collections import Counter, abc, namedtuple
from datetime import datetime as moment
from functools import cache, partial, reduce

WORD = re.compile(r"\\w+", re.UNICODE)
LIMITS = {"most": 10, "words": frozenset({"a", "b"})}
Pair = namedtuple("Pair", "left right")
first, second = 1, -2
timeout: int = 2500


class Tally:
    """Words of a text."""

    most = 10

    @staticmethod
    def of(text: str) -> Counter:
        return Counter(WORD.findall(text))


@cache
def share(part: int, whole: int = 3) -> float:
    return part / whole


async def run(command, context):
    try:
        words = Tally.of(command["params"]["text"])
    except (KeyError, TypeError) as error:
        return 6, "text: {} {kind!r:>{width}}".format(error, kind=type(error), width=20)
    await asyncio.sleep(0)
    match command:
        case {"params": {"top": int(top)}}:
            return words.most_common(top)
    return f"{len(words):>5} {share(1):.2f}"
'''


def test_ordinary_code_passes_and_says_what_it_offers() -> None:
    analysed = analyse(GOOD.encode())
    assert analysed.violations == ()
    assert analysed.shape.run
    assert analysed.shape.timeout_ms == 2500


def test_a_refusal_names_line_rule_construct_and_remedy() -> None:
    (found,) = analyse(("import re\nimport os\n" + RUN).encode()).violations
    assert (found.line, found.rule, found.text) == (2, "import", "os")
    assert "json, math" in found.remedy
    assert str(found).startswith("line 2: import: os; import one of ")


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import os", "import"),
        ("import json, sys", "import"),
        ("import os.path as json", "import"),
        ("import json.decoder", "import"),
        ("import json.codecs", "import"),
        ("from os import path", "import"),
        ("from json import codecs", "import"),
        ("from re import sys", "import"),
        ("from collections import _sys", "import"),
        ("from statistics import sys", "import"),
        ("from datetime import sys", "import"),
        ("from functools import update_wrapper", "import"),
        ("from functools import wraps", "import"),
        ("from functools import singledispatch", "import"),
        ("from asyncio import create_subprocess_exec", "import"),
        ("from __future__ import division", "import"),
        ("from . import neighbour", "relative-import"),
        ("from .json import loads", "relative-import"),
        ("from ..hubbub import domain", "relative-import"),
        ("from json import *", "star-import"),
        ("import re\nclass Type(metaclass=re.compile):\n    pass", "metaclass"),
        ("class Type(object, flag=1):\n    pass", "metaclass"),
        ("if True:\n    A = 1", "top-level"),
        ("for A in (1, 2):\n    pass", "top-level"),
        ("while False:\n    pass", "top-level"),
        ("try:\n    A = 1\nfinally:\n    pass", "top-level"),
        ("with A:\n    pass", "top-level"),
        ("A = 1\nA += 1", "top-level"),
        ("A = [B for B in (1,)]", "top-level"),
        ("A = (B := 1)", "top-level"),
        ("A = helper()", "top-level"),
        ("A = (lambda: 1)()", "top-level"),
        ("A = f'{helper()}'", "top-level"),
        ("A = {}\nA['b'] = 1", "top-level"),
        ("import re\nre.compile('a')", "top-level"),
        ("del A", "top-level"),
        ("assert A", "top-level"),
        ("raise ValueError", "top-level"),
        ("def helper(a=make()):\n    pass", "top-level"),
        ("def helper(*, a=make()):\n    pass", "top-level"),
        ("@make()\ndef helper():\n    pass", "top-level"),
        ("@make(1)\nclass A:\n    pass", "top-level"),
        ("class A(make()):\n    pass", "top-level"),
        ("class A:\n    b = make()", "top-level"),
        ("class A:\n    while True:\n        pass", "top-level"),
    ],
)
def test_refused_outside_of_functions(code: str, rule: str) -> None:
    assert rule in {found for _, found in refusals(code)}


@pytest.mark.parametrize(
    "name",
    [
        "eval",
        "exec",
        "compile",
        "open",
        "input",
        "__import__",
        "globals",
        "locals",
        "vars",
        "getattr",
        "setattr",
        "delattr",
        "breakpoint",
        "dir",
        "id",
        "help",
        "print",
    ],
)
def test_forbidden_names_are_refused_however_they_are_used(name: str) -> None:
    assert in_function(f"{name}(x)")
    assert in_function(f"f = {name}")
    assert in_function(f"return sorted(x, key={name})")
    assert in_function(f"return lambda y={name}: y(x)")


@pytest.mark.parametrize(
    "code",
    [
        "x.__class__",
        "x.__class__.__mro__[-1].__subclasses__()",
        "x.__traceback__",
        "f'{x.__class__}'",
        "f'{1:{x.__class__}}'",
        "x.__cl\u1d43ss__",  # letters that Python folds
        "x(__class__=1)",
        "global __builtins__",
        "__builtins__['open']",
        "def __getattr__(self): pass",
        "class Inner:\n    __slots__ = ()",
        "class Inner:\n    def __del__(self): pass",
        "try:\n    pass\nexcept ValueError as __e:\n    pass",
        "lambda __a: 1",
        "import json as __j",
        "from json import loads as __l",
        "match x:\n    case object(__class__=found):\n        pass",
        "match x:\n    case {'a': 1, **__rest}:\n        pass",
        "match x:\n    case [*__rest]:\n        pass",
        "match x:\n    case __name:\n        pass",
        "super().__init__()",
        "[__a for __a in x]",
        "del x.__dict__",
    ],
)
def test_names_and_attributes_with_two_underscores_are_refused_everywhere(code: str) -> None:
    assert "dunder" in in_function(code)


@pytest.mark.parametrize(
    "attribute",
    [
        "gi_frame",
        "gi_code",
        "gi_yieldfrom",
        "cr_frame",
        "cr_await",
        "cr_code",
        "cr_origin",
        "ag_frame",
        "ag_code",
        "ag_await",
        "f_back",
        "f_globals",
        "f_locals",
        "f_builtins",
        "f_code",
        "tb_frame",
        "tb_next",
        "with_traceback",
        "co_code",
        "co_consts",
        "func_globals",
        "mro",
    ],
)
def test_frames_code_and_generators_cannot_be_looked_into(attribute: str) -> None:
    assert "internals" in in_function(f"return x.{attribute}")
    assert "internals" in in_function(f"x.{attribute} = 1")
    assert "internals" in in_function(
        f"match x:\n    case object({attribute}=found):\n        pass"
    )


@pytest.mark.parametrize(
    "code",
    [
        "x._convert_",
        "x._get_mixins_('', ())",
        "x._a = 1",
        "del x._a",
        "match x:\n    case object(_a=found):\n        pass",
    ],
)
def test_insides_of_objects_are_not_available(code: str) -> None:
    assert "private" in in_function(code)
    assert in_function("_a = x\nreturn x._replace(b=1)._asdict(), x._fields, x._make(_a)") == []


@pytest.mark.parametrize(
    "code",
    [
        "x.format(x)",
        "('{0.' + x + '}').format(x)",
        "str.format('{0.a}', x)",
        "sorted(x, key=str.format)",
        "f = '{0.a}'.format",
        "'{0.gi_frame}'.format(x)",
        "'{0[a]}'.format(x)",
        "'{:{0.a}}'.format(x)",
        "'{a.b}'.format_map(x)",
        "x.format_map(x)",
        "'{'.format(x)",
        "f'{x}'.format(x)",
    ],
)
def test_format_reads_no_attributes(code: str) -> None:
    assert "format" in in_function(code)


@pytest.mark.parametrize(
    "code", ["type('A', (), {})", "type(*x)", "make = type", "type(x, y=1)", "map(type, x)"]
)
def test_type_makes_no_classes(code: str) -> None:
    assert "forbidden-name" in in_function(code)
    assert in_function("return type(x) is int") == []


@pytest.mark.parametrize(
    "code",
    ["re.compile = x", "re.Pattern.match = x", "del re.compile", "re.a[0].b = x", "re.x += 1"],
)
def test_modules_cannot_be_changed(code: str) -> None:
    found = refusals(f"import re\ndef helper(x):\n    {code}")
    assert "module-attribute" in {rule for _, rule in found}


def test_what_may_be_imported_is_what_is_listed() -> None:
    assert set(MODULES) == {
        "asyncio", "collections", "collections.abc", "datetime", "decimal", "functools",
        "itertools", "json", "math", "re", "statistics",
    }  # fmt: skip
    assert MODULES["asyncio"] == {"sleep"}


def test_without_a_timeout_of_its_own_a_command_has_five_seconds() -> None:
    assert analyse(RUN.encode()).shape.timeout_ms == 5000


def test_modules_offer_no_other_modules() -> None:
    for name, offered in MODULES.items():
        module = importlib.import_module(name)
        for public in offered:
            assert not isinstance(getattr(module, public, None), ModuleType), f"{name}.{public}"
            assert not public.startswith("_")
    for inner in ("json.codecs", "re.sys", "re.enum", "statistics.sys", "asyncio.gather"):
        module_name = inner.partition(".")[0]
        found = refusals(f"import {module_name}\ndef helper():\n    return {inner}")
        assert found == [(3, "import")], inner


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("def run(command, context):\n    pass", 1),
        ("async def run(command):\n    pass", 1),
        ("async def run(command, context, more):\n    pass", 1),
        ("async def run(command, context, *, more):\n    pass", 1),
        ("A = 1", 1),
        ("timeout = 'soon'\n" + RUN, 1),
        ("timeout = 0\n" + RUN, 1),
        ("timeout = 60_001\n" + RUN, 1),
        ("timeout = True\n" + RUN, 1),
        ("\nasync def validate(document, context):\n    pass", 2),
        ("validates = [1]\nasync def validate(document, context):\n    pass", 1),
        ("saves = 'hMessages'\nasync def saved(document, context):\n    pass", 1),
    ],
)
def test_a_file_offers_a_command_a_validator_or_a_saver(code: str, line: int) -> None:
    (found,) = analyse(code.encode()).violations
    assert (found.rule, found.line) == ("entry", line)


def test_validators_and_savers_name_their_collections() -> None:
    code = (
        'validates = ["hMessages", "#news@demo"]\nsaves = ("hChannels",)\n'
        "async def validate(document, context):\n    pass\n"
        "async def saved(document, context):\n    pass\n"
    )
    analysed = analyse(code.encode())
    assert analysed.violations == ()
    assert analysed.shape.validates == ("hMessages", "#news@demo")
    assert analysed.shape.saves == ("hChannels",)
    assert not analysed.shape.run


@pytest.mark.parametrize(
    "source",
    [
        b"def run(:",
        b"\xff\xfe",
        b"a = 1\0",
        b"(" * 5000,
        b"-" * 100_000 + b"1",
        b"a" + b".b" * 100_000,
        b"x=" + b"1+" * 100_000 + b"1",
        b"lambda:" * 30_000 + b"1",
        b"# coding: rot13\n" + RUN.encode("utf-16"),
    ],
)
def test_what_python_cannot_read_is_refused_and_breaks_nothing(source: bytes) -> None:
    (found,) = analyse(source).violations
    assert found.rule == "syntax"


def test_a_declared_encoding_hides_nothing() -> None:
    hidden = "# -*- coding: utf-7 -*-\n" + RUN + "    +ACI-\n"
    assert analyse(hidden.encode()).violations  # read as UTF-8: not even Python
    assert analyse(b"\xef\xbb\xbf" + RUN.encode()).violations == ()


def test_a_large_file_is_not_even_parsed() -> None:
    (found,) = analyse(b"#" * (MAX_SOURCE_BYTES + 1)).violations
    assert found.rule == "too-large"


@given(
    st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))
)
def test_whatever_the_bytes_the_analysis_ends_with_violations(source: bytes) -> None:
    assert all(isinstance(found, Violation) for found in analyse(source).violations)
