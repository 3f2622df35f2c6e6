"""Conversations written to files from the screen."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from textual import work
from textual.binding import Binding

from app.config import Folders
from app.sanitise import sanitise
from app.tui.screens.chat.conversation import OpenConversation
from storage import Conversation, StorageError

if TYPE_CHECKING:
    from app.tui.screens.export import Chosen


class Exporting(OpenConversation):
    """An export is a new file in a folder of its own, and replaces none."""

    BINDINGS = [Binding("f6", "export", "Export this conversation, or all", id="chat.export", priority=True)]

    def action_export(self) -> None:
        try:
            shown = None if self.conversation is None else self.core.store.conversations.get(self.conversation)
        except StorageError as error:
            self.complain(error)
            return
        self.ask_export(shown)

    @work(group="export")
    async def ask_export(self, conversation: Conversation | None) -> None:
        """Asks for the format, and writes."""
        # What writes is read when it is needed for the first time, not at the start.
        from app.archive.exporter import export_folder
        from app.tui.screens.export import ExportScreen

        folder = export_folder(Folders.locate())
        title = None if conversation is None else conversation.title
        chosen = await self.app.push_screen_wait(ExportScreen(title, str(folder)))
        if chosen is not None:
            await self._export(chosen, conversation, folder)

    async def _export(self, chosen: Chosen, conversation: Conversation | None, folder: Path) -> None:
        from app.archive.errors import ArchiveError
        from app.archive.exporter import every_conversation, export_conversations

        def write() -> Path:
            store = self.core.store
            ids = every_conversation(store) if chosen.everything or conversation is None else [conversation.id]
            folder.mkdir(parents=True, exist_ok=True)
            return export_conversations(
                store, ids, chosen.format, folder, settings=self.settings, branches=chosen.everything
            )

        try:
            path = await asyncio.to_thread(write)
        except StorageError as error:
            self.complain(error)
        except (ArchiveError, OSError) as error:
            self.notify(sanitise(str(error)), title="Export", severity="error", markup=False)
        else:
            self.notify(sanitise(str(path)), title="Exported", timeout=15, markup=False)
