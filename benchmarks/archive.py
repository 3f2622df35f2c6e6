"""Seconds to export and import a large history, and the size of the files.

    python -m benchmarks.archive [--messages N] [--json OUT]

Conversations have twenty messages, every tenth of them in a second branch. Answers have about 120 tokens of the bundled
drafter, with a code block and a list; a third of them are drafted in part. `peak MB` is the growth of this process's
largest resident size. `import again` finds everything there already.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from app.archive.exporter import every_conversation, export_conversations
from app.archive.formats import Format
from app.archive.importer import import_file
from app.cli.machine import machine
from app.config import BUNDLED_DRAFTER, Settings
from models.text.chat_text import ChatText
from storage import Conversation, Message, Store, WholeConversation

TURNS = 20
WORDS = ("the", "file", "folder", "tar", "list", "unpack", "disk", "show", "all", "where", "command", "lines", "count")
START = "2026-01-01T00:00:00.000+00:00"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), arguments.messages)
    for name, value in figures.items():
        print(f"{name:24} {value}")
    if arguments.json:
        arguments.json.write_text(json.dumps({**figures, "machine": machine()}, indent=1) + "\n", encoding="utf-8")


def measure(folder: Path, messages: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with Store.open(folder / "from.db") as store, Store.open(folder / "to.db") as other:
        text = ChatText.load(BUNDLED_DRAFTER)
        for number in range(-(-messages // TURNS)):
            store.transfer.put(conversation(number, text))
        figures["messages"] = sum(len(store.messages.of(found.id)) for found in store.conversations.all())
        for format in get_args(Format):
            path = folder / f"all.{format}"
            timed(
                figures,
                f"export {format}",
                lambda format=format, path=path: export_conversations(
                    store, every_conversation(store), format, path, settings=Settings(), branches=True
                ),
            )
            figures[f"{format} MB"] = round(path.stat().st_size / 1e6, 1)
        timed(figures, "import", lambda: import_file(other, folder / "all.json"))
        timed(figures, "import again", lambda: import_file(other, folder / "all.json"))
        arrived = sum(len(other.messages.of(found.id)) for found in other.conversations.all())
        assert arrived == figures["messages"], "not all of it arrived"
    return figures


def timed(figures: dict[str, float], name: str, work: Callable[[], Any]) -> None:
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    work()
    figures[f"{name} seconds"] = round(time.perf_counter() - begun, 2)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    figures[f"{name} peak MB"] = round(grown / (1e6 if sys.platform == "darwin" else 1e3), 1)


def conversation(number: int, text: ChatText) -> WholeConversation:
    """A conversation that depends on its number only."""
    draw = random.Random(number)
    identifier = f"{number:016x}"
    messages: list[Message] = []
    for turn in range(TURNS):
        parent = messages[-3 if turn % 10 == 9 else -1].id if messages else None
        answer = turn % 2 == 1
        said = spoken(draw) if answer else f"{words(draw, 8)}?"
        tokens = text.encode(said) if answer else []
        verified = draw.randrange(len(tokens)) if answer and turn % 3 == 0 else len(tokens)
        messages.append(
            Message(
                id=f"{number * TURNS + turn:016x}",
                conversation_id=identifier,
                parent_id=parent,
                role="assistant" if answer else "user",
                text=said,
                status="done",
                tokens=tuple(tokens),
                provenance=tuple(at < verified for at in range(len(tokens))),
                stats={"rounds": 30, "tau": 4.0, "seconds": 1.5, "mode": "edge"} if answer else {},
                created=START,
            )
        )
    return WholeConversation(
        Conversation(identifier, words(draw, 5), messages[-1].id, START, START), tuple(messages), ()
    )


def spoken(draw: random.Random) -> str:
    code = f"```sh\n{words(draw, 6)}\n```"
    return f"{words(draw, 40)}:\n\n{code}\n\n- **{words(draw, 2)}**: `{words(draw, 2)}`\n- {words(draw, 30)}"


def words(draw: random.Random, count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count))


if __name__ == "__main__":
    main()
