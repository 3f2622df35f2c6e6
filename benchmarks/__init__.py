"""Every benchmark starts here, as the program does: usage reports are switched off before any library is imported that
would send them, and numpy takes one thread."""

import app  # noqa: F401
from drafter.telemetry import switch_off

switch_off()
