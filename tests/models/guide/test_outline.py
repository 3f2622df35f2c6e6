"""Slots in the examples of the index: read, left out, and filled."""

from __future__ import annotations

import pytest

from models.guide.outline import Slot, perhaps, put, slots, unfilled

FILE = Slot("file", "file", "", False, "file.txt")
SIZE = Slot("size", "size", "find", True, "100M")
URL = Slot("url", "url", "raw", False, "https://example.com")


def test_what_is_written_is_read() -> None:
    text = f"curl {URL} > {FILE}; find . -size +{SIZE}"
    assert [slot for slot, _ in slots(text)] == [URL, FILE, SIZE]
    assert [at for _, at in slots(text)] == [text.index(str(slot)) for slot in (URL, FILE, SIZE)]


def test_without_values_the_placeholders_stand_there() -> None:
    assert unfilled(f"curl {URL} > {FILE}; find . -size +{SIZE}") == (
        "curl https://example.com > file.txt; find . -size +100M"
    )
    assert unfilled("awk '{print $1}' <(ls) [0:2]") == "awk '{print $1}' <(ls) [0:2]"


@pytest.mark.parametrize(
    ("values", "wanted"),
    [({}, "list files"), ({"file": "a.md"}, "list files like a.md"), ({"size": "2M"}, "list files over 2M, fast")],
)
def test_what_is_said_perhaps_needs_its_slots(values: dict[str, str], wanted: str) -> None:
    text = f"list files {perhaps(f'like {FILE}')} {perhaps(f'over {SIZE}, fast')}"
    assert put(text, lambda slot: values.get(slot.name)) == wanted


def test_a_command_of_several_lines_keeps_its_spaces() -> None:
    assert put(f"cat {FILE} << EOF\n  a  b\nEOF", lambda _: "x") == "cat x << EOF\n  a  b\nEOF"
