"""The wire between a device and its verifier. The names here are the device's half and need no torch."""

from remote.chat_stream import ChatStream
from remote.client import VerifierClient
from remote.completions import CompletionsClient
from remote.detect import Kind, detect
from remote.errors import Broken, Busy, Incompatible, LinkDown, Misconfigured, Refused, RemoteError, Stranger, Unsent
from remote.link import Link
from remote.session import HostedStream, MemoryStream, RemoteSession, RoundReply
from remote.transport import TransportOptions

__all__ = [
    "HostedStream",
    "Broken",
    "Busy",
    "ChatStream",
    "CompletionsClient",
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
    "detect",
]
