"""The table of the comparison on equal terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import page, picture, table, with_interval

Row = Mapping[str, Any]
LABELS = {
    "moa": "MoA",
    "block": "a block in one call",
    "eagle2": "EAGLE-2",
    "eagle2-f": "EAGLE-2 after the first layers",
    "eagle3": "EAGLE-3.1",
    "layer-skip": "the target's layers, untrained",
    "shipped": "MoA as it ships, on ONNX Runtime",
}


def comparison_table(documents: Mapping[str, Mapping[str, Any]]) -> str:
    if "comparison" not in documents:
        return ""
    document = documents["comparison"]
    plan = document["plan"]
    said = (
        f"Answers of {plan['conversations']:,} conversations; batches of {plan['rows']} rows of {plan['row']} tokens; "
        f"rates {', '.join(f'{rate:g}' for rate in plan['rates'])}, each tried for {plan['trial']} steps; at most "
        f"{plan['patience']['bound']} steps before the rate falls, and {plan['patience']['fall']} while it falls. "
        f"{plan['limit']} prompts. A star: the bound came before it was flat."
    )
    drawn = picture("comparison", "Tokens per round of each drafter, with a dot for each seed")
    return page([drawn, comparison_lines(document["rows"]), _costs(document), said], document)


def comparison_lines(rows: Sequence[Row]) -> str:
    """A line for each drafter: sizes, tau over all seeds and of each, and what the training took."""
    head = ["drafter", "trained", "in a draft step", "bytes a token", "tau", "tau of each seed", "chain", "rate, start"]
    lines = [
        [
            LABELS[row["drafter"]],
            f"{row['trained_parameters'] / 1e6:.1f}M",
            f"{row['step_parameters'] / 1e6:.1f}M",
            str(row["bytes_per_token"] or "–"),
            with_interval(row, "tau", "{:.2f}"),
            ", ".join(f"{tau:.2f}" for tau in row["seeds"].values()) or "–",
            "–" if row["chain_tau"] is None else f"{row['chain_tau']:.2f}",
            "–" if row["rate"] is None else f"{row['rate']:g}, {row['start']}",
            _steps(row),
        ]
        for row in rows
    ]
    return table([*head, "steps of each seed"], lines)


def _steps(row: Row) -> str:
    found = [f"{steps:,}{'' if flat else '*'}" for steps, flat in zip(row["steps"], row["flat"], strict=True)]
    return ", ".join(found) or "–"


def _costs(document: Mapping[str, Any]) -> str:
    """What drafting costs, of the drafters that were timed, and of the one that ships."""
    rows = [row for row in document["rows"] if "calls" in row]
    rows += [document["shipped"]] if "shipped" in document else []
    head = ["drafter", "calls a round", "a call", "a draft", "time in drafts", "GFLOP a draft", "tau per GFLOP"]
    lines = [
        [
            LABELS[row["drafter"]],
            f"{row['calls']:.1f}",
            f"{row['call_ms']:.1f} ms",
            f"{row['draft_ms']:.1f} ms",
            f"{row['drafting']:.0%}",
            *([f"{row['gflop']:.2f}", f"{row['tau'] / row['gflop']:.1f}"] if row["gflop"] else ["–", "–"]),
        ]
        for row in rows
    ]
    return table(head, lines) if lines else ""
