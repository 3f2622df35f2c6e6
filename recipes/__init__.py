"""Every recipe starts here. Usage reports are switched off before any library is imported that would send them."""

from models.telemetry import switch_off

switch_off()
