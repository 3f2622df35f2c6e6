"""The wire between a device and its verifier. The names here are the device's half and do not need torch.

They are looked up when they are first used, so a server does not wait for the client's libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remote.client import VerifierClient
    from remote.detect import Kind
    from remote.errors import (
        Broken,
        Busy,
        Incompatible,
        LinkDown,
        Misconfigured,
        Refused,
        RemoteError,
        Stranger,
        Unsent,
    )
    from remote.link import Link
    from remote.openai.client import CompletionsClient
    from remote.openai.stream import ChatStream
    from remote.replies import HostedStream, MemoryStream, RoundReply
    from remote.session import RemoteSession
    from remote.transport import TransportOptions

_HOMES = {
    "Broken": "errors",
    "Busy": "errors",
    "ChatStream": "openai.stream",
    "CompletionsClient": "openai.client",
    "HostedStream": "replies",
    "Incompatible": "errors",
    "Kind": "detect",
    "Link": "link",
    "LinkDown": "errors",
    "MemoryStream": "replies",
    "Misconfigured": "errors",
    "Refused": "errors",
    "RemoteError": "errors",
    "RemoteSession": "session",
    "RoundReply": "replies",
    "Stranger": "errors",
    "TransportOptions": "transport",
    "Unsent": "errors",
    "VerifierClient": "client",
}

__all__ = [
    "Broken",
    "Busy",
    "ChatStream",
    "CompletionsClient",
    "HostedStream",
    "Incompatible",
    "Kind",
    "Link",
    "LinkDown",
    "MemoryStream",
    "Misconfigured",
    "Refused",
    "RemoteError",
    "RemoteSession",
    "RoundReply",
    "Stranger",
    "TransportOptions",
    "Unsent",
    "VerifierClient",
]


def __getattr__(name: str) -> object:
    if home := _HOMES.get(name):
        return getattr(import_module(f"remote.{home}"), name)
    raise AttributeError(f"module 'remote' has no attribute {name!r}")
