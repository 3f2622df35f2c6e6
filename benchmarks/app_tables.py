"""Measurements of the screen and of the store as tables of docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.markdown import page, table

Documents = Mapping[str, Mapping[str, Any]]
PARTS = {"open": "open it", "up": "ten pages up", "down": "and down", "stream": "stream an answer", "idle": "idle"}
"""The parts of the screen benchmark, by their own names and in words."""


def startup_table(documents: Documents) -> str:
    """Seconds to the first frame and the first key of each screen, and to the end of each command."""
    if "startup" not in documents:
        return ""
    document = documents["startup"]
    lines = []
    for row in document["rows"]:
        version = document["versions"].get(row["program"].partition(" ")[0], "")
        name = f"{row['program']} ({version})" if version and "--version" not in row["program"] else row["program"]
        lines.append([name, *(_both(row, what) for what in ("frame", "key", "end"))])
    repeats = document["rows"][0]["repeats"]
    said = f"Seconds from the start of the process: the median of {repeats}, and the fastest."
    return page([table(["program", "first frame", "first key taken", "its end"], lines), said], document)


def installed_table(documents: Documents) -> str:
    """For each way to install: seconds, disk, memory, and each engine of a server alone."""
    if "installed" not in documents:
        return ""
    document = documents["installed"]
    lines = [
        [
            row["way"],
            f"{row['install_seconds']:.0f} s, {row['disk_mb']:,.0f} MB",
            f"{row['first_ask_seconds']:.1f} s, {row['ask_seconds']:.1f} s",
            f"{row['chat']['ready_seconds']:.1f} s, {row['chat']['answer_seconds']:.1f} s",
            f"{row['chat']['resident_mb']:.0f} MB, {100 * row['chat']['idle_cores']:.1f} % of a core",
        ]
        for row in document["rows"]
    ]
    servers = [
        [row["way"], engine, f"{one['ready_seconds']:.1f} s", f"{one['resident_mb']:.0f} MB"]
        for row in document["rows"]
        for engine, one in row["serve"].items()
    ]
    head = ["way", "pip, and on disk", "first `ask`, and again", "chat: server there, first answer", "chat at rest"]
    parts = [
        table(head, lines),
        "`outrider serve` alone:",
        table(["way", "engine", "ready after", "memory after an answer"], servers),
        f"Medians of {document['repeats']}.",
    ]
    return page(parts, document)


def shell_table(documents: Documents) -> str:
    """For each mode: the first answer, later ones by the client and in each shell, ghost text, and memory."""
    if "shell" not in documents:
        return ""
    document = documents["shell"]
    shells = [name for name in ("bash", "zsh", "fish") if all(name in row for row in document["rows"])]
    head = ["mode", "first answer", "the client", *shells, "ghost text, a key", "helper", "with its verifier"]
    lines = []
    for row in document["rows"]:
        times = [f"{row[name]['p50_ms']:.0f}, {row[name]['p95_ms']:.0f} ms" for name in ("client", *shells, "ghost")]
        memory = [f"{row['memory_mb'][name]} MB" for name in ("helper", "all")]
        lines.append([row["mode"], f"{row['cold_seconds']:.1f} s", *times, *memory])
    said = f"Times: median and 95th percentile of {document['rows'][0]['client']['n']} answers."
    return page([table(head, lines), said], document)


def screen_table(documents: Documents) -> str:
    """For each length of a conversation: the longest stall of the loop, the loop's own work in it, and CPU."""
    if "screen" not in documents:
        return ""
    document = documents["screen"]
    head = ["messages", "", "longest stall", "most work in one go", "stalls over 50 ms", "CPU"]
    lines = []
    for row in document["rows"]:
        for name, words in PARTS.items():
            part = row[name]
            took = f"{words}, {row['open_ms']:.0f} ms" if name == "open" else words
            stalls = [f"{part[key]:.0f} ms" for key in ("stall_ms", "stall_cpu_ms")]
            lines.append(
                [f"{row['messages']:,}", took, *stalls, str(part["stalls_over_50_ms"]), f"{part['cpu_per_second']:.0%}"]
            )
    return page([table(head, lines)], document)


DOORS = {
    "chat": "the chat, from Enter",
    "ask": "`ask -c`, from the start of its process",
    "gateway": "the gateway, a conversation that it does not know",
    "gateway again": "the gateway, one question more",
}
"""The ways to ask, by their own names and in words."""


def long_conversations_table(documents: Documents) -> str:
    """For each way to ask and each length of a conversation: seconds until the question leaves, before and now."""
    if "long_conversations" not in documents:
        return ""
    document = documents["long_conversations"]
    lengths = sorted({row["messages"] for row in document["rows"]})
    found = {(row["door"], row["messages"]): row for row in document["rows"]}
    head = ["way to ask", "", *(f"{length:,} messages" for length in lengths)]
    lines = []
    for door, words in DOORS.items():
        for when, key in (("before", "before"), ("now", "seconds")):
            values = [found[door, length][key] for length in lengths]
            lines.append([words, when, *("–" if value is None else f"{value:.2f}" for value in values)])
    times = "once" if document["repeats"] == 1 else f"{document['repeats']} times, medians"
    said = f"Now: measured {times}. Before: once; 10,000 messages were not waited for."
    return page([table(head, lines), said], document)


SETS = {
    "everyday": "everyday.jsonl, worded as the recipe words them",
    "everyday_rephrased": "every second one in other words",
    "retrieval-open": "written for this measure, tuned on",
    "retrieval-sealed": "written for this measure, not tuned on",
    "literals": "with a file, host, port or number",
    "literals_fresh-open": "such by somebody else, tuned on",
    "literals_fresh-sealed": "such by somebody else, not tuned on",
    "execution": "with commands that are run",
}
"""The sets of the retrieval benchmark, in words."""


def retrieval_table(documents: Documents) -> str:
    """How often the right program is among the first pages, by set of questions."""
    if "retrieval" not in documents:
        return ""
    document = documents["retrieval"]
    lines = [
        [SETS[row["set"]], str(row["questions"])]
        + [f"{row[top] / row['questions']:.1%}" for top in ("top1", "top3", "top5")]
        + [f"{row[key] / row['questions']:.1%}" if key in row else "" for key in ("first", "command")]
        + [f"{row['cpu_ms_p50']:.1f} ms", f"{row['cpu_ms_p95']:.1f} ms"]
        for row in document["rows"]
    ]
    head = ["questions", "", "first", "in the first 3", "in the first 5", "first line right", "one of the lines right"]
    head += ["CPU, median", "95th percentile"]
    return page([table(head, lines)], document)


def search_table(documents: Documents) -> str:
    """The slowest query of each kind, by both ways to search."""
    if "search" not in documents:
        return ""
    document = documents["search"]
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for row in document["rows"]:
        kinds.setdefault(row["kind"], []).append(row)
    lines = []
    for kind, rows in kinds.items():
        slowest = max(rows, key=lambda row: row["median_ms"])
        times = [f"{slowest['median_ms']:.1f} ms", f"{max(row['worst_ms'] for row in rows):.1f} ms"]
        lines.append([kind, f"`{slowest['words']}`", f"{slowest['found']:,}", *times])
    said = f"{document['messages']:,} messages, {document['bytes'] / 1e6:.0f} MB."
    return page([table(["what is searched", "slowest", "found", "its median", "worst of all"], lines), said], document)


def archive_table(documents: Documents) -> str:
    """Seconds, size and memory of exporting and importing everything."""
    if "archive" not in documents:
        return ""
    document = documents["archive"]
    lines = []
    for name, format in (("export md", "md"), ("export html", "html"), ("export json", "json"), ("import", "json"),
                         ("import again", "json")):  # fmt: skip
        figures = [document[f"{name} seconds"], document[f"{format} MB"], document[f"{name} peak MB"]]
        lines.append([name, *(f"{figure:g}" for figure in figures)])
    said = f"{document['messages']:,} messages; the import into an empty database, and into one that has them all."
    return page([table(["", "seconds", "file, MB", "memory, MB"], lines), said], document)


def _both(row: Mapping[str, Any], what: str) -> str:
    return f"{row[f'{what}_median']:.2f}, {row[f'{what}_fastest']:.2f}" if f"{what}_median" in row else "–"
