"""The longest wait of a test. Only a hang reaches it, however busy the machine is."""

PATIENCE_SECONDS = 90.0
