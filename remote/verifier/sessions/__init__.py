"""Sessions on one engine: rounds and streams, cut into turns, and what the target makes of a draft."""
