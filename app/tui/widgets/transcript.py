"""The turns of one conversation: those near the view, and the one message that keys act on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from textual import on
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.layout import DockArrangeResult
from textual.message import Message
from textual.scrollbar import ScrollBar
from textual.widget import Widget
from textual.widgets import Static

from app.sanitise import sanitise
from app.tui.textual_private import AnchoredScroll, use_line_cache
from app.tui.turn import Part, Turn
from app.tui.widgets.message import AnswerView, MessageView, QuestionView
from app.tui.widgets.virtual_list import PAGE, MoreTurns, ScrollAnchor, VirtualList

NOTE = "queued: sent when the server is back"


class QueuedPrompts(Vertical):
    """Lists the prompts that wait, each with a note of what it waits for; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[tuple[str, str]] = []

    def on_mount(self) -> None:
        self.display = False

    async def show(self, prompts: Sequence[tuple[str, str]]) -> None:
        """Replaces the list of prompts and their notes in one frame, unless it has not changed."""
        if list(prompts) == self._shown:
            return
        self._shown = list(prompts)
        self.display = bool(prompts)
        lines = [
            line
            for prompt, note in prompts
            for line in (
                Static(Content(sanitise(prompt)), classes="prompt", markup=False),
                Static(note, classes="note", markup=False),
            )
        ]
        with self.app.batch_update():
            await self.remove_children()
            await self.mount_all(lines)


class SummaryLine(Static):
    """Replaces the summarised messages. A click shows or folds them."""

    class Clicked(Message):
        """The person wants to see the messages, or not any more."""

    def on_mount(self) -> None:
        self.display = False

    def tell(self, messages: int, *, unfolded: bool) -> None:
        """Says how many messages there are; hidden without any."""
        self.display = bool(messages)
        where = "▾ The first {} messages are" if unfolded else "▸ {} messages are"
        self.update(Content(f"{where.format(messages)} summarised for the model · /compact show"))

    def on_click(self) -> None:
        self.post_message(self.Clicked())


class Transcript(AnchoredScroll, can_focus=True):
    """Shows the turns, with a cursor on the message that keys act on.

    It follows the end while text arrives. Once the person has scrolled up, the line at the top of the view stays.
    """

    BINDINGS = [Binding("ctrl+home", "scroll_home", show=False), Binding("ctrl+end", "scroll_end", show=False)]
    FOCUS_ON_CLICK = False
    """A message takes the focus when it is chosen; a person who only selects words keeps typing."""

    def __init__(self) -> None:
        super().__init__()
        use_line_cache(self.vertical_scrollbar)
        self.scroll_anchor = ScrollAnchor()
        self.turn_list = VirtualList(self, self.scroll_anchor, self._mark_cursor)
        self.cursor: tuple[Turn, Part] | None = None
        """The question or answer that keys act on."""
        self.block = 0
        """The number of the code block in that answer that keys act on; 0: none was chosen."""

    def compose(self) -> Iterator[Widget]:
        yield SummaryLine(markup=False)
        yield self.turn_list.older
        yield self.turn_list.newer
        yield QueuedPrompts()

    def on_mount(self) -> None:
        self.turn_list.count()

    # ---- the conversation --------------------------------------------------------------------------------------------

    @property
    def turns(self) -> list[Turn]:
        """All turns of the conversation, mounted or not."""
        return self.turn_list.turns

    async def show(self, turns: Sequence[Turn]) -> None:
        """Replaces all turns, and shows the end of the new ones."""
        self.turn_list.cancel_jump()  # It belongs to the conversation before.
        async with self.turn_list.lock:
            self.turn_list.turns = list(turns)
            self.cursor, self.block = None, 0
            await self.turn_list.show_page(len(turns))
            self.anchor(False)
        self.turn_list.tend()

    async def add(self, turn: Turn) -> None:
        """Appends a turn and moves to the end, where its answer will be."""
        self.turn_list.cancel_jump()
        async with self.turn_list.lock:
            near = self.turn_list.has_end
            self.turns.append(turn)
            if near:
                await self.turn_list.extend(self.turn_list.first, len(self.turns))
            else:
                await self.turn_list.show_page(len(self.turns))
        self.scroll_end(animate=False)
        self.turn_list.tend()

    async def replace(self, old: Turn, new: Turn) -> None:
        """Replaces an answer by another; does nothing if it is not here."""
        async with self.turn_list.lock:
            at = self.turn_list.index(old)
            if at is None:
                return
            self.turns[at] = new
            if self.cursor is not None and self.cursor[0] is old:
                self.cursor, self.block = (new, self.cursor[1]), 0
            for question in self.query_children(QuestionView):
                if question.turn is old:
                    question.turn = new
                    question.refresh(layout=True)
            for answer in self.query_children(AnswerView):
                if answer.turn is old:
                    fresh = AnswerView(new)
                    self.scroll_anchor.replace(answer, fresh)
                    with self.app.batch_update():
                        await self.mount(fresh, after=answer)
                        await self.turn_list.remove([answer])
            self._mark_cursor()
            if new is self.turns[-1]:
                self.scroll_end(animate=False)

    def go_to(self, at: int) -> None:
        """Begins to move to the question of `turns[at]`, which becomes the first line in view."""
        self.turn_list.jump(at, lambda: self._read_from(at, "question"))

    async def refresh_notes(self) -> None:
        """Draws what has changed of questions and finished answers."""
        for question in self.query_children(QuestionView):
            question.flush()
        for answer in self.query_children(AnswerView):
            if answer.is_mounted:  # Else it draws everything as soon as it is.
                await answer.flush()

    def toggle(self, turn: Turn, what: Literal["files", "thoughts", "calls", "withdrawn"]) -> bool:
        """Show or hide what is folded of a turn; False if it has none, or is not mounted."""
        return any(message.toggle(what) for message in self.turn_list.messages if message.turn is turn)

    @on(MoreTurns.Wanted)
    def show_more(self, event: MoreTurns.Wanted) -> None:
        event.stop()
        if event.older:
            self.scroll_home()
        else:
            self.scroll_end()

    # ---- the cursor --------------------------------------------------------------------------------------------------

    async def choose(self, at: int, part: Part) -> None:
        """Puts the cursor on the question or the answer of `turns[at]`, and brings that into view."""
        chosen = self.cursor = (self.turns[at], part)
        self.block = 0
        self.turn_list.cancel_jump()
        async with self.turn_list.lock:  # While it is waited for, turns come and go.
            mounted = self.turn_list.first <= at < self.turn_list.last
            if self.cursor is not chosen:
                return  # Something else was chosen, or another conversation is shown.
            if mounted:
                self._mark_cursor()
                message = self._message(at, part)
                tall = message.virtual_region.height > self.size.height
                self.scroll_to_widget(message, animate=False, immediate=True, top=tall)
        if mounted:
            self.turn_list.tend()
        else:
            self.turn_list.jump(at - PAGE // 2, lambda: self._read_from(at, part))

    async def move_cursor(self, step: int) -> None:
        """Moves the cursor by one message; without a cursor, to the last message."""
        if not self.turns:
            return
        at = 2 * len(self.turns) - 1
        if self.cursor is not None:
            turn, part = self.cursor
            index = self.turn_list.index(turn)
            assert index is not None, "the cursor is on a turn that is shown"
            at = 2 * index + (part == "answer") + step
        if 0 <= at < 2 * len(self.turns):
            await self.choose(at // 2, "answer" if at % 2 else "question")

    async def choose_block(self, at: int, number: int) -> None:
        """Puts the cursor on a code block of the answer of `turns[at]`, and brings that into view."""
        if self.cursor != (self.turns[at], "answer") or not self.turn_list.first <= at < self.turn_list.last:
            await self.choose(at, "answer")
        self.block = number
        self._mark_cursor()
        if self.turn_list.first <= at < self.turn_list.last:
            answer = self._message(at, "answer")
            if isinstance(answer, AnswerView) and (rows := answer.rows_of_block(number)) is not None:
                region = answer.virtual_region
                place = Region(region.x, region.y + rows[0], region.width, rows[1] - rows[0])
                tall = place.height > self.size.height
                self.scroll_to_region(place, animate=False, immediate=True, top=tall, origin_visible=False)

    def let_go(self) -> None:
        self.cursor, self.block = None, 0
        self._mark_cursor()

    @on(MessageView.Chosen)
    def choose_clicked(self, event: MessageView.Chosen) -> None:
        event.stop()
        self.focus(scroll_visible=False)
        part: Part = "answer" if isinstance(event.message, AnswerView) else "question"
        self.cursor, self.block = (event.message.turn, part), 0
        self._mark_cursor()

    def _mark_cursor(self) -> None:
        turn, part = self.cursor or (None, None)
        for message in self.turn_list.messages:
            here = message.turn is turn and (part == "answer") == isinstance(message, AnswerView)
            message.set_class(here, "-cursor")
            if isinstance(message, AnswerView):
                message.prose.choose(self.block if here else 0)

    def _message(self, at: int, part: Part) -> MessageView:
        return self.turn_list.message(at, answer=part == "answer")

    def _read_from(self, at: int, part: Part) -> None:
        """Makes this mounted message the first line in view, where it stays while others are mounted above it."""
        self._mark_cursor()
        self.release_end(until_reached=self.turn_list.has_end)
        self.scroll_anchor.hold(self._message(at, part))
        self.refresh(layout=True)

    # ---- scrolling ---------------------------------------------------------------------------------------------------

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Places the messages, and scrolls so that the anchored line stays where it is on the screen."""
        self.scroll_anchor.before_layout(size.width)
        result = super().arrange(size, optimal)
        message = self.scroll_anchor.item
        if message is not None and not self.follows_end:
            region = next((placement.region for placement in result.placements if placement.widget is message), None)
            if region is not None:
                most = max(0, result.spatial_map.total_region.bottom - size.height)
                y = min(max(0, self.scroll_anchor.top_after_layout(region.y, region.width)), most)
                if y != self.scroll_y:
                    self.set_reactive(Widget.scroll_y, y)
                    self.set_reactive(Widget.scroll_target_y, y)
                    self.vertical_scrollbar.set_reactive(ScrollBar.position, y)
        return result

    def before_scroll(self) -> None:
        self.scroll_anchor.held = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if not self.scroll_anchor.held:
            # Asking for the positions of messages may arrange them, which would move the view back to the previous
            # line.
            self.scroll_anchor.clear()
        super().watch_scroll_y(old_value, new_value)
        if not self.scroll_anchor.held:
            if self.follows_end:
                self.scroll_anchor.clear()
            else:
                self.scroll_anchor.take(self.turn_list.spans(), self.scroll_y)
        self.turn_list.tend()

    def watch_virtual_size(self, size: Size) -> None:
        # A short anchored conversation would be at the bottom of the window.
        overflows = size.height > self.size.height and self.turn_list.has_end
        if overflows != self.is_anchored:
            self.anchor(overflows)
        self.turn_list.tend()

    def on_resize(self) -> None:
        self.watch_virtual_size(self.virtual_size)

    def scroll_page_up(self, **options: Any) -> None:
        """Scrolls up by a page, at once: two presses before the next frame are two pages."""
        self.scroll_to(y=self.scroll_y - self.scrollable_content_region.height, immediate=True)

    def scroll_page_down(self, **options: Any) -> None:
        """Scrolls down by a page, at once."""
        self.scroll_to(y=self.scroll_y + self.scrollable_content_region.height, immediate=True)

    def scroll_end(self, **options: Any) -> None:
        """Moves to the end of the conversation, whether it is mounted or not."""
        if self.turn_list.has_end:
            super().scroll_end(**{**options, "animate": False})
        else:
            self.turn_list.jump(len(self.turns), lambda: self.scroll_end(immediate=True))

    def scroll_home(self, **options: Any) -> None:
        """Moves to the beginning of the conversation, whether it is mounted or not."""
        if self.turn_list.first:
            self.turn_list.jump(0, lambda: self.scroll_home(immediate=True))
        else:
            super().scroll_home(**{**options, "animate": False})
