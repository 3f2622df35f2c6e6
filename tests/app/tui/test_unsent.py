from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.tui.unsent import UnsentTexts


def test_each_conversation_has_its_own_text(tmp_path: Path) -> None:
    unsent = UnsentTexts(tmp_path / "outrider.db")
    for conversation in ("one", "two", "../../three", "fo\udc80ur", None):
        assert unsent.read(conversation) == ""
        unsent.write(conversation, f"in {conversation!r}\n")
    for conversation in ("one", "two", "../../three", "fo\udc80ur", None):
        assert unsent.read(conversation) == f"in {conversation!r}\n"
        unsent.write(conversation, "")
        assert unsent.read(conversation) == ""
    unsent.close()
    assert {path.name for path in tmp_path.iterdir()} == {"unsent"}


def test_a_text_without_a_conversation_is_inherited_from_a_window_that_is_gone(tmp_path: Path) -> None:
    first, second = UnsentTexts(tmp_path / "outrider.db"), UnsentTexts(tmp_path / "outrider.db")
    first.write(None, "first")
    assert second.read(None) == "", "the first window still has it"
    second.write(None, "second")
    assert (first.read(None), second.read(None)) == ("first", "second")
    first.close()
    third = UnsentTexts(tmp_path / "outrider.db")
    assert third.read(None) == "first"
    third.write(None, "")
    second.close()
    assert third.read(None) == "second"
    third.close()
    assert [path.name for path in (tmp_path / "unsent").iterdir() if "owner" in path.name] == []


def test_a_window_that_typed_nothing_takes_nothing_from_another(tmp_path: Path) -> None:
    first, second = UnsentTexts(tmp_path / "outrider.db"), UnsentTexts(tmp_path / "outrider.db")
    assert second.read("one") == ""
    first.write("one", "typed here")
    second.write("one", "")
    assert first.read("one") == "typed here"
    assert second.read("one") == "typed here", "it opens the conversation again"
    second.write("one", "and gone on with")
    first.write("one", "typed here")
    assert second.read("one") == "and gone on with"
    second.write("one", "")
    assert first.read("one") == ""


def test_what_was_typed_in_a_conversation_leaves_with_it(tmp_path: Path) -> None:
    unsent = UnsentTexts(tmp_path / "outrider.db")
    unsent.sweep(list)  # There is no folder yet.
    for conversation in ("gone", "there", "../../imported", "young"):
        unsent.write(conversation, conversation)
    for path in (tmp_path / "unsent").glob("in-*"):
        if path.name != "in-young":
            os.utime(path, (0, 0))
    unsent.sweep(lambda: ["there", "../../imported"])
    assert [unsent.read(one) for one in ("gone", "there", "../../imported")] == ["", "there", "../../imported"]
    assert unsent.read("young") == "young", "it may be of a conversation that was begun a moment ago"


def test_what_was_half_written_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = UnsentTexts(tmp_path / "outrider.db")
    first.write(None, "whole")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "replace", killed)
        first.write(None, "half")
    first.close()
    second = UnsentTexts(tmp_path / "outrider.db")
    assert second.read(None) == "whole"
    second.close()


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    unsent = UnsentTexts(tmp_path / "outrider.db")
    for conversation in ("one", None):
        unsent.write(conversation, "my secret")
    modes = {path.name[:3]: path.stat().st_mode & 0o777 for path in (tmp_path / "unsent").iterdir()}
    assert (modes["in-"], modes["new"]) == (0o600, 0o600)
    assert (tmp_path / "unsent").stat().st_mode & 0o777 == 0o700
    unsent.close()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "unsent").write_text("in the way")
    with pytest.raises(OSError):
        UnsentTexts(tmp_path / "outrider.db").write("one", "text")
