"""The form for the text of one system prompt, and for its name where it gets one."""

from __future__ import annotations

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from app.editor import EditorFailed
from app.sanitise import sanitise
from app.system_prompts import SystemPrompt, name_problem, text_problem
from app.tui.editor import edit
from app.tui.keymap import hint
from app.tui.widgets.folding_text_area import FoldingTextArea

KEYS = (("system.save", "keep"), ("system.editor", "your editor"), ("system.cancel", "cancel"))


class SystemForm(ModalScreen[SystemPrompt | None]):
    """Closes with the prompt as it was written, or None. `naming`: it gets a new name; `taken`: names that others have.

    A prompt without a name is for one conversation.
    """

    CSS_PATH = "system.tcss"
    BINDINGS = [
        Binding("ctrl+s", "save", "Keep it", id="system.save", priority=True),
        Binding("ctrl+g", "open_editor", "Write it in $VISUAL or $EDITOR", id="system.editor", priority=True),
        Binding("escape", "cancel", "Cancel", id="system.cancel", priority=True),
    ]

    def __init__(self, title: str, prompt: SystemPrompt, *, naming: bool = False, taken: frozenset[str] = frozenset()):
        super().__init__()
        self._title, self._prompt, self._naming, self._taken = title, prompt, naming, taken

    def compose(self) -> ComposeResult:
        with Vertical() as panel:
            panel.border_title = self._title
            panel.border_subtitle = hint(self, *KEYS)
            if self._naming:
                yield Input(sanitise(self._prompt.name or ""), placeholder="name, as in tutor", compact=True)
            area = FoldingTextArea("You are … Answer in …")
            area.cursor_blink = False
            yield area
            yield Static(id="problem", markup=False)

    def on_mount(self) -> None:
        area = self.query_one(FoldingTextArea)
        area.text = sanitise(self._prompt.text)
        area.move_cursor(area.document.end)
        (self.query_one(Input) if self._naming else area).focus()

    @on(Input.Submitted)
    def go_on(self) -> None:
        self.query_one(FoldingTextArea).focus()

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_save(self) -> None:
        name = self.query_one(Input).value.strip() if self._naming else self._prompt.name
        text = self.query_one(FoldingTextArea).full_text.strip()
        problem = text_problem(text)
        if self._naming:
            problem = name_problem(name or "") or problem
            if name in self._taken:
                problem = f"there is a system prompt {name} already; choose another name"
        if problem is not None:
            self._say(problem)
        else:
            self.dismiss(SystemPrompt(text, name))

    @work(group="editor", exclusive=True)
    async def action_open_editor(self) -> None:
        area = self.query_one(FoldingTextArea)
        try:
            area.text = await edit(self.app, area.full_text)
        except EditorFailed as error:
            self._say(str(error))
        area.focus()

    def _say(self, sentence: str) -> None:
        line = self.query_one("#problem", Static)
        line.update(Content(sanitise(sentence)))
        line.display = True
