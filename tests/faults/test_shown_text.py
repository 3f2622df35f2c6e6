"""What is shown is stored: the text on a terminal is compared with the database, during writing and after `kill -9`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.sanitise import sanitise
from storage import Message, Store
from tests.support.serving import REPOSITORY, VerifierProcess
from tests.support.terminal import PATIENCE_SECONDS, Terminal

ALONE = 'stty -opost; exec "$@" < /dev/null 2> /dev/null'
"""Runs a command whose output is all that comes, with line ends as they are written."""


class Screen(Terminal):
    """`outrider ask` on a terminal of its own, and what that terminal shows."""

    def __init__(self, home: Path, pair: Path, remote: str | None, *arguments: str) -> None:
        self._database = home / "data" / "outrider.db"
        self._store: Store | None = None
        environment = {**os.environ, "OUTRIDER_HOME": str(home), "OUTRIDER_DRAFTER": str(pair / "drafter")}
        if remote is not None:
            environment["OUTRIDER_REMOTE"] = remote
        command = ["sh", "-c", ALONE, "sh", sys.executable, "-m", "app.cli", "ask", "list files", *arguments]
        super().__init__(command, environment=environment, folder=REPOSITORY)

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        if self._store is not None:
            self._store.close()

    @property
    def shown(self) -> str:
        while self.read(0):
            pass
        return self.raw.decode(errors="ignore")

    @property
    def stored(self) -> str:
        """The text of the answer as another process finds it."""
        if self._store is None:
            self._store = Store.open(self._database) if self._database.exists() else None
        if self._store is None:
            return ""
        threads = [self._store.branches.thread(one.id) for one in self._store.conversations.all()]
        return next((sanitise(thread[-1].text) for thread in threads if len(thread) > 1), "")

    def polls(self) -> Iterator[None]:
        """Yield again and again while the answer is being written."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            yield
            assert self.process.poll() is None, f"the answer ended; stored: {self.stored!r}, shown: {self.shown!r}"
            time.sleep(0.01)
        raise AssertionError(f"stored: {self.stored!r}, shown: {self.shown!r}")

    def shows_more_than(self, text: str) -> str:
        """Wait until some more tokens are shown, and return the text."""
        for _ in self.polls():
            if len(self.shown) >= len(text) + 24:
                break
        return self.shown


@contextmanager
def killed(screen: Screen, home: Path) -> Iterator[Message]:
    """The answer that the next process to open the database reads after a `kill -9`."""
    screen.process.kill()
    screen.process.wait()
    with Store.open(home / "data" / "outrider.db") as store:
        (conversation,) = store.conversations.all()
        question, answer = store.branches.thread(conversation.id)
        assert (question.text, question.status, answer.status) == ("list files", "done", "stopped")
        yield answer


def test_each_round_is_stored_before_the_next(verifier: VerifierProcess, tiny_pair: Path, tmp_path: Path) -> None:
    """A round is one token here. The verifier stands still, so no round is in flight that could be waited for."""
    options = ("--no-draft", "--max-tokens", "900", "--temperature", "1", "--seed", "5")
    with Screen(tmp_path, tiny_pair, verifier.url, *options) as screen:
        seen = ""
        for _ in range(5):
            screen.shows_more_than(seen)
            verifier.pause()
            try:
                for _ in screen.polls():
                    seen = screen.shown
                    if seen and screen.stored == seen:
                        break
            finally:
                verifier.resume()
        verifier.pause()
        try:
            for _ in screen.polls():
                if screen.stored == screen.shown:
                    break
            with killed(screen, tmp_path) as answer:
                assert sanitise(answer.text) == screen.shown and len(screen.shown) >= len(seen)
                assert all(answer.provenance)
        finally:
            verifier.resume()


def test_what_the_drafter_writes_alone_is_stored_while_it_writes(tiny_pair: Path, tmp_path: Path) -> None:
    options = ("--mode", "offline", "--max-tokens", "100000", "--temperature", "1", "--seed", "5")
    with Screen(tmp_path, tiny_pair, None, *options) as screen:
        seen = ""
        for _ in range(3):
            seen = screen.shows_more_than(seen)
            for _ in screen.polls():
                if screen.stored.startswith(seen):
                    break
        with killed(screen, tmp_path) as answer:
            shown = screen.shown
            assert sanitise(answer.text).startswith(seen) and seen
            assert shown.startswith(sanitise(answer.text)) or sanitise(answer.text).startswith(shown)
            assert not any(answer.provenance)
