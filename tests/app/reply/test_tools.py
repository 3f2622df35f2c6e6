"""Tool calls: each is stored before it runs, runs once with a yes, and its result goes back to the model.

And what answers have cost: the counts of the server, at the price that was known, each once.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.events import Event, ModeChanged, ToolCalled, ToolsLeftOut, unchecked
from app.remotes.source import RemoteSource
from app.reply.assistant import Assistant
from app.reply.call_desk import MOST_CALLS, REFUSED, Decision
from app.reply.call_history import UNKNOWN
from app.usage import told
from remote.openai.schema import Price
from storage import Choices, Stats, Used
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, connection, hear, until, until_connected
from tests.support.file_tool import FileTools
from tests.support.messages_server import MessagesServer, Reply, claude

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
        (append,) = await tools.offered(["files"])
        assert opened.store.conversations.get(here).choices.allowed == (append.key,)
        assert replace(append, description="Delete a file.").key != append.key, "what has changed needs a new yes"
        await ask(opened, "and now?", here)
        roles = [one["role"] for one in server.asked[3]["messages"]]
        assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user"]


async def test_anthropics_api_calls_tools_and_goes_on_after_a_cut(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("toolu.1", "files__append", '{"line":"one"}')
    replies = [Reply(["I look.", call], reason="tool_use"), Reply(["All is do"], cut=True), Reply(["All is done."])]
    server, tools = MessagesServer(replies), FileTools(tmp_path / "file")
    async with server.listening() as port, connect(None, settings=SETTINGS, tools=lambda: tools) as opened:
        opened.use(RemoteSource("claude", claude(port, tmp_path / "home", monkeypatch)))
        cut = await ask(opened, "append", conversation(opened), deciding(opened, "yes"))
        assert cut.text == "I look.\n\nAll is do" and cut.failed is not None
        assert (await hear(opened.resume(cut.message))).text == "I look.\n\nAll is done." and tools.runs == ["one"]
    for sent in server.asked[1:]:
        used, result = sent["messages"][1:]
        assert used["content"][1] == {"type": "tool_use", "id": "toolu_1", "name": call[1], "input": {"line": "one"}}
        assert result["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "wrote one\n"}]


async def test_a_model_that_calls_on_and_on_is_told_to_end(connect: Connect, tmp_path: Path) -> None:
    server, tools = ChatServer([wants("more")]), FileTools(tmp_path / "file")
    server.scripts = [wants(str(at), first=at) for at in range(MOST_CALLS + 2)]
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        heard = await ask(opened, "append", conversation(opened), deciding(opened, "always"))
        assert len(tools.runs) == MOST_CALLS == len(server.asked) - 1
        assert server.asked[-1]["tool_choice"] == "none" and "16 tool calls" in heard.done.cut


@pytest.mark.parametrize(
    ("point", "state", "decision", "runs"),
    [("asked", "asked", "yes", 1), ("ran", "unknown", "no", 1), ("done", "done", "no", 1)],
)
async def test_a_program_that_is_killed_in_a_call_makes_it_once(
    point: str,
    state: str,
    decision: Decision,
    runs: int,
    connect: Connect,
    tiny_pair: Path,
    database: Path,
    tmp_path: Path,
) -> None:
    server, file = ChatServer([wants("one"), Script(["Done."])]), tmp_path / "file"
    async with server.listening() as port:
        url = f"http://127.0.0.1:{port}/v1"
        words = ["-m", "tests.support.tool_victim", str(tiny_pair / "drafter"), str(database), url, str(file), point]
        victim = await asyncio.create_subprocess_exec(sys.executable, *words)
        assert await victim.wait() == -signal.SIGKILL
        tools = FileTools(file)
        assert len(tools.runs) == (point != "asked")
        async with connect(url, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
            (conversation,) = opened.store.conversations.all()
            cut = opened.store.branches.thread(conversation.id)[-1]
            assert cut.interrupted and [call.state for call in cut.calls] == [state]
            watch = deciding(opened, decision)
            heard = await hear(opened.resume(cut.id), watch)
            assert heard.text == "Done." and tools.runs == ["one"] * runs
            assert [event.again for event in watch.asked] == {"asked": [False], "ran": [True], "done": []}[point]
            assert server.asked[-1]["messages"][-1]["content"] == (UNKNOWN if point == "ran" else "wrote one\n")
            assert opened.store.messages.get(cut.id).calls == cut.calls, "the answer that was cut stays as it was"


async def test_a_line_that_breaks_drops_half_a_call_and_makes_none_twice(connect: Connect, tmp_path: Path) -> None:
    half = Script(["Now", *calls("two", first=1)], cut=True)
    server, tools = (
        ChatServer([wants("one", said="I look."), half, wants("one", first=0), Script(["Done."])]),
        FileTools(tmp_path / "file"),
    )
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here = conversation(opened)
        failed = await ask(opened, "append", here, deciding(opened, "always"))
        assert failed.failed is not None and failed.failed.code == "broken"
        cut = opened.store.branches.thread(here)[-1]
        assert [call.state for call in cut.calls] == ["done"] and tools.runs == ["one"]
        heard = await hear(opened.resume(cut.id), deciding(opened, "yes"))
        assert heard.judged is None
        assert heard.text == "I look.\n\nDone.", "the server repeated a call with its id, which is not made again"
        made = opened.store.branches.thread(here)[-1].calls
        assert tools.runs == ["one"] and [call.state for call in made] == ["done", "refused"]


async def test_an_answer_with_calls_that_waits_in_the_queue_is_continued_and_not_asked_anew(
    connect: Connect, tmp_path: Path
) -> None:
    broken, tools = Script(["Now"], cut=True), FileTools(tmp_path / "file")
    server = ChatServer([wants("one"), broken, Script(["Done."])])
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here = conversation(opened)
        assert (await ask(opened, "append", here, deciding(opened, "yes"))).failed is not None
        cut = opened.store.branches.thread(here)[-1]
        assert opened.store.queue.defer(cut.id) is None, "its calls would be lost, and made again"
        queued = opened.outbox.enqueue_verification(cut.id)
        await until_connected(opened)
        heard = await hear(opened.send(queued), deciding(opened, "yes"))
        assert heard.text == "Done." and tools.runs == ["one"] and not opened.outbox.queued()
        assert [one["role"] for one in server.asked[-1]["messages"]] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("edited", [False, True])
async def test_a_call_that_another_answer_may_have_made_asks_again(
    connect: Connect, tmp_path: Path, edited: bool
) -> None:
    """To the same question, or to other words for it."""
    tools = FileTools(tmp_path / "file", dies=True)
    server = ChatServer([wants("one"), Script(["Lost."]), wants("one"), Script(["Done."])])
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here = conversation(opened)
        await ask(opened, "append", here, deciding(opened, "always"))
        watch, (question, answer) = deciding(opened, "no"), opened.store.branches.thread(here)
        again = opened.edit(question.id, "append, please") if edited else opened.regenerate(answer.id)
        await hear(again, watch)
        assert tools.runs == ["one"] and [event.again for event in watch.asked] == [True]


async def test_a_copy_of_a_conversation_asks_about_the_call_that_was_running(connect: Connect, tmp_path: Path) -> None:
    tools, server = FileTools(tmp_path / "file", holds=True), ChatServer([wants("one"), Script(["Done."])])
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here = conversation(opened)
        (append,) = await tools.offered(["files"])
        opened.store.conversations.choose(here, Choices(tools=("files",), allowed=(append.key,)))
        running = asyncio.create_task(ask(opened, "append", here))
        await tools.ran.wait()
        copy = opened.store.branches.duplicate(here, opened.store.branches.thread(here)[-1].id)
        opened.stop(here)
        await running
        watch = deciding(opened, "no")
        await hear(opened.resume(str(copy.tip_id)), watch)
        assert tools.runs == ["one"] and [event.again for event in watch.asked] == [True]


@pytest.mark.parametrize("installed", [True, False])
async def test_an_answer_goes_on_with_its_results_though_the_tools_are_off(
    installed: bool, connect: Connect, database: Path, tmp_path: Path
) -> None:
    server, tools = ChatServer([wants("one"), Script(["No"], cut=True), Script(["Done."])]), FileTools(tmp_path / "f")
    async with server.listening() as port:
        url = f"http://127.0.0.1:{port}/v1"
        async with connect(url, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
            here = conversation(opened)
            await ask(opened, "append", here, deciding(opened, "yes"))
            opened.store.conversations.choose(here, Choices())
        async with connect(url, met=True, settings=SETTINGS, tools=(lambda: tools) if installed else None) as opened:
            heard = await hear(opened.resume(opened.store.branches.thread(here)[-1].id))
            assert heard.text == "Done." and tools.runs == ["one"] and "tools" not in server.asked[-1]
            assert [one["role"] for one in server.asked[-1]["messages"]] == ["user", "assistant", "tool"]


async def test_an_answer_that_a_model_here_began_is_checked_with_the_results_of_its_calls(
    connect: Connect, tmp_path: Path
) -> None:
    server, tools = ChatServer([wants("one"), Script(["Done."]), Script(["Checked."])]), FileTools(tmp_path / "file")
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here, store = conversation(opened), opened.store
        made = await ask(opened, "append", here, deciding(opened, "yes"))
        begun = store.messages.ask(here, "append", parent_id=None)
        store.calls.add(begun.id, [replace(call, at=7) for call in store.messages.get(made.message).calls])
        stats: Stats = {"reason": "end", "streamed": 3, "stretches": [{"at": 0, "writer": "small one", "here": True}]}
        store.messages.finish(begun.id, (), (), "I look. Done.", "done", stats)
        heard = await hear(opened.verify(begun.id))
        assert heard.text == "Checked." and tools.runs == ["one"] and "tools" in server.asked[-1]
        assert [one["role"] for one in server.asked[-1]["messages"]] == ["user", "assistant", "tool"]
        checked = store.branches.thread(here)[-1]
        assert (checked.text, checked.calls[0].at, unchecked(checked.stats)) == ("Checked.", 0, "")
        again = await hear(opened.verify(checked.id))
        assert again.failed is not None and len(server.asked) == 3


async def test_a_call_that_waits_for_a_yes_leaves_its_place_at_the_server(connect: Connect, tmp_path: Path) -> None:
    held = Script(["held"], hold=True)
    server, tools = ChatServer([wants("one"), Script(["Other."]), held, Script(["Done."])]), FileTools(tmp_path / "f")
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        connection(opened).source.parallel = 1
        asks, decided = asyncio.Event(), asyncio.Event()
        said: list[Event] = []

        async def watch(heard: Heard) -> None:
            said.append(heard.last)
            if isinstance(event := heard.last, ToolCalled) and event.asks:
                asks.set()
                await decided.wait()
                opened.decide(heard.started.conversation, event.call.place, "yes")

        with_tools = asyncio.create_task(ask(opened, "append", conversation(opened), watch))
        await asks.wait()
        assert (await ask(opened, "other")).text == "Other."
        third = opened.store.conversations.create("third").id
        holding = asyncio.create_task(ask(opened, "third", third))
        await until(lambda: len(server.asked) == 3)
        decided.set()
        await until(lambda: tools.runs == ["one"])
        await until(lambda: any(isinstance(event, ModeChanged) and "place" in event.why for event in said))
        assert len(server.asked) == 3, "the server writes one answer at a time"
        opened.stop(third)
        assert (await with_tools).text == "Done." and (await holding).done.stopped and len(server.asked) == 4


async def test_a_server_that_takes_no_tools_answers_without(connect: Connect, tmp_path: Path) -> None:
    server, tools = ChatServer([Script(["Hello."])], takes_tools=False), FileTools(tmp_path / "file")
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        heard = await ask(opened, "append", conversation(opened))
        assert heard.text == "Hello." and heard.of(ToolsLeftOut)


async def test_a_question_whose_calls_were_made_is_not_queued_to_make_them_again(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reply.reply.RETURN_SECONDS", 0.1)
    server, tools = ChatServer([wants("one"), Script(["Done."])]), FileTools(tmp_path / "file")
    async with AsyncExitStack() as listening:
        url = f"http://127.0.0.1:{await listening.enter_async_context(server.listening())}/v1"
        waits = Settings(temperature=0.0, offline="queue")
        async with connect(url, met=True, settings=waits, tools=lambda: tools) as opened:
            decide = deciding(opened, "always")

            async def leave(heard: Heard) -> None:
                decide(heard)
                if isinstance(event := heard.last, ToolCalled) and event.call.state == "done":
                    await listening.aclose()

            heard = await ask(opened, "append", conversation(opened), leave)
            assert heard.failed is not None and "The tool calls are kept" in heard.failed.advice
            assert tools.runs == ["one"] and opened.outbox.queued() == [] and len(server.asked) == 1


# ---- what answers have cost ------------------------------------------------------------------------------------------


async def test_each_request_counts_once_at_its_price(connect: Connect, tmp_path: Path) -> None:
    server = ChatServer(
        [
            Script(["one"], usage=(100, 10)),
            Script([*wants("x").pieces], reason="tool_calls", usage=(200, 20)),
            Script(["done"], usage=(300, 30)),
            Script(["half"], cut=True),
            Script(["half and more"], usage=(50, 5)),
        ],
        price=("0.000002", "0.00001"),
    )
    tools = FileTools(tmp_path / "file")
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        store, usage = opened.store, opened.store.usage
        here = store.conversations.create("here").id
        await ask(opened, "q1", here)
        assert usage.by("conversation") == [Used(here, 1, 100, 10, pytest.approx(0.0003))]
        with_tools = store.conversations.create("tools", Choices(tools=("files",))).id
        await ask(opened, "q2", with_tools, deciding(opened, "yes"))
        assert usage.by("conversation")[0] == Used(with_tools, 1, 500, 50, pytest.approx(0.0015))

        cut = await ask(opened, "q3", here)
        (sums,) = usage.by("conversation", here)
        assert (sums.answers, sums.read, sums.uncounted) == (2, 100, 1)
        await until_connected(opened)
        await hear(opened.resume(cut.message))
        store.branches.duplicate(here, store.branches.thread(here)[-1].id)
        whole = Used(here, 3, 150, 15 + sums.written - 10, pytest.approx(0.00045), uncounted=1)
        assert usage.by("conversation", here) == [whole], "neither what was resumed nor a copy counts twice"
        store.bin.delete(here)
        (month,) = usage.by("month")
        assert (month.key, month.read, month.dollars) == (f"{datetime.now():%Y-%m}", 650, pytest.approx(0.00195))
        assert [one.key for one in usage.by("model")] == ["talker"]
        assert told(month)[1:2] == ["650 tokens read"] and told(month)[3].startswith("$0.00")


async def test_without_a_price_there_is_none_and_the_persons_own_counts_first(connect: Connect) -> None:
    server = ChatServer([Script(["one"], usage=(1_000_000, 0))])
    async with connect(server, met=True, settings=SETTINGS) as opened:
        await ask(opened, "q1")
        (sums,) = opened.store.usage.by("month")
        assert sums.dollars is None and sums.unpriced == 1 and told(sums)[-1] == "no price known"
        connection(opened).source.price = Price(3.0, 15.0)
        await ask(opened, "q2")
        (sums,) = opened.store.usage.by("month")
        assert (sums.dollars, sums.unpriced) == (3.0, 1) and told(sums)[-1] == "$3.0000 and 1 without a price"
