"""Whether this device runs on a battery that is nearly empty."""

from __future__ import annotations

from pathlib import Path

SUPPLIES = Path("/sys/class/power_supply")
"""Where Linux lists chargers and batteries. Other systems have no such folder: there, no battery is known."""
LOW = 30
"""Percent below which nothing is computed that may not be needed."""


def battery_is_low() -> bool:
    """Whether a battery of the device itself, not of a mouse, is being used and below `LOW`."""
    return any(
        _read(supply / "type") == "Battery"
        and _read(supply / "scope") != "Device"
        and _read(supply / "status") == "Discharging"
        and _read(supply / "capacity").isdecimal()
        and int(_read(supply / "capacity")) < LOW
        for supply in SUPPLIES.glob("*")
    )


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
