"""An independent drafter: a small language model of its own, distilled from the target's distribution.

Speculative decoding began with such drafters (arXiv 2211.17192, 2302.01318). It shares only the vocabulary with the
target and needs nothing of it at run time, so it loses nothing while the line is down. It is a Llama of a few layers
with tied embeddings, trained on the target's answers with the KL divergence (DistillSpec, arXiv 2310.08461). Data,
packing, optimisers and schedule are MoA's. MoA's authors let theirs share the target's embedding and head and train
only its layers. Here everything is its own, and counts as trained.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from benchmarks.baseline_drafters.config import BaselineConfig
from benchmarks.baseline_drafters.model import Baseline, borrow_from
from benchmarks.baseline_drafters.recipe import BaselineRecipe
from drafter.model import KeysValues, Norm
from drafter.training.batches import Batch
from drafter.training.distil import DEPTHS
from drafter.training.losses import Losses, agrees, distances


class Independent(Baseline):
    """A small Llama."""

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        self.norm = Norm(config.hidden, config.norm_eps)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.head.weight = self.embedding.weight

    def borrow(self, target: PreTrainedModel) -> None:
        """Do nothing: everything is its own."""

    def logits(self, out: Tensor) -> Tensor:
        return self.head(self.norm(out))  # type: ignore[no-any-return]

    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """One step. `previous` is not used."""
        return self.run(self.layers, self.embedding(tokens), positions, past, mask)

    def as_llama(self, target: PreTrainedModel) -> LlamaForCausalLM:
        """This model in transformers' form, for `generate(assistant_model=...)` of this target."""
        config = self.config
        shape = LlamaConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.hidden,
            intermediate_size=config.ffn,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_size,
            rms_norm_eps=config.norm_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            max_position_embeddings=target.config.get_text_config(decoder=True).max_position_embeddings,
            tie_word_embeddings=True,
        )
        model = LlamaForCausalLM(shape).to(self.embedding.weight)
        model.model.embed_tokens.load_state_dict(self.embedding.state_dict())
        model.model.layers.load_state_dict(self.layers.state_dict())
        model.model.norm.load_state_dict(self.norm.state_dict())
        model.generation_config = copy.deepcopy(target.generation_config)
        return model.eval().requires_grad_(False)

    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: BaselineRecipe) -> Losses:
        """The losses of one batch. Rows depend on tokens only, so agreement is the same at every depth."""
        past = self.empty_past(len(batch.ids))
        out, _ = self(batch.ids, batch.positions, features, past, batch.causal)
        guessed = torch.log_softmax(self.logits(out[batch.learn]).float(), dim=-1)
        away, kl = distances(wanted, guessed, recipe.loss)
        return Losses(away.mean(), kl.mean().item(), [agrees(wanted, guessed).mean().item()] * DEPTHS)


class LayerSkip(Independent):
    """Some of the target's own layers, its norm and its head, untrained: what a drafter is worth that learnt nothing.

    It needs nothing of the target at run time, like an independent model. Nothing crosses the wire.
    """

    def __init__(self, config: BaselineConfig) -> None:
        super().__init__(config)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)  # A target's need not be its embedding.
        self.requires_grad_(False)

    def borrow(self, target: PreTrainedModel) -> None:
        borrow_from(self, target)
        self.norm.load_state_dict(target.base_model.norm.state_dict())
