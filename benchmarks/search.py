"""How long a search takes in a database of 100,000 messages, for what people type and while they type it.

    python -m benchmarks.search [--messages 100000] [--repeats 20] [--json OUT]

A database in a temporary folder is filled with conversations of twenty messages: questions of the recipe, and answers
of four to twenty-four sentences from its held-out pages. Both contain names whose frequencies follow those of any large
text: most of them are rare. Then each of `QUERIES` is searched as the list of conversations does (`Store.find`, fifty
conversations) and as `outrider history search` does (`Store.search`, fifty messages), and one sentence is typed letter
by letter. `found` is the number of messages that match. The very first search reads the index from disk, so it has its
own row.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from app.cli.machine import machine
from benchmarks.bundled import PROMPTS, REPOSITORY, write
from storage import Conversation, Message, Store, WholeConversation
from storage.search import quoted

QUESTIONS = REPOSITORY / "recipes/shell_guide/everyday"
TURNS = 10
"""Turns of a conversation, each a question and an answer."""
NAMES = 50_000
QUERIES = {
    "one letter": ("d", "t"),
    "two letters": ("th", "di", "co", "ta"),
    "three letters": ("the", "dis", "com", "fil", "con"),
    "four letters": ("comm", "conf", "disp", "file"),
    "common word": ("file ", "the ", "display "),
    "two common words": ("the file", "display all", "show the", "file di"),
    "five common words": ("how do i list the", "display the list of all"),
    "nine stop words": ("of the to a in is it on for",),
    "a word again": ("file " * 100,),
    "rare word": ("kubernetes", "unpack", "bilu"),
    "rare and common": ("kubernetes file", "the tarball"),
    "path or option": ("path/to/file", "tar.gz", "--recursive"),
    "nothing": ("xyzzy", "the xyzzy", "zq"),
}
SENTENCE = "how do I display the contents of a compressed file"
LIMIT = 50
WIDTH = 50
"""Width of the search words in the table."""


def questions_of(folder: Path = QUESTIONS) -> list[str]:
    lines = (line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines())
    return [question for line in lines for question in json.loads(line)["questions"]]


def sentences_of(pages: Path = PROMPTS) -> list[str]:
    sentences = []
    for line in pages.read_text("utf-8").splitlines():
        page = json.loads(line)
        sentences += [page["description"], *(f"{one['task']}: `{one['command']}`." for one in page["examples"])]
    return sentences


def conversations(messages: int, rng: random.Random) -> Iterator[WholeConversation]:
    """Conversations of `2 * TURNS` messages."""
    asked, said = questions_of(), sentences_of()
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvwz" for vowel in "aeiou"]
    names = ["".join(rng.choices(syllables, k=rng.randint(2, 5))) for _ in range(NAMES)]

    def named(text: str, most: int) -> str:
        drawn = (names[min(NAMES - 1, int(rng.paretovariate(0.6)))] for _ in range(rng.randint(1, most)))
        return f"{text} {' '.join(drawn)}"

    for number in range(messages // (2 * TURNS)):
        created = f"2026-{1 + number // 500 % 12:02}-{1 + number // 20 % 28:02}T12:00:00.000+00:00"
        conversation_id, turns, parent = f"{number:016x}", list[Message](), None
        for turn in range(2 * TURNS):
            question = turn % 2 == 0
            text = (
                named(rng.choice(asked), 2)
                if question
                else named("\n".join(rng.choices(said, k=rng.randint(4, 24))), 6)
            )
            role = "user" if question else "assistant"
            message_id = f"{number:08x}{turn:08x}"
            turns.append(Message(message_id, conversation_id, parent, role, text, "done", (), (), {}, created))
            parent = message_id
        title = " ".join(turns[0].text.split())[:60]
        yield WholeConversation(Conversation(conversation_id, title, parent, created, created), tuple(turns), ())


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def matches(store: Store, words: str) -> int:
    """Messages that contain the words."""
    with store.database.read() as database:
        counted = database.execute("SELECT count(*) FROM messages_fts WHERE messages_fts MATCH ?", (quoted(words),))
        count: int = counted.fetchone()[0]
        return count


def row(name: str, words: str, call: str, found: int, times: Sequence[float]) -> dict[str, object]:
    told: dict[str, object] = {"kind": name, "words": words[:WIDTH], "call": call, "found": found}
    return told | {"median_ms": round(1000 * statistics.median(times), 2), "worst_ms": round(1000 * max(times), 2)}


def measure(store: Store, repeats: int) -> list[dict[str, object]]:
    typed = [SENTENCE[: end + 1] for end in range(len(SENTENCE))]
    first = [seconds(lambda: store.search.conversations("com", LIMIT))]
    rows = [row("first of all", "com", "find", matches(store, "com"), first)]
    pasted = max((hit.message.text for hit in store.search.messages("display", LIMIT)), key=len)
    for name, queries in {**QUERIES, "a pasted answer": (pasted,)}.items():
        for words in queries:
            for call, search in (("find", store.search.conversations), ("search", store.search.messages)):
                times = [seconds(lambda: search(words, LIMIT)) for _ in range(repeats)]  # noqa: B023
                rows.append(row(name, words, call, matches(store, words), times))
    find = store.search.conversations
    times = [seconds(lambda: find(words, LIMIT)) for _ in range(max(1, repeats // 5)) for words in typed]  # noqa: B023
    return [*rows, row("letter by letter", SENTENCE, "find", matches(store, SENTENCE), times)]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outrider.db"
        with Store.open(path) as store:
            for whole in conversations(arguments.messages, random.Random(0)):
                store.transfer.put(whole)
        with Store.open(path) as store:
            rows = measure(store, arguments.repeats)
        size = path.stat().st_size
    for one in rows:
        print(
            "{kind:18} {call:6} {words!r:28} {found:7,} found: {median_ms:6.1f} ms, worst {worst_ms:6.1f} ms".format(
                **one
            )
        )
    print(
        f"{arguments.messages:,} messages, {size / 1e6:.0f} MB; worst of all {max(one['worst_ms'] for one in rows)} ms"
    )
    if arguments.json:
        write(arguments.json, rows, machine(), messages=arguments.messages, bytes=size)


if __name__ == "__main__":
    main()
