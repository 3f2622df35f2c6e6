"""The stored conversations, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from textual import on
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.sanitise import sanitise
from storage import Conversation

NEW = "new"


class ConversationList(OptionList):
    """Enter or a click opens one; the first line starts a new one."""

    @dataclass
    class Opened(Message):
        """The person chose a conversation; None: a new one."""

        conversation_id: str | None

    def show(self, conversations: Iterable[Conversation], current: str | None) -> None:
        """Replaces the list and marks the conversation that is open."""
        self.clear_options()
        self.add_option(Option(Content.assemble(("+ ", "bold"), "New conversation"), id=NEW))
        self.add_option(None)
        for conversation in conversations:
            here = conversation.id == current
            title = " ".join(sanitise(conversation.title).split()) or "Untitled"
            mark = Content.styled("▍ " if here else "  ", "$text-primary")
            self.add_option(Option(mark + Content.styled(title, "bold" if here else ""), id=f"at-{conversation.id}"))
            if here:
                self.highlighted = self.option_count - 1

    @on(OptionList.OptionSelected)
    def open(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        chosen = event.option.id or NEW
        self.post_message(self.Opened(None if chosen == NEW else chosen.removeprefix("at-")))
