"""Recognises web pages that arrive instead of an answer, from nginx, Cloudflare, a proxy or a login portal."""

from __future__ import annotations

import html
import re

from remote.errors import quoted

TITLE = re.compile(rb"<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", re.IGNORECASE | re.DOTALL)
TAG = re.compile(r"<[^>]*>")
MAX_LOOKED_AT = 1 << 16
MAX_TOLD = 160
"""Characters of a page that are quoted."""
PORTAL = "a Wi-Fi login page may be in the way, or the address is wrong: open the address in a browser"
PLAIN_TO_TLS = re.compile(
    rb"plain HTTP request was sent to HTTPS|HTTP request to an? (HTTPS|TLS|SSL)|plain HTTP to an? (SSL|TLS)"
    rb"|requires? (TLS|SSL|HTTPS)|HTTPS (is )?required",
    re.IGNORECASE,
)
"""How servers say that they expect TLS: nginx, Go, Apache and others."""
NOBODY_BEHIND = (502, 503, 504, *range(520, 528), 530)
"""Statuses of proxies that get no answer from their server. Those from 520 on are Cloudflare's."""


def said_on(page: bytes) -> str:
    """A short quotation from a page: its title, or all of a short text; may be empty."""
    page = page[:MAX_LOOKED_AT]
    found = TITLE.search(page)
    if found is None and (b"<" in page or len(page) > MAX_TOLD):
        return ""
    words = page if found is None else found[1] or found[2] or b""
    text = html.unescape(TAG.sub(" ", words.decode("utf-8", errors="replace")))
    return quoted(" ".join(text.split())[:MAX_TOLD])


def meaning(host: str, status: int, said: str) -> str:
    """What a page with this status means and what to do about it, as a sentence. `said`: the result of `said_on`."""
    told = f'({status}), and says "{said}"' if said else f"({status})"
    if status == 403:
        return (
            f"{host} denies this device access {told}; check the token, and whether a firewall in front of the "
            "server blocks this network"
        )
    if status in (404, 405, 410, 501):
        return f"{host} has nothing at this address {told}; check the address of this server"
    if status == 413:
        return f"{host} rejects requests of this size {told}; leave out files and images"
    if status == 429:
        return f"{host} is getting too many requests {told}; try again later"
    if status in (504, 524):
        return f"a proxy at {host} got no answer in time from the server behind it {told}; try again later"
    if status in NOBODY_BEHIND:
        return f"a proxy at {host} finds no server behind it {told}; try again later"
    if status >= 500 and status != 511:
        return f"{host} has an internal error {told}; try again later, or ask whoever runs it"
    if 400 <= status < 500:
        return f"{host} refused {told}; check the address and the token of this server"
    return ""
