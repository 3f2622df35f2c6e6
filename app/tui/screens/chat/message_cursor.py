"""Which question or answer the keys act on, and copying it."""

from __future__ import annotations

from textual import events, on
from textual.binding import Binding

from app.tui.keymap import hint
from app.tui.screens.chat.queue import Queueing
from app.tui.turn import Turn
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.transcript import Part, Transcript

HINT = (
    ("chat.stop", "back"),
    ("message.copy", "copy"),
    ("message.edit", "reword"),
    ("message.regenerate", "again"),
    ("message.verify", "verify"),
    ("message.delete", "delete"),
    ("app.help", "keys"),
)
"""Of the keys that act on a message, those that are wanted most."""


class Pointing(Queueing):
    """The cursor on a message, or without one the last answer."""

    BINDINGS = [
        Binding("alt+up", "move_cursor(-1)", "Choose the message before", id="message.previous"),
        Binding("alt+down", "move_cursor(1)", "Choose the message after", id="message.next"),
    ]

    async def action_move_cursor(self, step: int) -> None:
        transcript = self.query_one(Transcript)
        if transcript.turns:
            self.set_focus(transcript, scroll_visible=False)
            await transcript.move_cursor(step)

    @on(events.DescendantFocus, "Transcript")
    def enter_messages(self) -> None:
        transcript = self.query_one(Transcript)
        self.query_one(Prompt).beside = tuple(part for action in HINT if (part := hint(transcript, action)))

    @on(events.DescendantBlur, "Transcript")
    def show_own_hint(self) -> None:
        self.query_one(Prompt).beside = ()

    @on(events.DescendantFocus, "Prompt")
    def leave_messages(self) -> None:
        self.query_one(Transcript).let_go()

    def chosen(self) -> tuple[int, Turn, Part] | None:
        """The message that has the cursor, else the last answer: its place, its turn, and which part of it."""
        transcript = self.query_one(Transcript)
        turn, part = transcript.cursor or (transcript.turns[-1] if transcript.turns else None, "answer")
        at = next((at for at, one in enumerate(transcript.turns) if one is turn), None)
        if turn is None or at is None or self.conversation is None:
            self.notify("There is no message yet.")
            return None
        return at, turn, part

    def message_id(self, turn: Turn, part: Part) -> str:
        """Raises `StorageError` where it is stored no more, or not yet."""
        if part == "answer":
            return turn.message
        if not turn.asked and turn.message:
            turn.asked = self.core.store.messages.get(turn.message).parent_id or ""
        return turn.asked

    def verifiable_turn(self) -> Turn | None:
        cursor = self.query_one(Transcript).cursor
        if cursor is None:
            return super().verifiable_turn()
        return cursor[0] if cursor[0].verifiable else None

    def action_copy_message(self) -> None:
        if (chosen := self.chosen()) is not None:
            _, turn, part = chosen
            self.app.copy_to_clipboard(turn.text if part == "answer" else turn.question)

    def action_show_withdrawn(self) -> None:
        chosen = self.chosen()
        if chosen is not None and not self.query_one(Transcript).toggle_withdrawn(chosen[1]):
            self.notify("Nothing of that answer was withdrawn.")

    def action_copy_block(self, number: int) -> None:
        if (chosen := self.chosen()) is not None:
            codes = chosen[1].codes
            if number <= len(codes):
                self.app.copy_to_clipboard(codes[number - 1])
            else:
                count = f"{len(codes)} code blocks" if len(codes) != 1 else "one code block"
                self.notify(f"That answer has {count if codes else 'no code block'}.", severity="warning")
