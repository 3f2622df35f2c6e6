"""`python -m remote.verifier.making.maker_worker`: the process that makes a drafter. Its stdin brings a `MakingTask`.

The answers come from the engine that serves such a model and are saved one by one, so a killed process resumes where it
was. Then the layers are unpacked, which takes most of the memory; the engine is closed by then. A drafter that guesses
badly learns, with a checkpoint every two minutes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import torch

from drafter.floors import why_no_drafts
from models.config import CONFIG, DrafterError
from models.cores import draft_threads
from models.engines.choice import EngineOptions, llama_engine
from models.engines.engine import Engine
from models.engines.target import Target, load_target
from models.engines.torch_engine import TorchEngine
from models.files import is_gguf
from models.gguf.file import gguf_architecture, gguf_path, why_not_unpacked
from models.gguf.text import text_source
from models.telemetry import switch_off
from models.text.text_side import TextSide
from remote.verifier.idle import end_with_stdin, stand_back, take, tell
from remote.verifier.making.birth import (
    CHECKPOINT,
    Newborn,
    UnsupportedTarget,
    check_layers,
    grow_drafter,
    make_drafter,
)
from remote.verifier.making.maker import (
    GROWN,
    PART,
    MakingOutcome,
    MakingProgress,
    MakingTask,
    beside,
    kept_drafter,
    take_grown,
)
from remote.verifier.making.measure import Answered, NothingMeasured, answered

ANSWERS = 64
"""Number of answers that a drafter is made from."""
ANSWER_TOKENS = 96
FILE = "answers.jsonl"
MARK = "drafter"
"""File that names the drafter that the work is for, as `kept_drafter` does."""


def main() -> int:
    """Make a drafter once."""
    stand_back()
    switch_off()
    try:
        task = take(sys.stdin.buffer, MakingTask)
    except EOFError:
        return 1
    end_with_stdin()
    try:
        tell(make(task))
    except Exception as error:  # Whatever the error, the server serves without a drafter and says why.
        tell(MakingOutcome(f"no drafter could be made: {type(error).__name__}: {error}", made=False))
    return 0


def make(task: MakingTask) -> MakingOutcome:
    """Make the drafter, and keep only its figures if it is useless. Raises what the engines raise."""
    try:
        made = newborn(task, tell)
    except (UnsupportedTarget, NothingMeasured) as error:
        return MakingOutcome(f"no drafter: {error} Devices get plain text.", made=False)
    useful = why_no_drafts(made.config) is None
    if not useful:
        take_grown(Path(task.out))
        for file in Path(task.out).iterdir():  # The figures stay, so that it is not made again.
            if file.name != CONFIG:
                file.unlink()
    return MakingOutcome(f"the drafter: {made}.", made=useful)


def newborn(task: MakingTask, told: Callable[[MakingProgress], None]) -> Newborn:
    """Answer, put the layers together, measure, and learn if that is wanted and needed.

    What was learnt is beside the drafter: see `take_grown`. Raises what the engines and `make_drafter` raise.
    """
    begun = time.monotonic()
    torch.set_num_threads(draft_threads())
    work, out, kept = Path(task.work), Path(task.out), None if task.kept is None else Path(task.kept)
    target: Target | None = None
    if is_gguf(task.model):
        check_layers(gguf_architecture(gguf_path(task.model)))  # Before minutes are spent on answers.
        if (why := why_not_unpacked(gguf_path(task.model))) is not None:
            raise UnsupportedTarget(why)
        _mark(task)
        side, engine = llama_engine(task.model, None, EngineOptions(kept=kept, template=task.template))
        answers = answers_of(engine, side, task.questions, work / FILE, told)
        engine.close()
    else:
        target = load_target(task.model, template=task.template, device="cpu")
        _mark(task)
        answers = answers_of(TorchEngine(target.model), target, task.questions, work / FILE, told)
    target = target or load_target(task.model, kept=kept, template=task.template, device="cpu", half=True)
    with text_source(task.model, kept) as source:
        made = Newborn.found(out) if (work / CHECKPOINT).exists() else None
        if made is None:
            told(MakingProgress("layers"))
            made = make_drafter(target, source, out, answers, task.budget, template=task.template)
        if task.learning and why_no_drafts(made.config) is not None or (work / CHECKPOINT).exists():

            def learnt(tau: float, left: float) -> None:
                told(MakingProgress("learning", left=left, tau=tau))

            grown, template = beside(out, GROWN), task.template
            made = grow_drafter(made, target, source, grown, answers, work, task.learning, learnt, template=template)
    shutil.rmtree(work, ignore_errors=True)
    return replace(made, seconds=time.monotonic() - begun)


def _mark(task: MakingTask) -> None:
    """Note in the work folder for which drafter it is. Raises `DrafterError` if it is for another one."""
    work, mark = Path(task.work), Path(task.work, MARK)
    drafter = kept_drafter(str(Path(task.model).expanduser()), task.budget, work, task.template)
    name = task.model if drafter is None else drafter.name
    work.mkdir(parents=True, exist_ok=True)
    if not any(work.iterdir()):
        shutil.rmtree(beside(Path(task.out), GROWN), ignore_errors=True)
        mark.write_text(name, encoding="utf-8")
    elif name != (mark.read_text(encoding="utf-8") if mark.exists() else work.name.removesuffix(PART)):
        raise DrafterError(
            f"{work} has the work for another drafter: of another model, or with another budget or chat template. "
            "Delete it, or name another folder for this one."
        )


def answers_of(
    engine: Engine, side: TextSide, questions: Sequence[str], file: Path, told: Callable[[MakingProgress], None]
) -> list[Answered]:
    """The target's answers to the first questions, saved to `file` one by one. Raises `UnsupportedTarget`."""
    if side.text is None or not side.chat_template:
        raise UnsupportedTarget(f"{side.name} has no chat template, so it cannot be asked questions.")
    answers, begun, asked = list(_kept(file)), time.process_time(), questions[:ANSWERS]
    before = len(answers)
    with file.open("a", encoding="utf-8") as lines:
        for question in asked[before:]:
            prompt = side.text.render([("user", question)])
            answers.append(answered(engine, prompt, frozenset(side.stop_tokens), ANSWER_TOKENS))
            lines.write(json.dumps([answers[-1].prompt, answers[-1].answer]) + "\n")
            lines.flush()
            fresh = len(answers) - before
            left = (time.process_time() - begun) / fresh * (len(asked) - len(answers))
            told(MakingProgress("answers", len(answers), len(asked), left))
    return answers


def _kept(file: Path) -> Iterator[Answered]:
    """The answers in a file, which is cut before the first incomplete or damaged line."""
    if not file.exists():
        return
    end = 0
    for line in file.read_bytes().splitlines(keepends=True):
        try:
            prompt, answer = msgspec.json.decode(line, type=tuple[list[int], list[int]])
        except msgspec.DecodeError:
            break
        if not line.endswith(b"\n"):
            break
        yield Answered(prompt, answer)
        end += len(line)
    os.truncate(file, end)


if __name__ == "__main__":
    sys.exit(main())
