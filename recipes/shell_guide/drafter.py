"""Make the bundled drafter: let the target answer, distil, export, quantise.

    python -m recipes.shell_guide.drafter --pages PAGES.jsonl --target DIR --work runs/drafter --out DIR

Each stage leaves its result in the work folder and is skipped or resumed when run again.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from drafter.config import ENCODER, FLOAT, GRAPH, TEMPLATE, TOKENIZER, write_config
from drafter.model import memory_digest, save_weights
from drafter.quantise import quantise_graph
from drafter.text import ChatText
from drafter.training.answers import frequent_tokens, generate_answers, read_answers
from drafter.training.distil import Recipe, train
from drafter.training.export import export_graph
from drafter.training.losses import DIVERGENCES
from drafter.training.target import drafter_config
from recipes.shell_guide.conversations import Conversations

DRAFT_VOCABULARY = 3072
"""The most frequent tokens of the target's answers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--conversations", type=int, default=14_400)
    parser.add_argument("--inference-layers", type=int, default=1, help="N of target layer inference")
    parser.add_argument("--without", choices=("lsa", "ca"), nargs="+", default=[], help="ablate parts of the drafter")
    parser.add_argument("--loss", choices=DIVERGENCES, default=Recipe.loss, help="distance from the target")
    parser.add_argument("--feature-weight", type=float, default=Recipe.feature_weight, help="of SmoothL1 beside it")
    parser.add_argument("--tail", type=float, default=Recipe.tail, help="share of conversations with long gaps")
    parser.add_argument("--steps", type=int, default=Recipe.steps)
    parser.add_argument("--rate", type=float, default=Recipe.rate)
    parser.add_argument("--rows", type=int, default=Recipe.rows)
    parser.add_argument("--row", type=int, default=Recipe.row, help="tokens a row; the rest of a conversation is cut")
    parser.add_argument("--init", type=Path, help="begin with the weights of this drafter instead of random ones")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)

    tokenizer = AutoTokenizer.from_pretrained(arguments.target)
    target = AutoModelForCausalLM.from_pretrained(arguments.target, dtype=torch.float32).eval()
    source = Conversations(arguments.pages, seed=23)
    questions = [[question for question, _ in source.draw(index)] for index in range(arguments.conversations)]
    answers = arguments.work / "answers.jsonl"
    generate_answers(target.to(arguments.device), tokenizer, questions, answers)
    data = read_answers(answers)

    config = msgspec.structs.replace(
        drafter_config(target, "shell-guide", inference_layers=arguments.inference_layers),
        layer_self_attention="lsa" not in arguments.without,
        cross_attention="ca" not in arguments.without,
    )
    varied = ("steps", "rows", "row", "rate", "loss", "feature_weight", "tail")
    recipe = replace(Recipe(), **{name: getattr(arguments, name) for name in varied})
    checkpoints = arguments.work / "checkpoints"
    model = train(config, target, data, checkpoints, recipe, arguments.device, arguments.init).to("cpu")

    stops = (tokenizer.eos_token_id,)
    kept, covered = frequent_tokens(data, DRAFT_VOCABULARY, stops)
    print(f"draft vocabulary: {len(kept)} tokens cover {covered:.4%} of the answers")

    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    for name in (TOKENIZER, TEMPLATE):
        shutil.copyfile(arguments.target / name, out / name)
    config = msgspec.structs.replace(
        config,
        draft_vocabulary=kept,
        stop_tokens=stops,
        memory=memory_digest(target.state_dict(), model.encoder).hex(),
    )
    model.draft.config = model.encoder.config = config
    save_weights(model.encoder, out / ENCODER)
    save_weights(model.draft, out / FLOAT)
    export_graph(model.draft.eval(), arguments.work / "float.onnx")
    quantise_graph(arguments.work / "float.onnx", out / GRAPH)
    config = write_config(out, config)
    digest = ChatText.load(out).digest.hex()
    write_config(out, msgspec.structs.replace(config, tokenizer=digest))


if __name__ == "__main__":
    main()
