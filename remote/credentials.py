"""Tokens as people enter them, and addresses without credentials."""

from __future__ import annotations

import re

BEFORE = re.compile(r"(?i)[\ufeff\s]*((authorization:\s*)?bearer(\s+|$))?")
"""The header name, which people often copy along with a token."""


def bearer_token(given: str) -> str:
    """The token in a person's input, without surrounding white space, a byte order mark, or a leading `Bearer`.

    Raises `ValueError`, which says what is wrong with the token without quoting it.
    """
    token = BEFORE.sub("", given, count=1).strip()
    if not token:
        raise ValueError("the token is empty")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("the token holds characters that no HTTP header can carry; copy it again")
    return token


def without_credentials(address: str) -> str:
    """The address without its credentials. It need not be valid: everything before its last `@` is left out."""
    credentials, _, rest = address.rpartition("@")
    scheme, mark, _ = credentials.partition("://")
    return f"{scheme}{mark}{rest}" if mark else rest
