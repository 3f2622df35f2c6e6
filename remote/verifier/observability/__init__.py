"""Observability of requests: the record, the log line, the metrics."""
