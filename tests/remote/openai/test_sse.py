"""Server-sent events by the book, however their bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.openai.sse import EventReader, event

BOOK = (
    "\ufeffdata: first\n\n"
    ": a comment keeps the line alive\n\n"
    "event: message\ndata: two\ndata: lines\nid: 7\n\n"
    "data:unspaced\r\n\r\n"
    "data:  a space stays\r\r"
    "retry: 10\ndata\n\n"
    "nonsense\n\n"
    "data: naïve 🦀 text\r\n\n"
    "data: [DONE]\n\n"
    "data: ended by the end"
)
READ = ["first", "two\nlines", "unspaced", " a space stays", "", "naïve 🦀 text", "[DONE]", "ended by the end"]


def read(chunks: list[bytes]) -> list[str]:
    reader = EventReader()
    return [one for chunk in chunks for one in reader.feed(chunk)] + reader.end()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=50))
def test_the_book_is_read_however_it_is_cut(sizes: list[int]) -> None:
    data, chunks, at = BOOK.encode(), [], 0
    while at < len(data):
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(data[at : at + size])
        at += size
    assert read(chunks) == READ


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_what_is_written_is_read(texts: list[str], end: str) -> None:
    written = b"".join(event(text.encode()) for text in texts).replace(b"\n", end.encode())
    assert read([written]) == texts
    assert read([bytes([byte]) for byte in written]) == texts


@pytest.mark.parametrize(
    ("written", "events"),
    [
        ('data: {"a":1}\ndata: {"a":2}\n: alive\ndata: [DONE]\n', ['{"a":1}', '{"a":2}', "[DONE]"]),
        ('data: {"a":\ndata: 1}\n\n', ['{"a":\n1}']),
        ('event: ping\ndata: {"a":1}\n\ndata: b\n\n', ['{"a":1}', "b"]),
        ('event: error\ndata: {"message":"No."}\n\ndata: b\n\n', ['{"error":{"message":"No."}}', "b"]),
        ("event: error\ndata: no\ndata: more", ['{"error":"no\\nmore"}']),
        ('error: {"message":"No."}\n\n', ['{"error":{"message":"No."}}']),
    ],
)
def test_what_servers_write_beside_the_book_is_read(written: str, events: list[str]) -> None:
    data = written.encode()
    assert read([data]) == events == read([data[at : at + 1] for at in range(len(data))])


@given(st.binary(max_size=200), st.integers(1, 7))
def test_any_bytes_are_survived_and_their_cuts_do_not_matter(data: bytes, size: int) -> None:
    assert read([data]) == read([data[at : at + size] for at in range(0, len(data), size)])
