"""`outrider keys`: the actions of the screen, their keys, and how to change them."""

from __future__ import annotations

import sys

from app.cli.settings import settings_with


def keys() -> None:
    """List the actions of the screen: id, keys, description. Remap them under [keys] in the settings file."""
    from app.tui.bindings import actions, checked

    settings, folders = settings_with()
    found = actions(checked(settings.keys))
    wide, wider = max(len(action.id) for action in found), max(len(" ".join(action.keys)) for action in found)
    for action in found:
        print(f"{action.id:{wide}}  {' '.join(action.keys):{wider}}  {action.description}")
    print(f'\nIn {folders.settings}:\n[keys]\nchat.new = "f11"', file=sys.stderr)
