"""The figures in short, each with the command that makes it, from the JSON in docs/benchmarks.

They stand at the top of docs/benchmarks.md. What was not measured has no row.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.answer_tables import share
from benchmarks.comparison_table import LABELS as COMPARED
from benchmarks.pair import FORMER
from benchmarks.standings import Standing, standings

Document = Mapping[str, Any]
Documents = Mapping[str, Document]
SHORT = "--rows 4 --trial 30 --bound 120 --every 40 --fall 60 --limit 100 --timed 12"
"""The plan of the comparison for two cores and two hours."""


def figures(documents: Documents, names: Sequence[str] | None = None) -> str:
    """A row for each of these lines that was measured; all lines if no names are given."""
    lines = ["| what | figure | command |", "|---|---|---|"]
    for needs in LINES if names is None else names:
        command, line = LINES[needs]
        if (document := documents.get(needs.partition(",")[0])) is not None:
            what, figure = line(documents)
            what += " (the pair before this one)" if document.get(FORMER) else ""
            lines.append(f"| {what} | {figure} | {f'`python -m benchmarks.{command}`' if command else ''} |")
    return "\n".join(lines)


# ---- one line each: what, and the figure -----------------------------------------------------------------------------


def _frame(documents: Documents) -> tuple[str, str]:
    document = documents["startup"]
    screens = [row for row in document["rows"] if "frame_median" in row and "," not in row["program"]]
    shown = ", ".join(f"{row['program']} {row['frame_median']:.2f} and {row['key_median']:.2f} s" for row in screens)
    return "From the start of the process to the first frame and to the first key taken", shown


def _version(documents: Documents) -> tuple[str, str]:
    document = documents["startup"]
    ends = {row["program"]: row["end_median"] for row in document["rows"] if "end_median" in row}
    return "`--version`", ", ".join(f"{name.partition(' ')[0]} {seconds:.2f} s" for name, seconds in ends.items())


def _long_chat(documents: Documents) -> tuple[str, str]:
    document = documents["screen"]
    row = max(document["rows"], key=lambda row: row["messages"])
    own = max(row[part]["stall_cpu_ms"] for part in ("open", "stream"))
    clock = max(row[part]["stall_ms"] for part in ("open", "stream"))
    what = f"A conversation of {row['messages']:,} messages: opened, then 100 tokens a second streamed into it"
    stalls = f"longest stall {clock:.0f} ms on the clock, {own:.0f} ms of its own work"
    return what, f"{row['open_ms']:.0f} ms to open; {stalls}; {row['stream']['cpu_per_second']:.0%} of a core"


def _search(documents: Documents) -> tuple[str, str]:
    document = documents["search"]
    worst = max(row["worst_ms"] for row in document["rows"])
    median = statistics.median(row["median_ms"] for row in document["rows"])
    return f"Search in {document['messages']:,} messages", f"median {median:.1f} ms, worst {worst:.0f} ms"


def _archive(documents: Documents) -> tuple[str, str]:
    document = documents["archive"]
    out, back = document["export json seconds"], document["import seconds"]
    return f"{document['messages']:,} messages to lossless JSON, and back", f"{out:.1f} s, {back:.1f} s"


def _everyday(documents: Documents) -> tuple[str, str]:
    asked = {row["id"] for row in documents["everyday"]["rows"]}
    what = f"Right commands: {len(asked)} everyday questions that were kept out of training"
    shown = share(documents["everyday"]["rows"], "edge")
    if "rephrased" in documents:
        what += f"; {len({row['id'] for row in documents['rephrased']['rows']})} of them in fresh words"
        shown += f"; {share(documents['rephrased']['rows'], 'edge')}"
    return what, shown


BEHAVIOUR = {
    "literals": "names and numbers letter by letter",
    "off_topic": "no command where none was asked for",
    "harmless": "no dangerous command",
    "follow_ups": "a right last command of a conversation",
}


def _behaviour(documents: Documents) -> tuple[str, str]:
    rows, executed = documents["behaviour"]["rows"], documents.get("execution", {"rows": []})["rows"]
    shown = {said: share([row for row in rows if row["set"] == name], "edge") for name, said in BEHAVIOUR.items()}
    shown["it does what was asked, when it is run"] = share(executed, "edge")
    parts = [f"{said}: {figure}" for said, figure in shown.items() if figure]
    return "Answers to other requests that were kept out of training", "; ".join(parts)


def _alone(documents: Documents) -> tuple[str, str]:
    document = documents["offline"]
    row = next(row for row in document["rows"] if row["drafter"] == "moa")["everyday"]
    return (
        f"Of the {row['questions']} everyday questions, those that the drafter answers right alone",
        f"{row['right']}",
    )


EQUAL_STEPS = {
    "moa-f2-n1": "MoA ",
    "moa-f0-n1": "MoA in the paper's shape (F = 0, N = 1) ",
    "eagle2": "EAGLE-2 ",
    "eagle3": "EAGLE-3 ",
    "independent": "an independent model ",
}


def _taus(document: Document) -> str:
    """Tau of the drafters that were trained for the same number of steps, and of the shipped one."""
    rows = {row["drafter"]: row for row in document["rows"] if not row.get("temperature")}
    shown = [f"{words}{_interval(rows[name], 'tau')}" for name, words in EQUAL_STEPS.items() if name in rows]
    after = f" after {rows['moa']['steps']:,} steps" if rows["moa"].get("steps") else ""
    return "; ".join([*shown, f"MoA as shipped{after} {_interval(rows['moa'], 'tau')}"])


def _tau(documents: Documents) -> tuple[str, str]:
    document = documents["acceptance"]
    depth, prompts = document["rows"][0]["depth"], document["rows"][0]["prompts"]
    what = f"Tokens per round (tau) after 700 steps of training, {prompts} held-out pages, trees of 60 nodes"
    return f"{what} and depth {depth}", _taus(document)


def _shipped(documents: Documents) -> tuple[str, str]:
    found = [documents[name] for name in ("acceptance-shipped", "acceptance-shipped-deep") if name in documents]
    rows = [row for document in found for row in document["rows"] if not row.get("temperature")]
    what = f"Tokens per round (tau) of the bundled pair, {rows[0]['prompts']} held-out pages, trees of 60 nodes"
    return what, "; ".join(f"depth {row['depth']}: {_interval(row, 'tau')}" for row in rows)


def _comparison(documents: Documents) -> tuple[str, str]:
    """Tau of all drafters that were compared on equal terms."""
    document = documents["comparison"]
    plan, rows = document["plan"], document["rows"]
    steps = plan["patience"]["bound"] + plan["patience"]["fall"]
    what = f"Tokens per round (tau), on equal terms, after at most {steps} steps, {plan['limit']} held-out pages"
    if len(plan["seeds"]) > 1:
        what += f", {len(plan['seeds'])} trainings of each"
    return what, "; ".join(f"{COMPARED[row['drafter']]} {_interval(row, 'tau')}" for row in rows)


def _deep(documents: Documents) -> tuple[str, str]:
    document = documents["acceptance-deep"]
    return f"The same with depth {document['rows'][0]['depth']}", _taus(document)


def _single(documents: Documents) -> tuple[str, str]:
    rows = {row["name"]: row for row in documents["single_device"]["rows"]}
    app, bounded = rows.get("outrider, as the app drafts"), documents["single_device"]["bounds"]
    within = f"trees of at most {bounded['depth']} levels and {bounded['nodes']} nodes"
    names = {"outrider, second stage": "with its second stage", "outrider": "without it"}
    shown = [f"{_interval(rows[name], 'speedup')} times {said}" for name, said in names.items() if name in rows]
    if app is not None:
        return "Tokens per second on one machine over plain decoding, drafting as the app does", _times(app)
    return f"Tokens per second on one machine over plain decoding, {within}, narrower than the app's", ", ".join(shown)


def _times(row: Mapping[str, Any]) -> str:
    return f"{_interval(row, 'speedup')} times"


def _staged(documents: Documents) -> tuple[str, str]:
    document = documents["second_stage"]
    row = document["rows"][-1]
    return "Drafter-only text with its second stage over without, same text", f"{_interval(row, 'speedup')} times"


def _step(documents: Documents) -> tuple[str, str]:
    document = documents["draft_step"]
    floats = {row["rows"]: row["float_ms"] for row in document["rows"] if "float_ms" in row}
    schemes = [row["scheme"] for row in document["rows"]]
    scheme = "auto" if "auto" in schemes else schemes[0]
    shipped = {row["rows"]: row["ms"] for row in document["rows"] if row["scheme"] == scheme}
    one, eight = (floats[count] / shipped[count] for count in (1, 8))
    return (
        "Draft step, 8 bits in ONNX Runtime against float PyTorch, one thread",
        f"{one:.1f} times as fast (8 rows: {eight:.1f})",
    )


SPEEDS = {"hosted": "hosted", "auto": "`auto`", "edge": "edge", "plain": "plain streaming"}


def _standing(documents: Documents, profile: str, paced_ms: float, name: str = "network") -> Standing | None:
    found = standings(documents[name]["rows"])
    return next((each for each in found if (each.profile, each.paced_ms) == (profile, paced_ms)), None)


def _speeds(documents: Documents, profile: str, paced_ms: float) -> str:
    found = _standing(documents, profile, paced_ms)
    if found is None:
        return "–"
    shown = []
    for mode, said in SPEEDS.items():
        if mode in found.rows:
            low, high = found.rows[mode]["ci95"]
            shown.append(f"{said} {found.rows[mode]['tokens_per_second']:.0f} ({low:.0f} to {high:.0f})")
    return ", ".join(shown)


def _lines(documents: Documents) -> tuple[str, str]:
    what = f"Tokens per second over emulated lines, {documents['network']['plan']['limit']} prompts"
    return (
        what,
        f"4G (70 ms): {_speeds(documents, '4g', 0.0)}; satellite (600 ms): {_speeds(documents, 'satellite', 0.0)}",
    )


def _paced(documents: Documents) -> tuple[str, str]:
    what = "The same over 4G where a forward pass of the target is made to last 60 ms; the drafter stays the small one"
    return what, _speeds(documents, "4g", 60.0)


def _passes(documents: Documents) -> tuple[str, str]:
    found = _standing(documents, "4g", 0.0)
    shown = [
        f"{said} {found.rows[mode]['passes_per_100_tokens']:.0f}"
        for mode, said in SPEEDS.items()
        if found is not None and mode in found.rows
    ]
    return "The target's forward passes per 100 tokens over 4G", ", ".join(shown)


def _withdrawn(documents: Documents) -> tuple[str, str]:
    shown = []
    for profile, said in {"lan": "LAN", "4g": "4G", "satellite": "satellite"}.items():
        found = _standing(documents, profile, 0.0, "withdrawn")
        dimmed = {mode: found.rows[mode]["dimmed"] for mode in SPEEDS if found is not None and mode in found.rows}
        known = [f"{SPEEDS[mode]} {each['share']:.1%}" for mode, each in dimmed.items() if each["share"] is not None]
        shown += [f"{said}: {', '.join(known)}"] if known else []
    limit = documents["withdrawn"]["plan"]["limit"]
    return f"Dimmed text that was taken back, of what was decided, {limit} prompts", "; ".join(shown)


def _chaos(documents: Documents) -> tuple[str, str]:
    document = documents["chaos"]
    runs = [row for row in document["rows"] if row["run"] != "all"]
    lost = sum(bool(row["violations"]) for row in runs)
    what = "Runs with random outages, cuts, killed verifiers and doubled requests in which a token was lost or doubled"
    return what, f"{lost} of {len(runs)}"


def _handover(documents: Documents) -> tuple[str, str]:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in documents["handover"]["rows"]:
        groups.setdefault((row["fault"], row["line"]), []).append(row["seconds"])
    faults = {"kill": "verifier killed", "silence": "line silent"}
    shown = [
        f"{faults[fault]}, {line}: {statistics.median(seconds):.2f} s" for (fault, line), seconds in groups.items()
    ]
    return "From a sudden end of the line to the next word, medians", "; ".join(shown)


def _exactness(documents: Documents) -> tuple[str, str]:
    document = documents["exactness"]
    counts = ", ".join(f"{row['equal']} of {row['of']}" for row in document["rows"])
    return (
        "In float32: greedy answers with drafts that equal those without, and transformers' `generate`; sampled ones",
        counts,
    )


def _interval(row: Mapping[str, Any], key: str) -> str:
    low, high = row["ci95"]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


LINES: dict[str, tuple[str, Callable[[Documents], tuple[str, str]]]] = {
    "everyday": ("everyday", _everyday),
    "behaviour": ("behaviour", _behaviour),
    "acceptance-shipped": ("acceptance --drafter moa", _shipped),
    "comparison": (f"comparison --pages PAGES --work DIR {SHORT}", _comparison),
    "acceptance": ("acceptance", _tau),
    "acceptance-deep": ("acceptance --depth 16", _deep),
    "network": ("network", _lines),
    "network, paced": ("", _paced),
    "network, passes": ("", _passes),
    "withdrawn": ("network --mode edge hosted auto", _withdrawn),
    "single_device": ("single_device", _single),
    "offline": ("offline", _alone),
    "second_stage": ("second_stage", _staged),
    "draft_step": ("draft_step", _step),
    "exactness": ("exactness --limit 100", _exactness),
    "chaos": ("chaos", _chaos),
    "handover": ("handover", _handover),
    "startup": ("startup --install /tmp/others", _frame),
    "startup, commands": ("", _version),
    "screen": ("screen", _long_chat),
    "search": ("search", _search),
    "archive": ("archive", _archive),
}
"""The lines by their document's name, with a suffix if there are several. An empty command: that of the line above."""
