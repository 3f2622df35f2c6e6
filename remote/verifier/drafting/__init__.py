"""The server's own drafts, and how much of a draft pays where many share the engine."""
