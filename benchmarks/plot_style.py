"""Common parts of the plots: colours, type, and marks.

Colours are the Okabe-Ito set (its blue a little lighter). Each drafter also has its own marker. Text is a grey that can
be read on white and on black, without a background. So the plots work in light and in dark pages, without colour
vision, and in print. Text stays text in the SVG.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.results import label

INK, GRID = "#76808a", "#76808a40"
MARKS = {
    "moa": ("#2b83c6", "o"),
    "moa-chain-7": ("#56b4e9", "X"),
    "moa-staged": ("#0b3d66", "P"),
    "eagle2": ("#d55e00", "s"),
    "eagle3": ("#cc79a7", "D"),
    "independent": ("#009e73", "^"),
    "prompt-lookup": ("#999999", "v"),
}
"""Colour and marker of each drafter."""
LAYERED = "#5da5d6"
"""MoA with another F or N."""
ACCENT, OTHER = MARKS["moa"][0], "#999999"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "outrider",  # The same data give the same file.
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
}


def panels(count: int, height: float) -> tuple[Figure, Sequence[Axes]]:
    """Panels side by side with a common vertical axis. Sizes in inches."""
    figure = Figure(figsize=(8.0, height), layout="constrained")
    axes = figure.subplots(1, count, sharey=True, squeeze=False)[0]
    for axis in axes:
        axis.grid(axis="x")
        axis.tick_params(length=0)
    return figure, list(axes)


def _mark(drafter: str) -> tuple[str, str]:
    return MARKS.get(drafter, (LAYERED if drafter.startswith("moa-f") else OTHER, "o"))


def colour_of(drafter: str) -> str:
    return _mark(drafter)[0]


def bar(
    axis: Axes,
    place: float,
    value: float,
    interval: Sequence[float] | None,
    colour: str,
    form: str = "{:.2f}",
) -> None:
    """Draw a horizontal bar with its number behind it."""
    axis.barh(place, value, height=0.66, color=colour, alpha=0.55 if interval is not None else 1.0)
    if interval is not None:
        axis.hlines(place, interval[0], interval[1], color=colour, linewidth=2.5)
    number(axis, max(value, *(interval or (value,))), place, form.format(value))


def number(axis: Axes, x: float, y: float, text: str, left: bool = False, colour: str = INK) -> None:
    shift, side = (-6, "right") if left else (6, "left")
    axis.annotate(text, (x, y), (shift, 0), textcoords="offset points", va="center", ha=side, fontsize=9, color=colour)


def line(axis: Axes, drafter: str, x: Sequence[float] | np.ndarray, y: Sequence[float]) -> None:
    colour, marker = _mark(drafter)
    axis.plot(x, y, color=colour, marker=marker)


def as_shares(axis: Axes) -> None:
    """Show a vertical axis in percent, up to 100 %."""
    axis.yaxis.set_major_formatter(percent())
    axis.grid(axis="y")
    low = axis.get_ylim()[0]
    axis.set_ylim(max(0.0, low), 1.0)


def percent() -> FuncFormatter:
    return FuncFormatter(lambda value, _: f"{round(100 * value, 1):g} %")


def name_ends(axis: Axes, ends: Sequence[tuple[str, float]]) -> None:
    """Write the names of lines in their colours beside their ends. Names that would touch are moved apart."""
    low, high = axis.get_ylim()
    apart = 0.065 * (high - low)
    ends = sorted(ends, key=lambda end: end[1])
    places: list[float] = []
    for _, y in ends:
        places.append(max(y, places[-1] + apart) if places else y)
    top = high
    for index in reversed(range(len(places))):
        places[index] = min(places[index], top)
        top = places[index] - apart
    right = axis.get_yaxis_transform()  # x: from 0 to 1 across the panel.
    for (name, _), y in zip(ends, places):
        axis.text(1.01, y, label(name), transform=right, va="center", color=colour_of(name), fontsize=9)
