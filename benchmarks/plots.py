"""Draw the plots of docs/benchmarks, and fill the tables of docs/benchmarks.md, from JSON.

    python -m benchmarks.plots [--docs DIR]

A plot whose JSON is missing is left out, with a line that says which command makes it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from benchmarks import plot_style
from benchmarks.comparison_table import LABELS as COMPARED
from benchmarks.network_table import LABELS as MODE_LABELS
from benchmarks.plot_style import ACCENT, INK, MARKS, OTHER, STYLE, number
from benchmarks.results import (
    COMMANDS,
    DOCS,
    Documents,
    fill,
    greedy,
    label,
    read,
    steps,
    times,
)
from benchmarks.service_tables import middle
from benchmarks.standings import forward, standings

MODE_MARKS = {
    "auto": ("#e69f00", "P"),
    "edge": MARKS["moa"],
    "hosted": MARKS["independent"],
    "plain": MARKS["prompt-lookup"],
    "best fixed": MARKS["eagle3"],
    "eagle-2": MARKS["eagle2"],
}
"""Colour and marker of each mode of the network benchmark."""
LEARNT_MARKS = {
    "as it came": MARKS["prompt-lookup"],
    "correction": MARKS["moa-chain-7"],
    "layers": MARKS["moa-staged"],
}
"""Colour and marker of what a drafter has learnt. The oracle, which has seen what judges, would hide the rest."""


def tau(documents: Documents) -> Figure:
    """Tokens per round with intervals. Baselines are trained for equal steps and, if measured, for equal time."""
    panels = [
        (f"trees of depth {rows[0]['depth']}", rows)
        for rows in (greedy(documents[name]) for name in ("acceptance", "acceptance-deep") if name in documents)
    ]
    if "acceptance-equal-time" in documents:
        panels.append(("trained for as long", greedy(documents["acceptance-equal-time"])))
    names = list(dict.fromkeys(row["drafter"] for _, rows in panels for row in rows))
    figure, axes = plot_style.panels(len(panels), 0.9 + 0.36 * len(names))
    for axis, (title, rows) in zip(axes, panels):
        for row in rows:
            plot_style.bar(
                axis, names.index(row["drafter"]), row["tau"], row["ci95"], plot_style.colour_of(row["drafter"])
            )
        axis.set(title=title, xlim=(1, 1.12 * max(row["ci95"][1] for row in rows)))
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.supxlabel("tokens per round, 95 % interval", fontsize=10)
    axes[0].set_yticks(range(len(names)), [label(name) for name in names])
    axes[0].invert_yaxis()
    return figure


def depth(documents: Documents) -> Figure:
    """Share of drafted tokens that the target took, among those that it judged, by depth in the tree."""
    figure, (axis,) = plot_style.panels(1, 3.6)
    lines = [
        (row["drafter"], np.arange(1, 1 + len(row["by_depth"])), row["by_depth"])
        for row in greedy(documents["acceptance"])
        if row["drafter"] in MARKS
    ]
    for name, depths, shares in lines:
        plot_style.line(axis, name, depths, shares)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(title="accepted, of what the target judged", xlabel="depth in the draft tree")
    plot_style.as_shares(axis)
    plot_style.name_ends(axis, [(name, shares[-1]) for name, _, shares in lines])
    return figure


def staleness(documents: Documents) -> Figure:
    """Agreement by staleness, with intervals as bands."""
    figure, (axis,) = plot_style.panels(1, 3.6)
    ends = []
    for row in documents["offline"]["rows"]:
        windows = row["agreement"]
        stale, shares = [window["staleness"] for window in windows], [window["share"] for window in windows]
        low, high = zip(*(window["ci95"] for window in windows))
        axis.fill_between(stale, low, high, color=plot_style.colour_of(row["drafter"]), alpha=0.15, linewidth=0)
        plot_style.line(axis, row["drafter"], stale, shares)
        ends.append((row["drafter"], shares[-1]))
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set(
        title="the target's token is the drafter's first choice", xlabel="tokens since it last heard of the target"
    )
    plot_style.as_shares(axis)
    plot_style.name_ends(axis, ends)
    return figure


def ablations(documents: Documents) -> Figure:
    """Chain tau, and agreement without memory, of each variant, as the difference from the baseline."""
    rows = documents["ablations"]["rows"]
    base = next((row for row in rows if row["variant"] == "baseline"), None)
    figure, axes = plot_style.panels(2, 0.9 + 0.27 * len(rows))
    shown = (("chain_tau", "chain tau, teacher-forced", "{:.2f}"), ("alone", "agreement without memory", "{:.1%}"))
    for axis, (key, title, form) in zip(axes, shown):
        values = [row[key] for row in rows]
        for place, (row, value) in enumerate(zip(rows, values)):
            colour = ACCENT if row is base else OTHER
            if base is not None:
                axis.hlines(place, base[key], value, color=colour, linewidth=2)
            axis.plot(value, place, "o", color=colour)
            left = base is not None and value < base[key]
            plot_style.number(axis, value, place, form.format(value), left)
        if base is not None:
            axis.axvline(base[key], color=ACCENT, linewidth=1, linestyle=(0, (4, 2)), zorder=0)
        room = 0.3 * (max(values) - min(values)) + 1e-3
        axis.set(title=title, xlim=(min(values) - room, max(values) + room))
    axes[1].xaxis.set_major_formatter(plot_style.percent())
    axes[0].set_yticks(range(len(rows)), [row["change"] for row in rows])
    axes[0].invert_yaxis()
    return figure


def speed(documents: Documents) -> Figure:
    """Tokens per second relative to plain decoding, with intervals."""
    rows = documents["single_device"]["rows"]
    figure, (axis,) = plot_style.panels(1, 0.9 + 0.36 * len(rows))
    for place, row in enumerate(rows):
        plot_style.bar(
            axis, place, row["speedup"], row["ci95"], ACCENT if row["name"] == "outrider" else OTHER, "{:.2f} x"
        )
    axis.axvline(1, color=INK, linewidth=1)
    axis.set(
        xlabel="tokens per second over plain decoding, 95 % interval",
        xlim=(0, 1.12 * max(row["ci95"][1] for row in rows)),
    )
    axis.set_yticks(range(len(rows)), [f"{row['name']}, {row['tokens_per_second']:.0f}/s" for row in rows])
    axis.invert_yaxis()
    return figure


def draft_step(documents: Documents) -> Figure:
    """Milliseconds of a step by the ways to run it, with a line for memory bandwidth alone, if that is known."""
    found = steps(documents["draft_step"]["rows"])
    ways = list(found[0].milliseconds)
    figure, (axis,) = plot_style.panels(1, 0.9 + 0.3 * len(ways) * len(found))
    ticks = []
    for group, step in enumerate(found):
        first = group * (len(ways) + 0.6)
        for place, way in enumerate(ways):
            plot_style.bar(
                axis, first + place, step.milliseconds[way], None, ACCENT if place == 0 else OTHER, "{:.2f} ms"
            )
            ticks.append((first + place, f"{way}, {times(step.rows)}"))
        if step.floor is not None:
            axis.vlines(step.floor, first - 0.5, first + len(ways) - 0.5, color=MARKS["eagle2"][0], linewidth=1.5)
            name = f" memory bandwidth: {step.floor:.2f} ms"
            axis.text(step.floor, first - 0.55, name, color=MARKS["eagle2"][0], fontsize=8, va="bottom")
    most = max(milliseconds for step in found for milliseconds in step.milliseconds.values())
    axis.set(xlabel="milliseconds of a draft step, one thread", xlim=(0, 1.12 * most))
    axis.set_yticks(*zip(*ticks))
    axis.invert_yaxis()
    return figure


def network(documents: Documents) -> Figure:
    """Checked tokens per second of the modes on each line, with a panel for each pacing. Unchecked ones are hatched."""
    found = standings(documents["network"]["rows"])
    pacings = sorted({standing.paced_ms for standing in found})
    profiles = list(dict.fromkeys(standing.profile for standing in found))
    figure, axes = plot_style.panels(len(pacings), 1.4 + 0.34 * len(profiles))
    shown: dict[str, Any] = {}
    for axis, paced_ms in zip(axes, pacings):
        for standing in (each for each in found if each.paced_ms == paced_ms):
            place = profiles.index(standing.profile)
            for name, (colour, marker) in reversed(MODE_MARKS.items()):
                mode = standing.best_fixed if name == "best fixed" else name
                if mode in standing.rows:
                    rate, row = standing.rate(mode), standing.rows[mode]
                    if standing.unchecked(mode):
                        everything = row["tokens_per_second"]
                        axis.barh(place, everything - rate, 0.5, rate, color="none", edgecolor=colour, hatch="////")
                        share = f" {standing.unchecked(mode):.0%} never checked"
                        axis.text(everything, place, share, color=colour, fontsize=8, va="center")
                    else:
                        axis.hlines(place, *row["ci95"], color=colour, linewidth=1.2, alpha=0.55)
                    (shown[name],) = axis.plot(rate, place, marker, color=colour)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set(title=forward(paced_ms))
    axes[0].set_yticks(range(len(profiles)), profiles)
    axes[0].invert_yaxis()
    figure.supxlabel("checked tokens per second, 95 % interval; hatched: tokens that nobody checked", fontsize=10)
    names = [name for name in MODE_MARKS if name in shown]
    figure.legend(
        [shown[name] for name in names],
        [MODE_LABELS.get(name, name) for name in names],
        loc="outside upper center",
        ncols=len(names),
        frameon=False,
    )
    return figure


def learning(documents: Documents) -> Figure:
    """Tokens per round after so many requests: means over the orders, with the least and the most."""
    rows = documents["learning"]["rows"]
    after = sorted({row["requests"] for row in rows})
    figure, (axis,) = plot_style.panels(1, 2.8)
    ends = []
    for way, (colour, marker) in LEARNT_MARKS.items():
        taus = [[row[way]["tau"] for row in rows if row["requests"] == count] for count in after]
        means = [sum(some) / len(some) for some in taus]
        axis.plot(after, means, color=colour, marker=marker)
        axis.fill_between(after, [min(some) for some in taus], [max(some) for some in taus], color=colour, alpha=0.15)
        ends.append((way, means[-1], colour))
    for way, height, colour in ends:
        number(axis, after[-1], height, way, colour=colour)
    axis.set_xlim(0, after[-1] * 1.25)
    axis.set_ylim(bottom=1.0)
    axis.grid(axis="y")
    axis.set_xlabel("requests that it learnt from")
    axis.set_ylabel("tokens per round")
    return figure


def comparison(documents: Documents) -> Figure:
    """Tau of the drafters of the comparison on equal terms, with intervals, and a dot for each seed."""
    rows = documents["comparison"]["rows"]
    figure, (axis,) = plot_style.panels(1, 0.9 + 0.36 * len(rows))
    for place, row in enumerate(rows):
        colour = plot_style.colour_of(row["drafter"].removesuffix("-f"))
        plot_style.bar(axis, place, row["tau"], row["ci95"], colour)
        taus = list(row["seeds"].values())
        axis.plot(taus, [place] * len(taus), "o", color=INK, markersize=3.5)
    axis.set(
        xlabel="tokens per round, 95 % interval; a dot for each seed",
        xlim=(1, 1.12 * max(row["ci95"][1] for row in rows)),
    )
    axis.set_yticks(range(len(rows)), [COMPARED[row["drafter"]] for row in rows])
    axis.invert_yaxis()
    return figure


def service(documents: Documents) -> Figure:
    """Tokens a second, and the first text, of servers that many clients ask through OpenAI's API."""
    found = {
        (row["server"], row["clients"]): row["rounds"]
        for row in documents["service"]["rows"]
        if row.get("way", "openai") == "openai" and "no drafts" not in row["server"]
    }
    servers = list(dict.fromkeys(server for server, _ in found))
    counts = sorted({count for _, count in found})
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    axes = figure.subplots(1, 2)
    shown = []
    for place, server in enumerate(servers):
        colour, marker = list(MARKS.values())[place % len(MARKS)]
        rounds = [found[server, count] for count in counts]
        rates = [middle(each, "tokens_per_second") for each in rounds]
        slowest = [statistics.median(one["first_ms"]["p95"] for one in each) for each in rounds]
        for axis, values in zip(axes, (rates, slowest)):
            (line,) = axis.plot(counts, values, color=colour, marker=marker)
        shown.append(line)
    for axis, title in zip(axes, ("tokens a second, all clients together", "first text of an answer, p95 in ms")):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_xticks(counts)
        axis.set(title=title, xlabel="clients at once")
        axis.grid(axis="y")
        axis.tick_params(length=0)
    figure.legend(shown, servers, loc="outside upper center", ncols=3, frameon=False)
    return figure


@dataclass(frozen=True)
class Plot:
    draw: Callable[[Documents], Figure]
    needs: str
    uses: tuple[str, ...] = ()
    """Other documents that it shows, if they are there."""


PLOTS = {
    "tau": Plot(tau, "acceptance", ("acceptance-deep", "acceptance-equal-time")),
    "depth": Plot(depth, "acceptance"),
    "staleness": Plot(staleness, "offline"),
    "ablations": Plot(ablations, "ablations"),
    "speed": Plot(speed, "single_device"),
    "draft_step": Plot(draft_step, "draft_step"),
    "network": Plot(network, "network"),
    "learning": Plot(learning, "learning"),
    "comparison": Plot(comparison, "comparison"),
    "service": Plot(service, "service"),
}
"""The plots by file name, without `.svg`."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, default=DOCS, help="the folder of benchmarks.md and benchmarks/")
    arguments = parser.parse_args(argv)
    folder: Path = arguments.docs / "benchmarks"
    documents = read(folder)
    with matplotlib.rc_context(STYLE):
        for name, plot in PLOTS.items():
            for missing in (needed for needed in (plot.needs, *plot.uses) if needed not in documents):
                print(f"{name}.svg lacks {missing}.json, which this makes: {COMMANDS[missing]}", file=sys.stderr)
            if plot.needs in documents:
                out = folder / f"{name}.svg"
                plot.draw(documents).savefig(out, transparent=True, metadata={"Date": None})
                print(out)
    page: Path = arguments.docs / "benchmarks.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), documents), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
