"""Compares the modes of the network benchmark with each other, on one line and with one target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CHOICES = ("edge", "hosted", "plain")
"""Modes among which `auto` has to find the fastest."""
FIXED = ("chain-", "tree-")
GOALS = {"auto": 0.97, "fixed": 1.0, "speed": 1.84, "tau": 1.53}
"""The last two are what the MoA paper reports over EAGLE-2. They are goals for `moa-float`, which runs as `eagle-2`
does."""


@dataclass(frozen=True)
class Standing:
    profile: str
    paced_ms: float
    rows: Mapping[str, Mapping[str, Any]]
    """The rows by mode."""

    def rate(self, mode: str) -> float:
        """Tokens per second that the target has checked."""
        return float(self.rows[mode]["tokens_per_second"]) * (1 - self.unchecked(mode))

    def unchecked(self, mode: str) -> float:
        """The share of its tokens that nobody has checked."""
        row = self.rows[mode]
        return float(row["unverified_tokens"] / row["tokens"]) if row.get("unverified_tokens") else 0.0

    @property
    def best(self) -> str | None:
        return self._fastest([mode for mode in CHOICES if mode in self.rows])

    @property
    def best_fixed(self) -> str | None:
        return self._fastest([mode for mode in self.rows if mode.startswith(FIXED)])

    def ratio(self, mode: str, to: str | None) -> float | None:
        """Ratio of the speeds of two modes in checked tokens. None if one was not measured."""
        return self.rate(mode) / self.rate(to) if mode in self.rows and to in self.rows else None

    def tau_ratio(self, mode: str, to: str) -> float | None:
        if mode not in self.rows or to not in self.rows:
            return None
        return float(self.rows[mode]["tau"] / self.rows[to]["tau"])

    def _fastest(self, modes: Sequence[str]) -> str | None:
        return max(modes, key=self.rate, default=None)


def standings(rows: Sequence[Mapping[str, Any]]) -> list[Standing]:
    """One standing for each pacing and profile, in the order of their first rows, pacing first."""
    groups: dict[tuple[float, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["paced_ms"], row["profile"]), {})[row["mode"]] = row
    return [
        Standing(profile, paced_ms, modes)
        for (paced_ms, profile), modes in sorted(groups.items(), key=lambda it: it[0][0])
    ]


def forward(paced_ms: float) -> str:
    """The pacing in words, for people."""
    return f"forward passes paced to {paced_ms:g} ms" if paced_ms else "the bundled target, unpaced"
