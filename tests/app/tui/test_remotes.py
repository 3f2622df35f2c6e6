"""Servers on the screen: the first start, the look at this device, and the screen of remotes, against real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Select, Static

from app.config import Folders, Settings
from app.events import ModeChanged
from app.remotes import nearby
from app.remotes.loopback import Loopback
from app.remotes.registry import Remote, Remotes
from app.remotes.source import RemoteSource
from app.remotes.switcher import RemoteSwitcher
from app.tui.screens.chat.screen import ChatScreen
from app.tui.screens.confirm import Confirm
from app.tui.screens.help import HelpScreen
from app.tui.screens.nearby import SHOWN_MODELS, NearbyScreen
from app.tui.screens.remote_form import RemoteForm
from app.tui.screens.remotes import RemotesScreen
from app.tui.widgets.welcome import FirstLook
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, shows, verified, wait_until
from tests.app.tui.window import Switching, started
from tests.remote.toy_verifier import ToyVerifier, raw_peer, serving
from tests.support import model_servers as dialects
from tests.support.keyring import MemoryKeyring, NoKeyring, use_keyring
from tests.support.model_servers import ModelServer
from tests.support.patience import PATIENCE_SECONDS

TOKEN = "sk-do-not-show-me-0123456789"


def about(row: str) -> str:
    """The second column of a remote's lines."""
    return " / ".join(line[20:] for line in row.splitlines())


class Servers(Switching):
    @property
    def rows(self) -> list[str]:
        return [str(option.prompt) for option in self.list.options]

    @property
    def list(self) -> OptionList:
        (screen,) = (screen for screen in self.screen_stack if isinstance(screen, RemotesScreen))
        return screen.query_one(OptionList)

    @property
    def highlighted(self) -> str | None:
        option = self.list.highlighted_option
        return None if option is None else option.id


@asynccontextmanager
async def opened(
    store: Store, folders: Folders, size: tuple[int, int] = (60, 40)
) -> AsyncIterator[tuple[Servers, Pilot[None]]]:
    core = ScriptedCore(store, mode=ModeChanged("edge", "checked by shell-guide"))
    async with started(Servers(core, folders), size) as (app, pilot):
        await press(pilot, "f4", until=lambda: shows(app, RemotesScreen) and app.list.has_focus)
        yield app, pilot


@pytest.fixture
def remotes(folders: Folders, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> Remotes:
    monkeypatch.delenv("OUTRIDER_TOKEN", raising=False)
    remotes = Remotes(folders)
    remotes.put("office", Remote(url="https://office.example:8443", kind="verifier", connect_timeout=5.0), TOKEN)
    remotes.put("talker", Remote(url="https://api.example/v1", kind="openai", model="m", token_variable="API_KEY"))
    return remotes


async def highlight(pilot: Pilot[None], app: Servers, name: str) -> None:
    await wait_until(pilot, lambda: isinstance(app.screen, RemotesScreen) and app.list.has_focus)
    app.list.highlighted = [option.id for option in app.list.options].index(name)
    await wait_until(pilot, lambda: app.highlighted == name)


async def fill(pilot: Pilot[None], app: Servers, **fields: str) -> None:
    await wait_until(pilot, lambda: isinstance(app.screen, RemoteForm) and app.screen.query_one("#name").has_focus)
    for field, text in fields.items():
        widget = app.screen.query_one(f"#{field}")
        assert isinstance(widget, Select | Input)
        widget.value = text
        if isinstance(widget, Input):
            widget.focus()
            await wait_until(pilot, lambda: widget.has_focus)  # noqa: B023


def problem(app: Servers, field: str) -> str:
    line = app.screen.query_one(f"#{field}-problem", Static)
    return str(line.content) if line.display else ""


async def test_they_are_listed_with_state_and_token_and_used(store: Store, folders: Folders, remotes: Remotes) -> None:
    remotes.use("office")
    async with opened(store, folders, (60, 30)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.rows) == 3)
        bundled, office, talker = app.rows
        assert about(bundled) == "started on this device when / it is needed"
        used = "https://office.example:8443 / checks drafts, token: keyring / online: checked by / shell-guide"
        assert office.startswith("● office ") and about(office) == used
        other = "https://api.example/v1 / OpenAI-compatible, token: / API_KEY (not set)"
        assert talker.startswith("  talker ") and about(talker) == other
        assert app.highlighted == "office"
        app.scripted.mode = ModeChanged("offline", "no answer\x1b[2J")
        await wait_until(pilot, lambda: about(app.rows[1]).endswith(" / offline: no answer"))
        assert not any(TOKEN in row for row in app.rows)
        await highlight(pilot, app, ".bundled")
        await press(pilot, "enter", until=lambda: app.rows[0].startswith("● bundled"))
        assert isinstance(app.scripted.sources[-1], Loopback) and Remotes(folders).used is None
        await highlight(pilot, app, "office")
        await press(pilot, "enter", until=lambda: app.rows[1].startswith("● office"))
        assert isinstance(app.scripted.sources[-1], RemoteSource) and Remotes(folders).used == "office"
        assert app.toasts == []
        await press(pilot, "escape", until=lambda: shows(app, ChatScreen))


async def test_one_is_added(store: Store, folders: Folders, remotes: Remotes, ring: MemoryKeyring) -> None:
    async with opened(store, folders, (60, 34)) as (app, pilot):
        await highlight(pilot, app, "office")
        await pilot.press("a")
        await wait_until(pilot, lambda: isinstance(app.screen, RemoteForm) and app.screen.query_one("#name").has_focus)
        ways = ("tab", "url"), ("enter", "token"), ("up", "url"), ("down", "token"), ("up", "url")
        for key, field in (*ways, ("shift+tab", "name")):
            await press(pilot, key, until=lambda: app.screen.query_one(f"#{field}").has_focus)  # noqa: B023
        await fill(pilot, app, name="new", url="http://10.0.0.2:8000", token=TOKEN, kind="openai", read_timeout="30")
        drawn = app.screen.query_one("#token").render_lines(app.screen.region)
        assert TOKEN not in "".join(strip.text for strip in drawn)
        await press(pilot, "ctrl+s", until=lambda: isinstance(app.screen, RemotesScreen) and app.highlighted == "new")
        await wait_until(pilot, lambda: app.toasts == ["new: its token: keyring"])
    kept = Remotes(folders).get("new")
    assert kept == Remote(url="http://10.0.0.2:8000", kind="openai", read_timeout=30.0, token="keyring")
    assert Remotes(folders).token("new") == TOKEN and Remotes(folders).used is None, "it is not the first one"


async def test_a_form_that_is_saved_while_the_help_is_over_it_closes_after_the_help(
    store: Store, folders: Folders, remotes: Remotes, ring: MemoryKeyring
) -> None:
    async with opened(store, folders) as (app, pilot):
        await highlight(pilot, app, "office")
        await pilot.press("a")
        await fill(pilot, app, name="new", url="http://10.0.0.2:8000", token=TOKEN)
        ring.silent.clear()
        await press(pilot, "ctrl+s", "f1", until=lambda: shows(app, HelpScreen))
        ring.silent.set()
        await wait_until(pilot, lambda: "new" in Remotes(folders))
        await wait_until(pilot, lambda: not any(one.group == "save" for one in app.workers))
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, "escape", until=lambda: shows(app, RemotesScreen) and app.highlighted == "new")


async def test_a_provider_fills_in_the_form_and_leaves_what_was_typed(
    store: Store, folders: Folders, remotes: Remotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", TOKEN)
    async with opened(store, folders, (60, 34)) as (app, pilot):
        await highlight(pilot, app, "office")
        await pilot.press("a")
        await fill(pilot, app, name="mine")
        for provider, url in (("anthropic", "https://api.anthropic.com"), ("groq", "https://api.groq.com/openai/v1")):
            app.screen.query_one("#provider", Select).value = provider
            await wait_until(pilot, lambda: app.screen.query_one("#url", Input).value == url)  # noqa: B023
        line, variable = app.screen.query_one("#url", Input), app.screen.query_one("#token_variable", Input)
        line.value = "https://elsewhere"
        await wait_until(pilot, lambda: variable.value == "")  # A token is for its own server.
        line.value = "https://api.groq.com/openai/v1"
        await wait_until(pilot, lambda: variable.value == "GROQ_API_KEY")
        assert "GROQ_API_KEY is set" in app.screen.query_one("#token", Input).placeholder
        await press(pilot, "ctrl+s", until=lambda: isinstance(app.screen, RemotesScreen) and app.highlighted == "mine")
    kept = Remotes(folders).get("mine")
    assert (kept.url, kept.kind, kept.token_variable) == ("https://api.groq.com/openai/v1", "openai", "GROQ_API_KEY")


async def test_what_is_wrong_is_told_in_place(store: Store, folders: Folders, remotes: Remotes, tmp_path: Path) -> None:
    async with opened(store, folders) as (app, pilot):
        await highlight(pilot, app, "office")
        await pilot.press("a")
        await fill(pilot, app, name="new", url="10.0.0.2")
        await press(pilot, "tab", until=lambda: problem(app, "url") == "the address starts with http:// or https://")
        app.screen.query_one("#url", Input).value = "https://office"
        await wait_until(pilot, lambda: problem(app, "url") == "")
        wrong = {
            "name": ("bundled", "came with Outrider"),
            "ca": (str(tmp_path / "nowhere.pem"), "there is no such file"),
            "key": ("/key.pem", "give both"),
            "connect_timeout": ("soon", "connect_timeout"),
            "token_variable": ("MY TOKEN", "token_variable"),
        }
        for field, (text, _) in wrong.items():
            app.screen.query_one(f"#{field}", Input).value = text
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: all(says in problem(app, field) for field, (_, says) in wrong.items()))
        assert app.screen.query_one("#name").has_focus and isinstance(app.screen, RemoteForm)
        for field in wrong:
            app.screen.query_one(f"#{field}", Input).value = "office" if field == "name" else ""
        await wait_until(pilot, lambda: not any(problem(app, field) for field in wrong))
        await press(pilot, "ctrl+s", until=lambda: app.text("#problem") == "a server named office exists already")
        await press(pilot, "escape", until=lambda: shows(app, RemotesScreen))
    assert len(Remotes(folders)) == 2


async def test_one_is_edited_and_keeps_its_token_unless_the_server_is_another(
    store: Store, folders: Folders, remotes: Remotes, ring: MemoryKeyring
) -> None:
    remotes.use("office")
    async with opened(store, folders, (100, 34)) as (app, pilot):
        await highlight(pilot, app, "office")
        await press(pilot, "e", until=lambda: shows(app, RemoteForm))
        shown = {field.id: field.value for field in app.screen.query(Input)}
        assert (shown["name"], shown["url"], shown["connect_timeout"]) == ("office", "https://office.example:8443", "5")
        assert shown["token"] == shown["token_variable"] == "" and app.screen.query_one(Select).value == "verifier"
        assert app.screen.query_one("#token", Input).placeholder == "unchanged"
        await fill(pilot, app, name="bureau", url="https://office.example:8443/team")
        await pilot.press("ctrl+s")
        await wait_until(pilot, lambda: isinstance(app.screen, RemotesScreen) and app.highlighted == "bureau")
        assert app.rows[1].startswith("● bureau")
        again = Remotes(folders)
        assert "office" not in again and again.used == "bureau" and again.token("bureau") == TOKEN
        assert list(ring.kept) == [("outrider", "bureau https://office.example:8443")]
        assert isinstance(app.scripted.sources[-1], RemoteSource) and app.scripted.sources[-1].name == "bureau"
        await pilot.press("e")
        await fill(pilot, app, url="https://elsewhere")
        placeholder = app.screen.query_one("#token", Input)
        await wait_until(pilot, lambda: placeholder.placeholder == "give it again: it is for another server")
        await press(pilot, "ctrl+s", until=lambda: shows(app, RemotesScreen))
        await wait_until(pilot, lambda: app.toasts[-1] == "bureau: its token: none")
    assert ring.kept == {}


async def test_a_test_shows_what_it_finds(store: Store, folders: Folders, remotes: Remotes) -> None:
    remotes.put("nobody", Remote(url="http://127.0.0.1:9"))
    with serving(ToyVerifier().app()) as port:
        remotes.put("toy", Remote(url=f"http://127.0.0.1:{port}"))
        async with opened(store, folders) as (app, pilot):

            def found() -> list[str]:
                return [str(part.content) for part in app.screen.query("#findings .part").results(Static)]

            await highlight(pilot, app, "toy")
            await press(pilot, "t", until=lambda: found()[-2:] == ["! chat", "✓ mode"])
            assert found()[:3] == ["✓ connection", "✓ round trips", "✓ model"]
            await highlight(pilot, app, "nobody")
            await press(pilot, "t", until=lambda: found() == ["✗ connection"])
            await wait_until(pilot, lambda: not app.screen.query(".waiting"))
            await highlight(pilot, app, ".bundled")
            await press(pilot, "t", until=lambda: app.toasts == ["The bundled model cannot be changed or removed."])


async def test_removing_asks_first(store: Store, folders: Folders, remotes: Remotes, ring: MemoryKeyring) -> None:
    remotes.use("office")
    async with opened(store, folders, (60, 30)) as (app, pilot):
        for answer, left in (("n", 3), ("y", 2)):
            await highlight(pilot, app, "office")
            await press(pilot, "d", until=lambda: shows(app, Confirm))
            says = "Remove office and its token? You are using this server. Without it, the bundled model answers."
            assert str(app.screen.query(Static).first().content) == says
            await press(pilot, answer, until=lambda: shows(app, RemotesScreen))
            await wait_until(pilot, lambda: len(app.rows) == left)  # noqa: B023
            gone = answer == "y"
            assert ("office" not in Remotes(folders)) == gone == (ring.kept == {})
            assert [type(source) for source in app.scripted.sources] == ([Loopback] if gone else [])


# ---- the first start and the look at this device ---------------------------------------------------------------------


class First(Switching):
    """The application at its first start, and what it shows of it."""

    def __init__(self, store: Store, folders: Folders, ports: Sequence[int] = ()) -> None:
        super().__init__(ScriptedCore(store, [[*verified("yes"), finished(3)]]), folders, ports)

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
