"""Fixtures for tests of the wire: no proxy of this machine, and the tiny drafter."""

from __future__ import annotations

from pathlib import Path

import pytest

from drafter.runtime import Drafter

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no proxy and no certificate of this machine's environment get between a client and its server."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def drafter(tiny_pair: Path) -> Drafter:
    return Drafter.load(tiny_pair / "drafter")
