"""Draw docs/cut-answers.svg: how good an answer is whose line was cut, from the table in docs/benchmarks.md.

    python docs/figure.py

`tests/test_documents.py` compares the picture with what this writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import wrap

DOCS = Path(__file__).parent
TABLE, PICTURE = DOCS / "benchmarks.md", DOCS / "cut-answers.svg"
HEAD = "| solved when cut after |"
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 56, 500, 44, 348
MOST, STEP = 120, 20
"""The end of the vertical axis, and the distance of its lines."""
COLOURS = ("#8a8f98", "#0a7cba", "#b8860b", "#7b52ab", "#2e8b57")
LEGEND, WORDS = 62, 26
"""Height of an entry of the legend, and the most letters of its lines."""
STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f }
.page { fill: #ffffff } .grid { stroke: #d8dee4 } .pale { fill: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .page { fill: #0d1117 } .grid { stroke: #30363d } .pale { fill: #9198a1 }
}
"""


def rows(page: str) -> Iterator[tuple[str, list[float]]]:
    """The rows of the table: a label, and the tasks solved at each share of the answer."""
    lines = iter(page[page.index(HEAD) :].splitlines()[2:])
    for line in lines:
        if not line.startswith("|"):
            return
        label, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        yield label, [float(cell) for cell in cells]


def shares(page: str) -> list[int]:
    head = page[page.index(HEAD) + len(HEAD) :].splitlines()[0]
    return [int(share) for share in re.findall(r"\d+", head)]


def picture(page: str) -> str:
    """The picture as SVG. The table's last column is the whole answer, where all lines meet."""
    across = shares(page)

    def x(share: float) -> float:
        return LEFT + (RIGHT - LEFT) * share / across[-1]

    def y(solved: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * solved / MOST

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="{LEFT}" y="24">Tasks of HumanEval solved, of 164</text>',
    ]
    for solved in range(0, MOST + 1, STEP):
        drawn.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y(solved):.1f}" y2="{y(solved):.1f}"/>')
        drawn.append(f'<text class="pale" text-anchor="end" x="{LEFT - 8}" y="{y(solved) + 4:.1f}">{solved}</text>')
    for share in across:
        drawn.append(f'<text class="pale" text-anchor="middle" x="{x(share):.1f}" y="{BOTTOM + 20}">{share} %</text>')
    drawn.append(
        f'<text class="pale" text-anchor="middle" x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 42}">'
        "Share of the answer that the server had sent when its line broke</text>"
    )
    for at, (colour, (label, solved)) in enumerate(zip(COLOURS, rows(page), strict=True)):
        path = " ".join(f"{x(share):.1f},{y(number):.1f}" for share, number in zip(across, solved, strict=True))
        line = f'fill="none" stroke="{colour}" stroke-width="2.5"'
        if label.startswith("by "):
            line += ' stroke-dasharray="5 5"'
        else:
            for point in path.split():
                left, top = point.split(",")
                drawn.append(f'<circle fill="{colour}" r="4" cx="{left}" cy="{top}"/>')
        drawn.append(f'<polyline {line} points="{path}"/>')
        height = TOP + 16 + LEGEND * at
        drawn.append(f'<polyline {line} points="{RIGHT + 20},{height} {RIGHT + 44},{height}"/>')
        for below, words in enumerate(wrap(label, WORDS)):
            drawn.append(f'<text x="{RIGHT + 52}" y="{height + 5 + 17 * below}">{escape(words)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(TABLE.read_text(encoding="utf-8")), encoding="utf-8")
