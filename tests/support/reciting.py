"""A tiny pair that gives the same answer to every question, on the server and by the drafter alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.files import TARGET_GRAPH
from tests.support.tiny_text import END, train_tokenizer

COMMAND = "tar xf archive.tar.gz"
ANSWER = ("Use `tar`:\n\n", "```sh\n", "tar xf", " archive.tar.gz", "\n```\n")
"""Each piece is a token."""


def chosen(pair: Path) -> dict[str, str]:
    """Variables of somebody who uses this pair in place of the bundled one."""
    return {"OUTRIDER_TARGET": str(pair / "target"), "OUTRIDER_DRAFTER": str(pair / "drafter")}


def build_reciting(folder: Path, pieces: Sequence[str] = ANSWER) -> Path:
    """Write a pair as `build_pair` does, whose every answer is these pieces, one after another. Returns `folder`."""
    import torch  # It takes seconds, and who uses the pair needs none of it.
    from tokenizers import AddedToken

    from recipes.shell_guide.graph import write_graph
    from tests.support.tiny import random_target, write_drafter

    tokenizer = train_tokenizer()
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in pieces])
    chain = [tokenizer.token_to_id(text) for text in ("<|assistant|>", *pieces)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, fast = random_target(tokenizer, hidden_size=32, intermediate_size=48, num_hidden_layers=3, head_dim=8)
        torch.nn.init.normal_(model.model.embed_tokens.weight)
        for layer in model.model.layers:  # What comes next depends on the last token alone.
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.lm_head.weight.zero_()
        for before, after in zip(chain, [*chain[1:], END]):
            model.lm_head.weight[after] = model.model.embed_tokens.weight[before]
        model.generation_config.eos_token_id = END
        model.save_pretrained(folder / "target")
        fast.save_pretrained(folder / "target")
        write_graph(folder / "target", folder / "target" / TARGET_GRAPH, int8=False)
        write_drafter(folder / "drafter", folder / "target", model)
    return folder
