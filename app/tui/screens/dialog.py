"""Screens over the chat: a panel in the middle, with a title above and keys below it."""

from __future__ import annotations

from typing import TypeVar

from textual.screen import ModalScreen
from textual.widget import Widget

Result = TypeVar("Result")
Panel = TypeVar("Panel", bound=Widget)


class Dialog(ModalScreen[Result]):
    """Subclasses compose one widget that is `titled`. All their styles are in `dialogs.tcss`."""

    CSS_PATH = "dialogs.tcss"


def titled(panel: Panel, title: str, keys: str) -> Panel:
    """The panel of a dialog. `keys`: what some of them do, as `hint` says it."""
    panel.add_class("panel")
    panel.border_title, panel.border_subtitle = title, keys
    return panel
