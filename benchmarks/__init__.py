"""Imported before every benchmark: switches off usage reports before any library that would send them is imported, and
limits numpy to one thread, as the program does."""

from models.cores import keep_cores_free
from models.telemetry import switch_off

switch_off()
keep_cores_free()
