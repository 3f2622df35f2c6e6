"""The screen of remotes: each thing that can be done there, on real files and against a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Select, Static

from app.config import Folders, Settings
from app.events import ModeChanged
from app.remotes.loopback import Loopback
from app.remotes.registry import Remote, Remotes
from app.remotes.source import RemoteSource, Source
from app.remotes.switcher import RemoteSwitcher
from app.tui.app import OutriderApp
from app.tui.screens.confirm import Confirm
from app.tui.screens.remote_form import RemoteForm
from app.tui.screens.remotes import RemotesScreen
from app.tui.theme import DARK
from tests.app.tui.scripted import press, shows, wait_until
from tests.app.tui.window import started
from tests.remote.toy_verifier import ToyVerifier, serving
from tests.support.keyring import MemoryKeyring

TOKEN = "sk-do-not-show-me-0123456789"


class Switch:
    """Whoever asks the remote."""

    def __init__(self) -> None:
        self.sources: list[Source | None] = []
        self.mode = ModeChanged("edge", "checked by shell-guide")

    def use(self, source: Source | None) -> None:
        self.sources.append(source)
        name = getattr(source, "name", None)
        self.mode = ModeChanged("warming", f"connecting to {name or 'the verifier'}")

    def status(self) -> ModeChanged:
        return self.mode


def columns(row: str) -> list[tuple[str, str]]:
    """The two columns of a remote's lines."""
    return [(line[:20].rstrip(), line[20:]) for line in row.splitlines()]


class Host(App[None]):
    """The screen alone."""

    CSS_PATH = OutriderApp.CSS_PATH

    def __init__(self, switcher: RemoteSwitcher) -> None:
        super().__init__()
        self.switcher = switcher
        self.register_theme(DARK)
        self.theme = DARK.name

    def on_mount(self) -> None:
        self.push_screen(RemotesScreen(self.switcher))

    @property
    def rows(self) -> list[str]:
        return [str(option.prompt) for option in self.list.options]

    @property
    def list(self) -> OptionList:
        return self.screen_stack[1].query_one(OptionList)

    @property
    def highlighted(self) -> str | None:
        option = self.list.highlighted_option
        return None if option is None else option.id

    def text(self, selector: str) -> str:
        return str(self.screen.query_one(selector, Static).content)

    @property
    def findings(self) -> list[str]:
        return [str(part.content) for part in self.screen.query("#findings .part").results(Static)]

    @property
    def told(self) -> list[str]:
        return [notification.message for notification in self._notifications]


@pytest.fixture
def remotes(folders: Folders, ring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> Remotes:
    """Two of them."""
    monkeypatch.delenv("OUTRIDER_TOKEN", raising=False)
    remotes = Remotes(folders)
    remotes.put("office", Remote(url="https://office.example:8443", kind="verifier", connect_timeout=5.0), TOKEN)
    remotes.put("talker", Remote(url="https://api.example/v1", kind="openai", model="m", token_variable="API_KEY"))
    return remotes


@pytest.fixture
def toy() -> Iterator[str]:
    with serving(ToyVerifier().app()) as port:
        yield f"http://127.0.0.1:{port}"


def host(folders: Folders, switch: Switch, **settings: str) -> Host:
    return Host(RemoteSwitcher(Settings().replaced(settings, "a test"), folders, switch))


async def highlight(pilot: Pilot[None], app: Host, name: str) -> None:
    await wait_until(pilot, lambda: isinstance(app.screen, RemotesScreen) and app.list.has_focus)
    app.list.highlighted = [option.id for option in app.list.options].index(name)
    await wait_until(pilot, lambda: app.highlighted == name)


async def fill(pilot: Pilot[None], app: Host, **fields: str) -> None:
    await wait_until(pilot, lambda: isinstance(app.screen, RemoteForm) and app.screen.query_one("#name").has_focus)
    for field, text in fields.items():
        widget = app.screen.query_one(f"#{field}")
        if isinstance(widget, Select):
            widget.value = text
        elif isinstance(widget, Input):
            widget.value = "" if field == "name" else text
            widget.focus()
            await wait_until(pilot, lambda: widget.has_focus)  # noqa: B023
            if field == "name":
                await pilot.press(*text)
            await wait_until(pilot, lambda: widget.value == text)  # noqa: B023


def problem(app: Host, field: str) -> str:
    line = app.screen.query_one(f"#{field}-problem", Static)
    return str(line.content) if line.display else ""


async def test_they_are_listed_with_state_and_token_and_another_one_is_used(folders: Folders, remotes: Remotes) -> None:
    switch = Switch()
    remotes.use("office")
    async with started(host(folders, switch), (60, 30)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.rows) == 3)
        assert columns(app.rows[0]) == [("  bundled model", "started on this device when"), ("", "it is needed")]
        assert columns(app.rows[1]) == [
            ("● office", "https://office.example:8443"),
            ("", "checks drafts, token: keyring"),
            ("", "online: checked by"),
            ("", "shell-guide"),
        ]
        assert columns(app.rows[2]) == [
            ("  talker", "https://api.example/v1"),
            ("", "OpenAI-compatible, token:"),
            ("", "API_KEY (not set)"),
        ]
        assert app.highlighted == "office"
        switch.mode = ModeChanged("offline", "no answer\x1b[2J")
        await wait_until(pilot, lambda: columns(app.rows[1])[-1] == ("", "offline: no answer"))
        assert not any(TOKEN in row for row in app.rows)
        await highlight(pilot, app, ".bundled")
        await press(pilot, "enter", until=lambda: app.rows[0].startswith("● bundled"))
        assert isinstance(switch.sources[-1], Loopback) and Remotes(folders).used is None
        await highlight(pilot, app, "office")
        await press(pilot, "enter", until=lambda: app.rows[1].startswith("● office"))
        assert isinstance(switch.sources[-1], RemoteSource) and Remotes(folders).used == "office" and app.told == []
        await press(pilot, "escape", until=lambda: len(app.screen_stack) == 1)


async def test_an_address_without_a_name_is_shown_and_what_speaks_against_another_choice_is_told(
    folders: Folders, remotes: Remotes
) -> None:
    async with started(host(folders, Switch(), remote="https://elsewhere")) as (app, pilot):
        await wait_until(pilot, lambda: app.highlighted == ".address")
        assert columns(app.rows[1]) == [("● https://elsewhere", "online: checked by shell-guide")]
        await press(pilot, "enter", "e", until=lambda: app.told == ["This server has no name. Press a to give it one."])
        await highlight(pilot, app, "office")
        await pilot.press("enter")
        says = "Your choice ends when you quit, because .* https://elsewhere"
        await wait_until(pilot, lambda: re.search(says, app.told[-1]) is not None)
    async with started(host(folders, Switch(), mode="offline")) as (app, pilot):
        await highlight(pilot, app, "office")
        await press(pilot, "enter", until=lambda: any("Outrider was started offline" in told for told in app.told))


async def test_one_is_added(folders: Folders, remotes: Remotes, ring: MemoryKeyring, tmp_path: Path) -> None:
    async with started(host(folders, Switch()), (60, 34)) as (app, pilot):
        await highlight(pilot, app, "office")
        await pilot.press("a")
        await wait_until(pilot, lambda: isinstance(app.screen, RemoteForm) and app.screen.query_one("#name").has_focus)
        steps = (
            ("tab", "url"),
            ("down", "token"),
            ("up", "url"),
            ("enter", "token"),
            ("up", "url"),
            ("shift+tab", "name"),
        )
        for key, field in steps:
            await pilot.press(key)
            await wait_until(pilot, lambda: app.screen.query_one(f"#{field}").has_focus)  # noqa: B023
        await fill(pilot, app, name="new", url="http://10.0.0.2:8000", token=TOKEN, kind="openai", read_timeout="30")
        assert TOKEN not in "".join(
            strip.text for strip in app.screen.query_one("#token").render_lines(app.screen.region)
        )
        await press(pilot, "ctrl+s", until=lambda: isinstance(app.screen, RemotesScreen) and app.highlighted == "new")
        await wait_until(pilot, lambda: app.told == ["new: its token: keyring"])
    kept = Remotes(folders).get("new")
    assert kept == Remote(url="http://10.0.0.2:8000", kind="openai", read_timeout=30.0, token="keyring")
    assert Remotes(folders).token("new") == TOKEN


async def test_the_first_one_is_used_and_the_next_is_not(tmp_path: Path, ring: MemoryKeyring) -> None:
    folders = Folders(tmp_path, tmp_path, tmp_path)
    switcher = RemoteSwitcher(Settings(), folders, Switch())
    await switcher.save("mine", Remote(url="http://127.0.0.1:9"), None, None)
    await switcher.save("next", Remote(url="http://127.0.0.1:9"), None, None)
    assert switcher.now == Remotes(folders).used == "mine"
    switcher.use(None)
    await switcher.save("third", Remote(url="http://127.0.0.1:9"), None, None)
    assert Remotes(folders).used is None, "the bundled model was asked for"


async def test_what_is_wrong_is_told_in_place(folders: Folders, remotes: Remotes, tmp_path: Path) -> None:
    async with started(host(folders, Switch()), (60, 40)) as (app, pilot):
        await highlight(pilot, app, "office")
        await pilot.press("a")
        await fill(pilot, app, name="new", url="10.0.0.2")
        await press(pilot, "tab", until=lambda: problem(app, "url") == "the address starts with http:// or https://")
        await fill_on(pilot, app, "url", "https://office")
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
        await press(pilot, "ctrl+s", until=lambda: app.text("#problem") == "there is a server office already")
        await press(pilot, "escape", until=lambda: shows(app, RemotesScreen))
    assert len(Remotes(folders)) == 2


async def fill_on(pilot: Pilot[None], app: Host, field: str, text: str) -> None:
    app.screen.query_one(f"#{field}", Input).value = text
    await pilot.pause()


async def test_one_is_edited_and_keeps_its_token_unless_the_server_is_another(
    folders: Folders, remotes: Remotes, ring: MemoryKeyring
) -> None:
    switch = Switch()
    remotes.use("office")
    async with started(host(folders, switch), (100, 34)) as (app, pilot):
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
        assert isinstance(switch.sources[-1], RemoteSource) and switch.sources[-1].name == "bureau"
        await pilot.press("e")
        await fill(pilot, app, url="https://elsewhere")
        placeholder = app.screen.query_one("#token", Input)
        await wait_until(pilot, lambda: placeholder.placeholder == "give it again: it is for another server")
        await press(pilot, "ctrl+s", until=lambda: shows(app, RemotesScreen))
        await wait_until(pilot, lambda: app.told[-1] == "bureau: its token: none")
    assert ring.kept == {}


async def test_a_test_shows_what_it_finds(folders: Folders, remotes: Remotes, toy: str) -> None:
    remotes.put("toy", Remote(url=toy))
    remotes.put("nobody", Remote(url="http://127.0.0.1:9"))
    async with started(host(folders, Switch()), (60, 40)) as (app, pilot):
        await highlight(pilot, app, "toy")
        await press(pilot, "t", until=lambda: app.findings[-2:] == ["! chat", "✓ mode"])
        assert app.findings[:3] == ["✓ connection", "✓ round trips", "✓ model"]
        await highlight(pilot, app, "nobody")
        await press(pilot, "t", until=lambda: app.findings == ["✗ connection"])
        await wait_until(pilot, lambda: not app.screen.query(".waiting"))
        await highlight(pilot, app, ".bundled")
        await press(pilot, "t", until=lambda: app.told == ["The bundled model cannot be changed or removed."])


async def test_removing_asks_first(folders: Folders, remotes: Remotes, ring: MemoryKeyring) -> None:
    switch = Switch()
    remotes.use("office")
    async with started(host(folders, switch), (60, 30)) as (app, pilot):
        for answer, left in (("n", 3), ("y", 2)):
            await highlight(pilot, app, "office")
            await press(pilot, "d", until=lambda: shows(app, Confirm))
            question = str(app.screen.query(Static).first().content)
            assert question == (
                "Remove office and its token? You use this server now; afterwards the bundled model answers."
            )
            await press(pilot, answer, until=lambda: shows(app, RemotesScreen))
            await wait_until(pilot, lambda: len(app.rows) == left)  # noqa: B023
            gone = answer == "y"
            assert ("office" not in Remotes(folders)) == gone == (ring.kept == {})
            assert [type(source) for source in switch.sources] == ([Loopback] if gone else [])


async def test_a_broken_file_is_told(folders: Folders, remotes: Remotes) -> None:
    (folders.config / "remotes.toml").write_text("[remotes")
    async with started(host(folders, Switch()), (60, 30)) as (app, pilot):
        await wait_until(pilot, lambda: any("remotes.toml is not valid TOML" in told for told in app.told))
        assert len(app.rows) == 1


async def test_no_word_is_cut_off_and_the_columns_are_straight(folders: Folders, remotes: Remotes) -> None:
    path = "/a/very/long/path/that/goes/on/and/on/to/the/model"
    remotes.put("a-name-that-is-longer-than-its-column", Remote(url=f"http://127.0.0.1:11434{path}"))
    async with started(host(folders, Switch()), (60, 24)) as (app, pilot):
        await wait_until(pilot, lambda: len(app.rows) == 4)
        for width in (60, 120):
            await pilot.resize_terminal(width, 24)
            await wait_until(pilot, lambda: app.screen.size.width == width)  # noqa: B023
            await pilot.pause()
            rows = [row for row in app.rows if "longer" in row]
            first, *rest = rows[0].splitlines()
            assert first.strip() == "a-name-that-is-longer-than-its-column"
            assert all(line[:20].strip() == "" and line[20] != " " for line in rest)
            assert "".join(line[20:] for line in rest).startswith(f"http://127.0.0.1:11434{path}")
            most = app.list.size.width - 2
            assert max(len(line) for row in app.rows for line in row.splitlines()) <= most, (
                "the list wraps none of them"
            )
            hint = app.screen.query_one("#hint", Static)
            await wait_until(pilot, lambda: hint.size.height == len(str(hint.content).splitlines()))  # noqa: B023
            keys = [pair for line in str(hint.content).splitlines() for pair in line.split("   ")]
            assert keys == ["enter use", "a add", "e edit", "t test", "l look on this device", "d remove", "esc close"]
            assert max(len(line) for line in str(hint.content).splitlines()) <= hint.size.width
