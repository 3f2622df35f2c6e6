"""The version of what is installed."""

from __future__ import annotations


def version_line() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"outrider {version('outrider')}"
    except PackageNotFoundError:
        return "outrider, from a source tree that is not installed"
