"""Every benchmark starts here, as the program does: usage reports are switched off before any library is imported that
would send them, and numpy takes one thread."""

from models.cores import keep_cores_free
from models.telemetry import switch_off

switch_off()
keep_cores_free()
