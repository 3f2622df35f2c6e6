"""The application with short ways to what it shows."""

from __future__ import annotations

from textual.widgets import Static

from app.tui.app import OutriderApp
from app.tui.screens.chat import ChatScreen
from app.tui.widgets.conversation_list import ConversationList
from app.tui.widgets.message import Answer, Question
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.prose import WAITING
from app.tui.widgets.waiting import Waiting


class Window(OutriderApp):
    def text(self, selector: str) -> str:
        """What is said there; nothing where there is no such line."""
        return next((str(line.content) for line in self.screen.query(selector).results(Static)), "")

    @property
    def prompt(self) -> Prompt:
        return self.screen.query_one(Prompt)

    @property
    def questions(self) -> list[str]:
        return [str(question.content) for question in self.screen.query(Question)]

    @property
    def answers(self) -> list[str]:
        """The text of each answer that is finished and drawn."""
        answers = self.screen.query(Answer)
        return [answer.prose.source for answer in answers if not answer.turn.running and answer.drawn]

    @property
    def drawing(self) -> bool:
        """Something of a running answer is on the screen."""
        return any(
            answer.turn.running and answer.prose.source not in ("", WAITING) for answer in self.screen.query(Answer)
        )

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
        """The prompts that are shown as queued."""
        widget = self.screen.query_one(Waiting)
        return [str(prompt.content) for prompt in widget.query(".prompt").results(Static)] if widget.display else []
