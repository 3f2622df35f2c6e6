"""What is known of a request: its record, its line in the log, its metrics."""
