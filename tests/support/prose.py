"""The prose of a Python file: its docstrings and its comments."""

from __future__ import annotations

import ast
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple


class Words(NamedTuple):
    """A docstring or a comment, and the line where it begins."""

    line: int
    text: str


@cache
def docstrings(path: Path) -> tuple[Words, ...]:
    """The first strings of modules, classes and functions, and the strings below attributes."""
    return tuple(
        Words(node.lineno, node.value.value)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


@cache
def comments(path: Path) -> tuple[Words, ...]:
    """The comments behind `#`."""
    with path.open("rb") as file:
        tokens = tokenize.tokenize(file.readline)
        return tuple(Words(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)
