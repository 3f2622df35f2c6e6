"""Who holds which token of the verifier. Only hashes of tokens are kept.

A token file has one token per line, optionally with a name before it. Two tokens with one name have the same holder, so
a token can be replaced. If there is one token or none, everybody is the same holder.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

EVERYONE = "everyone"
"""The holder if clients cannot be distinguished."""
SHORTEST_TOKEN = 16
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
"""Folders are named after it, and some file systems ignore case."""
SCOPE = "outrider.holder"
"""The key of a request's holder in the ASGI scope."""


class SecurityError(Exception):
    """The verifier would not be secure with these options. The message says what to change."""


class BadToken(SecurityError):
    """The token file is missing, empty or wrong, or a token is too short."""


class Tokens:
    """The tokens that a verifier accepts."""

    def __init__(self, tokens: Iterable[tuple[str | None, str]]) -> None:
        """`tokens`: each with the name of its holder or None. Raises `BadToken`."""
        told = list(tokens)
        for name, token in told:
            if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
                raise BadToken(f"A token needs {SHORTEST_TOKEN} or more characters of ASCII, without spaces.")
            if name is not None and (not NAME.fullmatch(name) or name == EVERYONE):
                raise BadToken(
                    "The name of a token has up to 40 small letters, digits, dots, dashes and underscores, and is not "
                    f"{EVERYONE!r}."
                )
        self._holders = {_hash(token): EVERYONE if len(told) == 1 else name or _nameless(token) for name, token in told}
        if not self._holders:
            raise BadToken("There is no token.")

    @classmethod
    def one(cls, token: str) -> Tokens:
        """A single token. Raises `BadToken`."""
        return cls([(None, token)])

    @property
    def holders(self) -> frozenset[str]:
        return frozenset(self._holders.values())

    def holder(self, shown: str) -> str | None:
        """The holder of this token, or None for a wrong one."""
        hashed, found = _hash(shown), None
        # Every token is compared, and `compare_digest` takes the same time for any wrong one, so none can be guessed
        # piecemeal.
        for known, holder in self._holders.items():
            if hmac.compare_digest(hashed, known):
                found = holder
        return found


def read_tokens(path: Path) -> Tokens:
    """The tokens in a file: one a line, with the name of its holder before it or without one. Raises `BadToken`."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise BadToken(f"The token file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadToken(f"The token file {path} is not text in UTF-8; save it as UTF-8") from None
    found: list[tuple[str | None, str]] = []
    for words in filter(None, map(_words, lines)):
        if len(words) > 2:
            raise BadToken(f"{path} has a line that is neither TOKEN nor NAME TOKEN.")
        found.append((words[0] if len(words) == 2 else None, words[-1]))
    try:
        return Tokens(found)
    except BadToken as error:
        raise BadToken(
            f"{path} must hold tokens of {SHORTEST_TOKEN} or more characters, as `openssl rand -hex 32` makes, one a "
            f"line, with a name before it or without one. {error}"
        ) from None


def _words(line: str) -> list[str]:
    """The words of a line, without `Bearer`, which may have been copied along with a token."""
    return [word for word in line.split() if word != "Bearer"]


def holder_of(request: Request) -> str:
    """The holder of the token that a request presented."""
    holder: str = request.scope.get(SCOPE, EVERYONE)
    return holder


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _nameless(token: str) -> str:
    """A name for a holder without one.

    Folders are named after it, so it is derived slowly enough that guessing the token from it is hard.
    """
    return "token-" + hashlib.scrypt(token.encode(), salt=b"outrider holder", n=1 << 14, r=8, p=1, dklen=8).hex()
