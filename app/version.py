"""The version of the installed program."""

from __future__ import annotations


def version_line() -> str:
    """One line for `outrider --version`, exports and the doctor."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"outrider {version('outrider')}"
    except PackageNotFoundError:
        return "outrider, from a source tree that is not installed"
