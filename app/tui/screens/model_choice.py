"""What becomes of a model that was picked: it answers the open conversation, and new ones unless it is for this one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from textual.widget import Widget

from app.config import ConfigError, is_address
from app.sanitise import sanitise
from app.tui.keymap import key_of
from app.tui.notices import complain, reporting

if TYPE_CHECKING:
    from app.remotes.choice import Server
    from app.remotes.switcher import RemoteSwitcher
    from app.tui.open_conversation import OpenConversation
    from app.tui.screens.models import PickedModel


def server_now(conversation: OpenConversation, switcher: RemoteSwitcher) -> Server:
    """Who answers the open conversation."""
    from app.remotes.choice import Server  # The chat opens without httpx.

    chosen = conversation.choices
    if chosen.remote is not None:
        return Server(chosen.remote, chosen.model)
    try:
        return switcher.default
    except ConfigError:
        return Server()


def tell_if_gone(node: Widget, conversation: OpenConversation, switcher: RemoteSwitcher) -> None:
    """Tell the person if the server that was chosen for the open conversation is not known any more."""
    remote = conversation.choices.remote
    if remote is not None and not switcher.knows(remote):
        key = key_of(node, "app.models").capitalize()
        node.notify(
            f"The server {sanitise(remote)}, which was chosen for this conversation, is not in the list any more. "
            f"Nobody else is asked in its place. {key} chooses another model.",
            severity="warning",
            timeout=15,
            markup=False,
        )


def keep(node: Widget, conversation: OpenConversation, switcher: RemoteSwitcher, picked: PickedModel) -> None:
    """Keep a picked model with the open conversation, and for new ones if that is wanted; tell the person."""
    model = picked.model
    if is_address(model.server):
        key = key_of(node, "app.remotes").capitalize()
        node.notify(f"That server has no name yet. Give it one with {key}, then choose its model.", severity="warning")
        return
    name = None if model.checks else model.name  # Such a server has one model.
    notice = ""
    try:
        if not picked.only_here:
            notice = switcher.make_default(model.server, name)
    except ConfigError as error:
        complain(node, error, "Models", timeout=15)
        return
    with reporting(node):
        conversation.choose(msgspec.structs.replace(conversation.choices, remote=model.server, model=name))
        whom = "This conversation is" if picked.only_here else "This conversation, and each new one, is"
        said = f"{whom} answered by {model.shown} ({sanitise(model.server)}). {notice}".strip()
        node.notify(said, title="Model", markup=False)
