"""Arithmetic in sweep files, such as `n // (BY * ROWS)` or `64 <= BX * BY <= 1024`.

Whole and decimal numbers, texts, names of axes and arguments, `+ - * / // %`, comparisons, `and`, `or`, `not`, `min`,
`max` and `ceil_div`. Python's parser reads it, and only these nodes of its tree are walked: nothing is executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from warplens.core.errors import WarplensError, nearest

Value = int | float | str
_LONGEST, _LARGEST = 500, 2**63

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b)}


def evaluate(text: str, names: Mapping[str, Value]) -> Value:
    """Return what an expression says with these names; what it may not say is refused."""
    try:
        value: Value = _value(_parsed(text), names)
        return value
    except (ZeroDivisionError, TypeError, OverflowError) as error:
        raise WarplensError(f"{text!r}: {error}") from None
    except WarplensError as error:
        raise WarplensError(f"{text!r}: {error}") from None


def names_in(text: str) -> set[str]:
    """Return the names of axes and arguments in an expression."""
    try:
        nodes = list(ast.walk(_parsed(text)))
    except WarplensError as error:
        raise WarplensError(f"{text!r}: {error}") from None
    return {node.id for node in nodes if isinstance(node, ast.Name)} - _FUNCTIONS.keys()


@cache
def _parsed(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise WarplensError(f"longer than {_LONGEST} characters")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise WarplensError("not an expression") from None


def _value(node: ast.expr, names: Mapping[str, Value]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise WarplensError(f"no axis or argument {name!r}{nearest(name, names)}")
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _small(_BINARY[type(op)](_number(left, names), _number(right, names)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, names)
        case ast.BoolOp(op=op, values=values):
            return (all if isinstance(op, ast.And) else any)(_value(v, names) for v in values)
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(o) in _COMPARE for o in ops):
            values = [_value(v, names) for v in (left, *rest)]
            return all(_COMPARE[type(o)](a, b) for o, a, b in zip(ops, values, values[1:], strict=False))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _small(_FUNCTIONS[name](*(_number(a, names) for a in arguments)))
    raise WarplensError(f"{ast.unparse(node)} is not allowed here")


def _number(node: ast.expr, names: Mapping[str, Value]) -> Any:
    value = _value(node, names)
    if isinstance(value, str):
        raise WarplensError(f"{value!r} is not a number")
    return value


def _small(value: Any) -> Any:
    if abs(value) > _LARGEST:
        raise WarplensError("a number beyond 64 bits")
    return value
