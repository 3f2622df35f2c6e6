"""The list of stored conversations: search as you type, rename in place, pin, delete and restore."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from app.sanitise import one_line
from app.tui.keymap import key_of
from app.tui.notices import reporting
from app.tui.open_conversation import OpenConversation
from app.tui.widgets.conversation_list import RUNNING, ConversationList
from app.tui.widgets.part_keys import PartKeys
from storage import Conversation

SEARCH_SECONDS = 0.1
"""Seconds from the last letter to the search."""
FOUND = 100
"""Maximum number of conversations that a search shows."""
UNDO_SECONDS = 15.0
"""Seconds for which the toast about a deletion stays."""


class SearchBox(Input):
    """The search box. The arrow keys move through the results."""

    BINDINGS = [
        Binding("down", "move('cursor_down')", "Next result", id="search.down"),
        Binding("up", "move('cursor_up')", "Previous result", id="search.up"),
        Binding("enter", "move('select')", "Open it at the match", id="search.open"),
        Binding("escape", "clear", "Show all conversations again", id="search.clear"),
    ]

    class Cleared(Message):
        """The person wants the list back."""

    def __init__(self) -> None:
        super().__init__(placeholder="Search", compact=True, select_on_focus=False)
        self.cursor_blink = False
        self._listed = ""
        """The words whose results the list shows."""
        self._opens = False
        """Open the first result when the running search ends."""
        self._last = ""
        """The words of the last search, whose result was opened."""

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
            self._opens = True  # The list still shows the results of other words.
            return
        conversations = self.screen.query_one(ConversationList)
        getattr(conversations, f"action_{how}")()

    def finish(self) -> None:
        """A result was opened: show all conversations again, and keep the words for another search."""
        self._last, self.value = self.value or self._last, ""

    def begin(self) -> None:
        """Begin another search, with the last words for the person to change."""
        if not self.value:
            self.value, self._last = self._last, ""
        self.select_all()

    def action_clear(self) -> None:
        self.value = ""
        self.post_message(self.Cleared())


class TitleBox(Input):
    """An input for a conversation's title, placed over its line in the list."""

    BINDINGS = [
        Binding("enter", "keep", "Save the new name", id="rename.keep"),
        Binding("escape", "drop", "Keep the old name", id="rename.drop"),
    ]

    @dataclass
    class Renamed(Message):
        """The person is done. The title may be the same as before."""

        conversation: Conversation
        title: str
        by_key: bool
        """Whether a key ended it, and not a move of the focus elsewhere."""

    def __init__(self) -> None:
        super().__init__(compact=True)
        self.cursor_blink = False
        self.conversation: Conversation | None = None
        """The conversation whose title is being edited, if any."""

    def on_mount(self) -> None:
        self.display = False

    def begin(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.value = one_line(conversation.title)
        self.display = True
        self.screen.set_focus(self)

    def action_keep(self, by_key: bool = True) -> None:
        conversation, self.conversation = self.conversation, None
        self.display = False
        if conversation is not None:
            self.post_message(self.Renamed(conversation, one_line(self.value), by_key))

    def action_drop(self) -> None:
        if self.conversation is not None:
            self.value = one_line(self.conversation.title)
        self.action_keep()

    def on_blur(self, event: events.Blur) -> None:
        self.action_keep(by_key=False)  # The typed title is kept, wherever the focus moves next.


KEYS: dict[type[Widget], tuple[tuple[str, str], ...]] = {
    ConversationList: (
        ("list.open", "open"),
        ("list.rename", "rename"),
        ("list.pin", "pin"),
        ("list.delete", "delete"),
        ("list.undo", "undo"),
        ("list.export", "export"),
        ("list.search", "search"),
        ("list.leave", "back"),
    ),
    SearchBox: (("search.open", "open"), ("search.down", "next"), ("search.up", "before"), ("search.clear", "all")),
    TitleBox: (("rename.keep", "keep"), ("rename.drop", "keep the old one")),
}
"""The keys shown below the list while that part has the focus."""


class Sidebar(Vertical):
    """The search above the list, and all commands on conversations of the list.

    The screen's class `-toggled` says that the person wants the list other than its width suggests.
    """

    @dataclass
    class TitleChanged(Message):
        """The open conversation has a new title."""

        title: str

    @dataclass
    class ExportAsked(Message):
        """The person wants a conversation as a file."""

        conversation: Conversation

    class Left(Message):
        """The person goes back to the prompt."""

    def __init__(self, conversation: OpenConversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._store = conversation.core.store
        self._deleted: list[Conversation] = []
        """Conversations that were deleted since the start, the last one last."""
        self.conversations = ConversationList()
        self._search = SearchBox()
        self._rename = TitleBox()
        self._keys = PartKeys(KEYS)

    def compose(self) -> ComposeResult:
        yield self._search  # `TitleBox` counts on one line above the list.
        yield self.conversations
        yield self._rename
        yield self._keys

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def tell_keys(self) -> None:
        """Show the keys of the focused part below the list."""
        focused = self.screen.focused  # The two events come in any order.
        if focused is not None and type(focused) in KEYS:
            self._keys.tell(focused)
        else:
            self._keys.display = False

    # ---- showing -----------------------------------------------------------------------------------------------------

    def toggle(self) -> None:
        self.screen.toggle_class("-toggled")
        if self.display:
            self.refresh_list()  # Another window may have changed it.

    def show(self) -> None:
        """Make room for the list if it is hidden."""
        if not self.display:
            self.screen.toggle_class("-toggled")

    @work(exclusive=True, group="list")
    async def refresh_list(self) -> None:
        """Read the list again, in a thread: thousands of conversations take a while."""
        with reporting(self):
            conversations = await asyncio.to_thread(self._store.conversations.all)
            if self.conversations.is_attached:
                opened = self._conversation
                states = {**opened.ended, **dict.fromkeys(opened.replies, RUNNING)}
                self.conversations.show(conversations, opened.id, states)

    @on(ConversationList.Commanded)
    def obey(self, event: ConversationList.Commanded) -> None:
        event.stop()
        if event.command == "search":
            self.search()
        elif event.command == "leave":
            self.post_message(self.Left())
        elif event.command == "undo":
            self._undelete()
        elif (conversation := self._meant(event.conversation)) is None:
            self.notify("Choose a conversation first.")
        elif event.command == "rename":
            self.ask_name(conversation)
        elif event.command == "pin":
            self.pin(conversation)
        elif event.command == "export":
            self.post_message(self.ExportAsked(conversation))
        elif event.command == "delete":
            self.delete(conversation)

    def _meant(self, highlighted: Conversation | None) -> Conversation | None:
        """The highlighted conversation if the list has the focus, else the open one: the palette means that."""
        if self.conversations.has_focus:
            return highlighted
        if self._conversation.id is None:
            return None
        with reporting(self):
            return self._store.conversations.get(self._conversation.id)
        return None

    # ---- search ------------------------------------------------------------------------------------------------------

    def search(self, words: str = "") -> None:
        """Go to the search. `words`: what to search for; empty: the last words, for the person to change."""
        self.show()
        if words:
            self._search.value = words
        elif not self._search.has_focus:
            self._search.begin()
        self.screen.set_focus(self._search)

    @on(Input.Changed, "SearchBox")
    @work(exclusive=True, group="search")
    async def find(self, event: Input.Changed, *, again: bool = False) -> None:
        """Find what is typed, in a thread and not for every letter. `again`: what is highlighted stays so."""
        words = event.value
        if not words.strip():
            self.conversations.show_found(None)
            self._search.found(words)
            return
        await asyncio.sleep(SEARCH_SECONDS)
        with reporting(self):
            found = await asyncio.to_thread(self._store.search.conversations, words, FOUND)
            if self.conversations.is_attached:  # Else the window has closed meanwhile.
                self.conversations.show_found(found, stays=again)
                self._search.found(words)

    def end_search(self) -> None:
        self._search.finish()

    @on(SearchBox.Cleared)
    def show_all(self) -> None:
        self.screen.set_focus(self.conversations)

    def _refresh_all(self) -> None:
        self.refresh_list()
        if self._search.value:
            self.find(Input.Changed(self._search, self._search.value), again=True)

    # ---- names -------------------------------------------------------------------------------------------------------

    def ask_name(self, conversation: Conversation) -> None:
        """Open a title for editing, in the list, which is shown for that."""
        self.show()
        if not self.conversations.lists(conversation.id):
            self._search.value = ""
            self.conversations.reach(conversation.id)
        self._rename.begin(conversation)
        self._place_name()

    def on_show(self) -> None:
        self.call_after_refresh(self._place_name)  # The list may have been shown only now.

    def on_resize(self) -> None:
        self.call_after_refresh(self._place_name)

    def _place_name(self) -> None:
        """Place the edited name over its line in the list."""
        if self._rename.conversation is not None:
            line = self.conversations.line_of(self._rename.conversation.id) or 0
            top = self.conversations.content_region.y - self.content_region.y
            self._rename.styles.offset = (1, top + max(0, line))

    @on(Input.Changed, "TitleBox")
    def ignore(self, event: Input.Changed) -> None:
        event.stop()

    @on(TitleBox.Renamed)
    def rename(self, event: TitleBox.Renamed) -> None:
        event.stop()
        if event.by_key or self.screen.focused is None:  # The whole window may have lost the focus.
            self.screen.set_focus(self.conversations)
        if event.title and event.title != one_line(event.conversation.title):
            self.retitle(event.conversation, event.title)

    def retitle(self, conversation: Conversation, title: str) -> None:
        with reporting(self):
            self._store.conversations.rename(conversation.id, title)
            if conversation.id == self._conversation.id:
                self.post_message(self.TitleChanged(title))
            self._refresh_all()

    # ---- pinning, deleting -------------------------------------------------------------------------------------------

    def pin(self, conversation: Conversation) -> None:
        with reporting(self):
            self._store.conversations.pin(conversation.id, not conversation.pinned)
        self._refresh_all()

    @work(group="delete")
    async def delete(self, conversation: Conversation) -> None:
        """Put a conversation in the bin, and show how to restore it. A reply that runs there is stopped first."""
        while (reply := self._conversation.replies.get(conversation.id)) is not None:
            with reporting(self):
                self._conversation.stop(conversation.id)
            await reply.ended.wait()
        with reporting(self):
            self._store.bin.delete(conversation.id)
            self._deleted.append(conversation)
            if conversation.id == self._conversation.id:
                self.post_message(ConversationList.Opened(None, stays=True))
            self._refresh_all()
            self.notify(
                f"{one_line(conversation.title) or 'Untitled'}\n\n"
                f"Press {key_of(self.conversations, 'list.undo')} in the list to bring it back.",
                title="Deleted",
                timeout=UNDO_SECONDS,
                markup=False,
            )

    def _undelete(self) -> None:
        if not self._deleted:
            self.notify("Nothing has been deleted since Outrider was started.")
            return
        with reporting(self):
            conversation = self._deleted.pop()
            self._store.bin.restore(conversation.id)
            self._refresh_all()
            self.post_message(ConversationList.Opened(conversation.id, stays=True))
