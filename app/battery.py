"""Whether this device runs on its battery, and whether that is running out."""

from __future__ import annotations

import sys
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


def on_battery(supplies: Path = SUPPLIES) -> bool:
    """Whether this device is known to run on its battery. `supplies`: where Linux reports it."""
    if sys.platform == "darwin":
        import subprocess

        told = subprocess.run(["pmset", "-g", "batt"], capture_output=True, text=True, check=False)
        return "Battery Power" in told.stdout
    mains = [path.parent for path in supplies.glob("*/online")]
    return bool(mains) and all(_read(path / "online") == "0" for path in mains)


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
