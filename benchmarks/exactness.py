"""Proof that drafting changes no token: answers with drafts, without drafts, and from transformers' own `generate`.

    python -m benchmarks.exactness [--prompts FILE] [--limit 200] [--json OUT]

Greedy: `outrider ask --prompts` = the same with `--no-draft` = `generate`. Sampled (temperature 0.8, with a seed): with
drafts = without. Processes are real, with a real verifier on loopback. `generate` runs on the same weights in float32.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from app.config import BUNDLED_DRAFTER
from app.prompts import PromptEntry, read_prompts
from benchmarks.pair import machine_and_pair
from models.config import read_config
from models.guide.recipe import open_prompt

ROOT = Path(__file__).parents[1]
PROMPTS = ROOT / "tests/data/heldout_pages.jsonl"
TARGET = ROOT / "remote/verifier/pretrained/shell-guide"
MOST_TOKENS = 160
SAMPLED = ("--temperature", "0.8", "--seed", "7")


class DifferentTokens(Exception):
    """Two ways of greedy decoding gave different tokens."""


def ask(prompts: Path, *options: str) -> list[list[int]]:
    """Token ids of each answer from `outrider ask --prompts`. Raises `CalledProcessError`."""
    command = [sys.executable, "-m", "app.cli", "ask", "--mode", "edge", "--max-tokens", str(MOST_TOKENS)]
    run = subprocess.run(
        [*command, "--prompts", str(prompts), *options], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    return [json.loads(line)["token_ids"] for line in run.stdout.splitlines()]


def generate(prompts: list[PromptEntry]) -> list[list[int]]:
    """Token ids of each answer from transformers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TARGET)
    model = AutoModelForCausalLM.from_pretrained(TARGET, dtype=torch.float32).eval()
    recipe = open_prompt(BUNDLED_DRAFTER, read_config(BUNDLED_DRAFTER))
    answers = []
    for prompt in prompts:
        asked = recipe.asked_as(prompt.turns[:1]) if recipe else [("user", prompt.turns[0])]
        chat = [{"role": role, "content": text} for role, text in asked]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        out = model.generate(**ids, max_new_tokens=MOST_TOKENS, do_sample=False)
        answers.append(out[0, ids["input_ids"].shape[1] :].tolist())
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--limit", type=int, default=200, help="prompts, spread evenly over the file")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    everything = read_prompts(arguments.prompts)
    count = min(arguments.limit, len(everything))
    chosen = [everything[int(i)] for i in np.linspace(0, len(everything) - 1, count)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prompts.jsonl"
        file.write_text("".join(json.dumps({"prompt": prompt.turns[0]}) + "\n" for prompt in chosen))
        drafted, plain = ask(file), ask(file, "--no-draft")
        drafted_sampled, plain_sampled = ask(file, *SAMPLED), ask(file, "--no-draft", *SAMPLED)
    pairs = {
        "greedy: drafts = no drafts": (drafted, plain),
        "greedy: drafts = generate": (drafted, generate(chosen)),
        "sampled: drafts = no drafts": (drafted_sampled, plain_sampled),
    }
    rows = []
    for name, (left, right) in pairs.items():
        equal = sum(a == b for a, b in zip(left, right, strict=True))
        rows.append({"check": name, "equal": equal, "of": count, "tokens": sum(map(len, left))})
        print(f"{name:<30} {equal} of {count} answers, {rows[-1]['tokens']} tokens")
        for prompt, a, b in zip(chosen, left, right):
            if a != b:
                print(f"  differs: {prompt.turns[0]!r}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine_and_pair(), "rows": rows}, indent=1) + "\n")
    sys.exit(0 if all(row["equal"] == count for row in rows) else 1)


if __name__ == "__main__":
    main()
