"""The implementation of `outrider drafter`: trains a drafter for any target, evaluates, shows and quantises one.

Training and quantising need the extra `train`, evaluating the extra `server`. Both are imported when used.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from app.cli.machine import machine
from drafter.floors import why_no_drafts, why_not_alone
from models.config import CONFIG, Bits, DrafterConfig, DrafterError, Measured, Scheme, read_config, write_config
from models.extras import Extra, how_to_install
from models.memory import memory_bytes
from storage import Store

if TYPE_CHECKING:
    from drafter.model import MemoryEncoder
    from drafter.runtime import Drafter
    from drafter.training.card import Evaluation
    from drafter.training.pipeline import Built, Plan
    from models.engines.engine import Engine
    from models.engines.torch_engine import TorchEngine

MEGABYTE = 1 << 20


def stored_questions(store: Store) -> list[list[str]]:
    """The questions of each stored conversation, oldest conversation first."""
    threads = [store.branches.thread(conversation.id) for conversation in reversed(store.conversations.all())]
    asked = [[message.text for message in thread if message.role == "user"] for thread in threads]
    return [questions for questions in asked if questions]


def make(target: str, out: Path, *, budget: int, minutes: int, questions: Sequence[Sequence[str]] | None) -> None:
    """Make a drafter in `out` for `target`. `budget`: bytes on a device. Raises `DrafterError`.

    `minutes`: for how long it learns if it guesses badly, in processor time. `questions`: those of each conversation,
    of which the first one is used, or None for the usual ones.
    """
    try:
        from drafter.progress import stage
        from drafter.questions import usual_questions
        from drafter.training.target import UnsupportedTarget
        from models.engines.engine import EngineError
        from models.errors import ModelError
        from remote.verifier.making.maker import PART, MakingProgress, MakingTask, beside, take_grown
        from remote.verifier.making.maker_worker import ANSWERS, newborn
        from remote.verifier.making.measure import NothingMeasured
    except ImportError as error:
        raise _lacking(error, "server") from error
    if out.exists() and not (out / CONFIG).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise DrafterError(f"{out} exists and is not a drafter: give another --out.")
    asked = usual_questions() if questions is None else [turns[0] for turns in questions]
    if not asked:
        raise DrafterError("The file in --prompts contains no questions: give some, one per line.")
    task = MakingTask(target, str(out), str(beside(out, PART)), budget, tuple(asked), learning=60.0 * minutes)
    with contextlib.ExitStack() as shown:
        progress, learning, done = shown.enter_context(stage("answers", min(len(asked), ANSWERS))), False, 0

        def told(message: MakingProgress) -> None:
            nonlocal progress, learning, done
            now = message.done
            if message.stage == "learning":
                if not learning:
                    shown.close()
                    progress = shown.enter_context(stage("minutes of training, at most", minutes))
                    learning, done = True, 0
                now = round(minutes - message.left / 60)
                gain = f"{message.tau:.1f} tokens a round"
                progress.tell(gain, gain)
            progress.advance(max(0, now - done))
            done = max(now, done)

        try:
            made = newborn(task, told)
        except (ModelError, EngineError, UnsupportedTarget, NothingMeasured) as error:
            raise DrafterError(str(error)) from error
    take_grown(out)
    print(f"{made}; made in {made.seconds:.0f} s", file=sys.stderr)
    print(out)


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of `outrider drafter train`, named as in `Plan`; None keeps the plan's default."""

    inference_layers: int | None
    first_layers: int | None
    layer_self_attention: bool | None
    memory_bits: Bits | None
    init: Path | None
    answer_tokens: int | None
    datastore: int | None

    @property
    def given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


def train(
    target: str,
    questions: Sequence[Sequence[str]],
    out: Path,
    options: TrainOptions,
    *,
    work: Path,
    steps: int | None,
    device: Literal["auto", "cpu", "cuda", "mps"],
) -> None:
    """Make a drafter in `out` for `target`, a folder or a model's name on the hub.

    `work` keeps answers and checkpoints, from which a killed run resumes. Some questions are held out of the training,
    and the drafter is measured on them at the end. Every process of `accelerate launch` calls this. Raises
    `DrafterError`.
    """
    try:
        from drafter.training.answers import hold_out
        from drafter.training.card import interval, write_card
        from drafter.training.pipeline import Plan, TooFewPrompts, build
        from drafter.training.processes import NoDevice, choose_device, processes
        from drafter.training.recipe import Recipe
        from drafter.training.target import UnsupportedTarget
        from models.engines.engine import EngineError
        from models.engines.target import load_target
        from models.engines.torch_engine import TorchEngine
        from models.errors import ModelError
    except ImportError as error:
        raise _lacking(error, "train") from error
    try:
        here = choose_device(device)
        together = processes(here)
        loaded = load_target(target, device=here)
        TorchEngine(loaded.model)  # Fail early for a target that cannot verify trees.
        recipe = Recipe() if steps is None else replace(Recipe(), steps=steps)
        plan = replace(Plan(recipe=recipe), **options.given)
        learnt, held = hold_out(questions, work)
        built = build(loaded.model, target, loaded.name, learnt, work, out, plan)
        if built is not None:
            evaluation = _evaluate(TorchEngine(loaded.model, _encoder(out)), built, held, work, out, plan)
            write_card(out, replace(built, config=read_config(out)), plan, evaluation)
            print(f"{built.config.scheme} against float: {built.parity}", file=sys.stderr)
            said = evaluation if isinstance(evaluation, str) else f"tau: {interval(evaluation.tau, evaluation.ci95)}"
            print(said, file=sys.stderr)
            print(out)
    except (ModelError, EngineError, NoDevice, TooFewPrompts, UnsupportedTarget) as error:
        raise DrafterError(str(error)) from error
    together.wait_for_everyone()
    together.destroy_process_group()


def _evaluate(
    engine: TorchEngine, built: Built, held: Sequence[str], work: Path, out: Path, plan: Plan
) -> Evaluation | str:
    """For the card: tau of a new drafter and of its float graph, or a sentence that says why there is none."""
    from drafter.progress import track
    from drafter.runtime import Drafter
    from drafter.step import StepGraph
    from drafter.training.answers import FEWEST, HELD_OUT, SHARE
    from drafter.training.card import Evaluation
    from drafter.training.pipeline import FLOAT_GRAPH
    from remote.verifier.making.measure import NothingMeasured, measure

    if not held:
        return f"It was not evaluated: no question was set aside, which requires at least {FEWEST * SHARE} of them."
    drafter = Drafter.load(out)
    exact = Drafter(drafter.config, drafter.text, StepGraph(work / FLOAT_GRAPH, drafter.config))
    prompts = [drafter.asked_as(question) for question in held]
    positions = getattr(engine.model.config.get_text_config(), "max_position_embeddings", None)
    most = _longest_answer(positions, prompts, plan.answer_tokens)
    try:
        int8 = measure(engine, drafter, track("tau", prompts), most=most).result()
        float32 = measure(engine, exact, track("tau, float", prompts), most=most).result()
    except NothingMeasured as error:
        return f"It was not evaluated: {error}"
    figures = _figures(engine, drafter, prompts, most)
    write_config(out, structs.replace(read_config(out), measured=figures))
    command = (
        f"outrider drafter eval --target {built.config.target} --drafter {out.name} "
        f"--prompts {work.name}/{HELD_OUT} --max-tokens {most}"
    )
    return Evaluation(
        tau=int8.tau,
        ci95=int8.ci95,
        by_depth=int8.by_depth,
        float_tau=float32.tau,
        float_ci95=float32.ci95,
        prompts=int8.prompts,
        command=command,
    )


def evaluate(
    target: str,
    folder: Path,
    questions: Sequence[str],
    *,
    limit: int,
    max_tokens: int | None,
    temperature: float,
    out: Path | None,
    record: bool,
) -> None:
    """Measure the drafter in `folder` on `target`: print tau, acceptance by depth and agreement by staleness.

    At most `limit` questions are asked, evenly spread over all. `out`: file for the same as JSON. `record`: write the
    figures that decide about its use into its config. Raises `DrafterError`.
    """
    if record and temperature:
        raise DrafterError("--record measures greedy answers: leave out --temperature.")
    if not questions:
        raise DrafterError("No questions are stored yet. Give some with --prompts FILE.")
    if out is not None and not out.parent.is_dir():
        raise DrafterError(f"{out} cannot be written: there is no folder {out.parent}.")
    try:
        from drafter.progress import track
        from drafter.runtime import Drafter
        from models.engines.engine import EngineError
        from models.errors import ModelError
        from remote.verifier.making.measure import (
            MOST_TOKENS,
            TREE,
            NothingMeasured,
            agreement_by_staleness,
            evenly,
            measure,
        )
    except ImportError as error:
        raise _lacking(error, "server") from error
    drafter = Drafter.load(folder)
    try:
        engine, positions = _engine(target, drafter, folder)
        prompts = [drafter.asked_as(question) for question in evenly(questions, limit)]
        most = _longest_answer(positions, prompts, max_tokens or MOST_TOKENS)
        found = measure(engine, drafter, track("tau", prompts), most=most, temperature=temperature).result()
        stale = {} if temperature else agreement_by_staleness(engine, drafter, track("staleness", prompts), most)
        figures = _figures(engine, drafter, prompts, most) if record else None
    except (ModelError, EngineError, NothingMeasured) as error:
        raise DrafterError(str(error)) from error
    asked = f"{found.prompts} questions, {found.rounds:,} rounds, trees of {TREE.nodes} nodes and depth {TREE.depth}"
    how = "greedy" if temperature == 0 else f"temperature {temperature:g}"
    table = [
        ("drafter", str(folder)),
        ("target", target),
        ("asked", asked),
        ("answers", f"{how}, at most {most} tokens"),
        ("tau", f"{found.tau:.2f} tokens a round (95 %: {found.ci95[0]:.2f} to {found.ci95[1]:.2f})"),
        ("accepted", _columns("at depth", range(1, len(found.by_depth) + 1), found.by_depth)),
    ]
    if stale:
        table.append(("agreement", _columns("tokens since memory", (f"{edge}+" for edge in stale), stale.values())))
    if figures is not None:
        table += _recorded(write_config(folder, structs.replace(drafter.config, measured=figures)), figures)
    for name, value in table:
        print(f"{name:<13} {value}")
    if out is not None:
        about = {"drafter": str(folder), "target": target, **asdict(found), "by_staleness": stale}
        _write_row(out, {**about, "temperature": temperature, "max_tokens": most, "pace": asdict(TREE)})


def _write_row(out: Path, row: dict[str, Any]) -> None:
    """Write the result with the machine that it was measured on. Raises `DrafterError`."""
    try:
        out.write_text(json.dumps({"machine": machine(), "rows": [row]}, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise DrafterError(f"{out} cannot be written: {error.strerror}.") from error


def _figures(engine: Engine, drafter: Drafter, prompts: list[list[int]], most: int) -> Measured:
    """The figures that decide about a drafter's use, measured on the target's own answers."""
    from drafter.progress import track
    from remote.verifier.making.measure import answered, measured

    stops = frozenset(drafter.config.stop_tokens)
    return measured(engine, drafter, [answered(engine, prompt, stops, most) for prompt in track("answers", prompts)])


def _recorded(config: DrafterConfig, figures: Measured) -> list[tuple[str, str]]:
    """Lines about the figures stored with a drafter, and their consequences."""
    shares = f"{figures.alone:.0%} right without the model, perplexity {figures.perplexity:g}"
    line = f"{figures.tau:.2f} tokens a round as a chain, {shares}, {figures.repeated:.0%} repeated"
    use = why_no_drafts(config) or why_not_alone(config) or "it drafts, and may write alone"
    return [("recorded", line), ("use", use)]


def _engine(target: str, drafter: Drafter, folder: Path) -> tuple[Engine, int | None]:
    """The engine that serves a target, and the target's positions. Raises what the engines raise."""
    from models.engines.choice import llama_engine
    from models.engines.target import load_target
    from models.engines.torch_engine import TorchEngine
    from models.files import is_gguf
    from remote.verifier.making.measure import check_fit

    if is_gguf(target):
        side, llama = llama_engine(target, folder)
        return llama, side.positions
    loaded = load_target(target)
    engine = TorchEngine(loaded.model, _encoder(folder))
    check_fit(engine, drafter)
    return engine, loaded.positions


def _columns(what: str, heads: Iterable[object], values: Iterable[float]) -> str:
    columns = [(str(head), f"{value:.1%}") for head, value in zip(heads, values)]
    wide = [max(map(len, column)) for column in columns]
    above, below = ("  ".join(text.rjust(width) for text, width in zip(line, wide)) for line in zip(*columns))
    return f"{what:<20} {above}\n{'':<13} {'':<20} {below}"


def _encoder(folder: Path) -> MemoryEncoder:
    from drafter.model import MemoryEncoder

    return MemoryEncoder.load(folder)


def _longest_answer(positions: int | None, prompts: Sequence[Sequence[int]], wanted: int) -> int:
    """`wanted` tokens, or as many as the longest prompt leaves of the target's positions. Raises `DrafterError`."""
    longest = max(map(len, prompts))
    if positions is None or longest + wanted <= positions:
        return wanted
    if longest + 2 > positions:
        raise DrafterError(f"A question of {longest} tokens leaves no room in the target's {positions} positions.")
    return int(positions - longest)


def info(folder: Path) -> None:
    """Print what a drafter is and whether its files are intact. Raises `DrafterError`."""
    config = read_config(folder)
    read_config(folder, verify=tuple(config.files))
    sizes = {name: (folder / name).stat().st_size / MEGABYTE for name in sorted(config.files)}
    drafted = len(config.draft_vocabulary) or config.vocabulary
    for name, value in (
        ("target", f"{config.target}, {config.target_layers} layers of {config.hidden}"),
        ("draft layers", f"self- and cross-attention, F = {config.first_layers}, N = {config.inference_layers}"),
        ("vocabulary", f"{drafted:,} of {config.vocabulary:,} tokens"),
        ("quantised", config.scheme),
        ("memory", f"{memory_bytes(1, config.memory_layers, config.memory_bits):,} bytes a token, {config.memory}"),
        ("tokenizer", config.tokenizer),
        ("files", ", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()) + "; checksums match"),
    ):
        print(f"{name:<13} {value}")


def quantise(folder: Path, scheme: Scheme | None) -> None:
    """Rebuild the quantised graph from the float weights. Raises `DrafterError`."""
    try:
        from drafter.training.pipeline import requantise
    except ImportError as error:
        raise _lacking(error, "train") from error
    print(f"{folder}: {requantise(folder, scheme)}")


def _lacking(error: ImportError, extra: Extra) -> DrafterError:
    return DrafterError(f"This needs PyTorch and more ({error.name} is missing): {how_to_install(extra)}")
