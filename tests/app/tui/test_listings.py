"""Prompts and resources of real MCP servers in the chat: listed when asked for, read by the person, kept clean."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from app.config import Folders
from app.tools import servers as module
from app.tools.servers import Servers
from app.tui.screens.chat.listings import Listed
from app.tui.widgets.completing_text_area import Completions
from app.tui.widgets.folding_text_area import MARK
from storage import Attachment, Store
from tests.app.tui.scripted import ScriptedCore, finished, press, verified, wait_until
from tests.app.tui.window import Window, started
from tests.support.mcp_process import SERVER
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY


@pytest.fixture
async def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    """`t` has prompts and resources, `late` never greets, until there is a file `go`, and `gone` ends at once."""
    monkeypatch.setattr(module, "START_SECONDS", PATIENCE_SECONDS)
    folders = Folders(tmp_path / "config", tmp_path / "data", tmp_path / "logs")
    folders.config.mkdir()
    there = {"command": sys.executable, "args": [*SERVER, str(tmp_path)], "cwd": str(REPOSITORY)}
    others = {
        "late": {"command": "sh", "args": ["-c", "until [ -e go ]; do sleep 0.1; done"]},
        "gone": {"command": "false"},
    }
    (folders.config / "mcp.json").write_text(json.dumps({"mcpServers": {"t": there, **others}}))
    (tmp_path / "notes.txt").write_text("private")
    monkeypatch.chdir(tmp_path)
    servers = Servers(folders)
    yield servers
    await servers.aclose()


def offered(app: Window) -> list[str]:
    completions = app.screen.query_one(Completions)
    return [str(option.prompt) for option in completions.options] if completions.display else []


def labels(app: Window) -> list[str]:
    return [one.split("  ")[0] for one in offered(app)]


async def type_in(app: Window, pilot: Pilot[None], text: str) -> None:
    """Types a text in place of what is in the prompt."""
    app.prompt.write("")
    await press(pilot, *text, until=lambda: app.prompt.text == text)


async def test_prompts_and_resources_come_from_servers_that_are_asked(store: Store, servers: Servers) -> None:
    core = ScriptedCore(store, [[*verified("Done."), finished(3)]] * 2)
    core.mcp = servers
    async with started(core, (100, 36)) as (app, pilot):
        await type_in(app, pilot, "/t:review")
        await press(pilot, "enter", until=lambda: core.prompts != [])  # Not chosen: words like others.
        await press(pilot, "ctrl+n", until=lambda: app.answers == [])
        app.chat.conversation.choose(tools=("t", "late", "gone"))

        await type_in(app, pilot, "/t")
        assert any(one.startswith("/t:") for one in offered(app)) and servers._servers == {}
        await type_in(app, pilot, "@late:")
        assert [one.split()[:2] for one in offered(app)] == [["asking", "late"]]
        await type_in(app, pilot, "@gone:")  # While the other one is still being asked.
        await wait_until(pilot, lambda: "gone ended (exit code 1)" in offered(app)[0])

        await type_in(app, pilot, "/t:r")
        await wait_until(pilot, lambda: offered(app)[0].split("  ")[0] == "/t:review path [focus]")
        await press(pilot, "enter", until=lambda: app.prompt.text == "/t:review ")
        await press(pilot, "enter", until=lambda: app.prompt.text == "/t:review path=")
        await wait_until(pilot, lambda: app.toasted("review needs path"))
        assert len(core.prompts) == 1
        await pilot.press(*'"a b.py" f')
        await wait_until(pilot, lambda: [one.split()[0] for one in offered(app)] == ["focus="])
        await press(pilot, "tab", until=lambda: offered(app) == ["speed", "error handling"])
        await press(pilot, "e", until=lambda: offered(app) == ["error handling"])
        wanted = '/t:review path="a b.py" focus="error handling" '
        await press(pilot, "tab", until=lambda: app.prompt.text == wanted)
        filled = r"Review a b.py for error handling, as \@notes.txt says."
        await press(pilot, "enter", until=lambda: app.prompt.text == filled)
        await press(pilot, "enter", until=lambda: len(core.prompts) == 2 and app.prompt.text == "")
        (asked, _) = store.branches.thread(core.prompts[1][0])
        assert (asked.text, asked.attachments) == (filled, ())  # The server's words name no file.
        await type_in(app, pilot, "/t:review ")
        app.prompt.post_message(Paste("x" * 3000))
        await wait_until(pilot, lambda: app.prompt.full_text == f"/t:review {'x' * 3000}")
        folded = rf"Review {'x' * 3000} for bugs, as \@notes.txt says."
        await press(pilot, "enter", until=lambda: app.prompt.full_text == folded)
        assert MARK.fullmatch(app.prompt.text)  # As a whole, and not the paste in it.
        await press(pilot, "ctrl+o", until=lambda: app.prompt.text == folded)

        await wait_until(pilot, lambda: not app.prompt.answering)
        core.scripts.append([*verified("Milk."), finished(3)])
        await type_in(app, pilot, "what @t:day")
        await wait_until(pilot, lambda: [one.split()[0] for one in offered(app)] == ["memo://today"])
        await press(pilot, "tab", until=lambda: app.prompt.text == "what @t:memo://today")
        await press(pilot, "enter", until=lambda: len(core.prompts) == 3 and app.prompt.text == "")
        asked = store.branches.thread(core.prompts[2][0])[2]
        assert asked.attachments == (Attachment("t:memo://today", "text/plain", b"buy milk\n"),)
        await wait_until(pilot, lambda: not app.prompt.answering)
        core.scripts.append([*verified("Noted."), finished(3)])
        await type_in(app, pilot, "what @t:no")
        await wait_until(pilot, lambda: labels(app) == ["note://{shelf}/{title}", "note://{shelf}{?q,lang}"])
        await press(pilot, "tab", until=lambda: labels(app) == ["in", "out"] * 2)
        await press(pilot, "i", until=lambda: labels(app) == ["in"] * 2)
        await press(pilot, "tab", until=lambda: labels(app) == ["a b in"])
        await press(pilot, "tab", until=lambda: app.prompt.text == "what @t:note://in/a%20b%20in")
        await press(pilot, *" @t:note://i", until=lambda: labels(app) == ["in"] * 2)
        await press(pilot, *"n?", until=lambda: labels(app) == ["q=", "lang="])
        await press(pilot, "tab", until=lambda: labels(app) == ["a&b"])
        await press(pilot, "tab", until=lambda: app.prompt.text.endswith(" @t:note://in?q=a%26b"))
        await press(pilot, "enter", until=lambda: len(core.prompts) == 4 and app.prompt.text == "")
        asked = store.branches.thread(core.prompts[3][0])[4]
        assert asked.attachments == (
            Attachment("t:note://in/a%20b%20in", "text/plain", b"a b in, in"),
            Attachment("t:note://in?q=a%26b", "text/plain", b"a&b in in, "),
        )
        await wait_until(pilot, lambda: not app.prompt.answering)
        await type_in(app, pilot, "and @gone:memo://today")
        await press(pilot, "enter", until=lambda: app.toasted("gone ended (exit code 1)"))
        assert len(core.prompts) == 4 and app.prompt.text == "and @gone:memo://today"
        Path("go").touch()
        await wait_until(
            pilot, lambda: bool(app.chat._listings._lists.get(("resources", "late", None), Listed()).trouble)
        )
