"""What answers have cost: the counts of the server, at the price that was known, each once."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from app.config import Settings
from app.usage import told
from remote.openai.schema import Price
from storage import Choices, Used
from tests.app.reply.conftest import Connect
from tests.app.reply.test_tools import deciding, wants
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import ask, connection, hear, until_connected
from tests.support.file_tool import FileTools

SETTINGS = Settings(temperature=0.0)


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
