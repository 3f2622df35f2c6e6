"""What is done with conversations in their list: found, named, pinned, deleted and brought back."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.binding import Binding
from textual.widgets import Input

from app.config import Settings
from app.tui.core import Core
from app.tui.keymap import key_of
from app.tui.screens.chat.export import Exporting
from app.tui.widgets.conversation_list import ConversationList, one_line
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.sidebar import Rename, Search, Sidebar
from storage import Conversation, StorageError

SEARCH_SECONDS = 0.1
"""From the last letter to the search."""
FOUND = 100
UNDO_SECONDS = 15.0


class Organising(Exporting):
    """The list at the left, and what it says."""

    BINDINGS = [
        Binding("ctrl+b", "toggle_list", "Conversations", id="chat.list", priority=True),
        Binding("ctrl+f", "search", "Search in all conversations", id="chat.search", priority=True),
    ]

    def __init__(self, core: Core, settings: Settings) -> None:
        super().__init__(core, settings)
        self._deleted: list[Conversation] = []
        """The last one last."""

    # ---- the list ----------------------------------------------------------------------------------------------------

    def action_toggle_list(self) -> None:
        self.toggle_class("-toggled")
        shown = self.query_one(Sidebar).display
        if shown:
            self.list_conversations()  # Another window may have changed them.
        # At once, as everywhere here: the next letters are meant for it, and may come in the same burst.
        self.set_focus(self.query_one(ConversationList) if shown else self.query_one(Prompt))

    def show_list(self) -> None:
        """Makes room for the list where it is hidden."""
        if not self.query_one(Sidebar).display:
            self.toggle_class("-toggled")

    def focus_what_is_shown(self) -> None:
        """Where the list went and the focus with it, or what the list covers had it, the other gets it."""
        focused, sidebar = self.focused, self.query_one(Sidebar)
        if focused is None or (sidebar in focused.ancestors and not sidebar.display):
            self.set_focus(self.query_one(Prompt))

    def leave_list(self) -> None:
        """Back to the prompt; where the list stood in its place, it goes."""
        if not self.has_class("-wide"):
            self.remove_class("-toggled")
        self.set_focus(self.query_one(Prompt))

    @on(ConversationList.Opened)
    async def open(self, event: ConversationList.Opened) -> None:
        await self.open_conversation(event.conversation_id, event.message_id)
        self.leave_list()

    @on(ConversationList.Said)
    async def hear(self, event: ConversationList.Said) -> None:
        conversation = self.meant(event.conversation)
        if event.what == "search":
            self.action_search()
        elif event.what == "leave":
            self.leave_list()
        elif event.what == "undo":
            await self.undelete()
        elif conversation is None:
            self.notify("Choose a conversation first.")
        elif event.what == "rename":
            self.ask_name(conversation)
        elif event.what == "pin":
            self.pin(conversation)
        elif event.what == "export":
            self.ask_export(conversation)
        elif event.what == "delete":
            await self.delete(conversation)

    # ---- search ------------------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        self.show_list()
        box = self.query_one(Search)
        if not box.has_focus:
            box.select_all()  # What is typed now is another search.
        self.set_focus(box)

    @on(Input.Changed, "Search")
    @work(exclusive=True, group="search")
    async def search(self, event: Input.Changed) -> None:
        """Finds what is typed, off the event loop and not for every letter."""
        words, conversations = event.value, self.query_one(ConversationList)
        if not words.strip():
            conversations.show_found(None)
            self.query_one(Search).found(words)
            return
        await asyncio.sleep(SEARCH_SECONDS)
        try:
            found = await asyncio.to_thread(self.core.store.search.conversations, words, FOUND)
        except StorageError as error:
            self.complain(error)
            return
        conversations.show_found(found)
        self.query_one(Search).found(words)

    @on(Search.Cleared)
    def show_all(self) -> None:
        self.set_focus(self.query_one(ConversationList))

    # ---- one conversation --------------------------------------------------------------------------------------------

    def meant(self, highlighted: Conversation | None) -> Conversation | None:
        """The highlighted one for who is in the list; the open one for who is elsewhere, as in the palette."""
        if self.conversation is None or self.query_one(ConversationList).has_focus:
            return highlighted
        try:
            return self.core.store.conversations.get(self.conversation)
        except StorageError as error:
            self.complain(error)
            return None

    def ask_name(self, conversation: Conversation) -> None:
        """Opens its title for editing, in the list, which is shown for that."""
        conversations = self.query_one(ConversationList)
        self.show_list()
        if not conversations.lists(conversation.id):
            self.query_one(Search).value = ""
            conversations.reach(conversation.id)
        self.query_one(Sidebar).rename(conversation)

    @on(Rename.Renamed)
    def rename(self, event: Rename.Renamed) -> None:
        self.set_focus(self.query_one(ConversationList))
        title = event.title
        if not title or title == one_line(event.conversation.title):
            return
        try:
            self.core.store.conversations.rename(event.conversation.id, title)
        except StorageError as error:
            self.complain(error)
            return
        if event.conversation.id == self.conversation:
            self.show_conversation(title)
        self.list_conversations()

    def pin(self, conversation: Conversation) -> None:
        """Keeps it first, or lets it go."""
        try:
            self.core.store.conversations.pin(conversation.id, not conversation.pinned)
        except StorageError as error:
            self.complain(error)
        self.list_conversations()

    async def delete(self, conversation: Conversation) -> None:
        """Puts it in the bin, and says how it comes back."""
        if self.live is not None and self.live.conversation == conversation.id:
            self.say_busy()
            return
        try:
            self.core.store.bin.delete(conversation.id)
        except StorageError as error:
            self.complain(error)
            return
        self._deleted.append(conversation)
        if conversation.id == self.conversation:
            await self.open_conversation(None)
        self.list_conversations()
        self.search_again()
        key = key_of(self.query_one(ConversationList), "list.undo")
        self.notify(
            f"{one_line(conversation.title) or 'Untitled'}\n\nThe key {key} in the list brings it back.",
            title="Deleted",
            timeout=UNDO_SECONDS,
            markup=False,
        )

    async def undelete(self) -> None:
        """Brings back what was deleted last, as often as something was."""
        if not self._deleted:
            self.notify("Nothing was deleted here since the start.")
            return
        conversation = self._deleted.pop()
        try:
            self.core.store.bin.restore(conversation.id)
        except StorageError as error:
            self.complain(error)
            return
        self.list_conversations()
        self.search_again()
        await self.open_conversation(conversation.id)

    def search_again(self) -> None:
        """What was found may have changed."""
        box = self.query_one(Search)
        if box.value:
            self.search(Input.Changed(box, box.value))
