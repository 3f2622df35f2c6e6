"""How long a test waits for what must come: only a hang reaches it, however busy the machine is."""

PATIENCE_SECONDS = 90.0
