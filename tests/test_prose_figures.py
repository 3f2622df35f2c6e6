"""Figures that stand in sentences of the documents are those of the weights, the code and the recorded results."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from safetensors import safe_open

from app.config import Settings
from benchmarks.answer_tables import share
from benchmarks.network_table import FEW
from benchmarks.results import read
from benchmarks.standings import GOALS, standings
from models.config import read_config
from tests.support.serving import REPOSITORY

TARGET = REPOSITORY / "remote/verifier/pretrained/shell-guide"
DRAFTER = REPOSITORY / "drafter/pretrained/shell-guide"
README, BENCHMARKS = "README.md", "docs/benchmarks.md"


def page(name: str) -> str:
    """With single spaces, so that a sentence is found wherever its line ends."""
    return " ".join((REPOSITORY / name).read_text(encoding="utf-8").split())


def sizes(path: Path) -> dict[str, int]:
    """Numbers in each tensor of a file of weights."""
    with safe_open(path, framework="np") as file:
        return {name: prod(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def taus(document: str) -> dict[str, Any]:
    """The greedy rows, by drafter."""
    return {row["drafter"]: row for row in read()[document]["rows"] if not row.get("temperature")}


def says(*names: str, text: str) -> None:
    for name in names:
        assert text in page(name), f"{name} does not say {text!r}"


def test_what_of_the_target_runs_on_the_device() -> None:
    target, config = sizes(TARGET / "model.safetensors"), read_config(DRAFTER)
    layers = config.first_layers + config.inference_layers
    assert (layers, config.target_layers, config.first_layers) == (4, 8, 3) and not config.layer_self_attention
    shared = [name for name in target if "layers" not in name]
    one = sum(size for name, size in target.items() if ".layers.0." in name)
    frozen = layers * one + sum(target[name] for name in shared)
    says(BENCHMARKS, "docs/drafter.md", text=f"{frozen / sum(target.values()):.0%}".replace("%", " %"))
    says(BENCHMARKS, text=f"{sum(target.values()) / 1e6:.1f}M parameters in 8 layers")
    device = sizes(DRAFTER / "model.safetensors")
    says(BENCHMARKS, text=f"The drafter has {sum(device.values()) / 1e6:.1f}M on the device")
    given = sum(size for name, size in device.items() if name.startswith(("first_layers", "target_layers")))
    learnt = sum(device.values()) - given - device["embedding.weight"] - device["norm.weight"]
    trained = taus("acceptance")["moa"]["trained_parameters"]
    says(
        BENCHMARKS,
        text=f"{trained / 1e6:.1f}M were learnt, {(trained - learnt) / 1e6:.1f}M of them on the verifier's side",
    )


def test_bytes_are_compared_at_equal_bits() -> None:
    """Each head and row has keys and values of so many bits a number, and two bytes of scale for each of both."""
    config = read_config(DRAFTER)
    head = config.target_head_size
    rows = (1 + config.inference_layers) * config.target_kv_heads
    eagle = config.hidden // head // 2

    def bytes_of(heads: int, bits: int) -> int:
        return heads * (2 * head * bits // 8 + 4)

    assert bytes_of(rows, 4) == taus("acceptance")["moa"]["bytes_per_token"] == 272
    assert bytes_of(rows, 8) == taus("acceptance")["moa-f2-n1"]["bytes_per_token"]
    eights, fours = (f"{bytes_of(eagle, bits)} against {bytes_of(rows, bits)}" for bits in (8, 4))
    says(BENCHMARKS, text=f"{eights.replace(' against', ' bytes against')} in 8 bits, {fours} in 4")
    assert bytes_of(eagle, 4) / bytes_of(rows, 4) == pytest.approx(0.75)
    says(BENCHMARKS, text="at equal bits EAGLE sends a quarter less")


def test_the_lead_over_eagle_in_the_papers_shape() -> None:
    equal, timed = taus("acceptance"), taus("acceptance-equal-time")
    lead = equal["moa-f0-n1"]["tau"] / equal["eagle2"]["tau"], equal["moa-f0-n1"]["tau"] / timed["eagle2"]["tau"]
    assert lead[1] == pytest.approx(1.12, abs=0.005)
    says(BENCHMARKS, text=f"at equal steps, {lead[0]:.2f} times; against {timed['eagle2']['tau']:.2f} at equal time")
    grown = f"from {equal['independent']['tau']:.2f} to {timed['independent']['tau']:.2f}"
    says(BENCHMARKS, text=f"From 700 to 1,190 steps the independent model goes {grown}")
    says(BENCHMARKS, text=f"EAGLE-2 gains {timed['eagle2']['tau'] - equal['eagle2']['tau']:.2f} in 200 steps")
    says(BENCHMARKS, text=f"MoA gains {equal['moa']['tau'] - equal['moa-f2-n1']['tau']:.2f} from 700 to 1,700")
    assert equal["eagle3"]["tau"] == pytest.approx(3.88, abs=0.005)


def test_the_lead_over_eagle_on_equal_terms() -> None:
    rows = {row["drafter"]: row for row in read()["comparison"]["rows"]}
    moa, after, eagle, layers, block = (rows[name] for name in ("moa", "eagle2-f", "eagle2", "layer-skip", "block"))
    lead = [f"{moa['tau'] / other['tau']:.2f}" for other in (after, eagle)]
    says(BENCHMARKS, text=f"MoA gains {lead[0]} times what EAGLE-2 does after the same layers of the target")
    says(
        BENCHMARKS,
        text=f"**MoA gains {lead[0]} times what EAGLE-2 does after the same first layers**, and {lead[1]} times",
    )
    assert min(moa["seeds"].values()) > max(*after["seeds"].values(), *eagle["seeds"].values())
    gains = [f"{row['tau'] - layers['tau']:.1f}" for row in (after, moa)]
    says(
        BENCHMARKS,
        text=f"gain {layers['tau']:.2f}. EAGLE-2 from the same layers gains no more than that, with its features",
    )
    says(BENCHMARKS, text=f"the first layers gains {gains[0]} more, MoA {gains[1]} more")
    assert abs(eagle["tau"] - layers["tau"]) < 0.05
    each = [f"{row['tau'] / row['gflop']:.0f}" for row in (block, moa)]
    says(
        BENCHMARKS, text=f"So it gains {block['tau']:.2f}, but {each[0]} tokens for a GFLOP, where MoA gains {each[1]}"
    )
    seconds = [f"{row['tau'] * row['drafting'] / row['draft_ms'] * 1000:.0f}" for row in (block, moa)]
    says(BENCHMARKS, text=f"is {seconds[0]} tokens a second for the block and {seconds[1]} for MoA")
    assert not any(flat for row in rows.values() for flat in row["flat"])
    assert all(row["rate"] in (None, 0.006) for row in rows.values()), "the highest of the three"


def test_the_lead_over_eagle_over_the_lines() -> None:
    found = standings(read()["equals"]["rows"])
    speed = [each.ratio("moa-float", "eagle-2") for each in found]
    says(BENCHMARKS, text=f"**MoA is faster on every line**, {min(speed):.1f} to {max(speed):.1f} times")
    assert sum(ratio > GOALS["speed"] for ratio in speed) == 4, "as the page says"
    drafting = [each for each in found if each.rows["eagle-2"]["nodes"] >= FEW]
    taus = [each.tau_ratio("moa-float", "eagle-2") for each in drafting]
    says(BENCHMARKS, text=f"In tau it is ahead by less, {min(taus):.1f} to {max(taus):.1f} times")
    assert max(taus) < GOALS["tau"]
    assert {each.profile for each in found} - {each.profile for each in drafting} == {"lan", "fibre"}


def test_which_mode_is_the_fastest() -> None:
    found = {(each.profile, each.paced_ms): each for each in standings(read()["network"]["rows"])}
    for (profile, paced_ms), each in found.items():
        edge, hosted = each.rows["edge"], each.rows["hosted"]
        assert each.rate("hosted") > each.rate("edge") or hosted["ci95"][1] > edge["tokens_per_second"], profile
        slower = profile in ("4g", "hotel-wifi", "3g", "satellite", "train") and not paced_ms
        slower |= profile in ("3g", "satellite") and paced_ms == 25
        assert (each.rate("edge") < each.rate("plain")) is slower, (profile, paced_ms)
        alike = each.ratio("moa-float", "eagle-2")
        assert alike is None or alike < 1.84, "the page says that it falls short on every line"
    four, space = found["4g", 0.0], found["satellite", 0.0]
    rates = [round(each.rate(mode)) for each in (four, space) for mode in ("edge", "plain")]
    text = "{} against {} tokens a second on 4G, {} against {} over a satellite".format(*rates)
    says(BENCHMARKS, text=text)
    assert found["train", 0.0].unchecked("auto") > 0.5


def test_the_bounds_of_trees() -> None:
    settings = Settings()
    says(BENCHMARKS, text=f"The app's trees have at most {settings.depth} levels and {settings.nodes} nodes")


def test_the_run_of_random_faults() -> None:
    runs = [row for row in read()["chaos"]["rows"] if row["run"] != "all"]
    told = {name: sum(row[name] for row in runs) for name in ("turns", "tokens", "verified")}
    faults = sum(sum(row["faults"].values()) for row in runs)
    text = f"{told['turns']} answers of {told['tokens']:,} tokens met {faults} faults"
    says("docs/faults.md", text=text)
    says("docs/faults.md", text=f"the other {told['verified']:,} are marked as verified")


def test_fresh_words_are_counted_apart() -> None:
    rows = json.loads((REPOSITORY / "docs/benchmarks/rephrased.json").read_text())["rows"]
    says(README, BENCHMARKS, text=share(rows, "edge"))


def test_the_figures_of_the_first_page() -> None:
    documents = read()
    faults = [row["fault"] for row in documents["execution"]["rows"] if row["mode"] == "edge"]
    says(README, text=f"of {len(faults)} commands that were run, {faults.count(None)} did what was asked")
    waits: dict[str, list[float]] = {}
    for row in documents["handover"]["rows"]:
        if row["line"] == "loopback":
            waits.setdefault(row["fault"], []).append(row["seconds"])
    killed, silent = (f"{median(waits[fault]):.2f} s after" for fault in ("kill", "silence"))
    says(README, text=f"{killed} Outrider's own server is killed, and {silent} its line falls silent")
    runs = [row for row in documents["chaos"]["rows"] if row["run"] != "all"]
    assert not any(row["violations"] for row in runs)
    says(README, text=f"In {len(runs)} runs with random outages no word was lost or doubled")
