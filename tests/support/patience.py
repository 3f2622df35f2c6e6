"""The longest waits of tests. Only a hang reaches them, however busy the machine is."""

PATIENCE_SECONDS = 90.0
IDLE_PATIENCE_SECONDS = 900.0
"""For what a program does at the lowest priority: two busy neighbours leave almost nothing of the processor to it."""
