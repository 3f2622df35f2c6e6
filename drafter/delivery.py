"""The part of a drafter's folder that devices get: the files to draft with, and a config that lists them.

The float weights and the memory encoder stay with the verifier. So does the datastore, which consists of people's
answers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from models.config import (
    GRAPH,
    GRAPH_WEIGHTS,
    SPECIAL_TOKENS,
    TEMPLATE,
    TOKENIZER,
    DrafterConfig,
    DrafterMissing,
    read_config,
)

NEEDED = (GRAPH, TOKENIZER, TEMPLATE)
"""Files without which a device cannot draft."""
ALLOWED = (*NEEDED, GRAPH_WEIGHTS, SPECIAL_TOKENS)
"""All files that a device accepts: ONNX, JSON and the text of a template."""


@dataclass(frozen=True)
class Delivery:
    """A drafter as it is sent to devices."""

    digest: bytes
    """32 bytes, SHA-256 of `config`: it identifies every byte of the drafter, because the config has the checksums."""
    config: bytes
    """The `config.json` of the device's folder."""
    sizes: dict[str, int]
    """Bytes of each other file."""

    @property
    def bytes(self) -> int:
        return len(self.config) + sum(self.sizes.values())


def file_names(config: DrafterConfig) -> list[str]:
    """The files that a device gets besides the config, in order."""
    return [name for name in ALLOWED if name in config.files]


def delivery(folder: Path) -> Delivery:
    """The delivery of the drafter in `folder`. Raises `DrafterMissing`, `DrafterCorrupt`."""
    whole = read_config(folder)
    names = file_names(whole)
    for name in NEEDED:
        if name not in names:
            raise DrafterMissing(f"{folder / name} is missing. Make the drafter again.")
    read_config(folder, verify=tuple(names))
    config = msgspec.structs.replace(whole, files={name: whole.files[name] for name in names})
    encoded = msgspec.json.format(msgspec.json.encode(config), indent=1)
    sizes = {name: (folder / name).stat().st_size for name in names}
    return Delivery(hashlib.sha256(encoded).digest(), encoded, sizes)


def delivered_bytes(folder: Path) -> int:
    """Bytes that a device fetches of the drafter in `folder`. Raises `DrafterMissing`, `DrafterCorrupt`."""
    return delivery(folder).bytes
