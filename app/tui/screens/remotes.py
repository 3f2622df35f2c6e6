"""The screen of remotes: which there are, which one answers, and what a test of one finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.config import ConfigError
from app.remotes.registry import Remote, Remotes
from app.remotes.switcher import RemoteSwitcher
from app.sanitise import sanitise
from app.tui.keymap import declared, key_of
from app.tui.notices import reporting
from app.tui.screens.confirm import Confirm
from app.tui.screens.dialog import Dialog, titled
from app.tui.screens.nearby import NearbyScreen
from app.tui.screens.remote_form import RemoteForm
from app.tui.screens.rows import indented, wrapped

if TYPE_CHECKING:
    from app.remotes.check import Finding

BUNDLED = ".bundled"
"""Id of the bundled verifier in the list; no name of a remote begins with a dot."""
ADDRESS = ".address"
"""Id of the remote in use, if it is an address without a name."""
LOOK_SECONDS = 0.5
"""Seconds between two checks of the state of the remote in use."""
QUIET = "$foreground 75%"
NAME = 18
"""Width of the column of names, in cells."""
STATES = {"edge": "$text-success", "hosted": "$text-success", "offline": "$text-warning"}


class RemotesScreen(Dialog[None]):
    """Lists the remotes. Keys use, add, edit, test and remove them."""

    BINDINGS = [
        Binding("enter", "use", "Use", id="remotes.use"),
        Binding("a", "add", "Add", id="remotes.add"),
        Binding("e", "edit", "Edit", id="remotes.edit"),
        Binding("t", "test", "Test", id="remotes.test"),
        Binding("l", "look", "Look on this device", id="remotes.look"),
        Binding("d,delete", "remove", "Remove", id="remotes.remove"),
        Binding("escape,q", "dismiss", "Close", id="remotes.close"),
    ]

    def __init__(self, switcher: RemoteSwitcher, own: str | None = None) -> None:
        """`own`: name of the server that was chosen for the open conversation alone, if one was."""
        super().__init__()
        self.switcher = switcher
        self._own = own
        self._shown = ""
        """The state of the remote in use, as it is on the screen."""

    def compose(self) -> ComposeResult:
        with titled(Vertical(), "Servers", ""):
            yield OptionList(id="list", compact=True)
            yield VerticalScroll(id="findings")
            yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        self._list(self.switcher.now)
        self.query_one(OptionList).focus()
        self.set_interval(LOOK_SECONDS, self._look)

    # ---- actions -----------------------------------------------------------------------------------------------------

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_use()

    def action_use(self) -> None:
        name = self._highlighted()
        if name == ADDRESS:
            return
        with reporting(self, "Servers"):
            notice = self.switcher.use(None if name == BUNDLED else name)
            if notice:
                self.notify(sanitise(notice), severity="warning", markup=False)
            if self._own is not None:
                key = key_of(self, "app.models").capitalize()
                stays = f"The open conversation keeps using {sanitise(self._own)}, which was chosen for it."
                self.notify(f"{stays} {key} changes that.", markup=False)
            self._list(name)

    def action_add(self) -> None:
        self._open_form(None)

    def action_edit(self) -> None:
        if (name := self._named()) is not None:
            self._open_form(name)

    @work(group="form", exclusive=True)
    async def _open_form(self, name: str | None) -> None:
        with reporting(self, "Servers"):
            remote = None if name is None else self.switcher.remotes().get(name)
            saved = await self.app.push_screen_wait(RemoteForm(self.switcher, name, remote))
            if saved is not None:
                self._list(saved)
                place = self._place(saved)
                self.notify(sanitise(f"{saved}: its token: {place}" if place else saved), title="Kept", markup=False)

    def action_test(self) -> None:
        if (name := self._named()) is not None:
            self._test(name)

    @work(group="test", exclusive=True)
    async def _test(self, name: str) -> None:
        """Test a remote, and show each finding as soon as it is there."""
        findings = self.query_one("#findings", VerticalScroll)
        await findings.remove_children()
        waiting = Static(f"testing {name} …", classes="waiting", markup=False)
        await findings.mount(waiting)
        self.add_class("-tested")
        self.call_after_refresh(self.query_one(OptionList).scroll_to_highlight)
        with reporting(self, "Servers"):
            async for found in self.switcher.test(name):
                await findings.mount(_finding(found), before=waiting)
                findings.scroll_end(animate=False)
        if waiting.is_attached:
            await waiting.remove()

    @work(group="form", exclusive=True)
    async def action_look(self) -> None:
        await self.app.push_screen_wait(NearbyScreen(self.switcher))
        self._list(self.switcher.now)

    def action_remove(self) -> None:
        if (name := self._named()) is not None:
            self._confirm(name)

    @work(group="form", exclusive=True)
    async def _confirm(self, name: str) -> None:
        in_use = " You are using this server. Without it, the bundled model answers."
        question = f"Remove {name} and its token?{in_use if name == self.switcher.now else ''}"
        if not await self.app.push_screen_wait(Confirm(question)):
            return
        with reporting(self, "Servers"):
            await self.switcher.remove(name)
        self._list(self.switcher.now)

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def _list(self, highlighted: str | None) -> None:
        options = self.query_one(OptionList)
        remotes: Remotes | None = None
        with reporting(self, "Servers"):
            remotes = self.switcher.remotes()
        options.clear_options()
        now = self.switcher.now
        bundled = self._row("bundled model", "started on this device when it is needed", now is None)
        options.add_option(Option(bundled, id=BUNDLED))
        known = {} if remotes is None else dict(remotes)
        if now is not None and now not in known:
            options.add_option(Option(self._row(sanitise(now), "", True), id=ADDRESS))
        for name, remote in known.items():
            assert remotes is not None
            options.add_option(Option(self._remote(name, remote, remotes, name == now), id=name))
        ids = [option.id for option in options.options]
        wanted = BUNDLED if highlighted is None else highlighted if highlighted in ids else ADDRESS
        options.highlighted = ids.index(wanted) if wanted in ids else 0

    def _remote(self, name: str, remote: Remote, remotes: Remotes, used: bool) -> Content:
        kinds = {"verifier": "checks drafts, ", "openai": "OpenAI-compatible, ", "anthropic": "Anthropic's API, "}
        kind = kinds.get(remote.kind, "")
        about = f"{sanitise(remote.shown_url)}\n{kind}token: {remotes.token_place(remote)}"
        return self._row(name, about, used)

    def _row(self, name: str, about: str, used: bool) -> Content:
        """The name in one column, and `about`, which may have several lines, in another.

        The remote in use has a line for its state. A name that is too long for its column has a line to itself.
        """
        lines = [(line, QUIET) for line in about.splitlines()]
        if used:
            self._shown = self._state()
            lines.append((self._shown, STATES.get(self.switcher.status.mode, QUIET)))
        pieces = wrapped(lines, NAME + 2, self.app.size.width)
        beside = cell_len(name) < NAME
        first = pieces.pop(0) if beside and pieces else Content("")
        gap = " " * (NAME - cell_len(name)) if beside else ""
        head = Content.assemble(("● " if used else "  ", "$success"), (name, "bold"), gap, first)
        return Content("\n").join([head, *indented(pieces, NAME + 2)])

    def _state(self) -> str:
        if self._own is not None:
            return ""  # The connection that is known of is that of the open conversation.
        status = self.switcher.status
        return sanitise(str(status))

    def _look(self) -> None:
        """List the remotes again if the one in use has connected, or lost its connection."""
        if self._state() != self._shown:
            self._list(self._highlighted())

    def _hint(self, width: int) -> Content:
        """A hint with the keys, wrapped to this many cells, never between a key and its word."""
        lines = [Content()]
        for binding in declared(RemotesScreen):
            if binding.key not in ("q", "delete"):
                what = binding.description.lower()
                one = Content.assemble((key_of(self, binding.id or ""), "bold"), " ", (what, QUIET))
                between = "   " if lines[-1] else ""
                if lines[-1] and lines[-1].cell_length + len(between) + one.cell_length > width:
                    lines.append(one)
                else:
                    lines[-1] = Content.assemble(lines[-1], between, one)
        return Content("\n").join(lines)

    def on_resize(self) -> None:
        self._list(self._highlighted() if self.query_one(OptionList).options else self.switcher.now)
        hint = self.query_one("#hint", Static)
        hint.update(self._hint(hint.content_size.width))

    def _highlighted(self) -> str:
        option = self.query_one(OptionList).highlighted_option
        return BUNDLED if option is None or option.id is None else option.id

    def _named(self) -> str | None:
        """The highlighted remote, or None with a notice if it cannot be changed."""
        name = self._highlighted()
        if name in (BUNDLED, ADDRESS):
            unnamed = f"This server has no name. Press {key_of(self, 'remotes.add')} to give it one."
            bundled = "The bundled model cannot be changed or removed."
            self.notify(bundled if name == BUNDLED else unnamed, markup=False)
            return None
        return name

    def _place(self, name: str) -> str:
        try:
            remotes = self.switcher.remotes()
            return remotes.token_place(remotes.get(name))
        except ConfigError:
            return ""


def _finding(found: Finding) -> Horizontal:
    """One finding: its mark, the checked part, the result."""
    mark, part = str(found)[0], sanitise(found.part)
    return Horizontal(
        Static(f"{mark} {part}", classes=f"part -{found.state}", markup=False),
        Static(Content(sanitise(found.text)), classes="text", markup=False),
    )
