"""Sessions on one engine: rounds and streams, cut into turns, and the verification of drafts."""
