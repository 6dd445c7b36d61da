"""The entry points of a plugin's file: a command, a validator, a saver."""

from __future__ import annotations

import ast

import msgspec

DEFAULT_TIMEOUT_MS = 5000
MAX_TIMEOUT_MS = 60_000

RUN, VALIDATE, SAVED = "run", "validate", "saved"
_COLLECTIONS = {VALIDATE: "validates", SAVED: "saves"}

Problem = tuple[int, str, str]
"""Line, problem, remedy."""


class PluginShape(msgspec.Struct, frozen=True):
    """`run` makes the file a command. The constants `validates` and `saves` name the collections
    for which `validate` and `saved` are called."""

    run: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    validates: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()


def read_shape(tree: ast.Module) -> tuple[PluginShape, list[Problem]]:
    """Reads the top-level definitions without running code."""
    constants, functions = _definitions(tree)
    problems: list[Problem] = []
    if not {RUN, VALIDATE, SAVED} & functions.keys():
        remedy = "define `async def run(command, context)`"
        problems.append((1, "the file offers no command, validator or saver", remedy))
    for name, function in functions.items():
        if name in (RUN, *_COLLECTIONS) and not _takes_two(function):
            signature = f"async def {name}({'command' if name == RUN else 'document'}, context)"
            problems.append((function.lineno, f"{name} has other arguments", f"write {signature}"))
    return (
        PluginShape(
            run=RUN in functions,
            timeout_ms=_timeout(constants.get("timeout"), problems),
            validates=_collections(VALIDATE, functions, constants, problems),
            saves=_collections(SAVED, functions, constants, problems),
        ),
        problems,
    )


def _definitions(
    tree: ast.Module,
) -> tuple[dict[str, ast.expr], dict[str, ast.AsyncFunctionDef | ast.FunctionDef]]:
    constants: dict[str, ast.expr] = {}
    functions: dict[str, ast.AsyncFunctionDef | ast.FunctionDef] = {}
    for node in tree.body:
        match node:
            case ast.AsyncFunctionDef() | ast.FunctionDef():
                functions[node.name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                constants[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                constants[name] = value
    return constants, functions


def _takes_two(function: ast.AsyncFunctionDef | ast.FunctionDef) -> bool:
    given = function.args
    optional = len(given.defaults)
    positional = len(given.posonlyargs) + len(given.args)
    return (
        isinstance(function, ast.AsyncFunctionDef)
        and positional - optional <= 2 <= positional
        and None not in given.kw_defaults
    )


def _timeout(value: ast.expr | None, problems: list[Problem]) -> int:
    if value is None:
        return DEFAULT_TIMEOUT_MS
    if (
        isinstance(value, ast.Constant)
        and type(value.value) is int
        and 0 < value.value <= MAX_TIMEOUT_MS
    ):
        return value.value
    remedy = f"write a whole number of milliseconds, 1 to {MAX_TIMEOUT_MS}"
    problems.append((value.lineno, f"timeout is {ast.unparse(value)[:40]}", remedy))
    return DEFAULT_TIMEOUT_MS


def _collections(
    function: str,
    functions: dict[str, ast.AsyncFunctionDef | ast.FunctionDef],
    constants: dict[str, ast.expr],
    problems: list[Problem],
) -> tuple[str, ...]:
    if function not in functions:
        return ()
    constant = _COLLECTIONS[function]
    value = constants.get(constant)
    try:
        names = ast.literal_eval(value) if value is not None else None
    except ValueError:
        names = None
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return tuple(names)
    line = functions[function].lineno if value is None else value.lineno
    remedy = f'write {constant} = ["hMessages"], or other names of collections'
    problems.append((line, f"{function} has no collections", remedy))
    return ()
