"""The wire between a device and its verifier. The names here are the device's half and do not need torch."""

from remote.client import VerifierClient
from remote.detect import Kind, detect
from remote.errors import Broken, Busy, Incompatible, LinkDown, Misconfigured, Refused, RemoteError, Stranger, Unsent
from remote.link import Link
from remote.openai.client import CompletionsClient
from remote.openai.stream import ChatStream
from remote.replies import HostedStream, MemoryStream, RoundReply
from remote.session import RemoteSession
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
