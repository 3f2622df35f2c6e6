"""The files, pages and resources that a prompt names: shown while it is written, read when it is sent.

Only the text counts: `@path` in it. So a file survives a restart together with the text, and is removed with the text.
A page is fetched after the person has said yes, once: its text stays with the question. So does what an MCP server of
the conversation gives for `@SERVER:URI`, without a question: the person has chosen it for the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.timer import Timer
from textual.widgets import Static

from app.attachments.mentions import Mention, mentions
from app.attachments.preview import PreviewLine, preview, too_large
from app.attachments.reader import Gathered, belongs, gather, joined, one_line
from app.files import current_folder
from app.reply.assistant import NotLoaded
from app.tools.resources import is_secret, read_resources
from app.tui.background import begin
from app.tui.open_conversation import OpenConversation
from app.tui.widgets.prompt import Prompt
from storage import Attachment


class PromptFiles(Static):
    """Hidden while there is nothing to show. A click on a file removes it from the question."""

    @dataclass
    class Removed(Message):
        """The person does not want this path attached to the question."""

        raw: str

    def __init__(self) -> None:
        super().__init__(markup=False, id="files")
        self.lines: tuple[PreviewLine, ...] = ()

    def on_mount(self) -> None:
        self.display = False

    def show(self, lines: Sequence[PreviewLine]) -> None:
        if tuple(lines) != self.lines:
            self.lines = tuple(lines)
            self.display = bool(lines)
            self.update(Content("\n").join(self._line(at, line) for at, line in enumerate(self.lines)))

    def _line(self, at: int, line: PreviewLine) -> Content:
        if line.problem:
            return Content.assemble(("! ", "$text-warning"), (line.text, "$text-warning"))
        if line.raw is None:
            return Content.assemble(("  ", ""), (line.text, "$text-muted"))
        return Content.assemble(("+ ", "$text-primary"), line.text, ("  ✕", Style.from_meta({"file": at})))

    def on_click(self, event: events.Click) -> None:
        at = event.style.meta.get("file")
        if isinstance(at, int) and at < len(self.lines) and (raw := self.lines[at].raw) is not None:
            event.stop()
            self.post_message(self.Removed(raw))


LOOK_SECONDS = 0.25
"""Seconds from a change of the text to a check of the disk."""


class QuestionFiles:
    """Finds, shows and reads what the text of `prompt` names."""

    def __init__(self, prompt: Prompt, view: PromptFiles, conversation: OpenConversation) -> None:
        self._prompt, self._view, self._conversation = prompt, view, conversation
        self._timer: Timer | None = None
        self._named: tuple[Attachment, ...] = ()
        """Files of an earlier question that its text names: they stay as they were while it names them."""
        self._pages: tuple[Attachment, ...] = ()
        """Pages and resources that were read for the question in the prompt."""
        self._question = 0
        """Counts the questions that were in the prompt."""
        self._fetching = ""
        """The text about whose pages the person is being asked, or whose pages and resources are being fetched."""
        self._unnamed: tuple[Attachment, ...] = ()
        """Files of an earlier question that its text does not name: they stay with it."""
        self._warned = ""
        """The text about which the person was warned; if sent once more, it is sent as it is."""
        self._shown: list[str] = []

    def keep(self, attachments: Sequence[Attachment], text: str) -> None:
        """Keep the files of a question that is in the prompt again; none for a new text."""
        named = self._mentions(text) if attachments else []
        self._named = tuple(one for one in attachments if any(belongs(one, mention) for mention in named))
        self._unnamed = tuple(one for one in attachments if one not in self._named)
        self._warned, self._pages, self._question = "", (), self._question + 1
        self._shown = ["?"]  # Unlike any list of paths: show it anew.
        self.look_soon()

    # ---- while it is written -----------------------------------------------------------------------------------------

    def look_soon(self) -> None:
        """Show what the text names after a moment."""
        if self._timer is None:
            self._timer = self._prompt.set_timer(LOOK_SECONDS, self._begin_look)

    def _begin_look(self) -> None:
        self._timer = None
        begin(self._prompt, self._look, group="files", exclusive=True)

    async def _look(self) -> None:
        text, named = self._prompt.text, (*self._named, *self._pages)
        if "@" not in text and not self._unnamed:
            self._shown = []
            self._view.show(())
            return
        found = await asyncio.to_thread(self._mentions, text)
        unfinished = bool(found) and found[-1].kind == "missing" and found[-1].end == len(text)
        if unfinished and not any(belongs(one, found[-1]) for one in named):
            found.pop()  # The person may still be typing it.
        raws = [one.raw for one in found]
        if raws == self._shown:
            return
        read = await asyncio.to_thread(lambda: [(one.raw, gather([one], named)) for one in found])
        self._shown = raws
        if self._view.is_attached:  # Else the window has closed meanwhile.
            self._view.show(preview(read, self._unnamed))

    def take_out(self, raw: str) -> None:
        for mention in self._mentions(self._prompt.text):
            if mention.raw == raw:
                self._prompt.cut_out(mention.start, mention.end)
                return

    # ---- when it is sent ---------------------------------------------------------------------------------------------

    async def read(self, typed: str, again: Callable[[], object]) -> Sequence[Attachment] | None:
        """The attachments of a typed question, or None if it is not sent now.

        After a warning, sending the question again overrides it. If it names pages, the person is asked first; `again`
        is called when they have been fetched.
        """
        if "@" not in typed and not self._unnamed:
            return ()
        gathered = await asyncio.to_thread(self._gather, typed)
        if (gathered.pages or gathered.resources) and typed != self._warned:
            if not self._fetching:
                self._fetching = typed
                begin(self._prompt, partial(self._fetch, typed, gathered, again), group="pages")
            elif self._fetching != typed:
                said = "Attachments of another question are still being fetched. Send this one afterwards."
                self._prompt.notify(said, title="Not sent yet", severity="warning", markup=False)
            return None
        warnings = [*gathered.problems]
        secrets = [*gathered.secrets, *(one_line(one.name) for one in gathered.attachments if self._is_secret(one))]
        if secrets and not self._conversation.core.stays_here():
            names = ", ".join(secrets)
            warnings.append(f"{names} may hold a secret and would leave this device")
        context = self._conversation.context
        room = None if context is None else context.limit - context.used
        if large := too_large(gathered.attachments, room):
            warnings.append(large)
        if warnings and typed != self._warned:
            self._warn(typed, f"{'; '.join(warnings)}. Press the same key again to send the question anyway.")
            return None
        if gathered.told and self._shown != [one.raw for one in self._mentions(typed)]:
            # It was sent before there was time to show it.
            self._prompt.notify(f"{'; '.join(gathered.told)}.", title="Files", timeout=15, markup=False)
        self._warned = ""
        return gathered.attachments

    def _gather(self, typed: str) -> Gathered:
        return joined(Gathered([*self._unnamed]), gather(self._mentions(typed), (*self._named, *self._pages)))

    def _is_secret(self, attachment: Attachment) -> bool:
        """Whether this is a resource whose URI looks as if it held a secret."""
        server = attachment.name.partition(":")[0]
        return server in self._conversation.choices.tools and is_secret(attachment.name)

    def _mentions(self, text: str) -> list[Mention]:
        return mentions(text, current_folder(), self._conversation.choices.tools)

    async def _fetch(self, typed: str, named: Gathered, again: Callable[[], object]) -> None:
        """Fetch pages, if the person agrees, and resources, and send the question if it is still in the prompt."""
        prompt, fetched = self._prompt, Gathered()
        try:
            if named.pages and not await self._agreed(named.pages):
                return
            question = self._question
            self._view.show([PreviewLine(f"fetching {one_line(one)} …") for one in (*named.pages, *named.resources)])
            if named.pages:
                from app.attachments.web_pages import fetch_pages  # The HTTP client is not needed at the start.

                fetched = await fetch_pages(named.pages)
            if named.resources:
                fetched = joined(fetched, await self._read_resources(named.resources))
        finally:
            self._fetching = ""
            self._shown = ["?"]
            self.look_soon()
        if question != self._question:
            return
        self._pages += tuple(fetched.attachments)
        if fetched.told:
            prompt.notify(f"{'; '.join(fetched.told)}.", title="Files", timeout=15, markup=False)
        if prompt.text != typed:
            return  # The person writes on, and sends it later.
        if fetched.problems:
            why = "; ".join(fetched.problems)
            self._warn(typed, f"{why}. Press the same key again to send the question without it.")
        else:
            again()

    def _warn(self, typed: str, said: str) -> None:
        """Say why a text is not sent yet. If it is sent once more, it is sent as it is."""
        self._warned = typed
        self._prompt.notify(said, title="Not sent yet", severity="warning", timeout=15, markup=False)

    async def _agreed(self, addresses: Sequence[str]) -> bool:
        from app.tui.screens.confirm import Confirm

        shown = "\n".join(map(one_line, addresses))
        asked = f"Fetch and send with your question?\n\n{shown}\n\nTo send only the address, remove the @ before it."
        agreed: bool = await self._prompt.app.push_screen_wait(Confirm(asked))
        return agreed

    async def _read_resources(self, names: Sequence[str]) -> Gathered:
        try:
            return await read_resources(await self._conversation.core.tools(), names)
        except NotLoaded as error:
            return Gathered(problems=[f"{one_line(names[0])} cannot be read: {error}"])
