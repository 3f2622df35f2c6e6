"""Toasts for errors, worded the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from textual.widget import Widget

from app.config import ConfigError
from app.events import Done
from app.sanitise import sanitise
from app.tui.keymap import key_of
from app.tui.open_conversation import NotPossible, ReplyRunning
from storage import StorageError

EXCERPT = 200
"""Maximum length of a text in a toast, in characters."""


def excerpt(text: str) -> str:
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]} …"


@contextmanager
def reporting(node: Widget, title: str = "Storage") -> Iterator[None]:
    """Show an error raised in the `with` block, and continue after it. `title`: what it is about."""
    try:
        yield
    except NotPossible as reason:
        node.notify(str(reason))
    except ReplyRunning:
        say_busy(node)
    except StorageError as error:
        complain(node, error, title)
    except ConfigError as error:
        complain(node, error, title, timeout=15)


def complain(node: Widget, error: Exception, title: str = "Storage", timeout: float | None = None) -> None:
    """Show an error; its text may come from outside. `timeout`: seconds that the toast stays."""
    node.notify(sanitise(str(error)), title=title, severity="error", markup=False, timeout=timeout)


def say_busy(node: Widget) -> None:
    """Show that the running reply has to end first."""
    node.notify(f"An answer is still running; {key_of(node, 'chat.stop')} stops it.", severity="warning")


def tell_cut(node: Widget, done: Done) -> None:
    """Show that an answer is incomplete and how to continue it. `node`: the widget with the keys for messages."""
    go_on = f"{key_of(node, 'message.previous')}, then {key_of(node, 'message.go_on')}"
    keys = f"{key_of(node, 'chat.new')} begins a new conversation" if done.full else go_on
    node.notify(sanitise(f"The answer is incomplete: {done.cut}. To continue: {keys}."), markup=False)
