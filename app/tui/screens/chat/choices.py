"""What a person chooses for the open conversation: its model, its system prompt, and how its answers are sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen
from textual.widget import Widget

from app.config import ConfigError, Folders, Settings, is_address
from app.sanitise import sanitise
from app.system_prompts import NO_PROMPT, SystemPrompt, SystemPrompts
from app.tui.keymap import key_of
from app.tui.notices import reporting
from app.tui.open_conversation import OpenConversation

if TYPE_CHECKING:
    from app.remotes.choice import Server
    from app.remotes.switcher import RemoteSwitcher
    from app.tui.screens.models import PickedModel


async def choose_system(screen: Screen[None], conversation: OpenConversation, given: str) -> None:
    """Let the person choose a system prompt.

    `given`: the name of one, a text, or `none`; empty: ask on a separate screen.
    """
    prompts = SystemPrompts(Folders.locate())
    chosen: SystemPrompt | None
    with reporting(screen, "System prompts"):
        if given.strip():
            chosen = prompts.meant_by(given.strip())
        else:
            from app.tui.screens.system import SystemScreen  # The first frame needs no other screen.

            chosen = await screen.app.push_screen_wait(SystemScreen(prompts, conversation.system))
        if chosen is None:
            return
        conversation.choose(system=chosen.text, system_name=chosen.name)
        name = NO_PROMPT if not chosen.text else chosen.name or "your own text"
        screen.notify(f"System prompt from the next answer on: {name}.", markup=False)


async def choose_sampling(screen: Screen[None], conversation: OpenConversation, settings: Settings) -> None:
    """Let the person choose how the answers are sampled."""
    from app.tui.screens.sampling_form import SamplingForm

    chosen = await screen.app.push_screen_wait(SamplingForm(conversation.choices, settings))
    if chosen is None:
        return
    with reporting(screen):
        conversation.choose(**chosen)
        said = sampling_text(conversation)
        screen.notify(f"From the next answer on: {said or 'as the settings say'}.", markup=False)


async def choose_tools(screen: Screen[None], conversation: OpenConversation) -> None:
    from app.tools.mcp_file import McpFile
    from app.tui.screens.tools import ToolsScreen

    with reporting(screen, "Tools"):
        servers = [(name, server.place) for name, server in McpFile(Folders.locate())]
        if not servers:
            screen.notify("There are no tools yet. To add a server: outrider mcp add NAME -- COMMAND", markup=False)
            return
        chosen = await screen.app.push_screen_wait(ToolsScreen(servers, conversation.choices.tools))
        if chosen != conversation.choices.tools:
            conversation.choose(tools=chosen)
            screen.notify(f"Tools from the next answer on: {', '.join(chosen) or 'none'}.", markup=False)


async def ask_about_call(screen: Screen[None], conversation: OpenConversation) -> None:
    """Show the tool call of the open conversation that waits for a yes, and pass on what the person says."""
    from app.tui.screens.tool_call import ToolCallScreen

    reply = conversation.live
    called = None if reply is None else reply.turn.asking
    if reply is None or called is None or any(isinstance(one, ToolCallScreen) for one in screen.app.screen_stack):
        return
    decision = await screen.app.push_screen_wait(ToolCallScreen(called))
    with reporting(screen):
        if decision is None:
            conversation.stop(reply.conversation)
        else:
            conversation.core.decide(reply.conversation, called.call.place, decision)


def sampling_text(conversation: OpenConversation) -> str:
    """The sampling chosen for the conversation, in words; empty if none was."""
    chosen = conversation.choices.sampling.items()
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in chosen)


# ---- the model -------------------------------------------------------------------------------------------------------


def server_now(conversation: OpenConversation, switcher: RemoteSwitcher) -> Server:
    from app.remotes.choice import Server  # The chat opens without httpx.

    chosen = conversation.choices
    if chosen.remote is not None:
        return Server(chosen.remote, chosen.model)
    try:
        return switcher.default
    except ConfigError:
        return Server()


def tell_if_gone(node: Widget, conversation: OpenConversation, switcher: RemoteSwitcher) -> None:
    """Notify the person if the server chosen for the open conversation is no longer known."""
    remote = conversation.choices.remote
    if remote is not None and not switcher.knows(remote):
        key = key_of(node, "app.models").capitalize()
        node.notify(
            f"The server {sanitise(remote)}, which was chosen for this conversation, is no longer in the list. "
            f"No other server is asked instead. {key} chooses another model.",
            severity="warning",
            timeout=15,
            markup=False,
        )


def keep_model(node: Widget, conversation: OpenConversation, switcher: RemoteSwitcher, picked: PickedModel) -> None:
    """Have a picked model answer the open conversation, and new ones unless it is for this one alone."""
    model = picked.model
    if is_address(model.server):
        key = key_of(node, "app.remotes").capitalize()
        node.notify(f"That server has no name yet. Give it one with {key}, then choose its model.", severity="warning")
        return
    name = None if model.checks else model.name  # Such a server has one model.
    with reporting(node, "Models"):
        notice = "" if picked.only_here else switcher.make_default(model.server, name)
        conversation.choose(remote=model.server, model=name)
        whom = "This conversation is" if picked.only_here else "This conversation, and each new one, is"
        said = f"{whom} answered by {model.shown} ({sanitise(model.server)}). {notice}".strip()
        node.notify(said, title="Model", markup=False)
