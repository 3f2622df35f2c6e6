"""The disk fills up in the middle of an answer: the answer ends with a sentence, and what was saved stays."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from app.config import Settings
from app.events import Failed
from drafter.runtime import Drafter
from remote.openai.schema import OWNER
from storage import Store
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import ask, assistant, standing_in

LONG = Settings(offline="local", temperature=0.0)


async def test_the_answer_ends_in_a_sentence(tiny_pair: Path, tmp_path: Path) -> None:
    drafter = Drafter.load(tiny_pair / "drafter")
    database = tmp_path / "outrider.db"
    settings = Settings(mode="offline", max_tokens=1500)
    async with assistant(drafter, database, None, settings=settings) as opened:
        conversation = opened.store.conversations.create("full").id
        (pages,) = opened.store.database._sql.execute("PRAGMA page_count").fetchone()
        # SQLite then fails as it does on a full disk. The pages it has take a question, but no long answer.
        opened.store.database._sql.execute(f"PRAGMA max_page_count = {pages}")
        heard = await ask(opened, "list files", conversation)
        assert isinstance(heard.last, Failed) and heard.failed is not None
        assert "free some disk space" in heard.failed.message
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with Store.open(database) as store:
        question, answer = store.branches.thread(conversation)
        assert (question.text, answer.status) == ("list files", "stopped")


async def test_what_a_model_on_this_device_has_written_stays(tiny_pair: Path, tmp_path: Path) -> None:
    database, words = tmp_path / "outrider.db", [f"word {number} " for number in range(3000)]
    here, away = ChatServer([Script(words)], owner=OWNER), ChatServer([], away=True)
    async with standing_in(Drafter.load(tiny_pair / "drafter"), database, away, here, LONG) as opened:
        conversation = opened.store.conversations.create("full").id
        (pages,) = opened.store.database._sql.execute("PRAGMA page_count").fetchone()
        opened.store.database._sql.execute(f"PRAGMA max_page_count = {pages + 4}")
        heard = await ask(opened, "list files", conversation)
        assert heard.failed is not None and "free some disk space" in heard.failed.message
    with Store.open(database) as store:
        _, answer = store.branches.thread(conversation)
        assert answer.status == "stopped" and answer.text and "".join(words).startswith(answer.text)
