"""Every benchmark starts here, as the program does: usage reports are switched off before any library is imported that
would send them, and numpy takes one thread."""

from drafter.cores import keep_cores_free
from drafter.telemetry import switch_off

switch_off()
keep_cores_free()
