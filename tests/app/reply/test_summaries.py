"""What a model writes about a conversation: summaries, which a cut or a kill leave as they were, and titles."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.archive.importer import import_file
from app.archive.markdown import render
from app.archive.outrider_json import encode
from app.config import Settings, Titles
from app.prompts import SUM_UP
from app.reply.assistant import Assistant
from app.reply.call_desk import Decision
from app.reply.model_title import REQUEST, clean_title
from app.titles import title_from
from storage import Choices, Message, Store
from tests.app.reply.conftest import Connect
from tests.app.reply.test_tools import deciding, wants
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import LEAVE, Heard, ask, hear, until, until_connected
from tests.support.file_tool import FileTools

SETTINGS = Settings(temperature=0.0, max_tokens=12)


def said(asked: dict[str, Any]) -> list[str]:
    """The texts of a prompt that a server was sent."""
    return [message["content"] for message in asked["messages"]]


async def talked(opened: Assistant, *questions: str) -> str:
    """A conversation with these questions, each answered by the server."""
    here = opened.store.conversations.create("long").id
    for question in questions:
        await ask(opened, question, here)
    return here


def texts(thread: list[Message]) -> list[str]:
    return [message.text for message in thread]


async def test_later_prompts_have_the_summary_and_everything_stays(connect: Connect) -> None:
    server = ChatServer([*(Script([f"a{at}"]) for at in range(1, 5)), Script(["all ", "of it"]), Script(["fine"])])
    async with connect(server, met=True, settings=SETTINGS) as opened:
        store, here = opened.store, await talked(opened, "q1", "q2", "q3", "q4")
        before = texts(store.branches.thread(here))
        heard = await hear(opened.sum_up(here))
        assert heard.text == "all of it" and heard.done.reason == "end"
        assert said(server.asked[4]) == ["q1", "a1", "q2", "a2", SUM_UP]
        assert "max_tokens" not in server.asked[4], "a limit for answers would cut it off"

        assert texts(store.branches.thread(here)) == before and store.branches.versions(here) == {}
        assert store.messages.asked(9) == ["q1", "q2", "q3", "q4"]
        assert [one.message.text for one in store.search.messages("q2")] == ["q2"]
        assert not store.search.messages("all of it")
        answer = (await ask(opened, "q5", here)).message
        kept = [SUM_UP, "all of it", "q3", "a3", "q4", "a4"]
        assert said(server.asked[5]) == [*kept, "q5"]
        assert (await hear(opened.sum_up(here))).done.reason == "end", "what has been added since"
        assert said(server.asked[6]) == [SUM_UP, "all of it", "q3", "a3", SUM_UP]
        await ask(opened, "q6", here)
        assert said(server.asked[7]) == [SUM_UP, "fine", "q4", "a4", "q5", "fine", "q6"]
        assert "to summarise" in str((await hear(opened.sum_up(store.branches.duplicate(here, answer).id))).failed)

        # Each summary counts on the branches that it sums up, and goes as it came.
        thread = store.branches.thread(here)
        await hear(opened.edit(thread[2].id, "other"))
        assert said(server.asked[-1]) == ["q1", "a1", "other"]
        await hear(opened.edit(thread[4].id, "other"))
        assert said(server.asked[-1]) == [SUM_UP, "all of it", "other"]
        store.branches.show(thread[-1].id)
        for now in ([SUM_UP, "all of it", *before[4:], "q5", "fine"], [*before, "q5", "fine"]):
            summary = store.summaries.of(here)
            assert summary is not None
            store.bin.delete_message(summary.question.id)
            await hear(opened.regenerate(thread[-1].id))
            assert said(server.asked[-1]) == [*now, "q6"]


@pytest.mark.parametrize("how", ["cut", "stopped", "length", "killed"])
async def test_a_summary_that_is_not_complete_changes_nothing(
    how: str, connect: Connect, database: Path, tmp_path: Path
) -> None:
    broken = Script(["half "], cut=how == "cut", hold=how in ("stopped", "killed"), reason="length")
    server = ChatServer([Script(["a"]), Script(["a"]), Script(["a"]), broken, Script(["fine"])])
    async with connect(server, met=True, settings=SETTINGS) as opened:
        here = await talked(opened, "q1", "q2", "q3")
        before = opened.store.branches.thread(here)

        def watch(heard: Heard) -> object:
            if how == "stopped" and heard.text:
                opened.stop(here)
            if how == "killed" and heard.text:  # What is on the disk at this moment is what a kill leaves.
                with closing(sqlite3.connect(database)) as now, closing(sqlite3.connect(tmp_path / "left.db")) as left:
                    now.backup(left)
                return LEAVE
            return None

        heard = await hear(opened.sum_up(here), watch)
        assert (heard.failed is not None) == (how == "cut")
        assert opened.store.branches.thread(here) == before and opened.store.summaries.of(here) is None
        if how == "killed":
            with Store.open(tmp_path / "left.db") as left:
                assert left.messages.get(heard.message).interrupted
                assert left.branches.thread(here) == before and left.summaries.of(here) is None
        await until_connected(opened)
        await ask(opened, "q4", here)
        assert said(server.asked[-1]) == ["q1", "a", "q2", "a", "q3", "a", "q4"]
        await hear(opened.sum_up(here))
        assert said(server.asked[-1]) == ["q1", "a", "q2", "a", SUM_UP], "and it can be asked for again"


async def test_what_does_not_fit_is_summed_up_in_parts_without_losing_a_turn(connect: Connect) -> None:
    server = ChatServer([Script(["a"])])
    async with connect(server, met=True, settings=SETTINGS) as opened:
        questions = [str(at) * 400 for at in range(1, 8)]
        here = await talked(opened, *questions)
        server.reads_most, before = 2 * len(SUM_UP) + 1 + 2 * 401, len(server.asked)
        assert (await hear(opened.sum_up(here))).done.reason == "end"
        read = [said(one) for one in server.asked[before:] if sum(map(len, said(one))) <= server.reads_most]
        first = ["1" * 400, "a", "2" * 400, "a", SUM_UP]
        assert read == [
            first,
            [SUM_UP, "a", "3" * 400, "a", SUM_UP],
            [SUM_UP, "a", "4" * 400, "a", "5" * 400, "a", SUM_UP],
        ]
        await ask(opened, "8", here)
        assert said(server.asked[-1]) == [SUM_UP, "a", "6" * 400, "a", "7" * 400, "a", "8"]

        server.reads_most = 0
        for question in ("9" * 2000, "10", "11"):
            await ask(opened, question, here)
        server.reads_most = 2000
        assert "longer than the model can read" in str((await hear(opened.sum_up(here))).failed)
        summary = opened.store.summaries.of(here)
        assert summary is not None and "9" * 2000 in texts(opened.store.summaries.shown(here))


async def test_stopped_between_two_parts_the_first_one_counts(connect: Connect) -> None:
    server = ChatServer([Script(["a"])])
    async with connect(server, met=True, settings=SETTINGS) as opened:
        here = await talked(opened, *(str(at) * 400 for at in range(1, 7)))
        server.reads_most = len(SUM_UP) + 401

        def watch(heard: Heard) -> None:
            if heard.text.endswith("\n\n"):
                assert not opened.has_room(here), "a question that waits would get in between"
                opened.stop(here)

        heard = await hear(opened.sum_up(here), watch)
        assert heard.text == "a\n\n" and heard.done.reason == "stopped" and opened.has_room(here)
        kept = texts(opened.store.summaries.shown(here))
        assert kept[:2] == [SUM_UP, "a"] and kept[2] == "2" * 400
        server.reads_most, before = 1, len(server.asked)
        assert "longer than the model can read" in str((await hear(opened.sum_up(here))).failed)
        assert [len(said(one)) for one in server.asked[before:]] == [9, 5], "none is sent twice"


async def test_it_reads_the_results_of_tools_and_calls_none(connect: Connect, tmp_path: Path) -> None:
    server = ChatServer([wants("one"), Script(["a"]), Script(["a"]), Script(["a"]), wants("two"), Script(["sum"])])
    tools = FileTools(tmp_path / "file")
    yes: Decision = "yes"
    async with connect(server, met=True, settings=SETTINGS, tools=lambda: tools) as opened:
        here = opened.store.conversations.create("tools", Choices(tools=("files",))).id
        await ask(opened, "append", here, deciding(opened, yes))
        await ask(opened, "q2", here)
        await ask(opened, "q3", here)
        await hear(opened.sum_up(here))
        assert "tools" not in server.asked[4] and tools.runs == ["one"]
        assert said(server.asked[4]) == ["append", said(server.asked[4])[1], SUM_UP]
        assert "wrote one" in said(server.asked[4])[1]
        assert opened.store.summaries.of(here) is None, "a call is no summary"
        await hear(opened.sum_up(here))
        await ask(opened, "q4", here, deciding(opened, yes))
        asked = server.asked[-1]
        assert said(asked)[:2] == [SUM_UP, "sum"] and "tools" in asked


async def test_it_goes_through_export_import_and_a_fork(connect: Connect, tmp_path: Path) -> None:
    server = ChatServer([*(Script([f"a{at}"]) for at in range(1, 4)), Script(["sum"]), Script(["fine"])])
    async with connect(server, met=True, settings=SETTINGS) as opened:
        here = await talked(opened, "q1", "q2", "q3")
        await hear(opened.sum_up(here))
        fork = opened.store.branches.duplicate(here, opened.store.branches.thread(here)[-1].id)
        whole = opened.store.transfer.whole(here)
        pages = ["".join(render([whole], [whole.conversation], every=every)) for every in (True, False)]
        assert ["Summary of all messages above" in page for page in pages] == [True, False]
        exported = tmp_path / "long.json"
        exported.write_text("".join(encode([whole], SETTINGS, "test")))
        with Store.open(tmp_path / "elsewhere.db") as elsewhere:
            for _ in range(2):
                import_file(elsewhere, exported)
            (there,) = elsewhere.conversations.all()
            assert texts(elsewhere.summaries.shown(there.id)) == [SUM_UP, "sum", "q2", "a2", "q3", "a3"]
            assert texts(elsewhere.branches.thread(there.id)) == ["q1", "a1", "q2", "a2", "q3", "a3"]
        await ask(opened, "q4", fork.id)
        assert said(server.asked[-1]) == [SUM_UP, "sum", "q2", "a2", "q3", "a3", "q4"]


async def test_a_model_that_reads_tokens_reads_it_too(served: Connect) -> None:
    async with served(met=True, settings=SETTINGS) as opened:
        here = await talked(opened, *("how do I list all files of a folder? " * 12 for _ in range(4)))
        whole = opened.context(here)
        thread = opened.store.branches.thread(here)
        pending = opened.store.summaries.begin(thread[3], SUM_UP)
        opened.store.messages.finish(pending.id, (), (), "Files.", "done", {"reason": "end"})
        summed = opened.context(here)
        assert whole is not None and summed is not None and 0 < summed.used < whole.used
        again = await ask(opened, "and hidden ones?", here)
        assert again.done.stats.read < whole.used
        replaced = len(opened.store.summaries.shown(here))
        assert replaced == len(opened.store.branches.thread(here)) - 2


# ---- titles: where they cost nothing, and never in place of a person's own -------------------------------------------


QUESTION = "How do I unpack a .tar.gz file, and what if it is broken?"


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Unpack Broken Archives", "Unpack Broken Archives"),
        ('\n**Title: "Archive repair."**\nI chose it because', "Archive repair"),
        ("\x1b]0;x\x07Un\x1b[2Jpack", "Unpack"),
        ("„Archive entpacken“", "Archive entpacken"),
        ("so many words " * 20, ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_what_a_model_says_becomes_a_short_line_or_nothing(said: str, title: str) -> None:
    assert clean_title(said) == title


async def begun(opened: Assistant) -> str:
    conversation = opened.store.conversations.create(title_from(QUESTION)).id
    await ask(opened, QUESTION, conversation)
    return conversation


@pytest.mark.parametrize("titles", ["free", "off"])
async def test_the_first_answer_brings_a_title_and_only_the_first(
    connect: Connect, database: Path, titles: Titles
) -> None:
    server = ChatServer([Script(["tar ", "-x"])], title='"Broken archives"')
    async with connect(server, met=True, settings=Settings(titles=titles)) as opened:
        conversation = await begun(opened)
        assert await opened.entitle(conversation) == ("Broken archives" if titles == "free" else None)
        wanted = "Broken archives" if titles == "free" else title_from(QUESTION)
        assert opened.store.conversations.get(conversation).title == wanted
        await ask(opened, "And then?", conversation)
        assert await opened.entitle(conversation) is None
    assert len(server.asked) == 2 and len(server.entitled) == (titles == "free")
    for asked in server.entitled:
        assert [one["content"] for one in asked["messages"]] == [QUESTION, "tar -x", REQUEST]


async def test_a_persons_title_stays_also_if_it_comes_while_the_model_writes(connect: Connect, database: Path) -> None:
    server = ChatServer([Script(["tar -x"])], title="Broken archives")
    async with connect(server, met=True) as opened:
        conversation = await begun(opened)
        opened.store.conversations.rename(conversation, "Mine")
        assert await opened.entitle(conversation) is None and not server.entitled
        with Store.open(database) as store:
            assert not store.conversations.entitle(conversation, title_from(QUESTION), "Broken archives")
            assert store.conversations.get(conversation).title == "Mine"


async def test_a_server_does_not_read_what_another_one_answered(connect: Connect) -> None:
    server = ChatServer([Script(["tar -x"])], title="Broken archives")
    async with connect(server, met=True) as opened:
        conversation = await begun(opened)
        connection = opened.backend.routing.shown
        assert connection is not None and connection.verifier is not None
        connection.source.model = "another"
        connection.connect_again("another model")
        await until(lambda: (peer := connection.verifier) is not None and peer.model_name == "another")
        assert await opened.entitle(conversation) is None and not server.entitled


async def test_a_model_that_answers_with_commands_is_not_asked(connect: Connect) -> None:
    server = ChatServer([Script(["tar -x"])], title="tar -x")
    async with connect(server, met=True) as opened:
        connection = opened.backend.routing.shown
        assert connection is not None and connection.verifier is not None
        connection.source.model = "shell-guide"
        connection.connect_again("another model")
        await until(lambda: (peer := connection.verifier) is not None and peer.model_name == "shell-guide")
        assert await opened.entitle(await begun(opened)) is None and not server.entitled


async def test_a_title_gives_way_to_the_next_question(connect: Connect) -> None:
    server = ChatServer([Script(["tar -x"])], title=None)
    async with connect(server, met=True) as opened:
        conversation = await begun(opened)
        asking = asyncio.create_task(opened.entitle(conversation))
        await until(lambda: bool(server.entitled))
        assert (await ask(opened, "And then?", conversation)).text == "tar -x"
        assert await asking is None
        await server.hung_up.wait()
        assert opened.store.conversations.get(conversation).title == title_from(QUESTION)
