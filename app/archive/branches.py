"""Puts a tree of messages in reading order: the shown branch first, then each other branch from its fork."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from app.events import parts_here, stretches_of
from app.sanitise import one_line
from storage import Call, Conversation, Message, WholeConversation
from storage.calls import CallState

STATES: dict[CallState, str] = {
    "asked": "not made",
    "running": "may have run",
    "done": "done",
    "failed": "failed",
    "refused": "refused",
    "unknown": "may have run",
}
"""Outcome of a tool call, as shown."""


@dataclass(frozen=True)
class Branch:
    """One branch, or the part of it that is not in earlier branches."""

    after: int | None
    """The number of the message that it continues, or None if it starts from the beginning."""
    messages: tuple[tuple[int, Message], ...]
    """Each with its number in the export, which counts from 1 through the whole conversation."""

    @property
    def origin(self) -> str:
        """Says where another branch begins; empty for the first branch."""
        if not self.messages or self.messages[0][0] == 1:
            return ""
        return "from the beginning" if self.after is None else f"after message {self.after}"


def branches(whole: WholeConversation, *, every: bool) -> Iterator[Branch]:
    """Yields the shown branch, even if it is empty, and with `every` all others too, oldest first."""
    parents = {message.id: message for message in whole.messages}
    children: dict[str | None, list[Message]] = {}
    for message in whole.messages:
        children.setdefault(message.parent_id, []).append(message)
    shown: list[Message] = []
    at = whole.conversation.tip_id
    while at is not None:
        shown.append(parents[at])
        at = parents[at].parent_id
    numbers: dict[str | None, int] = {}
    yield _numbered(None, shown[::-1], numbers)
    if not every:
        return
    forks = deque([None, *(message.id for message in shown[::-1])])
    while forks:
        at = forks.popleft()
        for child in children.get(at, []):
            if child.id not in numbers:
                line = [child]
                while following := children.get(line[-1].id):
                    line.append(following[0])
                yield _numbered(numbers.get(at), line, numbers)
                forks.extend(message.id for message in line)


def _numbered(after: int | None, messages: list[Message], numbers: dict[str | None, int]) -> Branch:
    for message in messages:
        numbers[message.id] = len(numbers) + 1
    return Branch(after, tuple((numbers[message.id], message) for message in messages))


def names(message: Message) -> str:
    """The name of the speaker."""
    if message.summary:
        return "Request for a summary" if message.role == "user" else "Summary of all messages above"
    return {"user": "You", "assistant": "Assistant", "system": "System prompt"}[message.role]


def system_heading(conversation: Conversation) -> str:
    """The heading of a conversation's system prompt, whose name may come from any file."""
    name = one_line(conversation.choices.system_name or "")
    return f"System prompt: {name}" if name else "System prompt"


def when(time: str) -> str:
    """A stored time for people, to the minute."""
    return f"{time[:16].replace('T', ' ')} UTC"


def called(call: Call) -> str:
    """A tool call in one line: what became of it, and the tool."""
    tool = f"{call.server}/{call.tool}" if call.server else call.tool
    return f"Tool call, {STATES[call.state]}: {one_line(tool)}"


def remark(message: Message) -> str:
    """Says if an answer was cut off, never verified, or imported; empty for most answers."""
    if message.role != "assistant":
        return ""
    said = []
    local = [stretch for stretch in stretches_of(message.stats) if stretch.here]
    if not local and (drafted := message.provenance.count(False)):
        total = len(message.provenance)
        what = "All of it was" if drafted == total else f"{drafted} of its {total} tokens were"
        by = message.stats.get("drafted_by")
        said.append(f"{what} drafted offline{f' by the {by}' if by else ''} and never checked.")
    for writer, what in parts_here(stretches_of(message.stats)).items():
        said.append(f"{writer} on this device wrote {what}, and it was never checked.")
    if message.status == "failed":
        said.append("This answer failed.")
    elif message.interrupted:
        said.append("This answer was interrupted before its end.")
    elif message.status != "done":
        said.append("This answer was stopped before its end.")
    source, model = message.stats.get("source"), message.stats.get("model")
    if source:
        said.append(f"Imported from {source}" + (f", answered by {model}." if model else "."))
    elif model and not (local and local[0].at == 0 and local[0].writer == model):
        said.append(f"Answered by {model}.")
    return " ".join(said)
