"""The form for one remote. A mistake is shown below its field when the field is left, and when the form is saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

import msgspec
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Select, Static

from app.config import ConfigError, same_server
from app.remotes.registry import Kind, Remote, checked, field_problem, typed
from app.remotes.switcher import RemoteSwitcher
from app.sanitise import sanitise
from app.tui.keymap import hint


class Field(NamedTuple):
    """A line of the form. `hint` is shown while the field is empty."""

    name: str
    label: str
    hint: str


FIRST = (
    Field("name", "Name", "office"),
    Field("url", "Address", "https://host:8000"),
    Field("token", "Token", ""),
)
REST = (
    Field("model", "Model", "the first that the server lists"),
    Field("system", "System", "name of the system prompt for new conversations"),
    Field("ca", "Authority", "file; empty: those that this device trusts"),
    Field("cert", "Certificate", "file; only if the server wants one"),
    Field("key", "Its key", "file; empty: in the same file"),
    Field("proxy", "Proxy", "http://host:port; empty: as the environment says"),
    Field("connect_timeout", "Connect within", "seconds"),
    Field("read_timeout", "Answer within", "seconds; empty: Outrider decides"),
    Field("token_variable", "Token from", "variable, if no token is saved"),
)
KINDS = {"auto": "Outrider finds out", "verifier": "Outrider, checks drafts", "openai": "OpenAI-compatible"}


class RemoteForm(ModalScreen[str | None]):
    """Closes with the name of the saved remote, or None. `name` and `remote`: the one to edit; None: a new one.

    `proposed`: a name for a new one, whose `remote` is filled in. `missing`: the field to begin with.
    """

    CSS_PATH = "remotes.tcss"
    BINDINGS = [
        Binding("ctrl+s", "save", "Save", id="remote.save", priority=True),
        Binding("escape", "cancel", "Cancel", id="remote.cancel"),
        # With priority: the field must not see them, so that the next letters go into the next field.
        Binding("tab", "app.focus_next", "Next field", id="remote.next", priority=True),
        Binding("shift+tab", "app.focus_previous", "Previous field", id="remote.previous", priority=True),
        Binding("down", "app.focus_next", "Next field", id="remote.down"),
        Binding("up", "app.focus_previous", "Previous field", id="remote.up"),
    ]

    def __init__(
        self,
        switcher: RemoteSwitcher,
        name: str | None,
        remote: Remote | None,
        *,
        proposed: str = "",
        missing: str = "name",
    ) -> None:
        super().__init__()
        self._switcher, self._was, self._before = switcher, name, remote
        self._proposed, self._missing = proposed, missing

    def compose(self) -> ComposeResult:
        with Vertical(id="panel") as panel:
            panel.border_title = "Add a server" if self._was is None else f"Edit {self._was}"
            panel.border_subtitle = hint(self, ("remote.save", "save"), ("remote.cancel", "cancel"))
            with VerticalScroll(id="fields", can_focus=False):
                for field in FIRST:
                    yield from self._line(field)
                kinds = [(KINDS[kind], kind) for kind in get_args(Kind)]
                value = "auto" if self._before is None else self._before.kind
                with Horizontal(classes="field"):
                    yield Static("Kind", classes="label", markup=False)
                    yield Select(kinds, value=value, allow_blank=False, compact=True, id="kind")
                for field in REST:
                    yield from self._line(field)
            yield Static(id="problem", markup=False)

    def _line(self, field: Field) -> Iterator[Widget]:
        secret = field.name == "token"
        hint = self._token_hint(None) if secret else field.hint
        yield Horizontal(
            Static(field.label, classes="label", markup=False),
            Input(self._value(field.name), placeholder=hint, password=secret, compact=True, id=field.name),
            classes="field",
        )
        yield Static(id=f"{field.name}-problem", classes="problem", markup=False)

    def _value(self, field: str) -> str:
        """The first value of a field. A token is never shown again."""
        if field == "name":
            return self._was or self._proposed
        if self._before is None or field == "token":
            return ""
        value = getattr(self._before, field)
        default = next(info.default for info in msgspec.structs.fields(Remote) if info.name == field)
        return "" if value in (None, default) else f"{value:g}" if isinstance(value, float) else str(value)

    def _token_hint(self, url: str | None) -> str:
        before = self._before
        if before is None or before.token == "environment":
            return "none; kept in the keyring, where one works"
        try:
            same = url is None or same_server(before.url, url)
        except ValueError:  # Not an address yet.
            same = False
        return "unchanged" if same else "give it again: it is for another server"

    def on_mount(self) -> None:
        self.query_one(f"#{self._missing}", Input).focus()

    @on(Input.Changed, "#url")
    def hint_at_token(self, event: Input.Changed) -> None:
        self.query_one("#token", Input).placeholder = self._token_hint(event.value.strip())

    @on(Input.Changed)
    def correct(self, event: Input.Changed) -> None:
        """Hide a problem as soon as it is solved. A new one is shown when the field is left."""
        field = event.input.id or ""
        if self.query_one(f"#{field}-problem", Static).display and self._problem(field) is None:
            self._tell(field, None)

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        left = event.widget
        if isinstance(left, Input) and left.id and left.value.strip():
            self._tell(left.id, self._problem(left.id))

    @on(Input.Submitted)
    def go_on(self, event: Input.Submitted) -> None:
        self.focus_next()

    def action_cancel(self) -> None:
        self.dismiss(None)

    def action_save(self) -> None:
        problems = {field.name: self._problem(field.name) for field in FIRST + REST}
        for field, problem in problems.items():
            self._tell(field, problem)
        wrong = next((field for field, problem in problems.items() if problem), None)
        if wrong is not None:
            self.query_one(f"#{wrong}", Input).focus()
            return
        try:
            remote = checked(self._typed())
        except ConfigError as error:
            self._say(str(error))
            return
        self._save(self._text("name"), remote, self._text("token") or None)

    @work(group="save", exclusive=True)
    async def _save(self, name: str, remote: Remote, token: str | None) -> None:
        self._say("keeping it; the keyring may ask you to unlock it" if token else "keeping it")
        try:
            await self._switcher.save(name, remote, token, self._was)
        except ConfigError as error:
            self._say(str(error))
            return
        self.dismiss(name)

    def _typed(self) -> Remote:
        """Raises `ConfigError`."""
        fields = {field.name: self._text(field.name) for field in FIRST + REST if field.name not in ("name", "token")}
        remote = typed({**fields, "kind": str(self.query_one(Select).value)})
        before = self._before
        if before is None:
            return remote
        return msgspec.structs.replace(remote, token=before.token, first_words_timeout=before.first_words_timeout)

    def _text(self, field: str) -> str:
        return self.query_one(f"#{field}", Input).value.strip()

    def _problem(self, field: str) -> str | None:
        text = self._text(field)
        if field == "name" and not text:
            return "the name is missing"
        if field == "key" and text and not self._text("cert"):
            return "a key belongs to a client certificate; give both"
        return None if field == "token" else field_problem(field, text)

    def _tell(self, field: str, problem: str | None) -> None:
        line = self.query_one(f"#{field}-problem", Static)
        line.update(Content(sanitise(problem or "")))
        line.display = problem is not None

    def _say(self, sentence: str) -> None:
        line = self.query_one("#problem", Static)
        line.update(Content(sanitise(sentence)))
        line.display = True
