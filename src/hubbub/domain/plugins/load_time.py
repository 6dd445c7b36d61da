"""The code of a plugin's file that runs when it is loaded: statements outside functions, defaults,
decorators."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

CONSTANT_CALLS = frozenset(
    ("classmethod", "dict", "frozenset", "list", "property", "set", "staticmethod", "tuple")
)
"""Builtins that may be called in constant expressions; functions of imported modules are allowed as
well."""

_COMPOSED = (
    ast.Tuple | ast.List | ast.Set | ast.Dict | ast.UnaryOp | ast.BinOp | ast.BoolOp
    | ast.Compare | ast.IfExp | ast.Starred | ast.Subscript
)  # fmt: skip


def load_time_parts(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    """Yields statements that are allowed only in functions, and expressions that must be
    constant."""
    for statement in tree.body:
        yield from _of_statement(statement)


def _of_statement(node: ast.stmt) -> Iterator[ast.stmt | ast.expr]:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            pass
        case ast.Expr(value=ast.Constant(value=str())):
            pass
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.decorator_list
            yield from node.args.defaults
            yield from (default for default in node.args.kw_defaults if default is not None)
        case ast.ClassDef():
            yield from (*node.decorator_list, *node.bases)
            for statement in node.body:
                yield from _of_statement(statement)
        case ast.Assign() if all(map(_is_plain_target, node.targets)):
            yield node.value
        case ast.AnnAssign() if _is_plain_target(node.target):
            if node.value is not None:
                yield node.value
        case _:
            yield node


def _is_plain_target(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(map(_is_plain_target, target.elts))
    return isinstance(target, ast.Name)


def is_constant(node: ast.expr, callable_names: Set[str]) -> bool:
    """Whether an expression is constant. Names, lambdas, and calls of functions in `callable_names`
    count as constant."""
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        match part:
            case ast.Constant() | ast.Name() | ast.Lambda() | ast.operator() | ast.unaryop():
                pass
            case ast.boolop() | ast.cmpop() | ast.expr_context():
                pass
            case ast.Attribute():
                pending.append(part.value)
            case ast.Call() if _begins_with(part.func) in callable_names:
                pending += (*part.args, *(keyword.value for keyword in part.keywords))
            case _ if isinstance(part, _COMPOSED):
                pending += ast.iter_child_nodes(part)
            case _:
                return False
    return True


def _begins_with(function: ast.expr) -> str:
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""
