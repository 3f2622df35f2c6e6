"""Every test starts here, before any library that would report its use is imported."""

from models.telemetry import switch_off

switch_off()
