"""Every message between device and verifier, typed and versioned. Only this package knows the bytes of the wire.

Bodies are msgpack of the structs here. Numbers in bulk travel as little-endian raw bytes. A reply is a stream of
frames. Each frame is a 4-byte little-endian length, one byte for the kind, and msgpack. The reply to a round is one
`Verdict`, then `Memory`, newest tokens first, then `Likeliest` if requested. A stream has a `Progress` for each of the
verifier's own rounds, each followed by `Memory` and `Likeliest` for what it verified. On request, an `Alive` follows
the first one, and is sent whenever nothing else is for a while. Nothing is ever pickled, and every size is checked
before it is used.
"""

from remote.protocol.card import Card, DrafterOffer, Limits, MemoryFormat
from remote.protocol.codec import (
    RunningDigest,
    decode,
    decode_frame,
    digest_of,
    encode,
    encode_frame,
    pack_tokens,
    read_frames,
    unpack_tokens,
)
from remote.protocol.fields import (
    CONTENT_TYPE,
    MAX_FRAME_BYTES,
    SESSION_HEADER,
    VERSION,
    CutOff,
    Positive,
    ProtocolError,
    Struct,
)
from remote.protocol.likeliest import MOST_REJECTED, Likeliest
from remote.protocol.messages import (
    Alive,
    Conflict,
    Error,
    ErrorCode,
    Frame,
    Memory,
    Progress,
    Round,
    Sampling,
    Stream,
    Verdict,
)
from remote.protocol.proposals import Propose, Proposed
from remote.protocol.tree import Tree

__all__ = [
    "Alive",
    "CONTENT_TYPE",
    "Card",
    "DrafterOffer",
    "Conflict",
    "CutOff",
    "Error",
    "ErrorCode",
    "Frame",
    "Likeliest",
    "Limits",
    "MAX_FRAME_BYTES",
    "MOST_REJECTED",
    "Memory",
    "MemoryFormat",
    "Positive",
    "Progress",
    "Propose",
    "Proposed",
    "ProtocolError",
    "Round",
    "RunningDigest",
    "SESSION_HEADER",
    "Sampling",
    "Stream",
    "Struct",
    "Tree",
    "VERSION",
    "Verdict",
    "decode",
    "decode_frame",
    "digest_of",
    "encode",
    "encode_frame",
    "pack_tokens",
    "read_frames",
    "unpack_tokens",
]
