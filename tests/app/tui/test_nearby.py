"""The first start and the look at this device: every action, against real servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from app.config import Folders, Settings
from app.remotes import nearby
from app.remotes.loopback import Loopback
from app.remotes.registry import Remote, Remotes
from app.remotes.source import RemoteSource
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.nearby import SHOWN_MODELS, NearbyScreen
from app.tui.screens.remote_form import RemoteForm
from app.tui.screens.remotes import RemotesScreen
from app.tui.widgets.welcome import FirstLook
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, verified, wait_until
from tests.app.tui.window import Window, started
from tests.remote.toy_verifier import ToyVerifier, raw_peer, serving
from tests.support import model_servers as dialects
from tests.support.keyring import NoKeyring, use_keyring
from tests.support.model_servers import ModelServer
from tests.support.patience import PATIENCE_SECONDS

TOKEN = "sk-do-not-show-me-0123456789"


class First(Window):
    """The application at its first start, and what it shows of it."""

    def __init__(self, store: Store, folders: Folders, ports: Sequence[int] = ()) -> None:
        self.scripted = ScriptedCore(store, [[*verified("yes"), finished(3)]])
        super().__init__(self.scripted, Settings(), RemoteSwitcher(Settings(), folders, self.scripted, ports=ports))

    @property
    def offered(self) -> bool:
        return any(look.display and look.region.height > 0 for look in self.chat.query(FirstLook))

    async def looked(self, pilot: Pilot[None], rows: int) -> None:
        await wait_until(pilot, lambda: isinstance(self.screen, NearbyScreen))
        await wait_until(pilot, lambda: len(self.options) == rows and not self.text("#said").startswith("Looking"))


@asynccontextmanager
async def looked(store: Store, folders: Folders, *ports: int) -> AsyncIterator[tuple[First, Pilot[None]]]:
    """The first start after a look at these ports, the first of which has been found."""
    async with started(First(store, folders, ports), (80, 24)) as (app, pilot):
        await wait_until(pilot, lambda: app.offered)
        await pilot.press("f12")
        await app.looked(pilot, 2)
        yield app, pilot


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    use_keyring(monkeypatch, NoKeyring())
    monkeypatch.setattr(nearby, "PAGE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(nearby.look, "__defaults__", (nearby.PORTS, PATIENCE_SECONDS))


async def test_it_asks_once_and_nothing_is_sent_before_the_answer(store: Store, folders: Folders) -> None:
    server = ModelServer(dialects.OLLAMA)
    async with server.listening() as port:
        async with started(First(store, folders, [port]), (80, 24)) as (app, pilot):
            await wait_until(pilot, lambda: app.offered)
            lines = str(app.screen.query_one(FirstLook).query(Static).first().content).splitlines()
            assert len(lines) <= 3 and "Nothing leaves this device" in lines[1]
            assert app.text("#look") == "f12 look for them" and app.text("#decline") == "esc not now"
            assert app.prompt.has_focus and not app.screen.query_one("#introduction").display
            assert server.asked == []
            await press(pilot, "escape", until=lambda: not app.offered)
            assert app.screen.query_one("#introduction").display
        async with started(First(store, folders, [port]), (80, 24)) as (again, pilot):
            await wait_until(pilot, lambda: isinstance(again.screen, ChatScreen) and again.prompt.has_focus)
            assert not again.offered
    assert server.asked == []


async def test_a_question_that_is_typed_is_asked(store: Store, folders: Folders) -> None:
    async with started(First(store, folders)) as (app, pilot):
        await wait_until(pilot, lambda: app.offered)
        await press(pilot, *"yn", "escape", until=lambda: app.prompt.text == "yn")
        assert app.offered  # Escape with a text in the prompt is no answer.
        await press(pilot, "enter", until=lambda: app.answers == ["yes"])
        assert app.scripted.prompts[0][1] == "yn" and not app.offered
        await pilot.press("ctrl+n")
        await wait_until(pilot, lambda: app.offered)  # It was not answered yet.
        await pilot.click("#decline")
        await wait_until(pilot, lambda: not app.offered)


@pytest.mark.parametrize(
    ("settings", "servers", "asks"),
    [
        ({}, "", True),
        ({"mode": "offline"}, "", False),
        ({"remote": "bundled"}, "", False),
        ({}, '[remotes."mine"]\nurl = "http://127.0.0.1:9"\n', False),
        ({}, "broken = ", False),
    ],
)
def test_it_does_not_ask_who_has_chosen_or_has_servers(
    store: Store, folders: Folders, settings: dict[str, str], servers: str, asks: bool
) -> None:
    if servers:
        folders.config.mkdir(parents=True)
        (folders.config / "remotes.toml").write_text(servers)
    switcher = RemoteSwitcher(Settings().replaced(settings, "a test"), folders, ScriptedCore(store))
    assert switcher.unconfigured == asks


async def test_a_server_is_added_with_the_model_that_is_picked(store: Store, folders: Folders) -> None:
    async with ModelServer(dialects.OLLAMA).listening() as port, looked(store, folders, port) as (app, pilot):
        assert app.options[0].startswith("Shell Guide") and app.text("#said") == ""
        assert app.options[1] == f"Ollama  127.0.0.1:{port}\n  llama3.2:latest, qwen3:8b"
        await pilot.press("enter")  # What was found is highlighted.
        await wait_until(pilot, lambda: app.options == ["llama3.2:latest", "qwen3:8b"])
        assert "Which model of Ollama?" in app.text("#said")
        await press(pilot, "down", "enter", until=lambda: shows(app, ChatScreen))
        await wait_until(pilot, lambda: app.toasts == ["qwen3:8b at Ollama answers now. This server is called ollama."])
        source = app.scripted.sources[-1]
        assert isinstance(source, RemoteSource) and source.name == "ollama" and not app.offered
    remotes = Remotes(folders)
    assert remotes.used == "ollama"
    assert dict(remotes) == {"ollama": Remote(url=f"http://127.0.0.1:{port}/v1", kind="openai", model="qwen3:8b")}


async def test_an_outrider_server_and_the_way_back_to_the_bundled_model(store: Store, folders: Folders) -> None:
    with serving(ToyVerifier().app()) as port:
        async with looked(store, folders, port) as (app, pilot):
            assert app.options[1].endswith("toy, checks drafts")
            await press(pilot, "enter", until=lambda: shows(app, ChatScreen))
            assert dict(Remotes(folders)) == {"outrider": Remote(url=f"http://127.0.0.1:{port}", kind="verifier")}
            await pilot.press("f12")
            await app.looked(pilot, 2)
            await press(pilot, "home", "enter", until=lambda: shows(app, ChatScreen))
            assert isinstance(app.scripted.sources[-1], Loopback) and Remotes(folders).used is None
            await wait_until(pilot, lambda: app.toasts[-1] == "The bundled model answers now.")


@pytest.mark.parametrize(
    ("server", "field", "value", "name"),
    [
        (ModelServer(dialects.VLLM, token=TOKEN), "token", TOKEN, "vllm"),
        (ModelServer(dialects.BARE_TRANSFORMERS), "model", "Qwen/Qwen3", "transformers"),
    ],
    ids=["token", "model"],
)
async def test_a_token_or_the_name_of_a_model_is_asked_for_where_the_server_wants_it(
    store: Store, folders: Folders, server: ModelServer, field: str, value: str, name: str
) -> None:
    async with server.listening() as port, looked(store, folders, port) as (app, pilot):
        assert app.options[1].endswith("requires a token") == (field == "token")
        for key in ("escape", "ctrl+s"):
            await press(pilot, "enter", until=lambda: shows(app, RemoteForm))
            await wait_until(pilot, lambda: app.screen.query_one(f"#{field}").has_focus)
            assert app.screen.query_one("#url", Input).value == f"http://127.0.0.1:{port}/v1"
            app.screen.query_one(f"#{field}", Input).value = value
            await press(pilot, key, until=lambda: not isinstance(app.screen, RemoteForm))
        await wait_until(pilot, lambda: isinstance(app.screen, ChatScreen))
        assert not any(TOKEN in told for told in app.toasts)
    remotes = Remotes(folders)
    wanted = (name, value if field == "model" else None, server.token)
    assert (remotes.used, remotes.get(name).model, remotes.token(name)) == wanted


async def test_it_looks_again(store: Store, folders: Folders) -> None:
    pages: dict[str, Any] = dict(dialects.EMPTY_OLLAMA)
    async with (
        ModelServer(pages).listening() as port,
        raw_peer(lambda number: b"\x1b[2Jgarbage") as other,
        looked(store, folders, port, other) as (app, pilot),
    ):
        assert app.text("#said").startswith(f"Port {other} cannot be used: ") and "\x1b" not in app.text("#said")
        await pilot.press("enter")
        await wait_until(pilot, lambda: app.toasts == ["Ollama lists no model. Load one there; r looks again."])
        pages |= dialects.OLLAMA
        await press(pilot, "r", until=lambda: app.options[-1].endswith("llama3.2:latest, qwen3:8b"))
        await press(pilot, "q", until=lambda: shows(app, ChatScreen))
    async with started(First(store, folders, [port])) as (app, pilot):
        await wait_until(pilot, lambda: shows(app, ChatScreen))
        await pilot.press("f12")
        await app.looked(pilot, 1)
        assert app.text("#said") == "No model server answers here. Start one, and r looks again."


async def test_wild_names_are_shown_in_part_and_what_cannot_be_kept_is_told(store: Store, folders: Folders) -> None:
    names = ["evil\x1b]52;c;x\x07[bold]", *(f"m{number}" for number in range(SHOWN_MODELS + 9))]
    server = ModelServer({"/v1/models": dialects.listed(*names, owner="llamacpp")})
    async with server.listening() as port, looked(store, folders, port) as (app, pilot):
        await press(pilot, "enter", until=lambda: len(app.options) == SHOWN_MODELS)
        assert app.options[0] == "evil[bold]" and "10 more are not listed: f4 adds one" in app.text("#said")
        folders.config.mkdir(parents=True)
        (folders.config / "remotes.toml").write_text("broken = ")
        await press(pilot, "down", "enter", until=lambda: app.toasted("not valid TOML"))
        assert isinstance(app.screen, NearbyScreen) and app.scripted.sources == []


async def test_the_screen_of_remotes_looks_too_and_a_server_ends_the_question(store: Store, folders: Folders) -> None:
    async with (
        ModelServer(dialects.LLAMA_CPP).listening() as port,
        started(First(store, folders, [port])) as (app, pilot),
    ):
        await wait_until(pilot, lambda: app.offered)
        await press(pilot, "f4", until=lambda: shows(app, RemotesScreen))
        await press(pilot, "f4", "escape", until=lambda: shows(app, ChatScreen))
        assert app.offered, "no server was added"
        await press(pilot, "f4", until=lambda: shows(app, RemotesScreen))
        await pilot.press("l")
        await app.looked(pilot, 2)
        await press(pilot, "enter", until=lambda: shows(app, RemotesScreen))
        options = app.screen.query_one(OptionList)
        await wait_until(pilot, lambda: "● llamacpp" in str(options.options[-1].prompt))
        assert options.highlighted == 1
        await press(pilot, "escape", until=lambda: isinstance(app.screen, ChatScreen) and not app.offered)
