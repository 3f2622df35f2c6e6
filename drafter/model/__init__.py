"""The Mixture-of-Attentions drafter in PyTorch (arXiv 2410.03804). Importing this imports torch.

`MemoryEncoder` runs with the target. Layer self-attention turns the target's keys and values of all layers into one
vector per token. The cross-attention's projections turn that vector into the *memory* that travels to the device.
`DraftModel` runs on the device: the target's own first F layers, self-attention over tokens, cross-attention over
memory, the target's own last N layers (target layer inference) and its head. Both know token ids only.
"""

from drafter.model.draft_model import DraftModel, Exit, StepModule, load_draft_model
from drafter.model.encoder import MemoryEncoder, memory_digest
from drafter.model.layers import NEVER, KeysValues, LayerShape, Norm, SelfAttentionLayer
from drafter.model.weights import save_weights

__all__ = [
    "NEVER",
    "DraftModel",
    "Exit",
    "KeysValues",
    "LayerShape",
    "MemoryEncoder",
    "Norm",
    "SelfAttentionLayer",
    "StepModule",
    "load_draft_model",
    "memory_digest",
    "save_weights",
]
