from __future__ import annotations

from pathlib import Path

import pytest

from remote.verifier.security import BadToken, Unprotected, check_binding, is_loopback, read_token


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_binding(host, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", "localhost.example.org", ""])
def test_other_addresses_need_one(host: str) -> None:
    with pytest.raises(Unprotected, match="--token-file"):
        check_binding(host, None)
    check_binding(host, "a" * 16)


def test_a_token_is_read_without_its_newline(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    assert read_token(file) == "0123456789abcdef"


@pytest.mark.parametrize("text", ["", "short", "sixteen but with spaces", "ünïcödé-in-a-token"])
def test_weak_tokens_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadToken, match="token"):
        read_token(file)
    with pytest.raises(BadToken, match="cannot be read"):
        read_token(tmp_path / "none")
