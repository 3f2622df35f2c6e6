"""The screen under load: how long its event loop stalls while a long chat opens, scrolls and streams.

    python -m benchmarks.screen [--messages N ...] [--json OUT]

The real application runs over a real store. Its one conversation has N messages of Markdown with code. The core streams
an answer with a code fence of 200 lines, in rounds like those of a line of 60 ms. Each frame is drawn and turned
into the bytes for a terminal, but not written to one. A task that is due every 2 ms records how late it ran.

- `open`: from opening the conversation until its last answer is drawn at the end of the view
- `up`: ten pages up, one key each, and ten down again
- `stream`: the answer; `idle`: a second with nothing to do, after it

Each part has its longest stall, and its CPU seconds per second. `stall_cpu_ms` is the loop thread's own work during its
longest stall. On a busy machine, the time on the clock also holds what other programs took.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.pilot import Pilot

from app.cli.machine import machine
from app.drafting.prompt import Context
from app.events import Done, Drafted, Event, ModeChanged, RoundEnded, RoundReport, Started, Stats, Verified
from app.tui.screens.chat.screen import ChatScreen
from app.tui.terminal import TerminalApp
from app.tui.widgets.message import AnswerView
from app.tui.widgets.prompt import Prompt
from app.tui.widgets.transcript import Transcript
from benchmarks.bundled import write
from storage import Attachment, Choices, Queued, Store

PERIOD_SECONDS = 0.002
ROUND_SECONDS = 0.06
TOKEN_CHARACTERS = 4
"""Characters of a token of English text and code, on average."""
PAGES = 10
TOKENS_PER_SECOND = 100
SIZE = (120, 40)


# ---- what is said ----------------------------------------------------------------------------------------------------

ANSWERS = (
    "Use `tar` to **extract** a gzip-compressed archive:\n\n```sh\ntar xzvf {{path/to/archive.tar.gz}}\n```\n\n"
    "Some useful options:\n\n- `-x` extracts, `-z` goes through gzip\n- `-C {{path/to/directory}}` elsewhere\n"
    "- `-v` names each file as it comes\n\nNothing is overwritten without need; *see* the manual on safety.\n",
    "## What eats the disk\n\n`du` adds up what lies below a folder. The largest first:\n\n```sh\n"
    "du -xh --max-depth=1 / 2>/dev/null | sort -rh | head -20\n```\n\n1. Start at the root.\n2. Go into the largest.\n"
    "3. Repeat until the culprit has a name.\n\n> Snapshots and deleted files that are still open show in `df` only.\n",
    "A script that does this each night:\n\n```python\nfrom pathlib import Path\nimport shutil\n\n\n"
    'def tidy(folder: Path, days: int) -> int:\n    """Removes what nobody has touched for so long."""\n'
    "    removed = 0\n    for path in folder.iterdir():\n        if age(path) > days:\n"
    "            shutil.rmtree(path)\n            removed += 1\n    return removed\n```\n\n"
    "Run it from a timer, and let it write what it removed to a log that you can read on the next morning. That costs "
    "a line, and has saved many a folder.\n",
    "| option | meaning |\n|---|---|\n| `-n` | numbers |\n| `-r` | in reverse |\n| `-u` | each line once |\n\n"
    "So `sort -nru` does all three. Lines that are equal keep no order among themselves unless `-s` asks for it, which "
    "matters as soon as only a part of each line is compared.\n",
)
QUESTIONS = ("How do I unpack a .tar.gz file?", "What is eating my disk?", "Tidy a folder every night", "Sort numbers")


def long_answer() -> str:
    """Prose, a fence with 200 lines, and prose again."""
    code = (
        f"    total += weigh(items[{line}], by={line % 7})  # the {line}th of them, by its weight"
        for line in range(200)
    )
    return f"{ANSWERS[0]}\nAll of it, spelt out:\n\n```python\n" + "\n".join(code) + f"\n```\n\n{ANSWERS[1]}"


def write_conversation(store: Store, messages: int) -> str:
    """Returns its id. Every eighth answer was drafted offline."""
    conversation = store.conversations.create("A long one").id
    parent: str | None = None
    for number in range(messages // 2):
        question, text = QUESTIONS[number % len(QUESTIONS)], ANSWERS[number % len(ANSWERS)]
        parent = store.messages.add(conversation, "user", question, parent_id=parent, status="done").id
        parent = store.messages.add(conversation, "assistant", "", parent_id=parent, status="pending").id
        tokens = len(text) // TOKEN_CHARACTERS
        store.messages.finish(parent, range(tokens), [number % 8 != 7] * tokens, text, "done", {})
    return conversation


class EmptyOutbox:
    """A queue in which nothing ever waits."""

    def __init__(self, store: Store) -> None:
        self.enqueue, self.enqueue_verification = store.queue.add, store.queue.add_verification
        self.queued, self.unqueue = store.queue.all, store.queue.remove

    def follows(self, queued: Queued) -> bool:
        return False


class StreamingCore:
    """Answers every question with the same text, in rounds of drafted and verified tokens."""

    offer = None
    """Nobody offers a small model."""

    def __init__(self, store: Store) -> None:
        self.store, self.outbox = store, EmptyOutbox(store)
        self._text = long_answer()
        self._per_round = max(1, round(TOKENS_PER_SECOND * ROUND_SECONDS))
        self._seconds = self._per_round / TOKENS_PER_SECOND

    def status(self) -> ModeChanged:
        return ModeChanged("edge", "drafting here, verified by a script")

    async def changes(self, replying: Callable[[], bool] | None = None) -> AsyncIterator[ModeChanged]:
        await asyncio.Event().wait()
        yield self.status()

    async def due(self) -> AsyncIterator[Queued]:
        """Nothing ever waits in the queue."""
        await asyncio.Event().wait()
        yield self.outbox.queued()[0]

    async def news(self) -> list[tuple[str, str]]:
        """There are no small models."""
        return []

    async def entitle(self, conversation_id: str) -> str | None:
        """Nobody gives titles."""
        return None

    def follow(self, choices: Choices) -> None:
        """There is one script for all conversations."""

    def context(self, conversation_id: str) -> Context:
        return Context(sum(len(message.tokens) for message in self.store.branches.thread(conversation_id)), 8192)

    def has_room(self, conversation_id: str | None) -> bool:
        return True

    def stop(self, conversation_id: str | None = None) -> None:
        """Do nothing: the answer ends when all is said."""

    async def reply(
        self, conversation_id: str, prompt: str, attachments: Sequence[Attachment] = ()
    ) -> AsyncIterator[Event]:
        tip = self.store.conversations.get(conversation_id).tip_id
        answer = self.store.messages.ask(conversation_id, prompt, parent_id=tip, attachments=attachments)
        yield Started(conversation_id, answer.id)
        await asyncio.to_thread(self.store.branches.path, answer.id)  # As the assistant reads it.
        began, piece, tokens = time.monotonic(), self._per_round * TOKEN_CHARACTERS, 0
        for number, at in enumerate(range(0, len(self._text), piece), 1):
            text = self._text[at : at + piece]
            yield Drafted(text, self._per_round)
            await asyncio.sleep(max(0.0, began + number * self._seconds - time.monotonic()))
            tokens += self._per_round
            yield Verified(text, self._per_round, self._per_round - 1)
            report = RoundReport(8, 40, 5.5, self._per_round, None, 0.01, 0.01, ROUND_SECONDS)
            self.store.messages.checkpoint(answer.id, range(tokens), [True] * tokens, self._text[: at + piece])
            stats = Stats(rounds=number, verified=tokens, seconds=time.monotonic() - began, rtt_ms=60.0)
            yield RoundEnded(stats, report)
        self.store.messages.finish(answer.id, range(tokens), [True] * tokens, self._text, "done", {})
        stats = Stats(rounds=number, verified=tokens, seconds=time.monotonic() - began, rtt_ms=60.0)
        yield Done(False, "end", tuple(range(tokens)), (True,) * tokens, stats)


# ---- what is measured ------------------------------------------------------------------------------------------------


class Nowhere(HeadlessDriver):
    """Receives what a terminal would. A driver that reports itself headless would get no frames."""

    @property
    def is_headless(self) -> bool:
        return False


class Painting(TerminalApp):
    def _build_driver(self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None) -> Driver:
        self._driver = Nowhere(self, mouse=mouse, size=size)
        return self._driver


@dataclass
class Part:
    """One part of the run."""

    seconds: float = 0.0
    cpu_per_second: float = 0.0
    stall_ms: float = 0.0
    """The longest delay of the loop beyond its own period."""
    stall_cpu_ms: float = 0.0
    """The most CPU time of the loop's thread between two runs of the watcher."""
    stalls_over_50_ms: int = 0


class Watcher:
    """A task that is due every `PERIOD_SECONDS`, and records how late it ran."""

    def __init__(self) -> None:
        self._part = Part()

    async def watch(self) -> None:
        last, worked = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            now, working = time.perf_counter(), time.thread_time()
            stall, part = 1000 * (now - last - PERIOD_SECONDS), self._part
            part.stall_ms = max(part.stall_ms, stall)
            part.stall_cpu_ms = max(part.stall_cpu_ms, 1000 * (working - worked))
            part.stalls_over_50_ms += stall > 50
            last, worked = now, working

    @contextmanager
    def part(self) -> Iterator[Part]:
        """Attribute what happens inside the block to this part."""
        part = self._part = Part()
        began, worked = time.perf_counter(), time.process_time()
        yield part
        part.seconds = time.perf_counter() - began
        part.cpu_per_second = (time.process_time() - worked) / part.seconds
        self._part = Part()


async def until(condition: Any, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the screen was not so far after {seconds:.0f} s")
        await asyncio.sleep(PERIOD_SECONDS)


async def turn_pages(pilot: Pilot[None], transcript: Transcript, key: str, pages: int) -> list[float]:
    """Milliseconds from each key to its first frame. Each key is sent once the previous one has settled."""
    took = []
    for _ in range(pages):
        before, began = transcript.scroll_y, time.perf_counter()
        pilot.app.simulate_key(key)
        await until(lambda: transcript.scroll_y != before or time.perf_counter() - began > 0.5)  # noqa: B023
        took.append(1000 * (time.perf_counter() - began))
        await asyncio.sleep(0.4)  # The scroll is animated, and turns are mounted after it.
    return took


async def measure(messages: int) -> dict[str, Any]:
    """Measure one row: a conversation with this many messages."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "outrider.db")
        conversation = write_conversation(store, messages)
        app, watcher = Painting(StreamingCore(store), on_painted=lambda: None), Watcher()
        row: dict[str, Any] = {"messages": messages}
        async with app.run_test(size=SIZE) as pilot:
            watching = asyncio.create_task(watcher.watch())
            await until(lambda: isinstance(app.screen, ChatScreen))
            screen = app.screen
            assert isinstance(screen, ChatScreen)
            transcript = screen.query_one(Transcript)
            await asyncio.sleep(0.5)
            with watcher.part() as opened:
                began = time.perf_counter()
                await screen.open_conversation(conversation)
                await until(lambda: last_is_drawn(transcript))
                row["open_ms"] = 1000 * (time.perf_counter() - began)
                await asyncio.sleep(1.0)
            with watcher.part() as up:
                row["page_ms"] = max(await turn_pages(pilot, transcript, "pageup", PAGES))
            with watcher.part() as down:
                await turn_pages(pilot, transcript, "pagedown", PAGES + 2)
            transcript.scroll_end(animate=False)
            await asyncio.sleep(0.5)
            row["widgets_before"] = len(screen.query("*"))
            with watcher.part() as streamed:
                prompt = screen.query_one(Prompt)
                prompt.post_message(Prompt.Submitted("Spell it all out"))
                await until(lambda: screen.conversation.live is not None)
                await until(lambda: screen.conversation.live is None)
                await until(lambda: last_is_drawn(transcript))
            await asyncio.sleep(0.5)
            row["widgets"] = len(screen.query("*"))
            with watcher.part() as idle:
                await asyncio.sleep(1.0)
            watching.cancel()
        store.close()
    parts = {"open": opened, "up": up, "down": down, "stream": streamed, "idle": idle}
    return row | {name: {key: rounded(value) for key, value in asdict(part).items()} for name, part in parts.items()}


def last_is_drawn(transcript: Transcript) -> bool:
    answers = [answer for answer in transcript.query(AnswerView) if not answer.turn.running]
    drawn = bool(answers) and answers[-1].turn is transcript.turns[-1] and answers[-1].region.height > 3
    return drawn and transcript.scroll_y >= transcript.max_scroll_y


def rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def show(row: dict[str, Any]) -> None:
    print(f"{row['messages']} messages: open in {row['open_ms']:.0f} ms, a page in {row['page_ms']:.0f} ms, ", end="")
    print(f"widgets {row['widgets_before']}, {row['widgets']} after the stream")
    for name in ("open", "up", "down", "stream", "idle"):
        part = row[name]
        print(
            f"  {name:7} {part['seconds']:6.1f} s   longest stall {part['stall_ms']:6.1f} ms"
            f" (its own work {part['stall_cpu_ms']:6.1f} ms), {part['stalls_over_50_ms']} over 50 ms"
            f"   CPU {part['cpu_per_second']:.2f} s/s",
            flush=True,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for messages in options.messages:
        rows.append(asyncio.run(measure(messages)))
        show(rows[-1])
    write(options.json, rows, machine())


if __name__ == "__main__":
    main()
