"""Cut a pretrained model's vocabulary to what the guide needs, and save it as the base that the target learns from.

    python -m recipes.shell_guide.base --model SmolLM2-135M-Instruct.Q4_1.gguf --pages PAGES.jsonl --index pages.db
        --talk talk.jsonl --out runs/base

A vocabulary of 49,152 tokens is a fifth of a model of 135M parameters, and most of it is for languages and code that
the guide does not read. Byte pairs are merged in the order in which they were learnt, so the first tokens are the most
frequent of the text that the model was trained on. Half of those that are kept are the first ones; the other half are
those that the guide's conversations and ordinary talk use most. A token is kept together with the two that it was
merged from, and all bytes are kept, so every text can still be written; a word whose token is gone is read in pieces,
which were learnt too.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from models.config import TOKENIZER
from models.engines.target import load_target
from models.gguf.text import text_source
from recipes.shell_guide.mixture import Mixture

TOKENS = 16_384
"""Tokens that are kept. Of the tokens of the texts that were counted, 99.98 % are among them."""
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CONVERSATIONS, SEED = 3_000, 5
"""Conversations of the mixture whose tokens are counted."""
PADDING, END = "<|endoftext|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML. SmolLM2's own writes the same text, but calls the model SmolLM where a conversation has no system message."""


def kept_tokens(tokenizer: dict[str, Any], uses: Counter[str], tokens: int = TOKENS) -> list[str]:
    """The tokens to keep, in their order: special ones, bytes, and those that are frequent or used.

    `tokenizer`: a `tokenizer.json` with byte pairs. `uses`: how often texts use each token.
    """
    ids: dict[str, int] = tokenizer["model"]["vocab"]
    parts = {"".join(pair): pair for pair in map(_pair, tokenizer["model"]["merges"])}
    special = {token["content"] for token in tokenizer["added_tokens"]}
    kept = {*SPECIAL, *(token for token in ids if token not in parts and token not in special)}
    by_rank = sorted(parts, key=ids.__getitem__)
    for token in by_rank[: tokens // 2] + [token for token, _ in uses.most_common() if token in parts] + by_rank:
        needed = _with_parts(token, parts) - kept
        if len(kept) + len(needed) <= tokens:
            kept |= needed
        if len(kept) == tokens:
            break
    return sorted(kept, key=ids.__getitem__)


def _pair(merge: str | list[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _with_parts(token: str, parts: dict[str, tuple[str, str]]) -> set[str]:
    """The token, and all that it was merged from."""
    return {token}.union(*(_with_parts(part, parts) for part in parts.get(token, ())))


def cut(tokenizer: dict[str, Any], kept: Iterable[str]) -> dict[str, Any]:
    """The `tokenizer.json` with these tokens alone, numbered in their order."""
    ids = {token: number for number, token in enumerate(kept)}
    model = tokenizer["model"]
    merges = [pair for pair in map(_pair, model["merges"]) if {*pair, "".join(pair)} <= ids.keys()]
    added = [token | {"id": ids[token["content"]]} for token in tokenizer["added_tokens"] if token["content"] in ids]
    return tokenizer | {"model": model | {"vocab": ids, "merges": merges}, "added_tokens": added}


def read_texts(pages: Path, index: Path, talk: Path) -> Iterator[list[str]]:
    """The texts of conversations: some of the mixture, and all questions of ordinary talk."""
    mixture = Mixture(pages, index, SEED)
    for number in range(CONVERSATIONS):
        yield [text for _, text in mixture.draw(number)]
    for line in talk.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["turns"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a GGUF file, or a folder of transformers")
    parser.add_argument("--pages", type=Path, required=True)
    parser.add_argument("--index", type=Path, required=True, help="what recipes.shell_guide.index wrote")
    parser.add_argument("--talk", type=Path, required=True, help="what recipes.shell_guide.ordinary wrote")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    target = load_target(arguments.model, device="cpu")
    with text_source(arguments.model) as source:
        whole = json.loads((Path(source) / TOKENIZER).read_text())
    reading = Tokenizer.from_str(json.dumps(whole))
    uses = Counter[str]()
    for texts in read_texts(arguments.pages, arguments.index, arguments.talk):
        for encoded in reading.encode_batch(texts, add_special_tokens=False):
            uses.update(encoded.tokens)
    kept = kept_tokens(whole, uses)
    print(f"{len(kept)} tokens; {sum(uses[token] for token in kept) / uses.total():.2%} of the texts' tokens are kept")

    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(cut(whole, kept))),
        bos_token="<|im_start|>",
        eos_token=END,
        pad_token=PADDING,
        model_max_length=2048,
    )
    made.chat_template = TEMPLATE
    model = target.model
    rows = model.get_input_embeddings().weight.detach()[[whole["model"]["vocab"][token] for token in kept]]
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(rows)
    for config in (model.config, model.generation_config):
        config.bos_token_id = None
        config.eos_token_id, config.pad_token_id = made.eos_token_id, made.pad_token_id
    model.config.max_position_embeddings = 2048
    model.hf_quantizer, model.is_quantized = None, False
    model.config.__dict__.pop("quantization_config", None)
    model.save_pretrained(arguments.out)
    made.save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
