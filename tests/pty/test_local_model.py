"""At a real terminal: the server is away, and the model on this device answers after one key."""

from __future__ import annotations

import sys
from pathlib import Path

from app.config import BUNDLED_TARGET, Folders
from app.local.registry import LocalModels
from app.remotes.registry import Remote, Remotes
from storage import Store
from tests.pty.tmux import Tmux
from tests.support.serving import REPOSITORY


async def test_a_model_on_this_device_answers_after_one_key(tiny_pair: Path, tmp_path: Path) -> None:
    home = {"OUTRIDER_HOME": str(tmp_path)}
    given = {
        **home,
        "HOME": str(tmp_path),
        "OUTRIDER_DRAFTER": str(tiny_pair / "drafter"),
        "OUTRIDER_MAX_TOKENS": "8",
        "PYTHONPATH": str(REPOSITORY),
    }
    folders = Folders.locate(home)
    LocalModels(folders).add("guide", BUNDLED_TARGET)
    remotes = Remotes(folders)
    remotes.put("far", Remote(url="http://127.0.0.1:9/v1", kind="openai"))
    remotes.use("far")
    with Tmux(tmp_path / "tmux", [sys.executable, "-m", "app.start"], given, REPOSITORY, (24, 80)) as tmux:
        await tmux.until("guide on this device can answer while far is away:")
        tmux.press("F5")
        await tmux.until("enter ask guide")
        assert "can answer" not in tmux.screen
        tmux.type("how do I unpack it")
        await tmux.until("how do I unpack it")
        tmux.press("Enter")
        await tmux.until("all by guide on this device, not checked")
        tmux.press("C-q")
        assert await tmux.ended() == 0, tmux.screen
    assert LocalModels(folders).used == "guide"
    with Store.read(folders.database) as store:
        (conversation,) = store.conversations.all()
        question, answer = store.branches.thread(conversation.id)
        assert answer.stats["stretches"] == [{"at": 0, "writer": "guide", "here": True}] and answer.text
