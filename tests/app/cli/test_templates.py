"""`outrider ask --template`: the question that is sent, and what is refused before anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.chat_server import ChatServer
from tests.support.commands import Outrider


def test_a_template_is_filled_with_variables_and_what_is_piped(
    outrider: Outrider, server: ChatServer, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("A file.")
    monkeypatch.chdir(tmp_path)
    folder = home / "config" / "templates"
    folder.mkdir(parents=True)
    (folder / "translate.md").write_text("Into $lang for $$5, see @a.txt:\n$input\n")
    (folder / "haiku.txt").write_text("Write a haiku.")
    (folder / "bad.md").write_text("It costs $5.")

    def sent(*words: str, stdin: bytes = b"") -> str:
        result = outrider("ask", *words, stdin=stdin)
        assert result.code == 0, result.err
        return str(server.asked[-1]["messages"][-1]["content"])

    assert (
        sent("-t", "translate", "-p", "lang=a=b $x", stdin=b"good $day") == "Into a=b $x for $5, see @a.txt:\ngood $day"
    )
    assert sent("-t", "haiku") == "Write a haiku."
    assert sent("-t", "haiku", "about", "@a.txt").endswith("Write a haiku.\n\nabout @a.txt")
    assert "A file." in server.asked[-1]["messages"][-1]["content"]
    for words, said in (
        (("-t", "translate", "x"), "needs lang: add -p lang="),
        (("-t", "translate", "-p", "lang=French"), "needs a question"),
        (("-t", "haiku", "-p", "tone=sad"), "has no variable tone (it has none)"),
        (("-t", "haiku", "-p", "tone"), "-p tone gives no text"),
        (("-t", "bad"), "Write $$ for a dollar sign"),
        (("-t", "../config"), "(known: bad, haiku, translate)"),
        (("-p", "tone=sad", "x"), "name it with --template"),
    ):
        assert outrider("ask", *words).says(2, said), words
    assert len(server.asked) == 3
