"""What a drafter's folder says about itself: shapes, the target it belongs to, and checksums of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

Bits = Literal[4, 8]
"""Bits of a number of memory."""
CONFIG = "config.json"
GRAPH = "drafter.onnx"
GRAPH_WEIGHTS = f"{GRAPH}.data"
"""File with the weights of a graph that are too large for its own file."""
TOKENIZER = "tokenizer.json"
TEMPLATE = "chat_template.jinja"
DIGEST_BYTES = 16
"""Bytes of a digest, on the wire too."""
INLINE = 1_500_000_000
"""Bytes of weights that fit into the graph's own file, whose format ends at 2 GB. Larger ones get a separate file."""
SPECIAL_TOKENS = "special_tokens_map.json"
"""The texts of the tokens that the template knows by name, such as `bos_token`."""
ENCODER = "memory_encoder.safetensors"
FLOAT = "model.safetensors"

DATASTORE = "datastore.npz"

Scheme = Literal["int8", "nbits8", "nbits4", "auto"]
"""How the weights of the step graph are quantised; see `models/engines/quantise.py`."""


class DrafterError(Exception):
    """A drafter that cannot be used. The message says why and what to do."""


class DrafterMissing(DrafterError):
    """The folder or one of its files is missing."""


class DrafterCorrupt(DrafterError):
    """A file cannot be read, or does not match its checksum."""


class Rope(NamedTuple):
    """Rotary position embedding: by how much the parts of queries and keys rotate with each position."""

    theta: float
    """Part i of a head of size d rotates by theta^(-2i/d) radians per position."""
    frequencies: tuple[float, ...] = ()
    """Radians per position for each pair of a head, if a target scales them; empty: computed from `theta`."""
    scale: float = 1.0
    """Scale of queries and keys, as in YaRN."""


class PromptRecipe(msgspec.Struct, frozen=True):
    """How the target is to be prompted, beyond the chat template; see `models/guide`."""

    name: str
    version: int
    file: str
    """The file in the drafter's folder that the recipe reads."""
    sha256: str
    """Checksum of that file, hex."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """How well a drafter guesses, on answers of its target that were not used to make it."""

    tau: float
    """Tokens gained per round, bonus included; 1 means that no guess was right."""
    alone: float
    """Share of the target's tokens that are its first choice without memory of the answer: its quality offline."""
    repeated: float
    """Share of repeated four-grams in answers of `WRITTEN` tokens that it wrote alone."""
    perplexity: float | None = None
    """Perplexity of those answers under the target, or None if no target was available."""


WRITTEN = 64
"""Tokens of an answer that a drafter writes alone for the measurement."""


class FirstMemory(msgspec.Struct, frozen=True):
    """Memory of the token with which every conversation begins, known before a server has sent any."""

    token: int
    memory: bytes
    """Packed as on the wire."""


class DrafterConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `config.json` of a drafter's folder."""

    target: str
    """Name of the target, for people."""
    vocabulary: int
    """Size of the target's vocabulary."""
    hidden: int
    """E, the hidden size of the target."""
    target_layers: int
    """L, the number of the target's layers."""
    target_kv_heads: int
    target_head_size: int
    heads: int
    """Query heads of the self-attention and of the cross-attention."""
    kv_heads: int
    """Key-value heads of both; memory row 0 has as many."""
    head_size: int
    ffn: int
    """Width of both MLPs."""
    encoder_ffn: int
    """Width of the MLP in the layer self-attention."""
    inference_layers: int
    """N: how many of the target's last layers run on the device (target layer inference)."""
    first_layers: int = 0
    """F: how many of the target's first layers run on the device, before the self-attention. They need only tokens."""
    target_heads: int
    target_ffn: int
    target_qkv_bias: bool = False
    target_qk_norm: bool = False
    """The target's layers norm queries and keys, as Qwen3's do (`target_qkv_bias`: add biases, as Qwen2's do). The
    layers that run on the device, or begin as the target's, do so too."""
    rope_theta: float
    rope_frequencies: tuple[float, ...] = ()
    rope_scale: float = 1.0
    """See `Rope`."""
    norm_eps: float
    blocks: int = 1
    """Self-attention layers before the cross-attention."""
    layer_self_attention: bool = True
    """Layer self-attention (LSA). Off: the plain mean over the target's layers."""
    cross_attention: Literal[True] = True
    """Written by versions whose drafters could do without it."""
    exit_norm: bool = False
    """The result of the cross-attention is scaled to the range of the target's hidden states."""
    from_target: bool = False
    """Self-attention and cross-attention have the shape of the target's layers and start as copies of some of them. The
    encoder's output is added to the keys and values of the layer that the cross-attention replaces."""
    correctable: bool = False
    """The step graph accepts a low-rank correction of its logits, and returns the hidden states to learn one from."""
    top: int = 32
    """K: how many of the likeliest tokens a step returns."""
    scheme: Scheme = "int8"
    """How the step graph was quantised."""
    draft_vocabulary: tuple[int, ...] = ()
    """Target ids that the head can draft; empty: all."""
    stop_tokens: tuple[int, ...] = ()
    steps: int = 0
    """Training steps, including those of the drafter it started from, or 0 if unknown."""
    seconds: float = 0.0
    """Seconds of training."""
    tokenizer: str = ""
    """Digest of the tokenizer file, hex."""
    memory_bits: Bits = 8
    """Bits of each number of memory on the wire."""
    memory: str = ""
    """Digest of the target, LSA and the cross-attention projections, hex. Stored memory is valid while it stays the
    same."""
    first_memory: FirstMemory | msgspec.UnsetType = msgspec.UNSET
    """Most heads of a pretrained model attend to the first token where nothing else matters (attention sinks, arXiv
    2309.17453). Without its memory, such a model's last layers write noise. Unset in drafters of earlier versions."""
    prompt_recipe: PromptRecipe | msgspec.UnsetType = msgspec.UNSET
    """Unset: questions are sent as they are."""
    measured: Measured | msgspec.UnsetType = msgspec.UNSET
    """Unset: never measured. For the consequences, see `drafter/floors.py`."""
    files: dict[str, str] = {}
    """File name -> sha256, hex."""

    @property
    def rope(self) -> Rope:
        """How queries and keys are rotated, by the target and by the drafter."""
        return Rope(self.rope_theta, self.rope_frequencies, self.rope_scale)

    @property
    def entry_layer(self) -> int:
        """The first of the target's last layers that run on the device; the number of its layers if none does."""
        return self.target_layers - self.inference_layers

    @property
    def replaced(self) -> int:
        """The target's layer that the cross-attention replaces: the one before the last N."""
        return self.entry_layer - 1

    @property
    def memory_digest(self) -> bytes:
        """`memory` in bytes, as it is on the wire."""
        return bytes.fromhex(self.memory)

    @property
    def memory_layers(self) -> tuple[tuple[int, int], ...]:
        """(heads, size) of each memory row: the cross-attention's, then those of the target's last N layers."""
        return ((self.kv_heads, self.head_size),) + (
            (self.target_kv_heads, self.target_head_size),
        ) * self.inference_layers


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_config(folder: Path, *, verify: tuple[str, ...] = ()) -> DrafterConfig:
    """The config of a drafter's folder. Files named in `verify` are checked against their checksums.

    If the graph is named, its separate weights are checked too.

    Raises `DrafterMissing` or `DrafterCorrupt`.
    """
    try:
        return _read_config(folder, verify)
    except OSError as error:
        raise DrafterCorrupt(f"{error.filename or folder} cannot be read: {error.strerror}.") from None


def _read_config(folder: Path, verify: tuple[str, ...]) -> DrafterConfig:
    path = folder / CONFIG
    if not path.is_file():
        raise DrafterMissing(f"No drafter in {folder}: {CONFIG} is missing. Check the path, or reinstall outrider.")
    try:
        config = msgspec.json.decode(path.read_bytes(), type=DrafterConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DrafterCorrupt(f"{path} cannot be read ({error}). Reinstall the drafter.") from None
    if GRAPH in verify and GRAPH_WEIGHTS in config.files:
        verify = (*verify, GRAPH_WEIGHTS)
    for name in verify:
        if not (folder / name).is_file():
            raise DrafterMissing(f"{folder / name} is missing. Reinstall the drafter.")
        if name in config.files and sha256(folder / name) != config.files[name]:
            raise DrafterCorrupt(f"{folder / name} does not match its checksum. Reinstall the drafter.")
    return config


def write_config(folder: Path, config: DrafterConfig) -> DrafterConfig:
    """Write the config with the checksums of the folder's other files, and return it."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != CONFIG)
    config = msgspec.structs.replace(config, files={name: sha256(folder / name) for name in names})
    (folder / CONFIG).write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=1))
    return config
