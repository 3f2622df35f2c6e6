"""The server's own drafts, and how much of a draft pays off when many sessions share the engine."""
