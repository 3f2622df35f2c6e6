"""What a device and its verifier both hold of one conversation: the tokens, their digests, and how many are shared.

The device owns the tokens that it wants committed. The verifier owns what is committed. Every reply is checked here
before it counts. No network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os.path import commonprefix
from typing import Any

from models.tree import ROOT, DraftTree
from remote.errors import UPDATE, Incompatible, quoted
from remote.protocol import Conflict, Progress, ProtocolError, RunningDigest, Verdict, pack_tokens, unpack_tokens
from remote.reply_limits import ReplyLimits


class SharedTokens:
    """The tokens that the device wants committed, and how many of them the verifier is believed to hold."""

    def __init__(self, limits: ReplyLimits, host: str) -> None:
        """`host`: the verifier's name in error messages."""
        self.held = 0
        """How many of the tokens the verifier is believed to hold."""
        self._limits, self._host = limits, host
        self.tokens: list[int] = []
        """The tokens that the device wants committed."""
        self._digests = RunningDigest()
        """Kept in step with the tokens."""

    def __len__(self) -> int:
        return len(self.tokens)

    def align(self, tokens: Sequence[int]) -> int:
        """Replace the wanted tokens, and return how many of them the verifier is believed to hold already."""
        shared = len(commonprefix((self.tokens, list(tokens))))
        self._digests.truncate(shared)
        self._digests.extend(tokens[shared:])
        self.tokens = list(tokens)
        return min(shared, self.held)

    def since(self, base: int) -> dict[str, Any]:
        """The fields of a request that carry the tokens, if the verifier holds the first `base` of them."""
        return {"base": base, "digest": self._digests.at(base), "append": pack_tokens(self.tokens[base:])}

    def longest_prefix(self, conflict: Conflict) -> int:
        """The length of the longest prefix of the wanted tokens that the verifier says it holds."""
        held = (length for length, digest in conflict.have if self._has(length, digest))
        return max(held, default=0)

    def take_verdict(self, verdict: Verdict, tree: DraftTree, number: int) -> None:
        """Commit what a verdict on `tree` adds, in the round of this number.

        Raises `Incompatible` unless it follows from the tokens and the tree that were sent.
        """
        gained, at = [], ROOT
        for node in verdict.accepted:
            if node >= len(tree) or tree.parents[node] != at:
                raise Incompatible(f"{self._host} accepted node {node}, which is not a child of {at}; {UPDATE}")
            gained.append(int(tree.tokens[node]))
            at = node
        if verdict.bonus is not None:
            self._limits.check_tokens([verdict.bonus], self._host)
            gained.append(verdict.bonus)
        if not gained and not verdict.finished:
            raise Incompatible(f"{self._host} gave no token and does not say why; {UPDATE}")
        self._commit(gained, verdict.length, verdict.digest, as_said=verdict.round == number)

    def take_progress(self, frame: Progress) -> None:
        """Commit the tokens of one frame of a stream. Raises `Incompatible` for tokens that it cannot have."""
        try:
            gained = unpack_tokens(frame.tokens)
        except ProtocolError as error:
            raise Incompatible(f"{self._host} sent {quoted(str(error))}; {UPDATE}") from None
        self._limits.check_tokens(gained, self._host)
        self._commit(gained, frame.length, frame.digest, as_said=bool(gained))

    def _commit(self, gained: Iterable[int], length: int, digest: bytes, *, as_said: bool) -> None:
        """Append tokens, after which the verifier claims that this many tokens with this digest are committed.

        Raises `Incompatible`, and changes nothing, if that is not so.
        """
        before, gained = len(self.tokens), list(gained)
        self._digests.extend(gained)
        after = before + len(gained)
        if not as_said or (length, digest) != (after, self._digests.at(after)):
            self._digests.truncate(before)
            raise Incompatible(f"{self._host} committed other tokens than it says; {UPDATE}")
        self.tokens += gained
        self.held = len(self.tokens)

    def _has(self, length: int, digest: bytes) -> bool:
        return length <= len(self.tokens) and self._digests.at(length) == digest
