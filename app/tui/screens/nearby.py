"""The model servers on this device, listed with the bundled model. Choosing one adds it and uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.remotes.switcher import RemoteSwitcher
from app.sanitise import sanitise
from app.tui.keymap import hint, key_of
from app.tui.notices import reporting
from app.tui.screens.dialog import Dialog, titled
from app.tui.screens.remote_form import RemoteForm
from app.tui.screens.rows import below
from app.tui.widgets.welcome import FirstLook

if TYPE_CHECKING:
    from app.remotes.nearby import NearbyServer, Surroundings

BUNDLED = ".bundled"
"""Id of the bundled model in the list; the others have numbers."""
SHOWN_MODELS = 200
"""Maximum number of models to choose from. Any other can be named in the form for servers."""
QUIET = "$foreground 60%"


class NearbyScreen(Dialog[str | None]):
    """Searches at once, because the person has asked for it. Closes with the name of the remote to use, or None.

    A server with several models asks which one.
    """

    BINDINGS = [
        Binding("enter", "choose", "Use", id="nearby.use"),
        Binding("r", "look_again", "Look again", id="nearby.again"),
        Binding("escape,q", "back", "Back, or close", id="nearby.close"),
    ]

    def __init__(self, switcher: RemoteSwitcher) -> None:
        super().__init__()
        self.switcher = switcher
        self._servers: tuple[NearbyServer, ...] = ()
        self._server: NearbyServer | None = None
        """The server whose models are listed, or None while the servers are."""

    def compose(self) -> ComposeResult:
        keys = (("nearby.use", "use"), ("nearby.again", "look again"), ("nearby.close", "close"))
        with titled(Vertical(), "Model servers on this device", hint(self, *keys)):
            yield OptionList(id="list", markup=False, compact=True)
            yield Static(id="said", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()
        self.post_message(FirstLook.Answered())
        self.action_look_again()

    # ---- actions -----------------------------------------------------------------------------------------------------

    def action_look_again(self) -> None:
        self._server, self._servers = None, ()
        self._list_servers()
        self._look()

    @work(group="look", exclusive=True)
    async def _look(self) -> None:
        self.say("Looking at the usual ports of this device …", "said")
        found = await self.switcher.look()
        if self.emptied("#list", "#said"):
            return
        self._servers = found.servers
        if self._server is None:
            self._list_servers()
        self.say(self._summary(found), "said")

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_choose()

    def action_choose(self) -> None:
        """Use what is highlighted: the bundled model, a server with one model, or a model."""
        option = self.query_one(OptionList).highlighted_option
        if option is None or option.id is None:
            return
        if option.id == BUNDLED:
            self._use_bundled()
        elif self._server is not None:
            self._adopt(self._server, self._server.models[int(option.id)].id)
        else:
            self._choose_server(self._servers[int(option.id)])

    def _choose_server(self, server: NearbyServer) -> None:
        if server.locked or (server.loads_any and not server.models):
            self._open_form(server)
        elif not server.models:
            again = key_of(self, "nearby.again")
            self.notify(f"{server.program.title} lists no model. Load one there; {again} looks again.", markup=False)
        elif len(server.models) == 1:
            self._adopt(server, server.models[0].id)
        else:
            self._server = server
            self._list_models(server)

    def _use_bundled(self) -> None:
        with reporting(self, "Servers"):
            if self.switcher.now is not None:
                self._told("The bundled model answers now.", self.switcher.use(None))
            self.dismiss(None)

    @work(group="adopt", exclusive=True)
    async def _adopt(self, server: NearbyServer, model: str) -> None:
        with reporting(self, "Servers"):
            name, notice = await self.switcher.adopt(server, model)
            self._told(f"{model} at {server.program.title} answers now. This server is called {name}.", notice)
            self.close(name)

    @work(group="adopt", exclusive=True)
    async def _open_form(self, server: NearbyServer) -> None:
        """Open the form for what the server does not say: its token, or the name of a model."""
        from app.remotes.nearby import free_name

        with reporting(self, "Servers"):
            name = free_name(server.program, [name for name, _ in self.switcher.remotes()])
            missing = "token" if server.locked else "model"
            form = RemoteForm(self.switcher, None, server.remote(None), proposed=name, missing=missing)
            saved = await self.app.push_screen_wait(form)
            if saved is not None:
                self._told(f"{saved} answers now.", self.switcher.use(saved))
                self.close(saved)

    def action_back(self) -> None:
        """Escape: from the models to the servers, from there back to the chat."""
        if self._server is None:
            self.dismiss(None)
        else:
            self._server = None
            self._list_servers()

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def _list_servers(self) -> None:
        rows = [(BUNDLED, self._row("Shell Guide", "the bundled model; it knows the command line"))]
        rows += [
            (str(at), self._row(f"{one.program.title}  {one.host}", one.offer)) for at, one in enumerate(self._servers)
        ]
        self._list(rows, highlighted=1 if self._servers else 0)

    def _list_models(self, server: NearbyServer) -> None:
        self._list([(str(at), Content(sanitise(model.id))) for at, model in enumerate(server.models[:SHOWN_MODELS])])
        more = len(server.models) - SHOWN_MODELS
        others = f" {more} more are not listed: {key_of(self, 'app.remotes')} adds one by its name." if more > 0 else ""
        self.say(f"Which model of {server.program.title}?{others}", "said")

    def _list(self, rows: list[tuple[str, Content]], highlighted: int = 0) -> None:
        options = self.query_one(OptionList)
        options.set_options([Option(row, id=name) for name, row in rows])
        options.highlighted = highlighted

    def _row(self, title: str, about: str) -> Content:
        return below(Content.styled(title, "bold"), sanitise(about), QUIET, self.app.size.width)

    def _summary(self, found: Surroundings) -> str:
        """The result of the search, for the line below the list."""
        said = [f"Port {one.port} cannot be used: {one.why}." for one in found.unusable]
        if not found.servers:
            again = key_of(self, "nearby.again")
            said.insert(0, f"No model server answers here. Start one, and {again} looks again.")
        return "\n".join(said)

    def _told(self, sentence: str, notice: str) -> None:
        self.app.notify(sanitise(sentence), title="Server", markup=False)
        if notice:
            self.app.notify(sanitise(notice), severity="warning", markup=False)
