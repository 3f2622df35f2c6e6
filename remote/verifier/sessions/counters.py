"""Counters of the sessions, for the metrics page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """Counters since the start. Their names are those of the metrics page."""

    rounds: int = 0
    streams: int = 0
    forwards: int = 0
    """Forwards of the target: one a round, and one for each round of a stream, besides the earlier chunks of long
    prompts."""
    replays: int = 0
    conflicts: int = 0
    prompt_tokens: int = 0
    shared_tokens: int = 0
    """Prompt tokens that were not computed because another session had them."""
    drafted_nodes: int = 0
    pruned_nodes: int = 0
    """Nodes of devices' drafts that were pruned because others would have gained more in their time."""
    accepted_nodes: int = 0
    new_tokens: int = 0
    memory_tokens: int = 0
    away_tokens: int = 0
    """New tokens that were written while nobody read their stream."""

    def verified(self, drafted: int, accepted: int, new: int) -> None:
        """Count the nodes that a forward checked."""
        self.forwards += 1
        self.drafted_nodes += drafted
        self.accepted_nodes += accepted
        self.new_tokens += new
