"""Server-sent events by the book, however their bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.openai.sse import MAX_EVENT_BYTES, EventReader, EventTooLong, event

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
    "data: cut off by the end\n"
)
READ = ["first", "two\nlines", "unspaced", " a space stays", "", "naïve 🦀 text", "[DONE]"]


def read(chunks: list[bytes]) -> list[str]:
    reader = EventReader()
    return [one for chunk in chunks for one in reader.feed(chunk)]


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


@given(st.binary(max_size=200), st.integers(1, 7))
def test_any_bytes_are_survived_and_their_cuts_do_not_matter(data: bytes, size: int) -> None:
    assert read([data]) == read([data[at : at + size] for at in range(0, len(data), size)])


@pytest.mark.parametrize("line", [b"x" * 1000, b": y" * 500, b"data: z" + b"z" * 993 + b"\n"])
def test_a_line_or_an_event_without_end_is_given_up(line: bytes) -> None:
    reader = EventReader()
    with pytest.raises(EventTooLong):
        for _ in range(MAX_EVENT_BYTES // 900):
            reader.feed(line)
