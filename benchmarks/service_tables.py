"""The tables of a server that many clients ask: at once, too many of them, hostile ones, and for a long time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, picture, table

Round = Mapping[str, Any]


def service_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Medians of the rounds, by server and number of clients."""
    if "service" not in documents:
        return ""
    document = documents["service"]
    parts = [picture("service", "Tokens a second and first text of each server, by the number of clients")]
    parts += by_way(document, "openai", "Tokens a second, of all clients together:")
    parts += by_way(document, "hosted", "Hosted answers in Outrider's own protocol, tokens a second:")
    parts += by_way(document, "edge", "Rounds of devices that draft, tokens a second:")
    return page(parts, document)


def service_rounds_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Medians of more rounds, through OpenAI's API alone."""
    if "service-openai" not in documents:
        return ""
    document = documents["service-openai"]
    return page(by_way(document, "openai", "Tokens a second, of all clients together:"), document)


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

    counted = any(one.get("passes") is not None for rounds in found.values() for one in rounds)
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
        *(["Forward passes per 100 tokens, each for all that ask:", by_clients(passes)] if counted else []),
    ]


def passes(rounds: Sequence[Round]) -> str:
    known = [one["passes"] for one in rounds if one.get("passes") is not None]
    return f"{statistics.median(known):.0f}" if known else "–"


def middle(rounds: Sequence[Round], name: str) -> float:
    return float(statistics.median(one[name] for one in rounds))


def spread(rounds: Sequence[Round], name: str) -> str:
    return " and ".join(f"{statistics.median(one[name][part] for one in rounds):.0f}" for part in ("p50", "p95"))


def besides(rounds: Sequence[Round]) -> str:
    same = "–" if any(one["same"] is None for one in rounds) else f"{middle(rounds, 'same'):.1%}"
    refused, failed = (sum(one[name] for one in rounds) for name in ("refused", "failed"))
    return f"{middle(rounds, 'pieces'):.1f}, {middle(rounds, 'memory_mb'):.0f} MB, {refused} and {failed}, {same}"


def overload_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """What became of the requests, by the load."""
    if "overload" not in documents:
        return ""
    document = documents["overload"]
    head = ["load", "requests a second", "answered", "refused", "failed"]
    head += ["first text: p50, p95, slowest", "whole answer: p50, p95, slowest", "refusal: p50, p95, slowest"]
    lines = [
        [
            f"{row['load']:g} times",
            f"{row['rate']:.1f}",
            *(f"{row[name]:,}" for name in ("answered", "refused", "failed")),
            *(three(row[name]) for name in ("first_seconds", "whole_seconds", "refusal_seconds")),
        ]
        for row in document["rows"]
    ]
    told = f"Capacity: {document['capacity']:.1f} answers a second, for {document['clients']} clients."
    return page([told, table(head, lines)], document)


def three(seconds: Sequence[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in seconds) + " s" if seconds else "–"


def hostile_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """All hostile requests together, in one row."""
    if "hostile" not in documents:
        return ""
    document = documents["hostile"]
    statuses, memory = document["statuses"], [size for _, size in document["resident_bytes"]]
    answered = ", ".join(f"{status}: {count:,}" for status, count in statuses.items())
    tenth = memory[len(memory) // 10]
    line = [
        f"{document['requests']:,}",
        f"{len(document['faults']):,}",
        f"{document['slowest_seconds']:.1f} s",
        "yes" if document["same_answer"] else "no",
        f"{document['running_sessions']}",
        f"{tenth >> 20} and {memory[-1] >> 20} MB",
    ]
    head = [
        "requests",
        "faults",
        "slowest",
        "same answer afterwards",
        "still running",
        "memory after a tenth, at the end",
    ]
    return page([table(head, [line]), f"What they got: {answered}."], document)


def churn_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for every fifth minute, and what was found in all."""
    if "churn" not in documents:
        return ""
    document = documents["churn"]
    names = ("rss_mb", "threads", "files", "connections", "sessions", "answers", "left", "refused", "failures")
    head = ["minute", "resident MB", "threads", "open files", "of them sockets", "sessions"]
    head += ["right answers so far", "left by the client", "refused as they must be", "failed", "other texts"]
    rows = [row for row in document["rows"] if row["minute"] == 1 or row["minute"] % 5 == 0]
    lines = [[f"{row['minute']}", *(f"{row[name]:,g}" for name in (*names, "different"))] for row in rows]
    found = document["summary"]
    warm, end, growth, before, after = (
        found[f"rss_mb_{name}"] for name in ("warm", "end", "per_hour", "before", "after")
    )
    told = [
        f"{document['rate']:g} visits a second; the server took {found['cores']:.2f} cores.",
        f"Memory after {document['warm_up']:g} minutes and at the end: {warm:.0f} MB and {end:.0f} MB.",
        f"Its slope between them: {growth:+.1f} MB an hour.",
        f"At rest, before the first visit and after the last: {before:.0f} MB and {after:.0f} MB.",
        f"What was not as it should be: {', '.join(found['wrong']) or 'nothing'}.",
    ]
    return page([table(head, lines), " ".join(told)], document)
