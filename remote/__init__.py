"""The wire between a device and its verifier. The names here are the device's half and do not need torch.

They are looked up when they are first used, so a server does not wait for the client's libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remote.anthropic.client import MessagesClient as MessagesClient
    from remote.client import VerifierClient as VerifierClient
    from remote.detect import Kind as Kind
    from remote.errors import Broken as Broken
    from remote.errors import Busy as Busy
    from remote.errors import Incompatible as Incompatible
    from remote.errors import LinkDown as LinkDown
    from remote.errors import Misconfigured as Misconfigured
    from remote.errors import Refused as Refused
    from remote.errors import RemoteError as RemoteError
    from remote.errors import Stranger as Stranger
    from remote.errors import TooSlow as TooSlow
    from remote.errors import Unsent as Unsent
    from remote.link import Link as Link
    from remote.openai.client import CompletionsClient as CompletionsClient
    from remote.openai.gemini import GeminiClient as GeminiClient
    from remote.openai.stream import ChatStream as ChatStream
    from remote.replies import HostedStream as HostedStream
    from remote.replies import MemoryStream as MemoryStream
    from remote.replies import RoundReply as RoundReply
    from remote.session import RemoteSession as RemoteSession
    from remote.transport import TransportOptions as TransportOptions

_HOMES = {
    "anthropic.client": "MessagesClient",
    "client": "VerifierClient",
    "detect": "Kind",
    "errors": "Broken Busy Incompatible LinkDown Misconfigured Refused RemoteError Stranger TooSlow Unsent",
    "link": "Link",
    "openai.client": "CompletionsClient",
    "openai.gemini": "GeminiClient",
    "openai.stream": "ChatStream",
    "replies": "HostedStream MemoryStream RoundReply",
    "session": "RemoteSession",
    "transport": "TransportOptions",
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"remote.{home}"), name)
    raise AttributeError(f"module 'remote' has no attribute {name!r}")
