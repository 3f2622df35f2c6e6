"""The conversations with what one needs among many: a search as one types, and a new name in place."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from app.tui.widgets.conversation_list import ConversationList, one_line
from storage import Conversation


class Search(Input):
    """Words that the conversations are searched for; the arrows move through what is found."""

    BINDINGS = [
        Binding("down", "move('cursor_down')", "Next of what was found", id="search.down"),
        Binding("up", "move('cursor_up')", "The one before", id="search.up"),
        Binding("enter", "move('select')", "Open it where the words are", id="search.open"),
        Binding("escape", "clear", "All conversations again", id="search.clear"),
    ]

    class Cleared(Message):
        """The person wants the list back."""

    def __init__(self) -> None:
        super().__init__(placeholder="Search", compact=True, select_on_focus=False)
        self.cursor_blink = False
        self._listed = ""
        """The words of which the list shows what was found."""
        self._opens = False
        """The first of what is being looked for is to be opened."""

    @on(Input.Changed)
    def search_anew(self) -> None:
        self._opens = False

    def found(self, words: str) -> None:
        """The list shows what was found for these words."""
        self._listed = words.strip()
        if self._opens:
            self._opens = False
            self.action_move("select")

    def action_move(self, how: str) -> None:
        if how == "select" and self.value.strip() != self._listed:
            self._opens = True  # What the list shows is not what is meant.
            return
        conversations = self.screen.query_one(ConversationList)
        getattr(conversations, f"action_{how}")()

    def action_clear(self) -> None:
        self.value = ""
        self.post_message(self.Cleared())


class Rename(Input):
    """A title in its own place in the list."""

    BINDINGS = [
        Binding("enter", "keep", "Keep the new name", id="rename.keep"),
        Binding("escape", "drop", "Keep the old name", id="rename.drop"),
    ]

    @dataclass
    class Renamed(Message):
        """The person gave another title, or the same again."""

        conversation: Conversation
        title: str

    def __init__(self) -> None:
        super().__init__(compact=True)
        self.cursor_blink = False
        self.conversation: Conversation | None = None
        """Whose title is being edited, if one is."""

    def on_mount(self) -> None:
        self.display = False

    def begin(self, conversation: Conversation) -> None:
        """Edits a title."""
        self.conversation = conversation
        self.value = one_line(conversation.title)
        self.display = True
        self.screen.set_focus(self)

    def action_keep(self) -> None:
        conversation, self.conversation = self.conversation, None
        self.display = False
        if conversation is not None:
            self.post_message(self.Renamed(conversation, one_line(self.value)))

    def action_drop(self) -> None:
        if self.conversation is not None:
            self.value = one_line(self.conversation.title)
        self.action_keep()

    def on_blur(self, event: events.Blur) -> None:
        self.action_keep()  # What was typed is meant, wherever one looks next.


class Sidebar(Vertical):
    """The search above the list."""

    def compose(self) -> ComposeResult:
        yield Search()
        yield ConversationList()
        yield Rename()

    def rename(self, conversation: Conversation) -> None:
        """Opens its title for editing, where it stands."""
        self.query_one(Rename).begin(conversation)
        self._place_name()

    def on_show(self) -> None:
        self.call_after_refresh(self._place_name)  # The list may have been shown for that only now.

    def on_resize(self) -> None:
        self.call_after_refresh(self._place_name)

    def _place_name(self) -> None:
        name, conversations = self.query_one(Rename), self.query_one(ConversationList)
        if name.conversation is not None:
            line = conversations.line_of(name.conversation.id) or 0
            name.styles.offset = (1, conversations.content_region.y - self.content_region.y + max(0, line))

    @on(Input.Changed, "Rename")
    def ignore(self, event: Input.Changed) -> None:
        event.stop()
