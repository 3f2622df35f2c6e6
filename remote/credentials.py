"""Tokens as people give them, and addresses without what nobody else may see."""

from __future__ import annotations

import re

BEFORE = re.compile(r"(?i)[\ufeff\s]*((authorization:\s*)?bearer(\s+|$))?")
"""What people copy along with a token: the name of its header."""


def bearer_token(given: str) -> str:
    """The token in what a person gave: without white space around it, a byte order mark, and `Bearer` before it.

    Raises `ValueError`, which says what is wrong with it, and shows nothing of it.
    """
    token = BEFORE.sub("", given, count=1).strip()
    if not token:
        raise ValueError("the token is empty")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token holds characters that no HTTP header can carry; copy it again")
    return token


def without_credentials(address: str) -> str:
    """An address as it may be shown. It need not be valid: everything before its last `@` is left out."""
    credentials, _, rest = address.rpartition("@")
    scheme, mark, _ = credentials.partition("://")
    return f"{scheme}{mark}{rest}" if mark else rest
