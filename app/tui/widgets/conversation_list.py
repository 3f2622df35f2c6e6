"""The list of stored conversations: pinned ones first, then by age; or the results of a search.

What was asked in the shell, one question each, is folded into one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual import on
from textual.binding import Binding
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option, OptionDoesNotExist

from app.events import unchecked
from app.sanitise import one_line, sanitise
from app.tui.textual_private import line_of_option
from app.tui.turn import Outcome
from storage import Conversation, FoundConversation
from storage.choices import ASKED

PINNED = "Pinned"
NEW = "new"
SHELL = "asked-in-the-shell"
"""Id of the line that folds what was asked in the shell."""
SHELL_TITLE = "Asked in the shell"
PAGE = 200
"""Conversations that are listed at first, and added near the end of the list: 5,000 at once take 120 ms."""
QUIET = "$foreground 75%"
FOUND = "bold underline $foreground"
"""The style of words that a search has found."""
RUNNING: Outcome = "running"
MARKS: Mapping[Outcome, tuple[str, str]] = {
    RUNNING: ("… ", "$text-primary"),
    "done": ("● ", "$text-success"),
    "failed": ("✗ ", "$text-error"),
    "interrupted": ("✗ ", "$text-error"),
}
"""The mark and its style of a conversation with a running answer, or one that ended and was not read yet."""
INDENT = "\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}"
"""Precedes the lines below a title. Wrapping drops other spaces."""
BEFORE_MARK = 12
"""The most cells of a snippet before the first word that was found: the list shows 24 of it."""
SPACES = re.compile(r"\s+")


def marked_line(text: str, marks: Sequence[tuple[int, int]], *, before: int | None = None) -> Content:
    """A text as one line that is safe to draw, with the ranges that a search has found in another style.

    `before`: most cells before the first of them; the rest is cut off.
    """
    pieces: list[tuple[str, str]] = []
    at = 0
    for start, end in [*marks, (len(text), len(text))]:
        pieces += [(text[at:start], ""), (text[start:end], FOUND)]
        at = end
    line = Content("")
    for piece, style in pieces:
        safe = SPACES.sub(" ", sanitise(piece))
        safe = safe.removeprefix(" ") if line.plain.endswith(" ") or not line.plain else safe
        first = style and not line.spans
        if first and before is not None and line.cell_length > before:
            cut, space, words = line.plain[-before - 1 :].partition(" ")
            line = Content("…" + (words if space and words.strip() else cut[1:] + space))
        line = Content.assemble(line, (safe, style)) if style else line + Content(safe)
    return line.rstrip()


def day(written: str, now: datetime) -> str:
    """When something was: the time of today, the day of this year, or the date. `written`: UTC, ISO 8601."""
    try:
        then = datetime.fromisoformat(written).astimezone(now.tzinfo)
    except (ValueError, OverflowError):  # An import may hold anything.
        return "some time ago"
    if then.date() == now.date():
        return f"today {then:%H:%M}"
    return f"{then.day} {then:%b}" if then.year == now.year else f"{then.day} {then:%b %Y}"


def age(written: str, now: datetime) -> str:
    """Today, Yesterday, This week or Older. `written`: UTC, ISO 8601. `now`: its time zone says when days begin."""
    try:
        then = datetime.fromisoformat(written).astimezone(now.tzinfo)
    except (ValueError, OverflowError):  # An import may hold anything.
        return "Older"
    days = (now.date() - then.date()).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    monday = now.date() - timedelta(days=now.weekday())
    return "This week" if then.date() >= monday else "Older"


def group(conversation: Conversation, now: datetime) -> str:
    """The part of the list that a conversation belongs to."""
    if in_shell(conversation):
        return SHELL_TITLE
    return PINNED if conversation.pinned else age(conversation.updated, now)


def in_shell(conversation: Conversation) -> bool:
    """Whether it was asked in the shell, and neither continued nor pinned in the chat."""
    return conversation.choices.origin == ASKED and not conversation.pinned


class ConversationList(OptionList):
    """The first line starts a new conversation; Enter or a click opens one. Other keys are commands to `Sidebar`."""

    BINDINGS = [
        Binding("enter", "select", "Open the conversation", id="list.open"),
        Binding("slash", "command('search')", "Search titles and texts", id="list.search"),
        Binding("r", "command('rename')", "Rename the conversation", id="list.rename"),
        Binding("p", "command('pin')", "Pin or unpin the conversation", id="list.pin"),
        Binding("d,delete", "command('delete')", "Delete the conversation", id="list.delete"),
        Binding("u", "command('undo')", "Restore the last deleted conversation", id="list.undo"),
        Binding("x", "command('export')", "Export the conversation", id="list.export"),
        Binding("escape", "command('leave')", "Back to the prompt", id="list.leave"),
    ]

    @dataclass
    class Opened(Message):
        """The person chose a conversation, or a new one if the id is None."""

        conversation_id: str | None
        message_id: str | None = None
        """The message in which the search found the words."""
        stays: bool = False
        """The focus stays where it is."""

    @dataclass
    class Commanded(Message):
        """The person wants something done: search, rename, pin, delete, undo, export or leave."""

        command: str
        conversation: Conversation | None
        """The highlighted one."""

    def __init__(self) -> None:
        super().__init__(compact=True)
        self._rows: list[Conversation] = []
        """In the order of the list: first those that are folded, if they are shown."""
        self._stored: Sequence[Conversation] = ()
        self._shell: list[Conversation] = []
        self._unfolded = False
        self._found: list[FoundConversation] | None = None
        self._current: str | None = None
        self._states: Mapping[str, Outcome] = {}
        self._listed = 0
        self._group = ""
        self._drawn: object = None

    def show(
        self, conversations: Sequence[Conversation], current: str | None, states: Mapping[str, Outcome] | None = None
    ) -> None:
        """List the conversations, and mark the open one. The highlighted one stays so, unless another was opened.

        `states`: for each conversation with an answer that runs or was not read yet, what became of that.
        """
        moved = current != self._current
        self._stored, self._current, self._states = conversations, current, dict(states or {})
        self._shell = [one for one in conversations if in_shell(one)]
        self._order()
        if self._found is None:
            self._draw(keep=None if moved else self._highlighted_id)

    def _order(self) -> None:
        others = [one for one in self._stored if not in_shell(one)]
        self._rows = [*self._shell, *others] if self._unfolded else others

    def fold(self, folded: bool) -> None:
        """Fold what was asked in the shell into its line, or show it below that."""
        self._unfolded = not folded
        self._order()
        self._draw(keep=SHELL)

    def show_found(self, found: Sequence[FoundConversation] | None, *, stays: bool = False) -> None:
        """Show what a search has found, or everything again if `found` is None.

        The first one is highlighted; `stays`: the one that was, if it is still there.
        """
        if found is None and self._found is None:
            return
        self._found = None if found is None else list(found)
        self._draw(keep=self._highlighted_id if stays else None)

    def reach(self, conversation_id: str) -> None:
        """Highlight a conversation, whatever was searched for and however far down it is."""
        self.show_found(None)
        name = f"at-{conversation_id}"
        if any(one.id == conversation_id for one in self._shell):
            self.fold(False)
        while not self._has(name) and self._listed < len(self._rows):
            self._more()
        if self._has(name):
            self.highlighted = self.get_option_index(name)

    @property
    def chosen(self) -> Conversation | None:
        listed = self._rows if self._found is None else [found.conversation for found in self._found]
        return next((one for one in listed if f"at-{one.id}" == self._highlighted_id), None)

    def lists(self, conversation_id: str) -> bool:
        """Whether it is listed or was found."""
        return self._has(f"at-{conversation_id}")

    def line_of(self, conversation_id: str) -> int | None:
        """Lines from the top of the view to its title; None if it is not listed, or not laid out yet."""
        name = f"at-{conversation_id}"
        if not self._has(name):
            return None
        line = line_of_option(self, name)
        return None if line is None else line - round(self.scroll_y)

    def _has(self, name: str) -> bool:
        try:
            self.get_option(name)
        except OptionDoesNotExist:
            return False
        return True

    @property
    def _highlighted_id(self) -> str | None:
        option = self.highlighted_option
        return None if option is None else option.id

    def _draw(self, keep: str | None) -> None:
        now = datetime.now().astimezone()
        wanted = (self._rows, self._shell, self._unfolded, self._current, self._states, self._found, now.date())
        if wanted == self._drawn:
            return
        self._drawn = wanted
        at = self.scroll_y
        self._listed, self._group = 0, ""
        first: list[Option | None] = []
        if self._found is None:
            first = [Option(Content.assemble(("+ ", "bold"), "New conversation"), id=NEW)]
            first += [self._shell_option()] if self._shell else []
            first.append(None)
        elif not self._found:
            first = [Option(Content.styled("Nothing found", QUIET), disabled=True)]
        self.set_options([*first, *self._next(PAGE, now)])
        if self._found is not None:
            begin = 0 if self._found else None
            self.highlighted = self.get_option_index(keep) if keep is not None and self._has(keep) else begin
        else:
            while keep is not None and not self._has(keep) and self._listed < len(self._rows):
                self.add_options(self._next(PAGE, now))
            target = keep if keep is not None and self._has(keep) else f"at-{self._current}"
            if self._has(target):
                self.highlighted = self.get_option_index(target)
            if keep is not None:
                self.scroll_to(y=at, animate=False)

    def _next(self, count: int, now: datetime) -> Iterator[Option]:
        """The next options, with a line before each group."""
        if self._found is not None:
            yield from (self._found_option(found) for found in self._found)
            return
        for conversation in self._rows[self._listed : self._listed + count]:
            if (name := group(conversation, now)) != self._group:
                self._group = name
                if name != SHELL_TITLE:  # Its line is above.
                    yield Option(Content.styled(name, f"{QUIET} italic"), disabled=True)
            self._listed += 1
            yield self._option(conversation)

    def _shell_option(self) -> Option:
        here = any(one.id == self._current for one in self._shell) and not self._unfolded
        mark = Content.styled("▍ " if here else "▾ " if self._unfolded else "▸ ", "$text-primary" if here else "bold")
        title = Content.styled(f"{SHELL_TITLE}: {len(self._shell):,}", "bold" if here else "")
        return Option(mark + title, id=SHELL)

    def _option(self, conversation: Conversation) -> Option:
        title = one_line(conversation.title) or "Untitled"
        style = "bold" if conversation.id == self._current else ""
        return Option(self._mark(conversation) + Content.styled(title, style), id=f"at-{conversation.id}")

    def _mark(self, conversation: Conversation) -> Content:
        """The mark before a title: a bar for the open conversation; for another one, what its answer does."""
        if conversation.id == self._current:
            return Content.styled("▍ ", "$text-primary")
        state = self._states.get(conversation.id)
        return Content.styled(*MARKS[state]) if state is not None and state in MARKS else Content("  ")

    def _found_option(self, found: FoundConversation) -> Option:
        """The title; when it was, and how often the words are in it; the place that Enter opens, and who wrote that if
        nobody has checked it."""
        conversation = found.conversation
        title = marked_line(conversation.title, found.title_marks) or Content("Untitled")
        said = (
            "in the title" if found.title_marks else " ".join(f"#{one_line(tag)}" for tag in conversation.choices.tags)
        )
        if found.messages:
            said = "1 message" if found.messages == 1 else f"{found.messages} messages"
        about = Content.styled(f"{INDENT}{day(conversation.updated, datetime.now().astimezone())} · {said}", QUIET)
        lines = [self._mark(conversation) + title, about]
        if found.message_id is not None:
            snippet = marked_line(found.snippet, found.marks, before=BEFORE_MARK)
            lines.append(Content.assemble(INDENT, snippet.stylize_before(QUIET)))
            if said := unchecked(found.stats):
                lines.append(Content.styled(INDENT + one_line(said), "$text-warning"))
        return Option(Content("\n").join(lines), id=f"at-{conversation.id}")

    def _more(self) -> None:
        if self._found is None and self._listed < len(self._rows):
            self.add_options(self._next(PAGE, datetime.now().astimezone()))

    def watch_highlighted(self, highlighted: int | None) -> None:
        super().watch_highlighted(highlighted)
        if highlighted is not None and highlighted > self.option_count - PAGE // 4:
            self._more()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value > self.max_scroll_y - 2 * self.size.height:
            self._more()

    def action_last(self) -> None:
        while self._found is None and self._listed < len(self._rows):
            self._more()
        super().action_last()

    def action_command(self, command: str) -> None:
        self.post_message(self.Commanded(command, self.chosen))

    @on(OptionList.OptionSelected)
    def open(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        chosen = event.option.id or NEW
        if chosen == NEW:
            self.post_message(self.Opened(None))
            return
        if chosen == SHELL:
            self.fold(self._unfolded)
            return
        conversation_id = chosen.removeprefix("at-")
        found = [one.message_id for one in self._found or () if one.conversation.id == conversation_id]
        self.post_message(self.Opened(conversation_id, found[0] if found else None))
