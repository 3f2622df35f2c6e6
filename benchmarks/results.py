"""The measured results in docs/benchmarks: the command that makes each, and their tables in docs/benchmarks.md.

A document holds `machine` and `rows`, as its benchmark's `--json` writes them. A table stands between the markers `<!--
results: NAME -->` and `<!-- end -->`. It is empty while its documents are missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.answer_tables import answers_table
from benchmarks.app_tables import (
    archive_table,
    installed_table,
    long_conversations_table,
    retrieval_table,
    screen_table,
    search_table,
    shell_table,
    startup_table,
)
from benchmarks.comparison_table import comparison_table
from benchmarks.fault_tables import chaos_table, clients_table, exactness_table, handover_table
from benchmarks.headlines import SHORT, figures
from benchmarks.learning_tables import (
    born_table,
    first_use_table,
    learning_cost_table,
    learning_table,
    server_learning_table,
    topics_table,
)
from benchmarks.markdown import page, picture, table, with_interval
from benchmarks.network_table import equals_table, network_table, withdrawn_table
from benchmarks.pair import FORMER, is_former
from benchmarks.service_tables import churn_table, hostile_table, overload_table, service_rounds_table, service_table

DOCS = Path(__file__).parents[1] / "docs"
FOLDER = DOCS / "benchmarks"
PAGE = DOCS / "benchmarks.md"

Row = Mapping[str, Any]
Documents = Mapping[str, Mapping[str, Any]]
"""Documents by file name, without `.json`."""

SERVERS = "--engines onnx,torch,llama --llama-server llama-server --transformers python"
TRAINED, EQUAL_TIME = "eagle2 eagle3 independent", "--others runs/drafter/out --baselines runs/equal-time"
PAIR = "--answers runs/drafter/answers.jsonl --target remote/verifier/pretrained/shell-guide"
SHIPPED = "remote/verifier/pretrained/shell-guide"
TRAINED_PAIRS = "--trained bundled=drafter/pretrained/shell-guide --trained deep=runs/deeppair --questions 20"
EQUALS = "--mode moa-float eagle-2 --drafter runs/export/moa --eagle runs/export/eagle2-f"
BOTH = "--prompts tests/data/everyday.jsonl tests/data/heldout_pages.jsonl"
COMMANDS = {
    name: f"python -m benchmarks.{command} --json docs/benchmarks/{name}.json"
    for name, command in {
        "acceptance": "acceptance",
        "acceptance-equal-time": f"acceptance --drafter {TRAINED} {EQUAL_TIME}",
        "acceptance-deep": f"acceptance --depth 16 --drafter moa {TRAINED}",
        "acceptance-shipped": "acceptance --drafter moa",
        "acceptance-shipped-deep": "acceptance --drafter moa --depth 16",
        "comparison": f"comparison --pages PAGES --work runs/comparison {SHORT} --jobs 2 --export runs/export",
        "offline": "offline",
        "ablations": f"ablations {PAIR} --work runs/ablations --steps 100 --rows 8 --jobs 2",
        "single_device": "single_device",
        "single_device-onnx": "single_device --engine onnx --limit 40",
        "single_device-llama": "single_device --engine llama --limit 40 --target shell-guide-q8_0.gguf",
        "second_stage": "second_stage",
        "draft_step": "draft_step",
        "draft_step-8b": "draft_step --shapes 8b --first-layers 0,1,2 --scheme int8 auto",
        "everyday": "everyday",
        "rephrased": "everyday --questions tests/data/everyday_rephrased.jsonl",
        "behaviour": "behaviour",
        "execution": "execution",
        "learning": "learning",
        "learning_cost": "learning_cost",
        "server_learning": "server_learning",
        "topics": "topics",
        "born": f"born --target bundled={SHIPPED} --target deep=runs/deep/average {TRAINED_PAIRS}",
        "first_use": "first_use --model runs/deep/average",
        "retrieval": "retrieval",
        "coins": "coins",
        "service": f"service {SERVERS} --gguf f32,q8_0 --ways openai,hosted,edge --rounds 1",
        "service-openai": f"service {SERVERS} --gguf q8_0 --clients 1,4,16,64 --rounds 3",
        "network": "network",
        "equals": f"network {EQUALS} --forward 0",
        "withdrawn": f"network {BOTH} --mode edge hosted auto --forward 0 --limit 20",
        "exactness": "exactness --limit 100",
        "handover": "handover",
        "chaos": "chaos",
        "clients": "clients --python PYTHON --node-modules DIR",
        "overload": "overload",
        "hostile": "hostile",
        "churn": "churn",
        "startup": "startup --install /tmp/others",
        "installed": "installed",
        "shell": "shell",
        "screen": "screen",
        "long_conversations": "long_conversations",
        "search": "search",
        "archive": "archive",
    }.items()
}

LABELS = {
    "moa": "MoA",
    "moa-chain-7": "MoA, chain of 7",
    "moa-staged": "MoA and its second stage",
    "eagle2": "EAGLE-2",
    "eagle3": "EAGLE-3",
    "independent": "independent",
    "prompt-lookup": "prompt lookup",
}
SHOWN_STALENESS = (1, 16, 64, 256)


@dataclass(frozen=True)
class StepTimes:
    """Times of a draft step with so many rows."""

    rows: int
    milliseconds: dict[str, float]
    """Times by the way to run the step: first the schemes, then the float model."""
    floor: float | None
    """The least that memory bandwidth allows the first of them, in milliseconds."""


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Read the documents that are there. `FORMER` of each says whether it was measured with an older pair."""
    paths = {name: folder / f"{name}.json" for name in COMMANDS}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    return {name: {**document, FORMER: is_former(name, document)} for name, document in found.items()}


def fill(page: str, documents: Documents) -> str:
    """Put the tables of these documents into the page. Raises `KeyError` for a marker with an unknown name."""

    def section(found: re.Match[str]) -> str:
        body = TABLES[found["name"]](documents)
        return f"<!-- results: {found['name']} -->\n" + (f"\n{body}\n\n" if body else "") + "<!-- end -->"

    return re.sub(r"<!-- results: (?P<name>\S+) -->\n.*?<!-- end -->", section, page, flags=re.DOTALL)


def greedy(document: Mapping[str, Any]) -> list[Row]:
    """The acceptance rows of greedy decoding."""
    return [row for row in document["rows"] if not row.get("temperature")]


def label(drafter: str) -> str:
    if layers := re.fullmatch(r"moa-f(\d+)-n(\d+)", drafter):
        return f"MoA, F = {layers[1]}, N = {layers[2]}"
    return LABELS.get(drafter, drafter)


def steps(rows: Sequence[Row]) -> list[StepTimes]:
    """The draft step's rows, one for each number of tokens."""
    found: dict[int, StepTimes] = {}
    for row in rows:
        step = found.setdefault(row["rows"], StepTimes(row["rows"], {}, row.get("floor_ms")))
        step.milliseconds[row["scheme"]] = row["ms"]
    for row in rows:
        if "float_ms" in row:
            found[row["rows"]].milliseconds["float"] = row["float_ms"]
    return list(found.values())


def times(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


# ---- tables ----------------------------------------------------------------------------------------------------------


def acceptance_table(documents: Documents) -> str:
    """Greedy rows with deeper trees and equal training time beside them, then the rows at other temperatures."""
    if "acceptance" not in documents:
        return ""
    document = documents["acceptance"]
    timed = {row["drafter"]: row for row in greedy(documents.get("acceptance-equal-time", {"rows": []}))}
    deep = {row["drafter"]: row for row in greedy(documents.get("acceptance-deep", {"rows": []}))}
    head = ["drafter", "trained parameters", "bytes a token", "tau"]
    head += [f"tau, depth {row['depth']}" for row in list(deep.values())[:1]] + ["trained for"]
    head += ["tau, equal time", "trained for"] if timed else []
    lines = []
    for row in greedy(document):
        line = [label(row["drafter"]), _millions(row.get("trained_parameters")), _or_dash(row.get("bytes_per_token"))]
        line.append(_tau(row))
        line += [_tau(deep.get(row["drafter"]))] if deep else []
        line.append(_training(row))
        if timed:
            other = timed.get(row["drafter"])
            line += [_tau(other), _training(other) if other else "–"]
        lines.append(line)
    parts = [picture("tau", "Tokens per round of each drafter"), table(head, lines)]
    parts.append(picture("depth", "Share of drafted tokens that are accepted, by depth in the tree"))
    if warm := [row for row in document["rows"] if row.get("temperature")]:
        shown = [[label(row["drafter"]), f"{row['temperature']:g}", row["tree"], _tau(row)] for row in warm]
        parts.append(table(["drafter", "temperature", "tree", "tau"], shown))
    return page(parts, document)


def offline_table(documents: Documents) -> str:
    """Agreement at some staleness, and everyday questions."""
    if "offline" not in documents:
        return ""
    rows = documents["offline"]["rows"]
    lines = []
    for row in rows:
        windows = {window["staleness"]: window for window in row["agreement"]}
        agreement = [_percent(windows.get(stale)) for stale in SHOWN_STALENESS]
        right = row["everyday"]
        lines.append(
            [label(row["drafter"]), *agreement, f"{right['right']} of {right['questions']}: {_percent(right)}"]
        )
    head = ["drafter", *(f"agreement at {stale}" for stale in SHOWN_STALENESS), "everyday questions right"]
    counts = {window["staleness"]: window["tokens"] for window in rows[0]["agreement"]}
    judged = ", ".join(f"{counts[stale]:,} at {stale}" for stale in SHOWN_STALENESS if stale in counts)
    parts = [picture("staleness", "Agreement with the target by tokens since the drafter last heard of it")]
    return page([*parts, table(head, lines), f"Tokens judged: {judged}."], documents["offline"])


def ablations_table(rows: Sequence[Row]) -> str:
    """A row for every finished variant."""
    head = ["variant", "chain tau", "agreement at 1, 8", "divergence", "alone", "parameters", "steps", "CPU s"]
    return table(
        head,
        [
            [
                row["change"],
                f"{row['chain_tau']:.2f}",
                f"{row['agreement'][0]:.1%}, {row['agreement'][-1]:.1%}",
                f"{row['divergence']:.3f}",
                f"{row['alone']:.1%}",
                _millions(row["trained_parameters"]),
                f"{row['steps']:,}",
                "–" if row["cpu_seconds"] is None else f"{row['cpu_seconds']:,.0f}",
            ]
            for row in rows
        ],
    )


def _ablations(documents: Documents) -> str:
    if "ablations" not in documents:
        return ""
    document = documents["ablations"]
    training = document["training"]
    said = (
        f"Batches of {training['rows']} rows of {training['row']} tokens; {training['learnt']:,} conversations learnt "
        f"from, {training['unseen']:,} kept for the check"
    )
    said += "; the target's forwards were recorded beforehand." if training["recorded"] else "."
    drawn = picture("ablations", "Chain tau and agreement without memory of each variant")
    return page([drawn, ablations_table(document["rows"]), said], document)


def coins_table(documents: Documents) -> str:
    if "coins" not in documents:
        return ""
    lines = [
        [
            f"{row['temperature']}, trees of {row['trees']}",
            f"{row['plain']:.2f}",
            f"{row['coins']:.2f}",
            with_interval(row, "gain", "{:+.1%}"),
        ]
        for row in documents["coins"]["rows"]
    ]
    said = f"{documents['coins']['rows'][0]['answers']} answers."
    return page([table(["temperature", "tau", "knowing the coins", "gain"], lines), said], documents["coins"])


def single_device_table(documents: Documents) -> str:
    engines = ("single_device", "single_device-onnx", "single_device-llama")
    names = [name for name in engines if name in documents]
    if not names:
        return ""
    drawn = picture("speed", "Tokens per second over plain decoding")
    return "\n\n".join([drawn, *(one_device(documents[name]) for name in names)])


def one_device(document: Mapping[str, Any]) -> str:
    """The table of one engine."""
    lines = [
        [
            row["name"],
            f"{row['tokens_per_second']:.1f}",
            with_interval(row, "speedup", "{:.2f}"),
            *(["", ""] if row.get("calls") is None else [f"{row['calls']:.1f}", f"{row['drafting']:.0%}"]),
        ]
        for row in document["rows"]
    ]
    pace = document["fixed"]
    said = f"The fixed pace: depth {pace['depth']}, {pace['breadth']} a level, {pace['nodes']} nodes; "
    pace = document["bounds"]
    said += f"by measure at most depth {pace['depth']}, {pace['breadth']} a level, {pace['nodes']} nodes"
    if (pace := document.get("app")) is not None:
        said += f", in the app {pace['depth']}, {pace['breadth']} and {pace['nodes']}"
    said += ". "
    said += f"{document['rows'][0]['prompts']} prompts."
    if others := [row for row in document["rows"] if row.get("alike", row["prompts"]) < row["prompts"]]:
        alike = ", ".join(f"{row['name']} {row['alike']}" for row in others)
        said += f" Answers that are the same as those of plain decoding to the last token, of as many: {alike}."
    head = f"**{document.get('engine', 'PyTorch')}**"
    shown = table(["way", "tokens/s", "over plain", "drafter calls a round", "time in drafts"], lines)
    return page([head, shown, said], document)


def second_stage_table(documents: Documents) -> str:
    if "second_stage" not in documents:
        return ""
    document = documents["second_stage"]
    lines = [
        [
            row["stage"],
            f"{row['tokens_per_second']:.1f}",
            with_interval(row, "speedup", "{:.2f}"),
            f"{row['tokens_per_step']:.2f}",
        ]
        for row in document["rows"]
    ]
    return page([table(["second stage", "tokens/s", "over none", "tokens a step"], lines)], document)


def draft_step_table(documents: Documents) -> str:
    if "draft_step" not in documents:
        return ""
    document = documents["draft_step"]
    found = steps(document["rows"])
    ways, floor = list(found[0].milliseconds), found[0].floor is not None
    lines = [
        [times(step.rows), *(f"{step.milliseconds[way]:.2f} ms" for way in ways)]
        + ([f"{step.floor:.2f} ms"] if floor else [])
        for step in found
    ]
    head = ["", *ways, *([f"bandwidth floor of {ways[0]}"] if floor else [])]
    return page([picture("draft_step", "Milliseconds of a draft step"), table(head, lines)], document)


def draft_step_8b_table(documents: Documents) -> str:
    if "draft_step-8b" not in documents:
        return ""
    document = documents["draft_step-8b"]
    lines = [
        [
            str(row["first_layers"]),
            times(row["rows"]),
            row["scheme"],
            f"{row['ms']:.1f} ms",
            f"{row['floor_ms']:.1f} ms",
            f"{row['times_floor']:.2f}",
        ]
        for row in document["rows"]
    ]
    return page([table(["first layers", "", "scheme", "a step", "its floor", "times the floor"], lines)], document)


TABLES: dict[str, Callable[[Documents], str]] = {
    "figures": lambda documents: figures(documents) if documents else "",
    "acceptance": acceptance_table,
    "comparison": comparison_table,
    "offline": offline_table,
    "ablations": _ablations,
    "coins": coins_table,
    "single_device": single_device_table,
    "second_stage": second_stage_table,
    "learning": learning_table,
    "learning_cost": learning_cost_table,
    "server_learning": server_learning_table,
    "topics": topics_table,
    "born": born_table,
    "first_use": first_use_table,
    "draft_step": draft_step_table,
    "answers": answers_table,
    "retrieval": retrieval_table,
    "draft_step-8b": draft_step_8b_table,
    "network": lambda documents: network_table(documents["network"]) if "network" in documents else "",
    "equals": lambda documents: equals_table(documents["equals"]) if "equals" in documents else "",
    "withdrawn": lambda documents: withdrawn_table(documents["withdrawn"]) if "withdrawn" in documents else "",
    "exactness": exactness_table,
    "handover": handover_table,
    "chaos": chaos_table,
    "clients": clients_table,
    "startup": startup_table,
    "installed": installed_table,
    "service": service_table,
    "service-openai": service_rounds_table,
    "overload": overload_table,
    "hostile": hostile_table,
    "churn": churn_table,
    "shell": shell_table,
    "screen": screen_table,
    "long_conversations": long_conversations_table,
    "search": search_table,
    "archive": archive_table,
}
"""The tables by the name in the marker."""


def _tau(row: Row | None) -> str:
    return with_interval(row, "tau", "{:.2f}") if row else "–"


def _percent(row: Row | None) -> str:
    """A share with its interval."""
    return with_interval(row, "share", "{:.1%}") if row else "–"


def _millions(parameters: int | None) -> str:
    return "–" if not parameters else f"{parameters / 1e6:.1f}M"


def _or_dash(value: int | None) -> str:
    return f"{value:,}" if value else "–"


def _training(row: Row) -> str:
    steps = row.get("steps")
    return f"{steps:,} steps, {row['seconds']:,.0f} s" if steps else "–"
