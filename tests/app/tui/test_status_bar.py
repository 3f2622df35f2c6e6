"""The bar says what holds now, and cuts nothing off."""

from __future__ import annotations

import itertools
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import Static

from app.drafting.prompt import Context
from app.events import Mode, ModeChanged, Stats
from app.tui.widgets import status_bar
from app.tui.widgets.status_bar import StatusBar
from tests.app.tui.scripted import wait_until

STATS = Stats(rounds=3, verified=9, seconds=1.0, rtt_ms=84.0, line="online")


class Host(App[None]):
    CSS_PATH = str(Path(status_bar.__file__).with_suffix(".tcss"))

    def compose(self) -> ComposeResult:
        yield StatusBar()


def shown(host: Host, part: str) -> str:
    return str(host.query_one(part, Static).content)


def figures(host: Host) -> str:
    return shown(host, "#figures")


async def test_the_bar_has_no_figures_of_the_line_and_no_reason_that_does_not_fit() -> None:
    host = Host()
    async with host.run_test(size=(120, 5)) as pilot:
        bar = host.query_one(StatusBar)
        bar.show_mode(ModeChanged("edge", "checked by target"))
        bar.show_stats(STATS)
        assert figures(host) == "9 tokens/s  9 tokens checked"
        bar.show_mode(ModeChanged("offline", "no route"))
        assert figures(host) == "9 tokens/s  9 tokens checked"
        bar.show_stats(None)
        await pilot.resize_terminal(80, 5)
        await wait_until(pilot, lambda: bar.size.width == 80)
        bar.show_mode(ModeChanged("edge", "checked by target " * 5, model="target"))
        assert shown(host, "#why") == "" and shown(host, "#model") == "target"
        bar.show_mode(ModeChanged("edge", "checked by target", model="target"))
        assert shown(host, "#why") == "checked by target"


LONG = "registry.example.com/somebody/Llama-3.3-70B-Instruct-abliterated-GGUF:Q4_K_M"


async def test_nothing_is_cut_off_in_80_columns() -> None:
    host = Host()
    async with host.run_test(size=(80, 5)) as pilot:
        bar = host.query_one(StatusBar)
        why = "nothing listens at 127.0.0.1:11434; start the server or check the address, as `outrider doctor` says."
        modes: tuple[Mode, ...] = ("edge", "hosted", "offline", "warming")
        for mode, model in itertools.product(modes, ("", "qwen2.5:7b", LONG)):
            bar.show_mode(ModeChanged(mode, why, model=model))
            bar.show_stats(STATS)
            bar.show_context(Context(1200, 2048))
            bar.show_for_shell("ls")
            context = host.query_one("#context", Static)
            await pilot.pause()
            await wait_until(pilot, lambda: context.content_size.width == len("ctx 59%"))  # noqa: B023
            for part in bar.query(Static):
                text = str(part.content)
                assert not text or (len(text) <= part.content_size.width and part.region.right <= 80), part.id
            assert shown(host, "#badge") in ("online", "offline", "connecting")
            name = shown(host, "#model")
            assert name == model or (name.startswith("registry.") and name.endswith(":Q4_K_M") and "…" in name)


async def test_the_name_of_who_writes_is_said_once() -> None:
    host = Host()
    async with host.run_test(size=(80, 5)):
        host.query_one(StatusBar).show_mode(
            ModeChanged("offline", "qwen on this device writes: no route", model="qwen")
        )
        assert (shown(host, "#model"), shown(host, "#why")) == ("qwen", "on this device writes: no route")
        host.query_one(StatusBar).show_mode(ModeChanged("offline", "no route"))
        assert shown(host, "#why") == "no route"


async def test_the_speed_of_a_model_does_not_stand_next_to_the_name_of_another() -> None:
    host = Host()
    async with host.run_test(size=(120, 5)):
        bar = host.query_one(StatusBar)
        bar.show_mode(ModeChanged("offline", "no route", model="qwen"))
        bar.show_stats(STATS)
        speed = shown(host, "#figures")
        assert speed
        bar.show_mode(ModeChanged("warming", "connecting"))
        bar.show_mode(ModeChanged("hosted", "answered by office", model="talker"))
        assert not shown(host, "#figures")
        bar.show_mode(ModeChanged("offline", "no route", model="qwen"))
        assert shown(host, "#figures") == speed
