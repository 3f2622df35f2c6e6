"""The tables of what drafters are worth before anybody trained them, and of what they learn from their user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, picture, table

Documents = Mapping[str, Mapping[str, Any]]
WAYS = ("as it came", "correction", "layers", "oracle")
"""What drafts, in `benchmarks.learning`."""
FIGURES = (("tau", "{:.2f}"), ("first", "{:.1%}"))
"""Figures of a row of `benchmarks.learning`, and how they are written."""


def learning_table(documents: Documents) -> str:
    if "learning" not in documents:
        return ""
    document = documents["learning"]
    lines = []
    for after in sorted({row["requests"] for row in document["rows"]}):
        rows = [row for row in document["rows"] if row["requests"] == after]
        seconds = [[row["cpu_seconds"][way] for row in rows] for way in ("correction", "layers")]
        lines.append(
            [
                str(after),
                *(_over_seeds([row[way][figure] for row in rows], form) for figure, form in FIGURES for way in WAYS),
                " and ".join(f"{sum(one) / len(one):.0f} s" for one in seconds),
            ]
        )
    head = [f"{figure}, {way}" for figure in ("tau", "first guess") for way in WAYS]
    parts = [
        picture("learning", "Tokens per round after so many requests"),
        table(["requests before", *head, "CPU of the two"], lines),
        *((_labels(document["labels"]), _wire(document["wire"])) if "labels" in document else ()),
        _besides(document),
        _datastore(document["datastore"]),
    ]
    return page(parts, document)


def _labels(labels: Mapping[str, Any]) -> str:
    """What each kind of labels teaches, on the last block of the first order."""
    rows = []
    for name, one in labels.items():
        gain, low, high = one["behind"]
        ahead = f"{gain:+.1%} ({low:+.1%} to {high:+.1%})" if "," in name else ""
        rows.append([name, f"{one['tau']:.2f}", f"{one['first']:.1%}", ahead])
    return table(["learnt from", "tau", "first guess", "gain of all labels over it"], rows)


def _wire(wire: Mapping[str, float]) -> str:
    """What the labels cost on the line."""
    without = wire["bytes_down"] - wire["text"] - wire["rejected"]
    return (
        f"A round brings {without:.0f} bytes, with what the target might have said {wire['bytes_down']:.0f}: "
        f"{wire['text']:.0f} for its text and {wire['rejected']:.0f} for rejected tokens."
    )


def _besides(document: Mapping[str, Any]) -> str:
    """What else the drafter of the first order does with its trained layers."""
    lines, (gain, low, high) = document["lines"], document["besides"]["other_gain"]
    rows = [
        [
            way,
            f"{one['other']['tau']:.2f} ({one['other']['first']:.1%})",
            f"{one['alone']['first']:.1%}",
            f"{one['alone_whole']:.1%}",
            *(f"{lines[line][way]['p50']:.2f} s, {lines[line][way]['tokens_per_second']:.0f}/s" for line in lines),
        ]
        for way, one in document["besides"]["ways"].items()
    ]
    head = ["", "tau on other pages (first guess)", "first guess, no memory", "whole answer, no memory"]
    shown = table([*head, *(f"an answer over {line}, tokens" for line in lines)], rows)
    return f"{shown}\n\nOn the other pages, trained layers gain {gain:+.1%} (95 %: {low:+.1%} to {high:+.1%})."


def _datastore(live: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    rows = [
        [str(on["requests"]), f"{off['tau']:.2f}", f"{on['tau']:.2f}"]
        for on, off in zip(live["on"], live["off"], strict=True)
    ]
    return table(["requests before", "tau of trees, no second stage", "with the growing datastore"], rows)


def server_learning_table(documents: Documents) -> str:
    if "server_learning" not in documents:
        return ""
    document = documents["server_learning"]
    rows = [
        [
            row["way"],
            f"{row['p50_ms']:.1f} ms",
            f"{row['p95_ms']:.1f} ms",
            f"{row['most_ms']:.0f} ms",
            str(row["count"]),
        ]
        for row in document["rounds"]
    ]
    tau, made, change = document["tau"], document["published"], document["change"]
    said = (
        f"After {document['requests']} requests, tokens per round on {document['held_out']} others went from "
        f"{tau['before']:.2f} to {tau['after']:.2f}. On its own held-out answers the server had found "
        f"{made['before']:.2f} and {made['after']:.2f} ({made['low']:+.1%} to {made['high']:+.1%}). The slowest of "
        f"{change['rounds']} rounds around the change took {change['most_ms']:.0f} ms."
    )
    return page([table(["", "p50", "p95", "slowest", "rounds"], rows), said], document)


def topics_table(documents: Documents) -> str:
    if "topics" not in documents:
        return ""
    document, lines = documents["topics"], []
    for row in document["rows"]:
        gain, low, high = row["own_over_one"]
        ways = (f"{row[way]['tau']:.2f} ({row[way]['first']:.1%})" for way in ("as it came", "one", "own", "other"))
        lines.append([row["topic"], *ways, f"{gain:+.1%} ({low:+.1%} to {high:+.1%})"])
    head = ["topic", "as it came", "learnt from both", "from this one", "from the other one"]
    return page([table([*head, "from this one over both"], lines)], document)


def learning_cost_table(documents: Documents) -> str:
    if "learning_cost" not in documents:
        return ""
    document = documents["learning_cost"]
    took, deep, thousands = document["learning"], document["deep"], document["tokens"] / 1000
    said = (
        f"`outrider learn` read {document['answers']} answers and learnt from {document['tokens']:,} of their tokens "
        f"in {took['seconds']:.1f} s, with {took['cpu_seconds']:.1f} s of processor time and {took['peak_mb']:.0f} MB "
        f"at its peak: {took['cpu_seconds'] / thousands:.1f} s of processor time per 1,000 tokens. "
        f"`outrider learn --deep` took {deep['seconds']:.0f} s, {deep['cpu_seconds']:.0f} s of processor time and "
        f"{deep['peak_mb']:,.0f} MB: {deep['cpu_seconds'] / thousands:.0f} s per 1,000 tokens."
    )
    chat, start, change = document["chat"], document["start"], document["change"]
    lines = [[way, *(_seconds(one) for one in (*chat[way].values(), start[way]))] for way in chat]
    waits = ", ".join(f"{name} {one['p50']:.1f} ms (most {one['most']:.1f})" for name, one in change.items())
    shown = table(["", "first words", "whole answer", "first frame of the screen"], lines)
    return page([said, shown, f"An answer waits for the look at the versions: {waits}."], document)


def born_table(documents: Documents) -> str:
    if "born" not in documents:
        return ""
    document = documents["born"]
    spans = list(dict.fromkeys(span for row in document["rows"] for span in row["agreement"]))
    lines = [
        [
            f"{row['target']}, {row['target_layers']} layers",
            row["way"],
            f"{row['bytes'] / 1e6:.1f} MB",
            f"{row['layers']}, {row['scheme']}",
            "" if row["seconds"] is None else f"{row['seconds']:.0f} s",
            f"{row['tau']:.2f}",
            *(f"{row['agreement'][span]:.1%}" if span in row["agreement"] else "" for span in spans),
        ]
        for row in document["rows"]
    ]
    head = ["target", "drafter", "fetched", "layers, form", "made in", "tau"]
    return page([table([*head, *(f"first guess, {span} after memory" for span in spans)], lines)], document)


def first_use_table(documents: Documents) -> str:
    if "first_use" not in documents:
        return ""
    document = documents["first_use"]
    lines = [
        [f"`{step['command']}`", f"{step['seconds']:.1f} s", f"{step['bytes'] / 1e6:.2f} MB" if step["bytes"] else ""]
        for step in document["steps"]
    ]
    taus = ", ".join(f"{tau:.2f}" for tau in document["tau"])
    count = f"{document['provenance']['verified']:,}"
    said = f"The answer had {count} tokens, all of them checked, {taus} a round."
    return page([table(["command", "seconds", f"over {document['line']}"], lines), said], document)


def _seconds(spread: Mapping[str, float]) -> str:
    return f"{spread['p50']:.2f} s (95 %: {spread['p95']:.2f})"


def _over_seeds(values: Sequence[float], form: str) -> str:
    """The mean, and the least and most of several."""
    mean = form.format(sum(values) / len(values))
    return f"{mean} ({form.format(min(values))} to {form.format(max(values))})"
