"""The screen looks often, and Textual neither guesses nor repeats its work, so that tests wait less."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet


async def nothing_to_do(least: float = 0) -> None:
    """Wait until the event loop has nothing that it could do at once."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    for _ in range(1000):
        await asyncio.sleep(0)
        if not ready:
            return


def parsed_once(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Each application parses the same style sheets; the variables are those of its theme."""

    @cache
    def parsed(variables: tuple[tuple[str, str], ...], css: str, options: tuple[tuple[str, Any], ...]) -> Any:
        return parse(Stylesheet(variables=dict(variables)), css, **dict(options))

    def rules(sheet: Stylesheet, css: str, **options: Any) -> Any:
        return parsed(tuple(sheet._variables.items()), css, tuple(options.items()))

    return rules


SECONDS = {
    "screens.chat.prompt_text.SAVE_SECONDS": 0.05,
    "screens.chat.question_files.LOOK_SECONDS": 0.03,
    "screens.chat.replies.FIGURES_SECONDS": 0.05,
    "screens.local.LOOK_SECONDS": 0.05,
    "screens.log.LOOK_SECONDS": 0.05,
    "screens.remotes.LOOK_SECONDS": 0.05,
    "terminal.QUIET_SECONDS": 0.1,
    "widgets.sidebar.SEARCH_SECONDS": 0.02,
}
"""How long the screen waits before it saves, looks or searches."""


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window looks around at once, as it does every other second."""
    monkeypatch.setattr("app.tui.screens.chat.screen.LOOK_SECONDS", 0.05)


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in SECONDS.items():
            patch.setattr(f"app.tui.{name}", seconds)
        patch.setattr("textual.app.wait_for_idle", nothing_to_do)  # After each key, twice; it sleeps at least 20 ms.
        patch.setattr("textual._wait.SLEEP_GRANULARITY", 0.008)
        patch.setattr("textual._wait.SLEEP_IDLE", 0.0005)
        patch.setattr(Stylesheet, "_parse_rules", parsed_once(Stylesheet._parse_rules))
        yield
