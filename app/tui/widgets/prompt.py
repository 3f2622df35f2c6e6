"""The prompt: where the person types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import var

from app.attachments.mentions import dropped, written
from app.files import current_folder
from app.sanitise import sanitise
from app.tui.keymap import hint
from app.tui.slash import PromptOfServer, Question, SlashCommand, TypedCommand, parse, prompt_of_server
from app.tui.widgets.completing_text_area import CompletingTextArea

Hint = tuple[tuple[str, str], ...]
"""Ids of actions, each with a word or two for it."""
KEYS = ("app.help", "keys")
HINT: Hint = (("prompt.send", "send"), ("prompt.newline", "new line"), KEYS)
HINT_COMPLETING: Hint = (("prompt.down", "choose"), ("prompt.complete", "complete"), ("prompt.close", "close"))
HINT_RUNNING: Hint = (("prompt.send", "ask next"), ("chat.stop", "stop"), KEYS)
HINT_OFFLINE: Hint = (("prompt.send", "ask {}"), ("prompt.keep", "queue for the server"), KEYS)
HINT_VERIFIABLE: Hint = (("prompt.send", "send"), ("chat.verify", "check the drafted answer"), KEYS)


PLACEHOLDER = "How do I …?"
GENERAL_PLACEHOLDER = "Ask anything"


class Prompt(CompletingTextArea):
    """A few lines that grow with the text. Up in the first line recalls earlier prompts; Down in the last goes back."""

    BINDINGS = [
        Binding("enter", "submit", "Send", id="prompt.send", priority=True),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="prompt.newline", priority=True),
        Binding("up", "cursor_up", "In the first line: previous prompt", id="prompt.up"),
        Binding("down", "cursor_down", "In the last line: next prompt", id="prompt.down"),
        Binding("ctrl+g", "edit", "Edit it in $VISUAL or $EDITOR", id="prompt.edit", priority=True),
        Binding(
            "ctrl+s",
            "keep",
            "Queue the question for the server; in an empty prompt: take the last one back",
            id="prompt.keep",
            priority=True,
        ),
        Binding("ctrl+r", "search", "Search your earlier questions", id="prompt.search", priority=True),
        Binding(
            "ctrl+c",
            "cancel",
            "Copy the selection, or clear the prompt, or stop the answer; twice: quit",
            id="prompt.cancel",
        ),
        Binding("ctrl+d", "delete_or_quit", "Delete the next character; in an empty prompt: quit", id="prompt.delete"),
        Binding("ctrl+v", "paste", "Paste; an image in the clipboard is attached", id="prompt.paste"),
        Binding("ctrl+underscore", "undo", "Undo the last change", id="prompt.undo"),
        Binding("pageup", "scroll_transcript(-1)", "Scroll up", id="prompt.page_up", priority=True),
        Binding("pagedown", "scroll_transcript(1)", "Scroll down", id="prompt.page_down", priority=True),
        Binding("home", "home", "Beginning of the line; in an empty prompt: of the conversation", id="prompt.home"),
        Binding("end", "end", "End of the line; in an empty prompt: of the conversation", id="prompt.end"),
        Binding(
            "ctrl+home",
            "home(True)",
            "Beginning of the text; in an empty prompt: of the conversation",
            id="prompt.first",
        ),
        Binding("ctrl+end", "end(True)", "End of the text; in an empty prompt: of the conversation", id="prompt.last"),
    ]

    @dataclass
    class Submitted(Message):
        """The person sent a prompt."""

        text: str
        typed: str = ""
        """The text without folded pastes: only there does a path after an `@` name a file."""

    @dataclass
    class Commanded(Message):
        """The person sent a command. It is not a question, and is no longer in the prompt."""

        typed: TypedCommand
        text: str
        """The whole line, for the prompt if it has to be corrected."""

    @dataclass
    class Named(Message):
        """The person wants a prompt of an MCP server. The text that names it is still in this prompt."""

        wanted: PromptOfServer
        text: str

    @dataclass
    class Kept(Message):
        """The person wants a prompt queued for the verifier."""

        text: str
        typed: str = ""
        """The text without what was pasted and folded, as in `Submitted`."""

    class Recalled(Message):
        """The person wants the last queued prompt back."""

    @dataclass
    class Paged(Message):
        """The person scrolls the messages without leaving the prompt."""

        pages: int

    @dataclass
    class Ended(Message):
        """The person goes to an end of the messages without leaving the prompt."""

        first: bool

    class Left(Message):
        """The person pressed Up in an empty prompt that has nothing to recall."""

    class ImageWanted(Message):
        """The person wants to attach the image in the clipboard, or else to paste what was copied in this window."""

    class SearchWanted(Message):
        """The person wants to find a prompt that was sent before."""

    class EditorWanted(Message):
        """The person wants to write in their own editor."""

    class Cancelled(Message):
        """The person pressed Ctrl+C with nothing to copy or to clear."""

    answering: var[bool] = var(False, toggle_class="-answering")
    """A reply runs: the hint says how to stop it."""

    offline: var[str] = var("")
    """Who answers while the server is away, if anybody does: the hint says how to queue for the server."""
    verifiable: var[bool] = var(False)
    """The last answer can be verified: the hint says how."""
    beside: var[tuple[str, ...]] = var(())
    """The hint of another part, shown while that part has the focus."""

    def __init__(self) -> None:
        super().__init__(PLACEHOLDER)
        self.cursor_blink = False  # Blinking would wake an idle laptop twice a second.
        self.commands: Callable[[], Sequence[SlashCommand]] = tuple
        self.servers: Callable[[], Collection[str]] = tuple
        """The MCP servers whose prompts can be named."""
        self.earlier: list[str] = []
        """Earlier prompts, oldest first."""
        self._recalled: int | None = None
        self._typed = ""
        """The text before the first prompt was recalled."""
        self._returned = ""
        """The text that was put back last."""
        self._sent: list[str] = []
        """The raw text at each moment it was sent or queued, as long as the text still begins with it."""

    def _hint(self) -> None:
        if self.completing:
            said = HINT_COMPLETING
        elif self.answering:
            said = HINT_RUNNING
        elif self.offline:
            said = tuple((name, words.format(self.offline)) for name, words in HINT_OFFLINE)
        else:
            said = HINT_VERIFIABLE if self.verifiable else HINT
        parts = [part for pair in said if (part := hint(self, pair))]
        self._say(self.beside or parts)

    on_mount = on_resize = _hint
    watch_answering = watch_offline = watch_verifiable = watch_beside = watch_completing = _hint

    def _say(self, parts: Sequence[str]) -> None:
        """Show as many hints as there is room for. Of three, the middle one is the least known, so it stays longest."""
        room = self.size.width - 2
        while len(parts) > 1 and 0 < room < cell_len(" · ".join(parts)):
            parts = parts[1:] if len(parts) > 2 else parts[:1]
        self.border_subtitle = " · ".join(parts)

    def write(self, text: str) -> None:
        """Replace the text; the cursor goes to the end."""
        self.text = text
        self.move_cursor(self.document.end)

    def put(self, text: str) -> None:
        """Replace the text; the old one can be recalled."""
        self.keep_in_reach(self.full_text)
        self.write(text)

    def put_back(self, text: str) -> None:
        """Show again text that was sent without result. It is selected, so that the next input replaces it."""
        self.keep_in_reach(text.strip())
        self.write(text)
        self.select_all()
        self._returned = text

    def take_off(self, sent: str) -> None:
        """Remove a text that was sent and is now stored. Text typed after it stays."""
        if self._sent_as(self.full_text) == sent:
            self.write("")
            self._sent.clear()
        for front in self._sent:
            if self.text.startswith(front) and self._sent_as(self._unfolded(front)) == sent:
                lines = front.split(self.document.newline)
                self.delete((0, 0), (len(lines) - 1, len(lines[-1])))
                self._sent.clear()
                break

    def cut_out(self, start: int, end: int) -> None:
        """Remove the characters from `start` to `end` of the text, and one space that would be left over."""
        text = self.text
        if text[end : end + 1] == " " and (start == 0 or text[start - 1].isspace()):
            end += 1
        (first, left), (last, right) = (
            (text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1) for at in (start, end)
        )
        self.delete((first, left), (last, right))

    def on_paste(self, event: events.Paste) -> None:
        """A file that was dropped on the terminal comes as a paste of its path: it becomes `@path`."""
        if not event.text:  # What some terminals send if the clipboard has an image.
            self.post_message(self.ImageWanted())
            return
        path = dropped(event.text)
        if path is not None and (mention := self._mention(path)) is not None:
            event.text = mention

    def attach(self, path: Path) -> None:
        if (mention := self._mention(path)) is not None:
            self.insert(mention)

    def _mention(self, path: Path) -> str | None:
        """How the text at the cursor names a file, or None after a notice if it cannot."""
        mention = written(path, current_folder())
        if mention is None:
            self.notify(
                "The name of that file has characters that cannot be typed, so it was not attached. Rename it first.",
                severity="warning",
            )
            return None
        row, column = self.selection.start
        before = self.document.get_line(row)[:column][-1:]
        return f"{' ' if before and not before.isspace() else ''}{mention} "

    def action_paste(self) -> None:
        self.post_message(self.ImageWanted())

    def paste_copied(self) -> bool:
        """Paste what was copied in this window. Returns whether there is anything."""
        if copied := self.app.clipboard:
            super().action_paste()
        return bool(copied)

    def _sent_as(self, text: str) -> str:
        """The part of a text that is sent."""
        typed = parse(text, self.commands())
        return typed.text if isinstance(typed, Question) else text.strip()

    def _about_to_leave(self) -> None:
        self._sent = [front for front in self._sent if self.text.startswith(front) and front != self.text]
        self._sent.append(self.text)

    def keep_in_reach(self, text: str) -> None:
        """Add a text to the earlier prompts, as the last one."""
        if text.strip() and self.earlier[-1:] != [text]:
            self.earlier.append(text)
        self._recalled = None

    def remember(self, prompts: Iterable[str]) -> None:
        """Add prompts from before this start, oldest first."""
        self.earlier[:0] = map(sanitise, prompts)
        self._recalled = None

    # The application runs these three actions itself. When text and Enter come in one burst, as from `tmux send-keys`,
    # it would run them before the letters that still wait in this widget's queue. So each goes into that queue.

    def action_submit(self) -> None:
        self.call_later(self._submit)

    def action_keep(self) -> None:
        self.call_later(self._keep)

    def action_newline(self) -> None:
        self.call_later(self.insert, "\n")

    def _submit(self) -> None:
        if self.take_chosen() or not self.full_text.strip():
            return
        self._recalled = None
        if (question := self._question()) is not None:
            self._about_to_leave()
            self.post_message(self.Submitted(question, self.text))

    def _keep(self) -> None:
        self._recalled = None
        if not self.full_text.strip():
            self.post_message(self.Recalled())
        elif (question := self._question()) is not None:
            self._about_to_leave()
            self.post_message(self.Kept(question, self.text))

    def _question(self) -> str | None:
        """The question to send, or None if the text is a command, which is done, or stays if it cannot be.

        The name of a server's prompt is a command, too.
        """
        text = self.full_text
        if (wanted := prompt_of_server(text, self.servers())) is not None:
            self.post_message(self.Named(wanted, text))
            return None
        typed = parse(text, self.commands())
        if isinstance(typed, Question):
            return typed.text
        if typed.problem:
            self.notify(typed.problem, severity="warning", markup=False)
            self.put_back(text)
        elif isinstance(typed, TypedCommand):
            self.write("")
            self._sent.clear()
            self.keep_in_reach(text.strip())
            self.post_message(self.Commanded(typed, text))
        return None

    def action_edit(self) -> None:
        self.post_message(self.EditorWanted())

    def action_search(self) -> None:
        self.post_message(self.SearchWanted())

    async def action_delete_or_quit(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            await self.run_action("app.quit")

    def action_cancel(self) -> None:
        if self.selected_text and self.selected_text != self._returned:
            self.action_copy()
        elif self.screen.get_selected_text():
            self.screen.action_copy_text()
        elif self.text:
            self.put("")
        else:
            self.post_message(self.Cancelled())

    def action_scroll_transcript(self, pages: int) -> None:
        self.post_message(self.Paged(pages))

    def action_home(self, text: bool = False) -> None:
        """Go to the beginning of the line, or of the whole `text`."""
        if not self.text:
            self.post_message(self.Ended(first=True))
        elif text:
            self.move_cursor((0, 0))
        else:
            self.action_cursor_line_start()

    def action_end(self, text: bool = False) -> None:
        """Go to the end of the line, or of the whole `text`."""
        if not self.text:
            self.post_message(self.Ended(first=False))
        elif text:
            self.move_cursor(self.document.end)
        else:
            self.action_cursor_line_end()

    def action_cursor_up(self, select: bool = False) -> None:
        first = self.wrapped_document.location_to_offset(self.cursor_location).y == 0
        if select or not ((first or self._unchanged) and self._recall(-1)):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        last = self.wrapped_document.location_to_offset(self.cursor_location).y == self.wrapped_document.height - 1
        if select or not ((last or self._unchanged) and self._recall(1)):
            super().action_cursor_down(select)

    @property
    def _unchanged(self) -> bool:
        """The text was recalled, and neither it nor the cursor has changed since."""
        at = self._recalled
        here = at is not None and at < len(self.earlier) and self.text == self.earlier[at]
        return here and self.cursor_location == self.document.end

    def _recall(self, step: int) -> bool:
        """Move through `earlier`; False if there is nothing further in that direction."""
        at = self._recalled
        if at is None or at >= len(self.earlier) or self.text != self.earlier[at]:
            if step > 0:
                return False
            if at is not None:
                self.keep_in_reach(self._typed)  # The recalled prompt was changed since: it is typed text, too.
            at, self._typed = len(self.earlier), self.full_text
        at += step
        if at >= len(self.earlier):
            self._recalled = None
            self.write(self._typed)
        elif at >= 0:
            self._recalled = at
            self.write(self.earlier[at])
        elif not self.text:
            self.post_message(self.Left())
        else:
            return False
        return True

    async def on_key(self, event: events.Key) -> None:
        if event.character == "?" and not self.text:
            event.stop()
            event.prevent_default()
            await self.run_action("app.show_help")
