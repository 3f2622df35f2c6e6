"""EAGLE-2's drafter (arXiv 2406.16858), whose model is EAGLE's (arXiv 2401.15077), on MoA's terms.

From the paper: a linear layer fuses a token with the target's *feature* of the token before it, which is the hidden
state that the target's head reads. Decoder layers follow, then the target's own head; embedding and head are frozen. It
learns to give the next feature, with SmoothL1 on the feature and a tenth of that weight for the cross-entropy with the
target's distribution. Features get uniform noise, so that the drafter can cope with its own mistakes when it continues
from its own outputs. The tree is grown by expand and rerank (`drafter/search.py`).

Different here: it starts as its target without the layers in between, as MoA does. First layers of the target may run
before its own. The fused vector is normed, and added to the stream in units of the spread of the target's states there,
because these can be a hundred times as large as a feature; it starts at zero. The target's final norm, frozen, comes
last. The MLPs may be wider than the target's; the extra neurons start without output. Data, packing, optimisers and
schedule are MoA's.

Row j belongs to token j. It is made from that token and the feature of token j - 1. Its output estimates token j's own
feature, from which the head predicts token j + 1. So features of verified tokens 0 .. j - 1 suffice to draft after
token j, like MoA's memory of them. Beyond these, a row uses the preceding row's output.

Shapes: B sequences, M new rows, P cached rows, E the target's width, V the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from drafter.model import DraftModel, KeysValues, LayerShape, Norm, SelfAttentionLayer
from drafter.training.batches import AnsweredConversation, Batch, additive, batches, split, unseen_batches
from drafter.training.loop import fit, means
from drafter.training.losses import Losses, agrees, divergence
from drafter.training.recipe import Recipe
from drafter.training.target import INFERABLE, UnsupportedTarget, everything
from models.config import Bits, DrafterConfig, Rope
from models.memory import dequantise, quantise

FLOAT16_BYTES = 2
STEP = 32
"""The width of an MLP is a multiple of this."""


@dataclass(frozen=True)
class EagleRecipe(Recipe):
    """The choices of one training run. Anchors are in the batches but not used."""

    feature_weight: float = 10.0
    """Weight of the SmoothL1 feature loss relative to the cross-entropy, 1 to 0.1 in the paper."""
    noise: float = 0.1
    """Largest uniform noise that is added to the features it learns from."""


class EagleConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The shapes of a drafter, which are those of its target except for the MLPs."""

    vocabulary: int
    hidden: int
    copied: tuple[int, ...]
    """The target's layers as which its own ones start, one for each."""
    first_layers: int = 0
    """F: how many of the target's first layers run before its own, frozen, as in MoA."""
    first_ffn: int
    """Width of the MLPs of these."""
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    rope_theta: float
    norm_eps: float
    features: tuple[int, ...]
    """The hidden state of the target that it reads: L, the result of the final norm; empty for `TargetLayers`."""
    wire_bits: Bits = 4
    """Bits of each number of a feature on the wire, with a scale for every `head_size`."""
    stop_tokens: tuple[int, ...] = ()

    @property
    def taught(self) -> tuple[int, ...]:
        """Hidden states of the target that training uses: the features, then the output of the first F layers."""
        return (*self.features, self.first_layers) if self.first_layers else self.features

    @property
    def rope(self) -> Rope:
        """How queries and keys are rotated."""
        return Rope(self.rope_theta)


class TargetLayers(nn.Module):
    """Some of the target's own layers, its norm and its head, untrained: the baseline of a drafter that learnt nothing.

    It reads no features, and nothing crosses the wire.
    """

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.hidden)
        sizes = config.hidden, config.heads, config.kv_heads, config.head_size
        first, own = (LayerShape(*sizes, ffn, config.rope, config.norm_eps) for ffn in (config.first_ffn, config.ffn))
        self.first_layers = nn.ModuleList(SelfAttentionLayer(first) for _ in range(config.first_layers))
        self.layers = nn.ModuleList(SelfAttentionLayer(own) for _ in config.copied)
        self.norm = Norm(config.hidden, config.norm_eps)
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        self.requires_grad_(False)

    @torch.no_grad()
    def borrow(self, target: PreTrainedModel) -> None:
        """Copy the target's embedding, norm, head and first layers, and the layers as which its own ones start."""
        body = target.base_model
        self.embedding.weight.copy_(target.get_input_embeddings().weight)
        self.head.weight.copy_(target.get_output_embeddings().weight)
        self.norm.load_state_dict(body.norm.state_dict())
        for mine, its in zip(self.first_layers, body.layers):
            mine.load_state_dict(its.state_dict())
        for mine, number in zip(self.layers, self.config.copied):
            _begin_as(mine, body.layers[number])

    def forward(
        self, tokens: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """One step: outputs (..., M, E), and the new cache rows of each layer.

        `tokens`, `positions` (..., M). `previous` (..., M, E): the feature of the token before each, or the output that
        estimates it. `past`: (..., heads, P, size) of each layer, the target's first ones before its own. `mask` (...,
        M, P+M) bool: true where a row sees a row.
        """
        first = len(self.first_layers)
        x, rows = self._run(self.first_layers, self.embedding(tokens), positions, past[:first], mask)
        out, more = self._continue(x, positions, previous, past[first:], mask)
        return out, rows + more

    def logits(self, out: Tensor) -> Tensor:
        """The next token's logits for each output, (..., E) -> (..., V)."""
        return self.head(out)  # type: ignore[no-any-return]

    def wire(self, features: Tensor) -> Tensor:
        """Features (n, E) as they arrive on the device."""
        parts = features.float().cpu().numpy().reshape(len(features), -1, self.config.head_size)
        return torch.from_numpy(dequantise(*quantise(parts, self.config.wire_bits))).flatten(1).to(features.device)

    @property
    def bytes_per_token(self) -> int:
        """Bytes on the wire for each verified token, besides the token itself."""
        config = self.config
        size = config.hidden * config.wire_bits // 8 + FLOAT16_BYTES * config.hidden // config.head_size
        return size if config.features else 0

    def empty_past(self, *batch: int) -> list[KeysValues]:
        """No cached rows."""
        shape = (*batch, self.config.kv_heads, 0, self.config.head_size)
        return [(self.embedding.weight.new_zeros(shape),) * 2 for _ in [*self.first_layers, *self.layers]]

    def _continue(
        self, x: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """A step after the target's first layers, whose output is `x`."""
        out, rows = self._run(self.layers, x, positions, past, mask)
        return self.norm(out), rows

    def _run(
        self, layers: nn.ModuleList, x: Tensor, positions: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        """Run layers one after another, each with its cached rows."""
        rows, seen = [], additive(mask)
        for layer, cached in zip(layers, past, strict=True):
            x, new = layer(x, positions, cached, seen)
            rows.append(new)
        return x, rows


class Eagle2(TargetLayers):
    """Decoder layers over [token ; feature]. Their output is the next feature."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__(config)
        self.layers.requires_grad_(True)
        self.fuse = nn.Linear(2 * config.hidden, config.hidden)
        self.token_norm, self.feature_norm = (Norm(config.hidden, config.norm_eps) for _ in range(2))
        nn.init.zeros_(self.fuse.weight)
        nn.init.zeros_(self.fuse.bias)
        self.spread: Tensor
        self.register_buffer("spread", torch.ones(config.hidden))

    @torch.no_grad()
    def begin(self, batch: Batch, features: Tensor) -> None:
        """Measure, on a first batch, the spread of the states that features are added to."""
        _, start = self._taught(batch, features)
        self.spread.copy_(start[batch.segments > 0].float().std(dim=0).clamp(min=1e-6))

    def losses(self, batch: Batch, features: Tensor, wanted: Tensor, recipe: EagleRecipe) -> Losses:
        """The losses of one batch, teacher-forced: each row starts from the target's feature.

        `features` (B, T, W): the target's states of `config.taught`. `wanted` (n, V): its log-probabilities where
        `batch.learn` holds.
        """
        features, start = self._taught(batch, features)
        noise = recipe.noise * (2 * torch.rand_like(features) - 1)
        # For each token of packed rows, the feature of the one before it; zero if there is none.
        previous = torch.where(batch.positions[..., None] > 0, (features + noise).roll(1, dims=-2), 0.0)
        past = self.empty_past(len(batch.ids))[len(self.first_layers) :]
        out, _ = self._continue(start, batch.positions, previous, past, batch.causal)
        out = out[batch.learn]
        guessed = torch.log_softmax(self.logits(out).float(), dim=-1)
        distance = nn.functional.smooth_l1_loss(out.float(), features[batch.learn].float())
        away = divergence(wanted, guessed).mean()
        return Losses(away + recipe.feature_weight * distance, away.item(), [agrees(wanted, guessed).mean().item()])

    def _continue(
        self, x: Tensor, positions: Tensor, previous: Tensor, past: Sequence[KeysValues], mask: Tensor
    ) -> tuple[Tensor, list[KeysValues]]:
        both = torch.cat((self.token_norm(x), self.feature_norm(previous)), dim=-1)
        # The stream stays in float32 even if layers compute in bfloat16.
        return super()._continue(x + self.spread * self.fuse(both).float(), positions, previous, past, mask)

    def _taught(self, batch: Batch, features: Tensor) -> tuple[Tensor, Tensor]:
        """The target's states of a batch (B, T, W), split into the features and the input of its own layers."""
        if not self.config.first_layers:
            return features, self.embedding(batch.ids)
        width = self.config.hidden
        return features[..., :-width], features[..., -width:]


def _begin_as(own: nn.Module, theirs: nn.Module) -> None:
    """Initialise a layer to compute the same as a target's layer. Extra neurons of its MLP start without output."""
    source = theirs.state_dict()
    for name, weight in own.state_dict().items():
        given = source[name]
        if name.endswith("down_proj.weight"):
            weight.zero_()
        weight[tuple(slice(size) for size in given.shape)] = given


def equal_config(
    target: PreTrainedModel, moa: DrafterConfig, copied: tuple[int, ...], first_layers: int, *, learns: bool = True
) -> EagleConfig:
    """Shapes on MoA's terms: a draft step reads as many parameters as `moa` does.

    `copied`: the target's layers as which its own ones start. The width of their MLPs is chosen to reach that number;
    it is not below the target's, and equal to it in a drafter that does not learn. Raises `UnsupportedTarget` if the
    device cannot run the target's layers.
    """
    family = INFERABLE.get(target.config.model_type)
    if family is None or family.qkv_bias or family.qk_norm or not moa.from_target:
        raise UnsupportedTarget("EAGLE-2 begins as layers of a Llama or a Mistral only.")
    best = EagleConfig(
        vocabulary=moa.vocabulary,
        hidden=moa.hidden,
        copied=copied,
        first_layers=first_layers,
        first_ffn=moa.target_ffn,
        heads=moa.heads,
        kv_heads=moa.kv_heads,
        head_size=moa.head_size,
        ffn=moa.target_ffn,
        rope_theta=moa.rope_theta,
        norm_eps=moa.norm_eps,
        features=(moa.target_layers,) if learns else (),
        stop_tokens=moa.stop_tokens,
    )
    if not learns:
        return best
    wanted = _step_parameters(DraftModel, moa)
    while True:
        wider = msgspec.structs.replace(best, ffn=best.ffn + STEP)
        if abs(step_parameters(wider) - wanted) > abs(step_parameters(best) - wanted):
            return best
        best = wider


def step_parameters(config: EagleConfig | DrafterConfig) -> int:
    """Numbers that a draft step multiplies by: layers, norms and the head, of which only drafted tokens count."""
    if isinstance(config, DrafterConfig):
        return _step_parameters(DraftModel, config)
    return _step_parameters(Eagle2 if config.features else TargetLayers, config)


def _step_parameters(kind: type[nn.Module], config: EagleConfig | DrafterConfig) -> int:
    with torch.device("meta"):
        model = kind(config)
    elsewhere = ("embedding", "head")
    own = sum(part.numel() for name, part in model.named_parameters() if name.split(".")[0] not in elsewhere)
    drafted = len(config.draft_vocabulary) if isinstance(config, DrafterConfig) else 0
    return own + config.hidden * (drafted or config.vocabulary)


def train_eagle2(
    config: EagleConfig,
    target: PreTrainedModel,
    data: list[AnsweredConversation],
    out: Path,
    recipe: EagleRecipe,
) -> Eagle2:
    """Train for `recipe.steps` as MoA is trained, resuming from a checkpoint in `out`."""
    torch.manual_seed(recipe.seed)
    target = target.eval().requires_grad_(False)
    model = Eagle2(config)
    model.borrow(target)

    def losses(batch: Batch) -> Losses:
        return model.losses(batch, *teach(target, batch, config.taught), recipe)

    learnt, unseen = split(data)
    some = unseen_batches(unseen, recipe)
    first = next(batches(learnt, recipe))
    model.begin(first, teach(target, first, config.taught)[0])

    def check() -> dict[str, object]:
        return means([losses(batch) for batch in some])

    fit(model, partial(batches, learnt, recipe), losses, out, recipe, "cpu", check if unseen else None)
    return model


@torch.no_grad()
def teach(target: PreTrainedModel, batch: Batch, layers: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The target's hidden states of `layers` (B, T, W), and its log-probabilities (n, V) where `batch.learn` holds."""
    _, features, last = everything(target, batch.ids, batch.positions, batch.causal[:, None], layers)
    return features, torch.log_softmax(target.get_output_embeddings()(last[batch.learn]).float(), dim=-1)
