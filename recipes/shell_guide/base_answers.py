"""Let the base answer ordinary talk, so that the target, which learns from this too, keeps its English.

    python -m recipes.shell_guide.base_answers --base runs/base --talk talk.jsonl --out runs/ordinary.jsonl

`--talk`: what `recipes.shell_guide.ordinary` wrote. Each line of the result is a conversation, [role, text] for each
message. Answers are sampled; a conversation whose answer does not come to an end, or calls itself SmolLM, is left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from drafter.progress import stage

LONGEST = 160
"""Tokens of an answer."""
TEMPERATURE, TOP_P = 0.6, 0.9
OWN_NAME = re.compile("smollm|hugging ?face", re.I)
"""Of 203 answers that SmolLM2-135M-Instruct gave with its own chat template, three told it."""


@torch.no_grad()
def answers(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, conversations: Sequence[list[dict[str, str]]]
) -> list[str | None]:
    """The model's answer to each conversation, or None if it is too long or tells the model's name."""
    texts = [tokenizer.apply_chat_template(one, add_generation_prompt=True, tokenize=False) for one in conversations]
    read = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    read = {name: read[name].to(model.device) for name in ("input_ids", "attention_mask")}
    said = model.generate(
        **read,
        max_new_tokens=LONGEST,
        do_sample=True,
        temperature=TEMPERATURE,
        top_p=TOP_P,
        pad_token_id=tokenizer.pad_token_id,
    )
    new = said[:, read["input_ids"].shape[1] :].tolist()
    end = tokenizer.eos_token_id
    whole = [tokenizer.decode(ids[: ids.index(end)]).strip() if end in ids else "" for ids in new]
    return [None if not text or OWN_NAME.search(text) else text for text in whole]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--talk", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=1024, help="conversations that are answered together")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.base)
    dtype = torch.float32 if arguments.device == "cpu" else torch.bfloat16
    model = AutoModelForCausalLM.from_pretrained(arguments.base, dtype=dtype).to(arguments.device).eval()
    torch.manual_seed(0)
    turns = [json.loads(line)["turns"] for line in arguments.talk.read_text(encoding="utf-8").splitlines()]
    turns.sort(key=lambda questions: sum(map(len, questions)))  # Little padding.
    with stage("answers", sum(map(len, turns))) as progress, arguments.out.open("w", encoding="utf-8") as out:
        for begin in range(0, len(turns), arguments.batch):
            some = turns[begin : begin + arguments.batch]
            talks: list[list[dict[str, str]]] = [[] for _ in some]
            going = list(range(len(some)))
            for turn in range(max(map(len, some))):
                going = [at for at in going if turn < len(some[at])]
                for at in going:
                    talks[at].append({"role": "user", "content": some[at][turn]})
                said = answers(model, tokenizer, [talks[at] for at in going]) if going else []
                progress.advance(len(going))
                for at, answer in zip(going, said):
                    talks[at].append({"role": "assistant", "content": answer or ""})
                going = [at for at, answer in zip(going, said) if answer]
            whole = (talk for talk in talks if all(message["content"] for message in talk))
            out.writelines(
                json.dumps([(message["role"], message["content"]) for message in talk], ensure_ascii=False) + "\n"
                for talk in whole
            )


if __name__ == "__main__":
    main()
