"""The system prompt of one conversation: choose one of the library, write one, none. And the library itself."""

from __future__ import annotations

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from app.config import ConfigError
from app.editor import EditorFailed
from app.sanitise import one_line, sanitise
from app.system_prompts import SystemPrompt, SystemPrompts, name_problem, text_problem
from app.tui.keymap import hint
from app.tui.notices import reporting
from app.tui.screens.confirm import Confirm
from app.tui.screens.dialog import Dialog, titled
from app.tui.suspension import edit
from app.tui.widgets.folding_text_area import FoldingTextArea

FORM_KEYS = (("system.save", "keep"), ("system.editor", "your editor"), ("system.cancel", "cancel"))


class SystemForm(Dialog[SystemPrompt | None]):
    """Closes with the prompt as it was written, or None. `naming`: it gets a new name; `taken`: names that others have.

    A prompt without a name is for one conversation.
    """

    BINDINGS = [
        Binding("ctrl+s", "save", "Save it", id="system.save", priority=True),
        Binding("ctrl+g", "open_editor", "Edit it in $VISUAL or $EDITOR", id="system.editor", priority=True),
        Binding("escape", "dismiss", "Cancel", id="system.cancel", priority=True),
    ]

    def __init__(self, title: str, prompt: SystemPrompt, *, naming: bool = False, taken: frozenset[str] = frozenset()):
        super().__init__()
        self._title, self._prompt, self._naming, self._taken = title, prompt, naming, taken

    def compose(self) -> ComposeResult:
        with titled(Vertical(), self._title, hint(self, *FORM_KEYS)):
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

    def action_save(self) -> None:
        name = self.query_one(Input).value.strip() if self._naming else self._prompt.name
        text = self.query_one(FoldingTextArea).full_text.strip()
        problem = text_problem(text)
        if self._naming:
            problem = name_problem(name or "") or problem
            if name in self._taken:
                problem = f"a system prompt named {name} exists already; choose another name"
        if problem is not None:
            self.say(problem)
        else:
            self.dismiss(SystemPrompt(text, name))

    @work(group="editor", exclusive=True)
    async def action_open_editor(self) -> None:
        area = self.query_one(FoldingTextArea)
        try:
            area.text = await edit(self.app, area.full_text)
        except EditorFailed as error:
            self.say(str(error))
        area.focus()


QUIET = "$foreground 60%"
KEYS = (
    ("system.write", "write one here"),
    ("system.add", "add to the library"),
    ("system.edit", "change"),
    ("system.remove", "remove"),
)
TITLE = "System prompt of this conversation"


class SystemScreen(Dialog[SystemPrompt | None]):
    """Closes with the system prompt that was chosen, or None if nothing was. `now`: the one that counts so far."""

    BINDINGS = [
        Binding("w", "write", "Write one for this conversation", id="system.write"),
        Binding("a", "add", "Add one to the library", id="system.add"),
        Binding("e", "edit", "Change it", id="system.edit"),
        Binding("d,delete", "remove", "Remove it from the library", id="system.remove"),
        Binding("escape,q", "dismiss", "Close", id="system.close"),
    ]

    def __init__(self, prompts: SystemPrompts, now: SystemPrompt) -> None:
        super().__init__()
        self._prompts, self._now = prompts, now
        self._choices: list[SystemPrompt | None] = []
        """The prompt on each line of the list, or None for a file that cannot be read."""

    def compose(self) -> ComposeResult:
        with titled(Vertical(), TITLE, f"enter choose   {hint(self, ('system.close', 'close'))}"):
            yield OptionList(compact=True)
            yield Static(hint(self, *KEYS), id="hint", markup=False)

    def on_mount(self) -> None:
        self._show()
        self.query_one(OptionList).focus()

    def _show(self, name: str | None = None) -> None:
        """List what there is now: people change the files with their own editor. `name`: the one to highlight."""
        now = self._now
        self._choices = [SystemPrompt("")]
        options = [Option(self._line("none", "the model gets no instructions", chosen=not now.text))]
        if now.text and not self._is_current(now):
            self._choices.append(now)
            what = f"{now.name}, an older text" if now.name else "only here"
            options.append(Option(self._line(what, now.text, chosen=True)))
        with reporting(self, "System prompts"):
            for known, text, problem in self._prompts.all():
                self._choices.append(None if problem else SystemPrompt(text, known))
                chosen = not problem and SystemPrompt(text, known) == now
                options.append(Option(self._line(known, problem or text, chosen=chosen)))
        if len(options) == 1:
            where = f"The library is empty. It is the folder {self._prompts.folder}"
            options.append(Option(Content.styled(sanitise(where), QUIET), disabled=True))
        shown = self.query_one(OptionList)
        shown.set_options(options)
        shown.highlighted = 0
        for at, one in enumerate(self._choices):
            if one == now if name is None else one is not None and one.name == name:
                shown.highlighted = at  # The library comes last, after an older text of the same name.

    def _is_current(self, prompt: SystemPrompt) -> bool:
        """Whether the library has this text under this name."""
        try:
            return prompt.name is not None and self._prompts.get(prompt.name) == prompt.text
        except ConfigError:
            return False

    def _line(self, name: str, text: str, *, chosen: bool) -> Content:
        mark = "●" if chosen else " "
        return Content.assemble((f"{mark} {sanitise(name)}", "bold" if chosen else ""), (f"  {one_line(text)}", QUIET))

    @property
    def _highlighted(self) -> SystemPrompt | None:
        at = self.query_one(OptionList).highlighted
        return self._choices[at] if at is not None and at < len(self._choices) else None

    @on(OptionList.OptionSelected)
    def choose(self) -> None:
        if self._highlighted is None:
            self.notify("That file cannot be read, so it cannot be chosen.", severity="warning")
        else:
            self.dismiss(self._highlighted)

    @work(group="form", exclusive=True)
    async def action_write(self) -> None:
        """Write one that only this conversation has; it begins as the highlighted one."""
        begun = self._highlighted or SystemPrompt("")
        written = await self.app.push_screen_wait(SystemForm("Only for this conversation", SystemPrompt(begun.text)))
        if written is not None:
            self.close(written)

    @work(group="form", exclusive=True)
    async def action_add(self) -> None:
        """Add one to the library; it begins as the highlighted one if only this conversation has that."""
        begun = self._highlighted
        text = begun.text if begun is not None and not self._is_current(begun) else ""
        form = SystemForm("Add to the library", SystemPrompt(text), naming=True, taken=frozenset(self._prompts.names()))
        self._keep(await self.app.push_screen_wait(form))

    @work(group="form", exclusive=True)
    async def action_edit(self) -> None:
        """Change the highlighted one: in the library, or only for this conversation."""
        prompt = self._highlighted
        if prompt is None or not prompt.text:
            self.notify("There is no text to change.")
        elif not self._is_current(prompt):
            self.action_write()
        else:
            written = await self.app.push_screen_wait(SystemForm(f"Change {prompt.name}", prompt))
            self._keep(written)

    def _keep(self, written: SystemPrompt | None) -> None:
        """Keep a prompt in the library. A conversation keeps the text that it has."""
        if written is None or written.name is None:
            return
        with reporting(self, "System prompts"):
            self._prompts.put(written.name, written.text)
        self._show(written.name)

    @work(group="form", exclusive=True)
    async def action_remove(self) -> None:
        prompt = self._highlighted
        if prompt is None or prompt.name is None or not self._is_current(prompt):
            self.notify("Only a system prompt of the library can be removed.")
            return
        asked = f"Remove {prompt.name} from the library? Conversations that have it keep it."
        if await self.app.push_screen_wait(Confirm(asked)):
            with reporting(self, "System prompts"):
                self._prompts.remove(prompt.name)
            self._show()
