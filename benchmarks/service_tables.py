"""The tables of a server that many clients ask at once."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, table

Round = Mapping[str, Any]


def service_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Medians of the rounds, by server and number of clients."""
    if "service" not in documents:
        return ""
    document = documents["service"]
    found = {(row["server"], row["clients"]): row["rounds"] for row in document["rows"]}
    servers, clients = ({key[at]: None for key in found} for at in range(2))
    heads = [f"{count} client{'s' * (count != 1)}" for count in clients]

    def by_clients(say: Any) -> str:
        return table(["", *heads], [[one, *(say(found[one, count]) for count in clients)] for one in servers])

    parts = [
        "Tokens a second, of all clients together:",
        by_clients(lambda rounds: f"{middle(rounds, 'tokens_per_second'):.0f}"),
        "Tokens for each second of the processor:",
        by_clients(lambda rounds: f"{middle(rounds, 'tokens_per_cpu_second'):.0f}"),
        "To the first text of an answer, p50 and p95 in ms:",
        by_clients(lambda rounds: spread(rounds, "first_ms")),
        "From one piece of text to the next, p50 and p95 in ms:",
        by_clients(lambda rounds: spread(rounds, "gap_ms")),
        "Pieces of an answer, resident MB, requests refused and failed, and answers that are as to one client alone:",
        by_clients(besides),
    ]
    return page(parts, document)


def middle(rounds: Sequence[Round], name: str) -> float:
    return float(statistics.median(one[name] for one in rounds))


def spread(rounds: Sequence[Round], name: str) -> str:
    return " and ".join(f"{statistics.median(one[name][part] for one in rounds):.0f}" for part in ("p50", "p95"))


def besides(rounds: Sequence[Round]) -> str:
    same = "–" if any(one["same"] is None for one in rounds) else f"{middle(rounds, 'same'):.1%}"
    refused, failed = (sum(one[name] for one in rounds) for name in ("refused", "failed"))
    return f"{middle(rounds, 'pieces'):.1f}, {middle(rounds, 'memory_mb'):.0f} MB, {refused} and {failed}, {same}"
