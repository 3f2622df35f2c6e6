"""A server goes away in mid-answer, and a model on this device continues: how soon, and with every character or not.

    python -m benchmarks.stand_in MODEL.gguf [--cuts N] [--tokens N] [--json OUT]

The server's part is the beginning of the model's own greedy answer, sent at 50 words a second and cut at a random
character. So an answer with nothing lost or duplicated is the whole answer again. Warm, the model has read along; cold,
the server is away when the question is asked, and the model has to be loaded. Seconds are counted from the moment at
which the app knows that the server is away.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from app.cli.machine import machine
from app.config import BUNDLED_DRAFTER, Settings
from app.events import Failed, ReplyText
from app.prompts import read_prompts
from app.remotes.loopback import LocalModel
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.bundled import PROMPTS, write
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote.protocol import Sampling
from storage import Store
from storage.database import MEMORY
from tests.support.chat_server import ChatServer, Script

WORD_SECONDS = 0.02


async def whole(model: LocalModel, question: str, most: int) -> str:
    """The model's own answer."""
    await model.client()
    assert model.chat is not None
    (named,) = await model.chat.models(60.0)
    stream = await model.chat.chat(
        [("user", question)], Sampling(), model=named.id, most=most, deadline=120.0, silence=120.0
    )
    return "".join([piece async for piece in stream])


async def cut(model: LocalModel, drafters: Drafters, script: Script, question: str, most: int) -> tuple[float, str]:
    """Seconds to the first character after the loss, and the answer. A script without pieces: the server is away."""
    begun = len("".join(script.pieces))
    settings = Settings(offline="local", temperature=0.0, max_tokens=most)
    server = ChatServer([script], away=not begun, leaves=True)
    with Store.open(MEMORY) as store:
        async with server.listening() as port:
            source = AddressSource(f"http://127.0.0.1:{port}/v1")
            async with Assistant(store, Options(drafters, source, settings, stand_in=lambda name: model)) as assistant:
                status = await assistant.settled()
                while begun and status.mode != "hosted":
                    status = await assistant.settled()
                connection = assistant.backend.routing.shown
                assert connection is not None
                lost = 0.0

                async def watch() -> None:
                    nonlocal lost
                    while connection.verifier is not None:
                        await connection.changed()
                    lost = time.monotonic()

                watching, first, text = asyncio.create_task(watch()), 0.0, ReplyText()
                async with aclosing(assistant.reply(store.conversations.create("cut").id, question)) as events:
                    async for event in events:
                        text.apply(event)
                        if isinstance(event, Failed):
                            raise SystemExit(event.message)
                        if not first and len(text.solid + text.ghost) > begun:
                            first = time.monotonic()
                await watching
    return first - lost, text.solid + text.ghost


async def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    drafters, rng = Drafters(Drafter.load(BUNDLED_DRAFTER)), random.Random(0)
    questions = [prompt.turns[0] for prompt in read_prompts(PROMPTS)]
    model = LocalModel("here", arguments.model)
    model.shared = True
    rows, answers = list[dict[str, Any]](), dict[str, str]()
    try:
        for number in range(arguments.cuts):
            question = questions[number % len(questions)]
            if question not in answers:
                answers[question] = await whole(model, question, arguments.tokens)
            answer = answers[question]
            warm = number % 4 != 3
            at = rng.randrange(1, max(2, len(answer))) if warm else 0
            pieces = re.findall(r"\S+\s*|\s+", answer[:at])
            script = Script(pieces, cut=True, pause=WORD_SECONDS)
            if not warm:
                await model.close()
            seconds, text = await cut(model, drafters, script, question, arguments.tokens)
            kept, same = text.startswith(answer[:at]), text.startswith(answer[: len(text)])
            rows.append({"start": "warm" if warm else "cold", "at": at, "seconds": round(seconds, 3)})
            rows[-1] |= {"kept": kept, "same": same and kept}
            print(rows[-1], flush=True)
    finally:
        await model.close()
    for start in ("warm", "cold"):
        some = [row for row in rows if row["start"] == start]
        seconds = sorted(row["seconds"] for row in some)
        if seconds:
            rows.append({"start": start, "cuts": len(some), "median": statistics.median(seconds), "worst": seconds[-1]})
            rows[-1] |= {name: sum(row[name] for row in some) for name in ("kept", "same")}
            print(rows[-1], flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Exit code 1 if the text of a server was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--cuts", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=150, help="most tokens of an answer")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    rows = asyncio.run(measure(arguments))
    write(arguments.json, rows, machine())
    return 0 if all(row.get("kept", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
