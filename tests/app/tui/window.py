"""The application with short ways to what it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from app.config import Folders, Settings
from app.remotes.switcher import RemoteSwitcher
from app.reply.assistant import Assistant
from app.tui.app import OutriderApp
from app.tui.screens.chat.screen import ChatScreen
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.markdown_view import WAITING, MarkdownView
from app.tui.widgets.message import AnswerView, QuestionView
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.transcript import QueuedPrompts
from tests.app.tui.scripted import ScriptedCore, wait_until


class Window(OutriderApp):
    NOTIFICATION_TIMEOUT = 600  # A test on a busy machine may look for a notice long after it was said.

    async def choose(self, pilot: Pilot[None], words: str, title: str = "") -> None:
        """Types words into the command palette and runs the command of that title, which is their own by default."""
        wanted = (title or words).lower()
        await pilot.press("ctrl+p")
        await wait_until(pilot, lambda: isinstance(self.screen, CommandPalette))
        palette = self.screen
        palette.query_one(Input).value = words
        options = palette.query_one(OptionList)

        def found() -> list[int]:
            prompts = [str(option.prompt).lower() for option in options.options]
            return [at for at, prompt in enumerate(prompts) if prompt.startswith(wanted)]

        await wait_until(pilot, lambda: bool(found()) and not any(one.node is palette for one in self.workers))
        options.highlighted = found()[0]
        await pilot.press("enter")
        await wait_until(pilot, lambda: self.screen is not palette)

    async def turn_to(self, pilot: Pilot[None], conversation: str | None, until: Callable[[], bool]) -> None:
        await self.chat.open_conversation(conversation)
        await wait_until(pilot, until)

    def text(self, selector: str) -> str:
        """What is said there; nothing where there is no such line."""
        return next((str(line.content) for line in self.screen.query(selector).results(Static)), "")

    @property
    def options(self) -> list[str]:
        """What can be chosen on this screen."""
        options = self.screen.query_one(OptionList).options
        return [str(option.prompt).replace("\N{NO-BREAK SPACE}", " ") for option in options]

    @property
    def toasts(self) -> list[str]:
        return [toast.message for toast in self._notifications]

    def toasted(self, words: str) -> bool:
        """A toast has these words in its title and its message."""
        return any(words in f"{toast.title} {toast.message}" for toast in self._notifications)

    @property
    def prompt(self) -> Prompt:
        return self.screen.query_one(Prompt)

    @property
    def questions(self) -> list[str]:
        return [str(question.content) for question in self.screen.query(QuestionView)]

    @property
    def answers(self) -> list[str]:
        """The text of each answer that is finished and drawn."""
        answers = self.screen.query(AnswerView)
        return [answer.prose.source for answer in answers if not answer.turn.running and answer.drawn]

    @property
    def drawing(self) -> bool:
        """Something of a running answer is on the screen."""
        running = (answer for answer in self.screen.query(AnswerView) if answer.turn.running)
        return any(answer.prose.source not in ("", WAITING) for answer in running)

    @property
    def titles(self) -> list[str]:
        options = self.screen.query_one(ConversationList).options
        return [str(option.prompt) for option in options if not option.disabled]

    @property
    def chat(self) -> ChatScreen:
        assert isinstance(self.screen, ChatScreen)
        return self.screen

    @property
    def waiting(self) -> list[str]:
        widget = self.screen.query_one(QueuedPrompts)
        return [str(prompt.content) for prompt in widget.query(".prompt").results(Static)] if widget.display else []


class Switching(Window):
    """With the servers and the models of a device. `ports`: where it looks for servers."""

    def __init__(self, core: ScriptedCore, folders: Folders, ports: Sequence[int] = (), **settings: object) -> None:
        self.scripted = core
        chosen = Settings().replaced(settings, "a test")
        super().__init__(core, chosen, RemoteSwitcher(chosen, folders, core, ports=ports))


def rows_of(view: MarkdownView) -> list[str]:
    """The rows of a text as they are drawn."""
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


@asynccontextmanager
async def started(
    shown: ScriptedCore | Assistant | App[None], size: tuple[int, int] = (100, 30), at: str | None = None
) -> AsyncIterator[tuple[Any, Pilot[None]]]:
    """An application, or a window on a core, while it runs. `at`: the conversation that it opens first."""
    app = shown if isinstance(shown, App) else Window(shown)
    async with app.run_test(size=size) as pilot:
        if at is not None:
            await app.chat.open_conversation(at)
        yield app, pilot
