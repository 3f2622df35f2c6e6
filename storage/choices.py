"""What is kept with one conversation: who answers, under which instructions, how it is sampled, where it was begun."""

from __future__ import annotations

from typing import Annotated

import msgspec


class Choices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The choices of a conversation. None where the settings decide. Unknown fields of a newer version are skipped."""

    remote: str | None = None
    """Name of the server in the registry, or `bundled`."""
    model: str | None = None
    """Model to ask that server for."""
    system: str | None = None
    """The system prompt, in full: a prompt of the library may change later, and this conversation stays as it was."""
    system_name: str | None = None
    """Name of the system prompt in the library when it was chosen."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    origin: str | None = None
    """Where it was begun, until it is continued elsewhere: `ask`, in the shell; None in the chat."""

    @property
    def sampling(self) -> dict[str, float | int]:
        """The values that replace the settings of the same name."""
        names = ("temperature", "top_k", "top_p", "seed", "max_tokens")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


NONE = Choices()
ASKED = "ask"
"""The origin of what `outrider ask` has begun."""
_DECODER = msgspec.json.Decoder(Choices)
"""Made once, because msgspec crashes if several threads meet a struct for the first time at the same moment."""


def pack_choices(choices: Choices) -> str:
    return msgspec.json.encode(choices).decode()


def unpack_choices(packed: str) -> Choices:
    """The choices that a row holds; none if another program has written what cannot be read."""
    try:
        return _DECODER.decode(packed)
    except msgspec.DecodeError:
        return NONE
