"""Static analysis of command plugins: which constructs of a file are rejected, where, and why.

The analysis is the first of two defences and gives authors early feedback. The second one, the
operating system's limits on the worker process, does not depend on it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from string import Formatter

from hubbub.domain.plugins.allowed import FORBIDDEN_NAMES, MODULES, is_internal, is_private
from hubbub.domain.plugins.findings import MAX_SOURCE_BYTES, Analysed, Violation
from hubbub.domain.plugins.load_time import CONSTANT_CALLS, is_constant, load_time_parts
from hubbub.domain.plugins.shape import PluginShape, Problem, read_shape

_MODULE_NAMES = ", ".join(name for name in MODULES if name != "asyncio")


_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


def analyse(source: bytes) -> Analysed:
    """Returns violations in the order of their lines. Never raises, whatever the source."""
    if len(source) > MAX_SOURCE_BYTES:
        size = f"the file has {len(source)} bytes"
        remedy = f"a plugin has at most {MAX_SOURCE_BYTES}"
        return Analysed(PluginShape(), (Violation(1, "too-large", size, remedy),))
    try:
        tree = ast.parse(decode(source))
        found = sorted(set(_violations(tree)))
        shape, problems = read_shape(tree)
    except _UNREADABLE as error:
        return Analysed(PluginShape(), (_unreadable(error),))
    return Analysed(shape, (*found, *_entry(problems)))


def shape_of(source: bytes) -> Analysed:
    """Returns the file's commands and hooks without checking its code. Never raises."""
    try:
        shape, problems = read_shape(ast.parse(decode(source)))
    except _UNREADABLE as error:
        return Analysed(PluginShape(), (_unreadable(error),))
    return Analysed(shape, _entry(problems))


def _entry(problems: list[Problem]) -> tuple[Violation, ...]:
    return tuple(Violation(line, "entry", text, remedy) for line, text, remedy in problems)


def decode(source: bytes) -> str:
    """Decodes as UTF-8, ignoring an encoding declaration: the analysed text must be the executed
    text. Raises `UnicodeDecodeError`."""
    return source.decode().removeprefix("\ufeff")


def _unreadable(error: BaseException) -> Violation:
    if isinstance(error, SyntaxError):
        text = f"{error.msg}"
        return Violation(error.lineno or 1, "syntax", text, "write Python 3.11")
    if isinstance(error, UnicodeDecodeError):
        line = error.object[: error.start].count(b"\n") + 1
        return Violation(line, "syntax", "the file is not UTF-8", "save it as UTF-8")
    text = "Python cannot read the file, which is nested too deeply or holds a null byte"
    return Violation(1, "syntax", text, "write it as shorter statements")


def _violations(tree: ast.Module) -> Iterator[Violation]:
    imported = _imported_names(tree)
    literal_formats = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_literal_format(node)
    }
    type_calls = {
        id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_type_of(node)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        yield from _identifiers(node, line)
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Name):
            yield from _name(node, id(node) in type_calls)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node, imported, id(node) in literal_formats)
        elif isinstance(node, ast.MatchClass):
            for attribute in node.kwd_attrs:
                yield from _internals(attribute, line)
        elif isinstance(node, ast.ClassDef) and node.keywords:
            yield Violation(
                line, "metaclass", f"class {node.name} has keywords", "name its bases alone"
            )
    yield from _load_time(tree, imported)


def _identifiers(node: ast.AST, line: int) -> Iterator[Violation]:
    """Every identifier of a node, in any field: names, attributes, arguments, keywords, captures of
    patterns, `global`."""
    if isinstance(node, ast.Constant) or _is_future_annotations(node):
        return
    for _, value in ast.iter_fields(node):
        for identifier in value if isinstance(value, list) else (value,):
            if isinstance(identifier, str) and identifier.startswith("__"):
                yield Violation(
                    line or 1, "dunder", identifier, "names that begin with __ are not available"
                )


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """The imported module by each name that an import binds in the file."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: "" for alias in node.names}
    return names


def _is_future_annotations(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and [alias.name for alias in node.names] == ["annotations"]
    )


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Violation]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name not in MODULES:
                yield _import(node.lineno, alias.name)
        return
    if node.level:
        yield Violation(
            node.lineno, "relative-import", "." * node.level + (node.module or ""),
            "a plugin is one file; import one of " + _MODULE_NAMES,
        )  # fmt: skip
    elif not _is_future_annotations(node):
        yield from _imports_from(node)


def _imports_from(node: ast.ImportFrom) -> Iterator[Violation]:
    module = node.module or ""
    if module not in MODULES:
        yield _import(node.lineno, module)
        return
    for alias in node.names:
        if alias.name == "*":
            yield Violation(
                node.lineno, "star-import", f"from {module} import *", "name what is imported"
            )
        elif alias.name not in MODULES[module] and f"{module}.{alias.name}" not in MODULES:
            yield _not_offered(node.lineno, module, alias.name)


def _import(line: int, module: str) -> Violation:
    remedy = f"import one of {_MODULE_NAMES}, or asyncio for asyncio.sleep"
    return Violation(line, "import", module, remedy)


def _not_offered(line: int, module: str, name: str) -> Violation:
    known = sorted(MODULES[module])
    offered = ", ".join(known) if len(known) < 8 else "its public functions and classes"
    return Violation(line, "import", f"{module}.{name}", f"of {module} there are {offered}")


def _name(node: ast.Name, is_type_call: bool) -> Iterator[Violation]:
    if node.id in FORBIDDEN_NAMES:
        remedy = "what a command needs comes from its arguments `command` and `context`"
        yield Violation(node.lineno, "forbidden-name", node.id, remedy)
    elif node.id == "type" and not is_type_call:
        remedy = "call type(value), or compare with isinstance"
        yield Violation(node.lineno, "forbidden-name", "type", remedy)


def _is_type_of(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == "type"
        and len(call.args) == 1
        and not isinstance(call.args[0], ast.Starred)
        and not call.keywords
    )


def _attribute(
    node: ast.Attribute, imported: dict[str, str], is_literal_format: bool
) -> Iterator[Violation]:
    yield from _internals(node.attr, node.lineno)
    if node.attr in ("format", "format_map") and not is_literal_format:
        yield Violation(
            node.lineno, "format", f".{node.attr}",
            "format a literal whose fields are plain names, or write an f-string",
        )  # fmt: skip
    module = imported.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
    if (
        module in MODULES
        and node.attr not in MODULES[module]
        and f"{module}.{node.attr}" not in MODULES
    ):
        yield _not_offered(node.lineno, module, node.attr)
    if not isinstance(node.ctx, ast.Load) and _root(node) in imported:
        remedy = "modules and their classes are shared; keep values of your own"
        yield Violation(node.lineno, "module-attribute", f"{_root(node)}….{node.attr}", remedy)


def _internals(attribute: str, line: int) -> Iterator[Violation]:
    if is_internal(attribute):
        remedy = "frames, code and tracebacks are not available"
        yield Violation(line, "internals", attribute, remedy)
    elif is_private(attribute) and not attribute.startswith("__"):
        remedy = "attributes that begin with _ are not available; name yours without it"
        yield Violation(line, "private", attribute, remedy)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_literal_format(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr in ("format", "format_map")
        and isinstance(function.value, ast.Constant)
        and isinstance(function.value.value, str)
        and _has_plain_fields(function.value.value)
    )


def _has_plain_fields(template: str) -> bool:
    """Whether no field accesses an attribute or an item; a field's format may contain further
    fields."""
    try:
        fields = list(Formatter().parse(template))
    except ValueError:
        return False
    for _, field, specification, _ in fields:
        if field is not None and ("." in field or "[" in field):
            return False
        if specification and not _has_plain_fields(specification):
            return False
    return True


def _load_time(tree: ast.Module, imported: dict[str, str]) -> Iterator[Violation]:
    callable_names = CONSTANT_CALLS | imported.keys()
    for part in load_time_parts(tree):
        if isinstance(part, ast.stmt):
            yield Violation(
                part.lineno, "top-level", type(part).__name__.lower(),
                "outside of functions there are imports, functions, classes and constants",
            )  # fmt: skip
        elif not is_constant(part, callable_names):
            yield Violation(
                part.lineno, "top-level", ast.unparse(part)[:60],
                "what runs as the file is loaded must be a constant; compute it in a function",
            )  # fmt: skip
