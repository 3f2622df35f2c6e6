"""Tool calls in `outrider ask`: which are allowed, and what stderr reports about them."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

from app.exits import complain
from app.sanitise import sanitise

if TYPE_CHECKING:
    from collections.abc import Collection

    from app.events import ToolCalled
    from app.reply.assistant import Assistant
    from storage import Call

MOST_SHOWN = 200
"""Characters of a call that one line shows."""


class ToolConsent:
    """Says yes to calls of the tools in `allowed`, by name or as `server/tool`, and no to all others."""

    def __init__(self, assistant: Assistant, allowed: Collection[str] = ()) -> None:
        self._assistant, self._allowed = assistant, frozenset(allowed)
        self.conversation = ""
        """Id of the conversation."""

    def hear(self, event: ToolCalled) -> None:
        """Decide about a call that asks, and report one that has ended."""
        call = event.call
        if event.asks:
            names = {call.tool, f"{call.server}/{call.tool}"}
            allowed = bool(names & self._allowed) and not event.again
            if event.again:
                complain(f"not called again: {_line(call)}; it may have run before. The chat asks whether to repeat it")
            elif not allowed:
                complain(f"not called: {_line(call)}. To allow it: --allow {sanitise(call.tool)}")
            self._assistant.decide(self.conversation, call.place, "yes" if allowed else "no")
        elif call.state in ("done", "failed"):
            complain(f"{'called' if call.state == 'done' else 'failed'}: {_line(call)}")
        elif call.state == "unknown":
            complain(f"may have run: {_line(call)}")


def _line(call: Call) -> str:
    name = f"{call.server}/{call.tool}" if call.server else call.tool
    return shorten(sanitise(f"{name} {call.arguments}"), MOST_SHOWN, placeholder=" …")
