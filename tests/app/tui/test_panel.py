"""What the status bar and the panel say: figures, the model, and how much of the context a conversation takes."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from app.drafting.prompt import Context
from app.events import Mode, ModeChanged, RoundEnded, RoundReport, StandIn, Stats
from app.tui.widgets import status_bar
from app.tui.widgets.panel import Panel
from app.tui.widgets.status_bar import StatusBar
from storage import Store
from tests.app.tui.scripted import STATS, ScriptedCore, Step, finished, press, store_turns, verified, wait_until
from tests.app.tui.window import started


def ended(levels: int, gained: int, rtt: float = 0.08, stats: Stats = Stats()) -> RoundEnded:  # noqa: B008
    report = RoundReport(levels, 3 * levels, 2.0 if levels else None, gained, None, 0.01, 0.02, rtt)
    return RoundEnded(stats, report)


async def test_the_panel_is_beside_the_transcript_or_over_it_and_is_remembered(store: Store) -> None:
    store_turns(store, "one", [("q", "a")])
    round_ended = ended(2, 3, stats=Stats(rounds=1, verified=3, seconds=0.1))
    script: list[Step] = [*verified("yes"), round_ended, finished(3)]
    async with started(ScriptedCore(store, [script]), (130, 30)) as (app, pilot):
        panel = app.screen.query_one(Panel)
        assert not panel.display
        await press(pilot, *"hi", "enter", until=lambda: app.answers == ["yes"])
        await press(pilot, "f3", until=lambda: panel.display and panel.region.x == 90)
        assert "passes saved" in app.text("Panel Static") and app.chat.has_class("-narrow")
        assert app.prompt.region.right <= 90 and app.prompt.has_focus
        assert f"rounds {STATS.rounds}" in " ".join(app.text("Panel Static").split())
        await press(pilot, "f9", until=lambda: len(app.text("Rounds").splitlines()) == 2)
        assert "No round yet" not in app.text("Rounds")
        await pilot.press("f9")
        await pilot.resize_terminal(60, 30)
        await wait_until(pilot, lambda: panel.region.x == 20 and app.prompt.region.right > 50)
    async with started(ScriptedCore(store), (150, 30)) as (app, pilot):
        await wait_until(pilot, lambda: app.screen.query_one(Panel).region.width == 40)
        assert app.chat.has_class("-wide"), "150 columns hold the list, too"
        await press(pilot, "f3", until=lambda: not app.screen.query_one(Panel).display)
    async with started(ScriptedCore(store), (150, 30)) as (app, _):
        assert not app.screen.query_one(Panel).display


async def test_the_context_meter_follows_the_conversation_and_stays_in_a_narrow_status_bar(store: Store) -> None:
    conversation = store_turns(store, "one", [("q" * 20, "a" * 480)])
    hold = asyncio.Event()
    core = ScriptedCore(store, [[RoundEnded(Stats(rounds=1, verified=30)), hold, *verified("yes"), finished(3)]])
    async with started(core) as (app, pilot):
        assert app.text("#context") == ""
        await app.turn_to(pilot, conversation, until=lambda: app.text("#context") == "context 100/8.2k")
        await press(pilot, *"hello", "enter", until=lambda: app.text("#context") == "context 131/8.2k")
        hold.set()
        await wait_until(pilot, lambda: app.text("#context") == "context 101/8.2k")
        await wait_until(pilot, lambda: app.text("#figures") == "42 tokens/s  21 tokens checked")
        for width, figures in ((40, "42 tok/s  21 checked"), (30, "42 tok/s")):
            await pilot.resize_terminal(width, 30)
            await wait_until(pilot, lambda: app.text("#figures") == figures)  # noqa: B023
            meter = app.screen.query_one("#context")
            await wait_until(pilot, lambda: 0 < meter.region.right <= width)  # noqa: B023
            assert app.text("#context") == "ctx 1%"
        await press(pilot, "ctrl+n", until=lambda: app.text("#context") == "")


@pytest.mark.usefixtures("looks_often")
async def test_what_the_model_on_this_device_does(store: Store) -> None:
    mode = ModeChanged("offline", "qwen on this device writes: no answer", True, "qwen", False)
    core = ScriptedCore(store, mode=mode)
    core.standing_by = StandIn("qwen")
    async with started(core) as (app, pilot):
        await wait_until(pilot, lambda: "ask qwen" in str(app.prompt.border_subtitle))
        shown = lambda: app.text("Panel Static")  # noqa: E731
        asleep = "While the server is away\nqwen\nidle until it is needed"
        await press(pilot, "f3", until=lambda: asleep in shown())
        assert "nobody checks" in shown() and "the server writes" not in shown()
        core.standing_by = StandIn("qwen", "loading", memory=120_000_000)
        await wait_until(pilot, lambda: "loading, 120 MB of memory" in shown())
        core.standing_by = StandIn("qwen", "failed", "there is no model in /models\x1b[31m")
        await wait_until(pilot, lambda: "no model in /models" in shown() and "\x1b" not in shown())
        core.standing_by = None
        await wait_until(pilot, lambda: "While the server" not in shown())


LINE = Stats(rounds=3, verified=9, seconds=1.0, rtt_ms=84.0, line="online")
LONG = "registry.example.com/somebody/Llama-3.3-70B-Instruct-abliterated-GGUF:Q4_K_M"


class Host(App[None]):
    CSS_PATH = str(Path(status_bar.__file__).with_suffix(".tcss"))

    def compose(self) -> ComposeResult:
        yield StatusBar()

    @property
    def bar(self) -> StatusBar:
        return self.query_one(StatusBar)

    def shown(self, part: str) -> str:
        return str(self.query_one(part, Static).content)


async def test_nothing_is_cut_off_in_80_columns() -> None:
    async with started(Host(), (80, 5)) as (host, pilot):
        why = "nothing listens at 127.0.0.1:11434; start the server or check the address, as `outrider doctor` says."
        modes: tuple[Mode, ...] = ("edge", "hosted", "offline", "warming")
        for mode, model in itertools.product(modes, ("", "qwen2.5:7b", LONG)):
            host.bar.show_mode(ModeChanged(mode, why, model=model))
            host.bar.show_stats(LINE)
            host.bar.show_context(Context(1200, 2048))
            host.bar.show_for_shell("ls")
            context = host.query_one("#context", Static)
            await pilot.pause()
            await wait_until(pilot, lambda: context.content_size.width == len("ctx 59%"))  # noqa: B023
            for part in host.bar.query(Static):
                text = str(part.content)
                assert not text or (len(text) <= part.content_size.width and part.region.right <= 80), part.id
            name = host.shown("#model")
            assert name == model or (name.startswith("registry.") and name.endswith(":Q4_K_M") and "…" in name)
