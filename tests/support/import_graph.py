"""Which module of this repository imports which, read from the syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import statement: `module` (dotted) needs `needs` (dotted, the longest part that is a file)."""

    module: str
    needs: str
    line: int


def module_name(path: Path, root: Path) -> str:
    """`app/reply/edge.py` is `app.reply.edge`, `storage/__init__.py` is `storage`."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path, *packages: str) -> dict[str, Path]:
    """Every module of these packages by its dotted name."""
    return {module_name(path, root): path for package in packages for path in sorted((root / package).rglob("*.py"))}


def imported_names(path: Path) -> Iterator[tuple[str, int]]:
    """Every name that a file imports, with its line: also inside functions, for types, and by `import_module("a.b")`.

    `from a.b import c` gives `a.b.c`, for `c` may be a module.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [name.value for name in node.args[:1] if isinstance(name, ast.Constant)]
            yield from ((name, node.lineno) for name in names if isinstance(name, str))


def imports(root: Path, *packages: str) -> list[Import]:
    """Every import of one module of these packages by another."""
    known = modules(root, *packages)
    found = []
    for module, path in known.items():
        for name, line in imported_names(path):
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name and name != module:
                found.append(Import(module, name, line))
    return found
