"""The figures of the README, each beside the command that makes it, from the JSON in docs/benchmarks.

They stand between `<!-- figures -->` and `<!-- end -->`. What was not measured has no row.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.standings import Standing, standings

Document = Mapping[str, Any]
Documents = Mapping[str, Document]


def fill(readme: str, documents: Documents) -> str:
    """The README with the figures of these documents."""
    body = figures(documents)
    return re.sub(r"(<!-- figures -->\n).*?(<!-- end -->)", rf"\1\n{body}\n\n\2", readme, flags=re.DOTALL)


def figures(documents: Documents) -> str:
    lines = ["| what | figure | command |", "|---|---|---|"]
    for needs, (command, line) in LINES.items():
        name = needs.partition(",")[0]
        if name in documents:
            what, figure = line(documents[name])
            lines.append(f"| {what} | {figure} | {f'`python -m benchmarks.{command}`' if command else ''} |")
    return "\n".join(lines)


# ---- one line each: what, and the figure -----------------------------------------------------------------------------


def _frame(document: Document) -> tuple[str, str]:
    screens = [row for row in document["rows"] if "frame_median" in row and "," not in row["program"]]
    shown = ", ".join(f"{row['program']} {row['frame_median']:.2f} and {row['key_median']:.2f} s" for row in screens)
    return "From the start of the process to the first frame and to the first key taken", shown


def _version(document: Document) -> tuple[str, str]:
    ends = {row["program"]: row["end_median"] for row in document["rows"] if "end_median" in row}
    return "`--version`", ", ".join(f"{name.partition(' ')[0]} {seconds:.2f} s" for name, seconds in ends.items())


def _long_chat(document: Document) -> tuple[str, str]:
    row = max(document["rows"], key=lambda row: row["messages"])
    own = max(row[part]["stall_cpu_ms"] for part in ("open", "stream"))
    clock = max(row[part]["stall_ms"] for part in ("open", "stream"))
    what = f"A conversation of {row['messages']:,} messages: opened, then 100 tokens a second streamed into it"
    stalls = f"longest stall {clock:.0f} ms on the clock, {own:.0f} ms of its own work"
    return what, f"{row['open_ms']:.0f} ms to open; {stalls}; {row['stream']['cpu_per_second']:.0%} of a core"


def _search(document: Document) -> tuple[str, str]:
    worst = max(row["worst_ms"] for row in document["rows"])
    median = statistics.median(row["median_ms"] for row in document["rows"])
    return f"Search in {document['messages']:,} messages", f"median {median:.1f} ms, worst {worst:.0f} ms"


def _archive(document: Document) -> tuple[str, str]:
    out, back = document["export json seconds"], document["import seconds"]
    return f"{document['messages']:,} messages to lossless JSON, and back", f"{out:.1f} s, {back:.1f} s"


def _everyday(document: Document) -> tuple[str, str]:
    right = sum(row["right"] for row in document["rows"])
    what = f"Everyday questions with a right command ({len(document['rows'])}, kept out of the training data [^1])"
    return what, f"{right / len(document['rows']):.1%}"


def _alone(document: Document) -> tuple[str, str]:
    row = next(row for row in document["rows"] if row["drafter"] == "moa")["everyday"]
    return f"Of the same {row['questions']}, those that the drafter answers right alone", f"{row['right']}"


def _tau(document: Document) -> tuple[str, str]:
    rows = {row["drafter"]: row for row in document["rows"] if not row.get("temperature")}
    names = {"moa": "", "eagle2": "EAGLE-2 ", "moa-chain-7": "a chain of 7 ", "prompt-lookup": "prompt lookup "}
    shown = ", ".join(f"{words}{_interval(rows[name], 'tau')}" for name, words in names.items() if name in rows)
    depth, prompts = rows["moa"]["depth"], rows["moa"]["prompts"]
    return f"Tokens per round (tau) on {prompts} held-out pages, trees of 60 nodes and depth {depth} [^2]", shown


def _deep(document: Document) -> tuple[str, str]:
    rows = {row["drafter"]: row for row in document["rows"] if not row.get("temperature")}
    shown = f"{_interval(rows['moa'], 'tau')}, EAGLE-2 {rows['eagle2']['tau']:.2f}"
    return f"The same with depth {rows['moa']['depth']}", shown


def _single(document: Document) -> tuple[str, str]:
    row = next(row for row in document["rows"] if row["name"] == "outrider")
    return "Tokens per second on one machine over plain decoding", f"{_interval(row, 'speedup')} times"


def _staged(document: Document) -> tuple[str, str]:
    row = next(row for row in document["rows"] if row["stage"] == "datastore")
    return "Drafter-only text with its second stage over without, same text", f"{_interval(row, 'speedup')} times"


def _step(document: Document) -> tuple[str, str]:
    floats = {row["rows"]: row["float_ms"] for row in document["rows"] if "float_ms" in row}
    shipped = {row["rows"]: row["ms"] for row in document["rows"] if row["scheme"] == "auto"}
    one, eight = (floats[count] / shipped[count] for count in (1, 8))
    return (
        "Draft step, 8 bits in ONNX Runtime against float PyTorch, one thread",
        f"{one:.1f} times as fast (8 rows: {eight:.1f})",
    )


def _speeds(document: Document, profile: str, paced_ms: float) -> str:
    found = _standing(document, profile, paced_ms)
    return ", ".join(f"{found.rate(mode):.0f}" for mode in ("auto", "edge", "plain", "eagle-2"))


def _standing(document: Document, profile: str, paced_ms: float) -> Standing:
    found = standings(document["rows"])
    return next(each for each in found if (each.profile, each.paced_ms) == (profile, paced_ms))


def _4g(document: Document) -> tuple[str, str]:
    what = "Tokens per second over an emulated 4G line (70 ms): `auto`, edge, plain streaming, EAGLE-2 in our edge mode"
    return what, _speeds(document, "4g", 0.0)


def _satellite(document: Document) -> tuple[str, str]:
    return "The same over a satellite (600 ms)", _speeds(document, "satellite", 0.0)


def _paced(document: Document) -> tuple[str, str]:
    return "The same over 4G with a target whose forward pass takes 60 ms", _speeds(document, "4g", 60.0)


def _passes(document: Document) -> tuple[str, str]:
    rows = _standing(document, "4g", 0.0).rows
    shown = ", ".join(f"{rows[mode]['passes_per_100_tokens']:.0f}" for mode in ("auto", "edge", "plain", "eagle-2"))
    return "The target's forward passes per 100 tokens over 4G, likewise", shown


def _chaos(document: Document) -> tuple[str, str]:
    runs = [row for row in document["rows"] if row["run"] != "all"]
    lost = sum(bool(row["violations"]) for row in runs)
    what = "Runs with random outages, cuts, killed verifiers and doubled requests in which a token was lost or doubled"
    return what, f"{lost} of {len(runs)}"


def _handover(document: Document) -> tuple[str, str]:
    seconds = [row["seconds"] for row in document["rows"]]
    what = f"From the verifier's death (SIGKILL) to the next word, median of {len(seconds)}"
    return what, f"{statistics.median(seconds):.3f} s"


def _exactness(document: Document) -> tuple[str, str]:
    counts = ", ".join(f"{row['equal']} of {row['of']}" for row in document["rows"])
    return "Greedy answers with drafts that equal those without, and transformers' `generate`; sampled ones", counts


def _interval(row: Mapping[str, Any], key: str) -> str:
    low, high = row["ci95"]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


LINES: dict[str, tuple[str, Callable[[Document], tuple[str, str]]]] = {
    "startup": ("startup --install /tmp/others", _frame),
    "startup, commands": ("", _version),
    "screen": ("screen", _long_chat),
    "search": ("search", _search),
    "archive": ("archive", _archive),
    "everyday": ("everyday", _everyday),
    "offline": ("offline", _alone),
    "acceptance": ("acceptance", _tau),
    "acceptance-deep": ("acceptance --depth 16", _deep),
    "single_device": ("single_device", _single),
    "second_stage": ("second_stage", _staged),
    "draft_step": ("draft_step", _step),
    "network": ("network", _4g),
    "network, satellite": ("", _satellite),
    "network, paced": ("", _paced),
    "network, passes": ("", _passes),
    "chaos": ("chaos", _chaos),
    "handover": ("handover", _handover),
    "exactness": ("exactness --limit 100", _exactness),
}
"""By its document, with a word where that makes several lines; its command, unless the line above has it."""
