"""The form for one remote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

import msgspec
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Select, Static

from app.config import ConfigError, same_server
from app.remotes.providers import Provider, provider_named, providers
from app.remotes.registry import Kind, Remote, checked, field_problem, typed
from app.remotes.switcher import RemoteSwitcher
from app.tui.keymap import hint
from app.tui.screens.dialog import titled
from app.tui.screens.form import Form


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
    Field("offline", "While away", "queue, fail, drafter or local; empty: as in the settings"),
    Field("local", "Local model", "name of the model on this device that answers while away"),
    Field("ca", "Authority", "file; empty: those that this device trusts"),
    Field("cert", "Certificate", "file; only if the server requires one"),
    Field("key", "Its key", "file; empty: in the same file"),
    Field("proxy", "Proxy", "http://host:port; empty: as the environment says"),
    Field("connect_timeout", "Connect within", "seconds"),
    Field("read_timeout", "Answer within", "seconds; empty: Outrider decides"),
    Field("parallel", "At once", "answers that it writes at once; empty: 4"),
    Field("token_variable", "Token from", "variable, if no token is saved"),
)
KINDS = {
    "auto": "Outrider finds out",
    "verifier": "Outrider, checks drafts",
    "openai": "OpenAI-compatible",
    "anthropic": "Anthropic's API",
}

FILLED = ("name", "url", "model", "token_variable")
"""Fields that a provider fills in."""


def _known(provider: Provider | None) -> tuple[str, str, str, str]:
    if provider is None:
        return "", "", "", ""
    return provider.name, provider.url, provider.model or "", provider.variable or ""


class RemoteForm(Form[str | None]):
    """Closes with the name of the saved remote, or None. `name` and `remote`: the one to edit; None: a new one.

    `proposed`: a name for a new one, whose `remote` is filled in. `missing`: the field to begin with.
    """

    BINDINGS = [
        Binding("ctrl+s", "save", "Save", id="remote.save", priority=True),
        Binding("escape", "dismiss", "Cancel", id="remote.cancel"),
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
        self._provider: Provider | None = None
        """What was chosen to be filled in."""

    def compose(self) -> ComposeResult:
        title = "Add a server" if self._was is None else f"Edit {self._was}"
        with titled(Vertical(), title, hint(self, ("remote.save", "save"), ("remote.cancel", "cancel"))):
            with VerticalScroll(id="fields", can_focus=False):
                if self._before is None:
                    known = [(one.title, one.name) for one in providers()]
                    with Horizontal(classes="field"):
                        yield Static("Provider", classes="label", markup=False)
                        yield Select(known, prompt="any other server", compact=True, id="provider")
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
        yield from self.field(field.name, field.label, hint, self._value(field.name), secret=secret)

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
        before, provider = self._before, self._provider
        if provider is not None and not same_server(provider.url, url):
            provider = None
        if provider is not None and provider.has_key():
            return f"none; {provider.variable} is set, and is used"
        if provider is not None and provider.keys:
            return f"make one at {provider.keys}"
        if before is None or before.token == "environment":
            return "none; saved in the keyring if there is one"
        try:
            same = url is None or same_server(before.url, url)
        except ValueError:  # Not an address yet.
            same = False
        return "unchanged" if same else "give it again: it is for another server"

    def on_mount(self) -> None:
        self.query_one(f"#{self._missing}", Input).focus()

    @on(Select.Changed, "#provider")
    def fill_in(self, event: Select.Changed) -> None:
        """Fill in what is known of the provider. What the person has typed stays."""
        before, self._provider = self._provider, provider_named(str(event.value))
        for field, old, new in zip(FILLED, _known(before), _known(self._provider)):
            line = self.query_one(f"#{field}", Input)
            if line.value in ("", old):
                line.value = new
        self.query_one("#kind", Select).value = "auto" if self._provider is None else self._provider.kind
        self.query_one("#token", Input).placeholder = self._token_hint(self.text("url"))

    @on(Input.Changed, "#url")
    def hint_at_token(self, event: Input.Changed) -> None:
        url, provider, line = event.value.strip(), self._provider, self.query_one("#token_variable", Input)
        if provider is not None and provider.variable is not None:  # A provider's token is for its own server.
            own = same_server(provider.url, url)
            line.value = provider.variable if own and not line.value else line.value
            line.value = "" if not own and line.value == provider.variable else line.value
        self.query_one("#token", Input).placeholder = self._token_hint(url)

    def action_save(self) -> None:
        if not self.all_right(field.name for field in FIRST + REST):
            return
        try:
            remote = checked(self._typed())
        except ConfigError as error:
            self.say(str(error))
            return
        self._save(self.text("name"), remote, self.text("token") or None)

    @work(group="save", exclusive=True)
    async def _save(self, name: str, remote: Remote, token: str | None) -> None:
        self.say("saving it; the keyring may ask you to unlock it" if token else "keeping it")
        try:
            await self._switcher.save(name, remote, token, self._was)
        except ConfigError as error:
            self.say(str(error))
            return
        self.close(name)

    def _typed(self) -> Remote:
        """Raises `ConfigError`."""
        fields = {field.name: self.text(field.name) for field in FIRST + REST if field.name not in ("name", "token")}
        remote = typed({**fields, "kind": str(self.query_one("#kind", Select).value)})
        before = self._before
        if before is None:
            return remote
        return msgspec.structs.replace(
            remote, token=before.token, first_words_timeout=before.first_words_timeout, price=before.price
        )

    def problem(self, name: str) -> str | None:
        text = self.text(name)
        if name == "name" and not text:
            return "the name is missing"
        if name == "key" and text and not self.text("cert"):
            return "a key belongs to a client certificate; give both"
        return None if name == "token" else field_problem(name, text)
