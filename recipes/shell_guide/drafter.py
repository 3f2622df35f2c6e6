"""Make the bundled drafter: let the target answer, distil, export, quantise.

    python -m recipes.shell_guide.drafter --pages PAGES.jsonl --index pages.db --target DIR --work runs/drafter
        --out DIR

Each stage leaves its result in the work folder. When run again, it is skipped or resumed.

`--drawn DIR`: the answers are those that `recipes.shell_guide.draw` wrote, with a seed that the target did not learn
from. On a CPU, answering takes much longer than learning, and what is learnt is the target's distribution after each
token of an answer, whoever chose the token.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import torch

from drafter.training.answers import ANSWERS
from drafter.training.pipeline import Plan, build
from drafter.training.processes import processes
from drafter.training.recipe import Recipe
from models.config import read_config, write_config
from models.engines.target import load_target
from models.files import PACKED
from models.guide.pages import FILE, Pages
from models.guide.prompt import Prompt
from models.guide.recipe import has_marks, recipe_for
from models.guide.search import platforms_of
from models.packed import read_packed
from recipes.shell_guide.drawn import Drawn, read_drawn
from recipes.shell_guide.mixture import Mixture
from recipes.shell_guide.quantiser import quantise_layers

DRAFT_VOCABULARY = 16_384
"""All of the target's vocabulary, so that the head is the embedding and takes no place of its own. An answer that
repeats a token that is not drafted costs a round for each."""
SEED = 23
"""Different from that of the target's data."""
STRANGE = 0.5
"""Share of pages that are mixed up."""
BATCH = 12_288
"""Conversations that are answered together. Only a few have late turns, and a few at a time take as long as many."""


def draw_questions(mixture: Mixture, count: int) -> list[list[str]]:
    """The questions of `count` conversations that the target did not learn from."""
    drawn = (mixture.draw(index) for index in range(count))
    return [[text for role, text in messages if role == "user"] for messages in drawn]


def answered_lines(drawn: Drawn, count: int) -> list[str]:
    """The lines of `drafter.training.answers` for at most the first `count` of these conversations."""
    lines = []
    for number in range(min(count, len(drawn.ends))):
        ids, learn = drawn.conversation(number)
        edges = np.flatnonzero(np.diff(learn.astype(np.int8), prepend=0, append=0))
        lines.append(json.dumps({"ids": ids.tolist(), "learn": edges.reshape(-1, 2).tolist()}) + "\n")
    return lines


def add_index(out: Path, index: Path) -> None:
    """Put the pages into the drafter's folder, and record in its config that prompts use them."""
    shutil.copyfile(index, out / FILE)
    recipe = recipe_for(out)
    write_config(out, msgspec.structs.replace(read_config(out), prompt_recipe=recipe))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True, help="what recipes.shell_guide.index wrote")
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--conversations", type=int, default=BATCH, help="most of them")
    parser.add_argument("--drawn", type=Path, help="learn from these answers")
    parser.add_argument("--inference-layers", type=int, help="N: the target's last layers that run on the device")
    parser.add_argument("--first-layers", type=int, help="F: the target's first layers that run on the device")
    parser.add_argument("--layer-self-attention", action=argparse.BooleanOptionalAction, help="see drafter_config")
    parser.add_argument("--gaps", type=int, nargs=2, default=Recipe.gaps, help="tokens between anchors, uniformly")
    parser.add_argument("--blank", type=float, default=Recipe.blank, help="share of last turns without memory")
    parser.add_argument("--tail", type=float, default=Recipe.tail, help="share of conversations with long gaps")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--rate", type=float, default=Recipe.rate)
    parser.add_argument("--rows", type=int, default=Recipe.rows)
    parser.add_argument("--row", type=int, default=Recipe.row, help="tokens a row; the rest of a conversation is cut")
    parser.add_argument("--init", type=Path, help="begin with the weights of this drafter")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    # In float32 on a GPU too.
    target = load_target(str(arguments.target), device="cpu").model.to(arguments.device)
    # It teaches what its graph says. On a CPU this is four times as quick, too.
    quantise_layers(target, read_packed(arguments.target / PACKED))
    if arguments.drawn is not None:
        lines = answered_lines(read_drawn(arguments.drawn), arguments.conversations)
        if processes(arguments.device).is_main_process:
            arguments.work.mkdir(parents=True, exist_ok=True)
            (arguments.work / ANSWERS).write_text("".join(lines))
        # All is answered, so nobody reads the questions: only their number counts.
        questions = [[""] * len(json.loads(line)["learn"]) for line in lines]
    else:
        mixture = Mixture(arguments.pages, arguments.index, SEED, strange=STRANGE)
        questions = draw_questions(mixture, arguments.conversations)
    prompt = Prompt(Pages.open(arguments.index), platforms_of("linux"), marks_names=has_marks(arguments.target))
    varied = ("steps", "rows", "row", "rate", "tail", "blank")
    plan = Plan(
        recipe=replace(Recipe(), gaps=tuple(arguments.gaps), **{name: getattr(arguments, name) for name in varied}),
        inference_layers=arguments.inference_layers,
        first_layers=arguments.first_layers,
        layer_self_attention=arguments.layer_self_attention,
        draft_vocabulary=DRAFT_VOCABULARY,
        init=arguments.init,
        batch=BATCH,
        asked_as=prompt.asked_as,
    )
    built = build(target, str(arguments.target), "shell-guide", questions, arguments.work, arguments.out, plan)
    if built is None:
        return
    add_index(arguments.out, arguments.index)
    kept = len(built.config.draft_vocabulary) or built.config.vocabulary
    print(f"draft vocabulary: {kept} tokens cover {built.covered:.4%} of the answers")
    print(f"int8 against float: {built.parity}")


if __name__ == "__main__":
    main()
