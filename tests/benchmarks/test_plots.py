"""Plots and tables say what the JSON says, and nothing where there is none."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import headlines
from benchmarks.app_tables import DOORS
from benchmarks.pair import pair_of
from benchmarks.plots import PLOTS, main
from benchmarks.results import COMMANDS, PAGE, TABLES, fill, read

MACHINE = {"processor": "", "cores": 3, "system": "Plan 9", "torch": "2.13.0+cpu"}


def tau_row(name: str, tau: float, **more) -> dict:
    row = {"drafter": name, "tau": tau, "ci95": [tau - 0.25, tau + 0.25], "by_depth": [0.5, 0.75], "prompts": 4}
    return {**row, "depth": 8, "temperature": 0.0, "tree": "deterministic", **more}


def offline_row(name: str, shares: dict[int, float], right: int) -> dict:
    windows = [
        {"staleness": stale, "share": share, "ci95": [share - 0.1, share + 0.1], "tokens": 1000 + stale}
        for stale, share in shares.items()
    ]
    answered = {"right": right, "questions": 120, "share": right / 120, "ci95": [0.01, 0.02]}
    return {"drafter": name, "agreement": windows, "everyday": answered}


def answered(id: str, fault: str | None, mode: str = "edge", **others: str) -> dict:
    return {"id": id, "mode": mode, "fault": fault, **others}


def variant(name: str, change: str, tau: float, cpu: float | None) -> dict:
    row = {"variant": name, "change": change, "chain_tau": tau, "agreement": [0.875, 0.5], "divergence": 0.25}
    return {**row, "alone": 0.625, "trained_parameters": 3_840_000, "steps": 1200, "seconds": 9.0, "cpu_seconds": cpu}


def compared(name: str, tau: float, **more) -> dict:
    row = {"drafter": name, "trained_parameters": 3_250_000, "step_parameters": 10_900_000, "bytes_per_token": 272}
    row |= {"tau": tau, "ci95": [tau - 0.125, tau + 0.125], "chain_tau": 4.5, "rate": 0.0025, "start": "copied"}
    row |= {"steps": [400, 650], "flat": [True, False], "call_ms": 5.25, "draft_ms": 42.0, "drafting": 0.75}
    return {**row, **more}


def speed_row(name: str, speedup: float) -> dict:
    interval = [speedup - 0.125, speedup + 0.125]
    return {"name": name, "tokens_per_second": 100 * speedup, "speedup": speedup, "ci95": interval, "prompts": 7}


def network_row(mode: str, rate: float, **more) -> dict:
    row = {"profile": "lan", "mode": mode, "paced_ms": 0.0, "tokens_per_second": rate, "ci95": [rate - 1, rate + 1]}
    row |= {"prompts": 8, "tokens": 400, "passes_per_100_tokens": 12.5, "tau": 8.0, "chose": {mode: 8}}
    row |= {"bytes_up": 61.0, "bytes_down": 987.0, "first_drafted_seconds": 0.0625, "first_verified_seconds": 0.25}
    return {**row, "unverified_tokens": 0, "failed": 0, **more}


def dimmed(shown: int, confirmed: int, withdrawn: int) -> dict:
    made = {"shown": shown, "confirmed": confirmed, "withdrawn": withdrawn, "share": None, "ci95": None}
    decided = confirmed + withdrawn
    return {**made, "share": withdrawn / decided, "ci95": [0.01, 0.25]} if decided else made


def started(program: str, **seconds: float) -> dict:
    medians = {f"{name}_median": value for name, value in seconds.items()}
    return {"program": program, "repeats": 7, **medians, **{f"{name}_fastest": 0.0625 for name in seconds}}


def loaded(messages: int, stall: float) -> dict:
    part = {"seconds": 2.0, "cpu_per_second": 0.25, "stall_ms": stall, "stall_cpu_ms": 7.0, "stalls_over_50_ms": 3}
    names = ("open", "up", "down", "idle")
    return {
        "messages": messages,
        "open_ms": 99.0,
        **dict.fromkeys(names, part),
        "stream": {**part, "stall_ms": 2 * stall},
    }


TRAINING = {"learnt": 980, "unseen": 20, "recorded": True, "steps": 1200, "rows": 16, "row": 256, "rate": 3e-3}
SPREAD = {"p50": 0.25, "p95": 0.5, "most": 1.0}
DOCUMENTS = {
    "acceptance": {
        "machine": MACHINE,
        "rows": [
            tau_row("moa", 5.5, trained_parameters=3_840_000, bytes_per_token=528),
            tau_row("eagle2", 4.5, trained_parameters=3_840_000, bytes_per_token=768, steps=1200, seconds=800.0),
            tau_row("prompt-lookup", 1.25, trained_parameters=0, bytes_per_token=0),
            tau_row("moa", 4.75, temperature=0.8, tree="sampled"),
        ],
    },
    "acceptance-deep": {
        "machine": MACHINE,
        "rows": [tau_row("moa", 6.25, depth=16), tau_row("moa", 4.125, depth=16, temperature=1.0)],
    },
    "acceptance-shipped": {"machine": MACHINE, "rows": [tau_row("moa", 5.75)]},
    "acceptance-shipped-deep": {"machine": MACHINE, "rows": [tau_row("moa", 6.5, depth=16)]},
    "acceptance-equal-time": {
        "machine": MACHINE,
        "rows": [tau_row("moa", 5.5), tau_row("eagle2", 5.0, steps=2400, seconds=1600.0)],
    },
    "comparison": {
        "machine": MACHINE,
        "plan": {
            "conversations": 2000,
            "rows": 8,
            "row": 384,
            "rates": [0.001, 0.0025],
            "trial": 60,
            "patience": {"bound": 500, "fall": 150},
            "seeds": [1, 2],
            "limit": 100,
        },
        "rows": [
            compared("moa", 6.5, seeds={"1": 6.25, "2": 6.75}, calls=8.0, gflop=0.5),
            compared("eagle3", 5.25, seeds={"1": 5.125, "2": 5.375}, calls=8.0, gflop=0.75, start="random"),
            compared("layer-skip", 2.5, seeds={}, rate=None, start=None, steps=[], flat=[], bytes_per_token=0),
        ],
        "shipped": {
            "drafter": "shipped",
            "calls": 8.0,
            "call_ms": 1.25,
            "draft_ms": 10,
            "drafting": 0.5,
            "gflop": None,
        },
    },
    "offline": {
        "machine": MACHINE,
        "rows": [
            offline_row("moa", {1: 0.9, 16: 0.8, 64: 0.7, 256: 0.6}, 60),
            offline_row("independent", {1: 0.5, 16: 0.5, 64: 0.5}, 30),
        ],
    },
    "ablations": {
        "machine": MACHINE,
        "training": TRAINING,
        "rows": [variant("baseline", "baseline", 6.5, 1080.0), variant("no-lsa", "no layer self-attention", 6.0, None)],
    },
    "single_device": {
        "machine": MACHINE,
        "fixed": {"depth": 4, "breadth": 2, "nodes": 8},
        "bounds": {"depth": 24, "breadth": 2, "nodes": 32},
        "rows": [speed_row("plain", 1.0), speed_row("outrider", 1.75)],
    },
    "second_stage": {
        "machine": MACHINE,
        "rows": [
            {"stage": "off", "tokens_per_second": 400, "speedup": 1.0, "ci95": [1.0, 1.0], "tokens_per_step": 1.0}
        ],
    },
    "draft_step": {
        "machine": MACHINE,
        "rows": [
            {"rows": 1, "scheme": "int8", "ms": 0.875, "float_ms": 3.5, "floor_ms": 0.375},
            {"rows": 1, "scheme": "nbits8", "ms": 0.625, "float_ms": 3.5, "floor_ms": 0.5},
            {"rows": 8, "scheme": "int8", "ms": 1.5, "float_ms": 5.25, "floor_ms": 0.375},
            {"rows": 8, "scheme": "nbits8", "ms": 1.75, "float_ms": 5.25, "floor_ms": 0.5},
        ],
    },
    "network": {
        "machine": MACHINE,
        "plan": {"limit": 8, "max_tokens": 160},
        "rows": [
            network_row("edge", 90.0),
            network_row("plain", 45.0, first_drafted_seconds=None),
            network_row("auto", 81.0, chose={"edge": 7, "hosted": 1}),
            network_row("chain-4", 60.0),
            network_row("chain-8", 75.0),
            network_row("eagle-2", 50.0, tau=5.0),
            network_row("moa-float", 60.0, tau=7.5),
            network_row("edge", 9.0, profile="train", paced_ms=25.0, unverified_tokens=17, failed=1),
            network_row("auto", 100.0, profile="train", paced_ms=25.0, unverified_tokens=300),
        ],
    },
    "equals": {
        "machine": MACHINE,
        "plan": {"limit": 8, "max_tokens": 160},
        "rows": [
            network_row("eagle-2", 50.0, tau=5.0, bytes_down=250.0, nodes=60.0),
            network_row("moa-float", 60.0, tau=7.5, nodes=60.0),
            network_row("eagle-2", 20.0, profile="4g", tau=1.25, bytes_down=250.0, nodes=0.5),
            network_row("moa-float", 10.0, profile="4g", tau=7.5, nodes=60.0),
            network_row("moa-float", 9.0, profile="train", tau=7.5, nodes=60.0),
        ],
    },
    "withdrawn": {
        "machine": MACHINE,
        "plan": {"limit": 40, "max_tokens": 160},
        "rows": [
            network_row("edge", 90.0, profile="4g", dimmed=dimmed(1000, 760, 40)),
            network_row("hosted", 95.0, profile="4g", dimmed=dimmed(0, 0, 0)),
            network_row("auto", 95.0, profile="4g", dimmed=dimmed(500, 475, 25)),
        ],
    },
    "exactness": {
        "machine": MACHINE,
        "rows": [{"check": "greedy: drafts = generate", "equal": 9, "of": 9, "tokens": 88}],
    },
    "handover": {
        "machine": MACHINE,
        "rows": [
            {"fault": fault, "line": line, "seconds": seconds}
            for fault, line, seconds in (
                ("kill", "loopback", 0.25),
                ("kill", "loopback", 0.5),
                ("kill", "loopback", 0.125),
                ("silence", "4g", 2.5),
            )
        ],
    },
    "learning": {
        "machine": MACHINE,
        "rows": [
            {
                "requests": after,
                "cpu_seconds": {"correction": 1.0, "layers": 20.0 + seed},
                **{
                    way: {"tau": tau + seed, "first": 0.5}
                    for way, tau in (("as it came", 2.0), ("correction", 2.25), ("layers", 2.75), ("oracle", 7.0))
                },
            }
            for after in (100, 200)
            for seed in (0, 1)
        ],
        "labels": {
            name: {"tau": 2.5, "first": 0.5, "behind": [0.125, 0.0625, 0.25], "seconds": 9.0}
            for name in ("layers, tokens", "layers")
        },
        "wire": {"bytes_down": 700.0, "text": 150.0, "rejected": 250.0},
        "besides": {
            "ways": {
                way: {"other": {"tau": tau, "first": 0.5}, "alone": {"tau": 1.5, "first": 0.25}, "alone_whole": 0.125}
                for way, tau in (("as it came", 2.0), ("layers", 2.5))
            },
            "other_gain": [0.25, 0.125, 0.5],
        },
        "datastore": {"on": [{"requests": 0, "tau": 3.5}], "off": [{"requests": 0, "tau": 3.25}]},
        "lines": {"4g": {way: {"p50": 1.25, "tokens_per_second": 20.0} for way in ("as it came", "layers")}},
    },
    "learning_cost": {
        "machine": MACHINE,
        "answers": 200,
        "tokens": 2000,
        "learning": {"seconds": 4.0, "cpu_seconds": 5.0, "peak_mb": 150.0},
        "deep": {"seconds": 60.0, "cpu_seconds": 64.0, "peak_mb": 1500.0},
        "chat": {"nobody learns": {"first_words": SPREAD, "end": SPREAD}},
        "start": {"nobody learns": SPREAD},
        "change": {"another graph": {"p50": 9.5, "p95": 10.0, "most": 12.5}},
    },
    "service": {
        "machine": MACHINE,
        "rows": [
            {
                "server": "Outrider, onnx",
                "clients": 16,
                "rounds": [
                    {
                        "tokens_per_second": 250.0,
                        "tokens_per_cpu_second": 125.0,
                        "first_ms": {"p50": 12.0, "p95": 40.0},
                        "gap_ms": {"p50": 4.0, "p95": 8.0},
                        "passes": 37.5,
                        "pieces": 12.5,
                        "refused": 1,
                        "failed": 0,
                        "same": 0.75,
                        "memory_mb": 150,
                    }
                ],
            }
        ],
    },
    "overload": {
        "machine": MACHINE,
        "capacity": 31.25,
        "clients": 16,
        "options": [],
        "rows": [
            {
                "load": 2.0,
                "rate": 62.5,
                "answered": 1875,
                "refused": 1750,
                "failed": 0,
                "first_seconds": [1.25, 2.5, 4.0],
                "whole_seconds": [2.25, 3.5, 5.0],
                "refusal_seconds": [0.0625, 0.125, 0.25],
                "retry_after": [3.0, 4.0, 5.0],
            }
        ],
    },
    "hostile": {
        "machine": MACHINE,
        "requests": 100_000,
        "seconds": 1800.0,
        "statuses": {"200": 40_000, "400": 60_000},
        "faults": [],
        "slowest_seconds": 12.5,
        "same_answer": True,
        "running_sessions": 0,
        "resident_bytes": [[10_000, 250 << 20], [100_000, 255 << 20]],
    },
    "churn": {
        "machine": MACHINE,
        "rate": 2.0,
        "warm_up": 5.0,
        "rows": [
            {
                "minute": minute,
                "rss_mb": 251.5,
                "threads": 12.5,
                "files": 14,
                "connections": 7,
                "sessions": 32,
                "answers": 300 * minute,
                "left": 90,
                "refused": 11,
                "failures": 0,
                "different": 0,
            }
            for minute in (1, 2, 5)
        ],
        "summary": {
            "wrong": [],
            "cores": 0.75,
            "rss_mb_per_hour": 0.25,
            "rss_mb_warm": 251.0,
            "rss_mb_end": 252.0,
            "rss_mb_before": 240.0,
            "rss_mb_after": 241.0,
        },
    },
    "server_learning": {
        "machine": MACHINE,
        "requests": 96,
        "held_out": 16,
        "rounds": [{"way": "nobody learns", "count": 9, "p50_ms": 4.5, "p95_ms": 9.25, "most_ms": 12.0}],
        "tau": {"before": 3.0, "after": 3.5},
        "published": {"before": 2.0, "after": 2.5, "low": 0.125, "high": 0.25},
        "change": {"rounds": 90, "most_ms": 31.0},
    },
    "topics": {
        "machine": MACHINE,
        "rows": [
            {
                "topic": "windows",
                **{way: {"tau": 2.5, "first": 0.5} for way in ("as it came", "one", "own", "other")},
                "own_over_one": [-0.125, -0.25, -0.0625],
            }
        ],
    },
    "born": {
        "machine": MACHINE,
        "rows": [
            {
                "target": "deep",
                "target_layers": 24,
                "way": way,
                "bytes": 6_250_000,
                "layers": 4,
                "scheme": "nbits4",
                "seconds": seconds,
                "tau": 3.25,
                "agreement": {"1": 0.75, "8": 0.5},
            }
            for way, seconds in (("born", 50.0), ("trained", None))
        ],
    },
    "first_use": {
        "machine": MACHINE,
        "line": "4g",
        "steps": [{"command": "outrider drafter fetch mine", "seconds": 2.5, "bytes": 6_250_000}],
        "tau": [3.25],
        "provenance": {"verified": 2020},
    },
    "chaos": {
        "machine": MACHINE,
        "rows": [
            {"run": 0, "faults": {"503": 2, "cut": 1}, "tokens": 70, "verified": 60, "violations": []},
            {"run": 1, "faults": {}, "tokens": 30, "verified": 30, "violations": ["lost"]},
            {"run": "all", "faults": {"503": 2, "cut": 1}, "tokens": 100, "verified": 90, "violations": 1},
        ],
    },
    "draft_step-8b": {
        "machine": MACHINE,
        "rows": [
            {"first_layers": 1, "rows": 1, "scheme": "nbits8", "ms": 31.25, "floor_ms": 20.5, "times_floor": 1.52}
        ],
    },
    "rephrased": {"machine": MACHINE, "rows": [answered("a", None), answered("b", "wrong")]},
    "everyday": {
        "machine": MACHINE,
        "rows": [
            answered("a", None),
            answered("b", None),
            answered("c", "wrong"),
            answered("a", None, "offline, no pages"),
        ],
    },
    "behaviour": {
        "machine": MACHINE,
        "rows": [answered("d", "wrong", "offline, no pages", set="off_topic"), answered("e", None, set="literals")],
    },
    "startup": {
        "machine": MACHINE,
        "versions": {"oterm": "0.26.1"},
        "rows": [
            started("outrider", frame=0.25, key=0.375),
            started("outrider, offline", frame=0.125, key=0.25),
            started("oterm", frame=2.5, key=2.75),
            started("outrider --version", end=0.0625),
            started("llm --version", end=1.5),
        ],
    },
    "installed": {
        "machine": MACHINE,
        "repeats": 3,
        "rows": [
            {
                "way": "server",
                "install_seconds": 61.0,
                "disk_mb": 1250.0,
                "first_ask_seconds": 2.5,
                "ask_seconds": 1.25,
                "chat": {"ready_seconds": 0.75, "answer_seconds": 1.5, "resident_mb": 300.0, "idle_cores": 0.0125},
                "serve": {"torch": {"ready_seconds": 4.5, "resident_mb": 600.0}},
            }
        ],
    },
    "shell": {
        "machine": MACHINE,
        "rows": [
            {
                "mode": "offline",
                "cold_seconds": 1.25,
                **{name: {"p50_ms": 50.25, "p95_ms": 90.5, "n": 30} for name in ("client", "zsh", "ghost")},
                "memory_mb": {"helper": 120, "all": 600},
            }
        ],
    },
    "screen": {"machine": MACHINE, "rows": [loaded(10, 20.0), loaded(1000, 40.0)]},
    "long_conversations": {
        "machine": MACHINE,
        "repeats": 3,
        "rows": [
            {"door": door, "messages": messages, "seconds": 0.125, "longest": 0.5, "before": before}
            for door in DOORS
            for messages, before in ((100, 7.25), (10_000, None))
        ],
    },
    "search": {
        "machine": MACHINE,
        "messages": 100_000,
        "bytes": 125_000_000,
        "rows": [
            {"kind": "one letter", "words": "d", "call": "find", "found": 9000, "median_ms": 8.5, "worst_ms": 11.5},
            {"kind": "one letter", "words": "t", "call": "search", "found": 99, "median_ms": 2.5, "worst_ms": 30.5},
        ],
    },
    "archive": {
        "machine": MACHINE,
        "messages": 10_000,
        **{f"{name} seconds": 1.5 for name in ("export md", "export html", "export json", "import", "import again")},
        **{f"{name} peak MB": 8.5 for name in ("export md", "export html", "export json", "import", "import again")},
        **{f"{name} MB": 12.5 for name in ("md", "html", "json")},
    },
}
"""Numbers that are easy to find again. They describe nothing real."""


@pytest.fixture
def docs(tmp_path) -> Path:
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(PAGE, tmp_path)
    return tmp_path


def put(docs: Path, *names: str) -> None:
    for name in names:
        (docs / "benchmarks" / f"{name}.json").write_text(json.dumps(DOCUMENTS[name]))


def texts(path: Path) -> list[str]:
    """The words of a plot. They are there only if text is kept as text."""
    words = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(word.itertext()).strip() for word in words]


def test_every_plot_is_drawn_and_says_what_was_measured(docs, capsys):
    put(docs, *DOCUMENTS)
    main([f"--docs={docs}"])
    assert capsys.readouterr().err == ""
    drawn = {path.stem: texts(path) for path in (docs / "benchmarks").glob("*.svg")}
    assert set(drawn) == set(PLOTS)
    for name, expected in {
        "tau": [
            "MoA",
            "EAGLE-2",
            "prompt lookup",
            "5.50",
            "4.50",
            "5.00",
            "1.25",
            "trained for as long",
            "trees of depth 8",
            "trees of depth 16",
            "6.25",
        ],
        "depth": ["MoA", "EAGLE-2", "prompt lookup", "depth in the draft tree"],
        "staleness": ["MoA", "independent", "16", "256"],
        "ablations": ["baseline", "no layer self-attention", "6.50", "6.00", "62.5%"],
        "speed": ["plain, 100/s", "outrider, 175/s", "1.75 x"],
        "comparison": ["MoA", "EAGLE-3.1", "6.50", "tokens per round, 95 % interval; a dot for each seed"],
        "service": ["Outrider, onnx", "clients at once", "first text of an answer, p95 in ms"],
        "learning": ["as it came", "correction", "layers", "tokens per round"],
        "draft_step": [
            "int8, 1 row",
            "nbits8, 8 rows",
            "float, 8 rows",
            "0.88 ms",
            "5.25 ms",
            "memory bandwidth: 0.38 ms",
        ],
        "network": [
            "the bundled target, unpaced",
            "forward passes paced to 25 ms",
            "lan",
            "train",
            "auto",
            "EAGLE-2 in float",
            "best fixed",
            "75% never checked",
        ],
    }.items():
        assert set(expected) <= set(drawn[name]), name
    assert "4.75" not in drawn["tau"]  # That was not greedy.
    assert "hosted" not in drawn["network"]  # That was not measured.
    assert all(path.stat().st_size < 60_000 for path in (docs / "benchmarks").glob("*.svg"))


def test_the_same_results_make_the_same_files(docs):
    put(docs, "acceptance", "offline")
    main([f"--docs={docs}"])
    files = [docs / "benchmarks.md", *sorted((docs / "benchmarks").glob("*.svg"))]
    before = [path.read_bytes() for path in files]
    main([f"--docs={docs}"])
    assert len(files) == 4 and before == [path.read_bytes() for path in files]


def test_what_is_missing_is_named_with_its_command(docs, capsys):
    main([f"--docs={docs}"])
    said = capsys.readouterr().err
    assert not list((docs / "benchmarks").glob("*.svg"))
    for plot in PLOTS.values():
        for name in (plot.needs, *plot.uses):
            assert COMMANDS[name] in said
    put(docs, "acceptance")
    main([f"--docs={docs}"])
    said = capsys.readouterr().err
    assert f"tau.svg lacks acceptance-equal-time.json, which this makes: {COMMANDS['acceptance-equal-time']}" in said
    assert {path.stem for path in (docs / "benchmarks").glob("*.svg")} == {"tau", "depth"}
    assert "trained for as long" not in texts(docs / "benchmarks/tau.svg")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "acceptance",
            [
                "| MoA | 3.8M | 528 | 5.50 (5.25 to 5.75) | 6.25 (6.00 to 6.50) | – | 5.50 (5.25 to 5.75) | – |",
                "| EAGLE-2 | 3.8M | 768 | 4.50 (4.25 to 4.75) | – | 1,200 steps, 800 s |"
                " 5.00 (4.75 to 5.25) | 2,400 steps, 1,600 s |",
                "| prompt lookup | – | – | 1.25 (1.00 to 1.50) | – | – | – | – |",
                "| MoA | 0.8 | sampled | 4.75 (4.50 to 5.00) |",
            ],
        ),
        (
            "offline",
            [
                "| MoA | 90.0% (80.0% to 100.0%) | 80.0% (70.0% to 90.0%) | 70.0% (60.0% to 80.0%) |"
                " 60.0% (50.0% to 70.0%) | 60 of 120: 50.0% (1.0% to 2.0%) |",
                "Tokens judged: 1,001 at 1, 1,016 at 16, 1,064 at 64, 1,256 at 256.",
            ],
        ),
        (
            "ablations",
            [
                "| baseline | 6.50 | 87.5%, 50.0% | 0.250 | 62.5% | 3.8M | 1,200 | 1,080 |",
                "| no layer self-attention | 6.00 | 87.5%, 50.0% | 0.250 | 62.5% | 3.8M | 1,200 | – |",
            ],
        ),
        (
            "single_device",
            [
                "| outrider | 175.0 | 1.75 (1.62 to 1.88) |",
                "depth 4, 2 a level, 8 nodes; by measure at most depth 24, 2 a level, 32 nodes. 7 prompts.",
            ],
        ),
        ("second_stage", ["| off | 400.0 | 1.00 (1.00 to 1.00) | 1.00 |"]),
        (
            "overload",
            [
                "Capacity: 31.2 answers a second, for 16 clients.",
                "| 2 times | 62.5 | 1,875 | 1,750 | 0 | 1.25, 2.50, 4.00 s | 2.25, 3.50, 5.00 s | 0.06, 0.12, 0.25 s |",
            ],
        ),
        (
            "hostile",
            ["| 100,000 | 0 | 12.5 s | yes | 0 | 250 and 255 MB |", "What they got: 200: 40,000, 400: 60,000."],
        ),
        (
            "churn",
            [
                "| 5 | 251.5 | 12.5 | 14 | 7 | 32 | 1,500 | 90 | 11 | 0 | 0 |",
                "2 visits a second; the server took 0.75 cores. Memory after 5 minutes and at the end: 251 MB and",
                "+0.2 MB an hour. At rest, before the first visit and after the last: 240 MB and 241 MB.",
                "What was not as it should be: nothing.",
            ],
        ),
        (
            "draft_step",
            [
                "|  | int8 | nbits8 | float | bandwidth floor of int8 |",
                "| 8 rows | 1.50 ms | 1.75 ms | 5.25 ms | 0.38 ms |",
            ],
        ),
        (
            "answers",
            [
                "| questions | target with drafts | drafter, no pages |",
                "| everyday: a right command | 66.7% (2 of 3) | 100.0% (1 of 1) |",
                "| every second of them, in other words | 50.0% (1 of 2) |  |",
                "| off topic: no command |  | 0.0% (0 of 1) |",
            ],
        ),
        ("exactness", ["| greedy: drafts = generate | 9 of 9 | 88 |"]),
        (
            "handover",
            [
                "| the verifier is killed (SIGKILL) | loopback | 0.250 s | 0.500 s | 3 |",
                "| the line swallows everything | 4g | 2.500 s | 2.500 s | 1 |",
            ],
        ),
        (
            "learning",
            [
                "| 100 | 2.50 (2.00 to 3.00) | 2.75 (2.25 to 3.25) | 3.25 (2.75 to 3.75) | 7.50 (7.00 to 8.00) |",
                "| 1 s and 20 s |",
                "| layers | 2.50 (50.0%) | 25.0% | 12.5% | 1.25 s, 20/s |",
                "| layers, tokens | 2.50 | 50.0% | +12.5% (+6.2% to +25.0%) |",
                "A round brings 300 bytes, with what the target might have said 700",
                "gain +25.0% (95 %: +12.5% to +50.0%)",
                "| 0 | 3.25 | 3.50 |",
            ],
        ),
        ("topics", ["| windows | 2.50 (50.0%) |", "| -12.5% (-25.0% to -6.2%) |"]),
        (
            "learning_cost",
            [
                "60 s, 64 s of processor time and 1,500 MB: 32 s per 1,000 tokens",
                "| nobody learns | 0.25 s (95 %: 0.50) | 0.25 s (95 %: 0.50) | 0.25 s (95 %: 0.50) |",
                "another graph 9.5 ms (most 12.5)",
            ],
        ),
        (
            "server_learning",
            ["| nobody learns | 4.5 ms | 9.2 ms | 12 ms | 9 |", "of 90 rounds around the change took 31 ms"],
        ),
        (
            "service",
            ["| Outrider, onnx | 250 |", "| 12 and 40 |", "| 12.5, 150 MB, 1 and 0, 75.0% |", "| 38 |"],
        ),
        ("born", ["| deep, 24 layers | born | 6.2 MB | 4, nbits4 | 50 s | 3.25 | 75.0% | 50.0% |", "| trained |"]),
        ("first_use", ["| `outrider drafter fetch mine` | 2.5 s | 6.25 MB |"]),
        ("chaos", ["| 2 | 3 | 100 | 90 | 1 |"]),
        ("draft_step-8b", ["| 1 | 1 row | nbits8 | 31.2 ms | 20.5 ms | 1.52 |"]),
        (
            "equals",
            [
                "| lan | 60.0 (59 to 61) | 50.0 (49 to 51) | 1.20 | 60 and 60 | 7.50 and 5.00 | 1.50 | 987 and 250 |",
                "| 4g | 10.0 (9 to 11) | 20.0 (19 to 21) | 0.50 | 60 and 0 | 7.50 and 1.25 | – |",
                "8 prompts",
            ],
        ),
        (
            "withdrawn",
            [
                "| 4g | 5.0% (1.0% to 25.0%) of 800; 20% of 1,000 never decided | nothing dimmed |"
                " 5.0% (1.0% to 25.0%) of 500 |",
                "| 4g | 90.0 (89 to 91) | 95.0 (94 to 96) | 95.0 (94 to 96) |",
            ],
        ),
        (
            "startup",
            [
                "| outrider | 0.25, 0.06 | 0.38, 0.06 | – |",
                "| oterm (0.26.1) | 2.50, 0.06 | 2.75, 0.06 | – |",
                "| llm --version | – | – | 1.50, 0.06 |",
                "the median of 7",
            ],
        ),
        (
            "installed",
            [
                "| server | 61 s, 1,250 MB | 2.5 s, 1.2 s | 0.8 s, 1.5 s | 300 MB, 1.2 % of a core |",
                "| server | torch | 4.5 s | 600 MB |",
            ],
        ),
        (
            "shell",
            [
                "| mode | first answer | the client | zsh | ghost text, a key | helper | with its verifier |",
                "| offline | 1.2 s | 50, 90 ms | 50, 90 ms | 50, 90 ms | 120 MB | 600 MB |",
                "95th percentile of 30 answers",
            ],
        ),
        (
            "screen",
            [
                "| 10 | open it, 99 ms | 20 ms | 7 ms | 3 | 25% |",
                "| 1,000 | stream an answer | 80 ms | 7 ms | 3 | 25% |",
            ],
        ),
        (
            "long_conversations",
            ["| the chat, from Enter | before | 7.25 | – |", "| the chat, from Enter | now | 0.12 | 0.12 |"],
        ),
        ("search", ["| one letter | `d` | 9,000 | 8.5 ms | 30.5 ms |", "100,000 messages, 125 MB."]),
        ("archive", ["| export md | 1.5 | 12.5 | 8.5 |", "| import again | 1.5 | 12.5 | 8.5 |", "10,000 messages"]),
        (
            "network",
            [
                "| line | edge | auto | plain | EAGLE-2 in float | MoA in float | best fixed |",
                "| lan | 90.0 (89 to 91) | 81.0 (80 to 82) | 45.0 (44 to 46) | 50.0 (49 to 51) | 60.0 (59 to 61) |"
                " chain-8: 75.0 (74 to 76) |",
                "| lan | 0.90 | edge, hosted | 1.20 | 1.20 | 1.50 | 1.80 |",
                "| lan | 12; 61, 987; 0.06, 0.25 | 12; 61, 987; 0.06, 0.25 | 12; 61, 987; –, 0.25 |",
                "| train | 9.0 (8 to 10), 4% never checked | 100.0 (99 to 101), 75% never checked | – |",
                "| train | 2.90 | auto | – | – |",
                "17 of 400 tokens drafted alone, 1 of 8 answers broken off",
                "8 prompts, answers of at most 160 tokens.",
            ],
        ),
    ],
)
def test_tables_say_what_was_measured_and_on_what(name, lines):
    table = TABLES[name](DOCUMENTS)
    for line in lines:
        assert line in table
    assert "Measured on 3 cores, no GPU, Plan 9, torch 2.13.0+cpu." in table
    assert TABLES[name]({}) == ""


def test_figures_of_an_older_pair_say_so(docs):
    former = "These figures are of the pair that was bundled before."
    for pair, told in ((pair_of(), False), ("another", True)):
        for name in ("exactness", "search"):
            document = {**DOCUMENTS[name], "machine": {**MACHINE, "pair": pair}}
            (docs / "benchmarks" / f"{name}.json").write_text(json.dumps(document))
        documents = read(docs / "benchmarks")
        assert (former in TABLES["exactness"](documents)) == told
        assert ("(the pair before this one)" in headlines.figures(documents, ["exactness"])) == told
        assert former not in TABLES["search"](documents), "a search does not depend on the pair"


def test_a_floor_that_is_not_known_is_not_drawn(docs):
    rows = [{key: value for key, value in row.items() if key != "floor_ms"} for row in DOCUMENTS["draft_step"]["rows"]]
    document = {**DOCUMENTS["draft_step"], "rows": rows}
    assert "floor" not in TABLES["draft_step"]({"draft_step": document})
    (docs / "benchmarks/draft_step.json").write_text(json.dumps(document))
    main([f"--docs={docs}"])
    assert not [text for text in texts(docs / "benchmarks/draft_step.svg") if "bandwidth" in text]


def test_the_page_takes_tables_in_and_gives_them_up_again():
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- results: (\S+) -->", page)) == sorted(TABLES)
    empty = fill(page, {})
    full = fill(empty, DOCUMENTS)
    assert all(TABLES[name](DOCUMENTS) in full for name in TABLES)
    assert fill(full, DOCUMENTS) == full and fill(full, {}) == empty
    with pytest.raises(KeyError):
        fill("<!-- results: horoscope -->\n<!-- end -->", {})


def test_the_page_in_the_repository_has_the_tables_of_the_results_beside_it():
    page = PAGE.read_text(encoding="utf-8")
    assert fill(page, read()) == page, "run: python -m benchmarks.plots"
    for name, command in COMMANDS.items():
        # What was not measured yet has no file to write to.
        measured = (PAGE.parent / "benchmarks" / f"{name}.json").exists()
        assert (command if measured else command.partition(" --json")[0]) in page


def test_the_figures_in_short_tell_what_was_measured_and_nothing_else(tmp_path):
    docs = tmp_path / "docs"
    (docs / "benchmarks").mkdir(parents=True)
    shutil.copy(PAGE, docs)
    put(docs, "startup", "network", "everyday", "rephrased", "withdrawn")
    main([f"--docs={docs}"])
    page = (docs / "benchmarks.md").read_text()
    assert "| 66.7% (2 of 3); 50.0% (1 of 2) | `python -m benchmarks.everyday` |" in page
    assert "| 4G: `auto` 5.0%, edge 5.0% |" in page and "8 prompts" in page
    assert "outrider 0.25 and 0.38 s, oterm 2.50 and 2.75 s | `python -m benchmarks.startup" in page
    assert "| `--version` | outrider 0.06 s, llm 1.50 s |  |" in page


def test_every_figure_in_short_is_made_of_its_document():
    said = headlines.figures(DOCUMENTS)
    assert "99 ms to open; longest stall 80 ms on the clock, 7 ms of its own work; 25% of a core" in said
    assert "median 5.5 ms, worst 30 ms" in said
    assert "depth 8: 5.75 (5.50 to 6.00); depth 16: 6.50 (6.25 to 6.75) |" in said
    assert (
        "on equal terms, after at most 650 steps, 100 held-out pages, 2 trainings of each | MoA 6.50 (6.38 to" in said
    )
    assert "| names and numbers letter by letter: 100.0% (1 of 1)" in said
    assert "verifier killed, loopback: 0.25 s; line silent, 4g: 2.50 s" in said


def test_there_is_a_line_for_each_figure_that_is_recorded():
    said = headlines.figures(read())
    assert {name.partition(",")[0] for name in headlines.LINES} <= set(COMMANDS)
    assert said.count("\n") == 1 + sum(name.partition(",")[0] in read() for name in headlines.LINES)
