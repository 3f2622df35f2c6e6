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
    parts = by_way(document, "openai", "Tokens a second, of all clients together:")
    parts += by_way(document, "hosted", "Hosted answers in Outrider's own protocol, tokens a second:")[:2]
    parts += by_way(document, "edge", "Rounds of devices that draft, tokens a second:")[:2]
    return page(parts, document)


def by_way(document: Mapping[str, Any], way: str, title: str) -> list[str]:
    """The tables of one way of asking: tokens a second first. Empty if nobody asked so."""
    found = {
        (row["server"], row["clients"]): row["rounds"] for row in document["rows"] if row.get("way", "openai") == way
    }
    if not found:
        return []
    servers, clients = ({key[at]: None for key in found} for at in range(2))
    heads = [f"{count} client{'s' * (count != 1)}" for count in clients]

    def by_clients(say: Any) -> str:
        return table(["", *heads], [[one, *(say(found[one, count]) for count in clients)] for one in servers])

    return [
        title,
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


def middle(rounds: Sequence[Round], name: str) -> float:
    return float(statistics.median(one[name] for one in rounds))


def spread(rounds: Sequence[Round], name: str) -> str:
    return " and ".join(f"{statistics.median(one[name][part] for one in rounds):.0f}" for part in ("p50", "p95"))


def besides(rounds: Sequence[Round]) -> str:
    same = "–" if any(one["same"] is None for one in rounds) else f"{middle(rounds, 'same'):.1%}"
    refused, failed = (sum(one[name] for one in rounds) for name in ("refused", "failed"))
    return f"{middle(rounds, 'pieces'):.1f}, {middle(rounds, 'memory_mb'):.0f} MB, {refused} and {failed}, {same}"
