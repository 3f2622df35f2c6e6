"""Random stores, drawn by hypothesis: trees of branches, any text, answers of every kind, queues."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import strategies as st

from app.events import Dropped, PageSource, Stretch
from storage import FinalStatus, Role, Stats, Store
from tests.storage.stored import add

TEXT = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=30),  # With NUL and other control characters.
    st.text(max_size=10),  # With lone surrogates, which storage decodes or replaces.
    st.sampled_from(["", "\x1b]52;c;aGk=\x07", "```\nnever closed", "<!-- </script>", "\u202eevil", "a\r\nb\tc\x85"]),
)
TOKENS = st.lists(st.tuples(st.integers(0, 2**31 - 1), st.booleans()), max_size=12)
STATS = st.fixed_dictionaries(
    {},
    optional={
        "rounds": st.none() | st.integers(-(2**53), 2**53),
        "tau": st.floats(allow_nan=False, allow_infinity=False),
        "mode": st.just("edge"),
        "sources": st.just([asdict(PageSource("tar", "common", "tldr"))]),
        "stretches": st.just([asdict(Stretch(0, "the server", False)), asdict(Stretch(12, "qwen", True))]),
        "withdrawn": st.lists(TEXT, max_size=2).map(lambda texts: [list(Dropped(12, text)) for text in texts]),
    },
)


@dataclass(frozen=True)
class Said:
    """One message of a drawn conversation. `parent` counts back from it; None if that is before the first."""

    parent: int
    role: Role
    text: str
    tokens: list[tuple[int, bool]]
    status: FinalStatus
    stats: Stats
    verifies: bool
    waits: bool


@dataclass(frozen=True)
class Talk:
    title: str
    said: list[Said]
    tip: int
    prompts: list[str]
    pinned: bool


SAID = st.builds(
    Said, parent=st.integers(0, 4), role=st.sampled_from(["user", "assistant", "assistant", "system"]), text=TEXT,
    tokens=TOKENS, status=st.sampled_from(["done", "stopped", "failed"]), stats=STATS, verifies=st.booleans(),
    waits=st.booleans(),
)  # fmt: skip
TALK = st.builds(
    Talk, title=TEXT, said=st.lists(SAID, max_size=8), tip=st.integers(0, 7), prompts=st.lists(TEXT, max_size=2),
    pinned=st.booleans(),
)  # fmt: skip
TALKS = st.lists(TALK, max_size=3)


def fill(store: Store, talks: list[Talk]) -> None:
    for talk in talks:
        conversation = store.conversations.create(talk.title).id
        ids: list[str] = []
        for at, said in enumerate(talk.said):
            parent = ids[at - said.parent] if 0 < said.parent <= at else None
            if said.role != "assistant":
                ids.append(add(store, conversation, said.text, parent, role=said.role))
                continue
            answer = store.messages.add(conversation, "assistant", "", parent_id=parent, status="pending").id
            if said.verifies and ids:
                with store.database.write() as sql:
                    sql.execute("UPDATE messages SET verifies = ? WHERE id = ?", (ids[-1], answer))
            tokens, provenance = [token for token, _ in said.tokens], [verified for _, verified in said.tokens]
            store.messages.finish(answer, tokens, provenance, said.text, said.status, said.stats)
            if said.waits:
                store.queue.add_verification(answer)
            ids.append(answer)
        if ids:
            store.branches.show(ids[talk.tip % len(ids)])
        store.conversations.pin(conversation, talk.pinned)
        for prompt in talk.prompts:
            store.queue.add(conversation, prompt)


def rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that an export keeps, table by table, in order."""
    columns = {
        "conversations": "id, title, tip_id, created, updated, pinned",
        "messages": "id, conversation_id, parent_id, role, text, status, tokens, provenance, stats, created,"
        " verifies, resumes",
        "queue": "id, conversation_id, text, message_id, created",
    }
    with store.database.read() as database:
        return {
            table: database.execute(f"SELECT {names} FROM {table} ORDER BY key").fetchall()
            for table, names in columns.items()
        }
