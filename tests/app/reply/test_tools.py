"""Tool calls: each is stored before it runs, runs once with a yes, and its result goes back to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.config import Settings
from app.events import ToolCalled
from app.reply.assistant import Assistant
from app.reply.call_desk import MOST_CALLS, REFUSED, Decision
from storage import Choices
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask
from tests.support.file_tool import FileTools

SETTINGS = Settings(temperature=0.0)


def calls(*lines: str, name: str = "files__append", first: int = 0) -> list[dict[str, Any]]:
    """The deltas of an answer that wants these lines appended."""
    return [
        {"tool_calls": [{"index": at, "id": f"call_{first + at}", "type": "function",
                         "function": {"name": name, "arguments": f'{{"line":"{line}"}}'}}]}
        for at, line in enumerate(lines)
    ]  # fmt: skip


def wants(*lines: str, said: str = "", **about: Any) -> Script:
    return Script([*([said] if said else []), *calls(*lines, **about)], reason="tool_calls")


def deciding(opened: Assistant, *decisions: Decision) -> Any:
    """Says the nth of these to the nth call that asks, then the last one; `asked` has those calls."""
    asked: list[ToolCalled] = []

    def watch(heard: Heard) -> None:
        if isinstance(event := heard.last, ToolCalled) and event.asks:
            asked.append(event)
            stored = opened.store.messages.get(heard.message).calls
            assert stored[event.call.place] == event.call, "it is a row before anybody is asked"
            decision = decisions[min(len(asked), len(decisions)) - 1]
            opened.decide(heard.started.conversation, event.call.place, decision)

    watch.asked = asked  # type: ignore[attr-defined]
    return watch


def conversation(opened: Assistant) -> str:
    return opened.store.conversations.create("tools", Choices(tools=("files",))).id


async def test_calls_are_made_with_a_yes_and_the_model_reads_what_they_gave(connect: Connect, tmp_path: Path) -> None:
    server = ChatServer(
        [wants("one", "two", said="I look."), wants("three", first=2), Script(["Done."]), Script(["Again."])]
    )
    tools = FileTools(tmp_path / "file")
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here = conversation(opened)
        watch = deciding(opened, "yes", "no", "always")
        heard = await ask(opened, "append", here, watch)
        assert tools.runs == ["one", "three"] and heard.text == "I look.\n\nDone."
        answer = opened.store.branches.thread(here)[-1]
        assert answer.text == heard.text
        assert [(call.state, call.at, call.turn) for call in answer.calls] == [
            ("done", 7, 0), ("refused", 7, 0), ("done", 7, 1),
        ]  # fmt: skip
        assert [event.said for event in watch.asked] == [("read-only",)] * 3
        results = [
            (one["tool_call_id"], one["content"]) for one in server.asked[2]["messages"] if one["role"] == "tool"
        ]
        assert results == [("call_0", "wrote one\n"), ("call_1", REFUSED), ("call_2", "wrote three\n")]
        assert opened.store.conversations.get(here).choices.allowed == ("files/append",)
        await ask(opened, "and now?", here)
        roles = [one["role"] for one in server.asked[3]["messages"]]
        assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user"]


async def test_a_model_that_calls_on_and_on_is_told_to_end(connect: Connect, tmp_path: Path) -> None:
    server, tools = ChatServer([wants("more")]), FileTools(tmp_path / "file")
    server.scripts = [wants(str(at), first=at) for at in range(MOST_CALLS + 2)]
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        heard = await ask(opened, "append", conversation(opened), deciding(opened, "always"))
        assert len(tools.runs) == MOST_CALLS == len(server.asked) - 1
        assert server.asked[-1]["tool_choice"] == "none" and "16 tool calls" in heard.done.cut
