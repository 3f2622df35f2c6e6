"""The settings of one conversation: who answers, with which instructions and sampling, and where it was started."""

from __future__ import annotations

from typing import Annotated

import msgspec


class Choices(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The choices made for a conversation.

    None means that the settings decide. Unknown fields of a newer version are skipped.
    """

    remote: str | None = None
    """Name of the server in the registry, or `bundled`."""
    model: str | None = None
    """Model to ask that server for."""
    system: str | None = None
    """The full text of the system prompt, so that a later change in the library does not affect this conversation."""
    system_name: str | None = None
    """Name of the system prompt in the library when it was chosen."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tools: tuple[str, ...] = ()
    """Names of the servers whose tools are offered to the model."""
    allowed: tuple[str, ...] = ()
    """Tools, as `server/tool`, whose calls need no further yes."""
    tags: tuple[str, ...] = ()
    """Words by which the person sorts conversations, in small letters, without `#`."""
    origin: str | None = None
    """Where it was started, until it is continued elsewhere: `ask` for the shell, None for the chat."""

    @property
    def sampling(self) -> dict[str, float | int]:
        """The values that replace the settings of the same name."""
        names = ("temperature", "top_k", "top_p", "seed", "max_tokens")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


NONE = Choices()
ASKED = "ask"
"""The origin of conversations that `outrider ask` started."""
_DECODER = msgspec.json.Decoder(Choices)
"""Made once, because msgspec crashes if several threads first use a struct at the same moment."""


def pack_choices(choices: Choices) -> str:
    return msgspec.json.encode(choices).decode()


def unpack_choices(packed: str) -> Choices:
    """The choices in a row; empty ones if another program wrote something that cannot be read."""
    try:
        return _DECODER.decode(packed)
    except msgspec.DecodeError:
        return NONE
