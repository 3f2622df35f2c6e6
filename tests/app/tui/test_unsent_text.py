"""What is typed survives: a switch of the conversation, the end of the program, an editor that fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events

from app.editor import EditorFailed, editor_command
from app.events import ModeChanged
from app.tui.unsent import UnsentTexts
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, store_turns, verified, wait_until
from tests.app.tui.window import Window, started

PASTED = "\n".join(f"line {number}" for number in range(30))


class Lending(Window):
    """Has no terminal to lend: suspends in name only."""

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        yield


def kept(store: Store, conversation: str | None) -> str:
    return UnsentTexts(store.path).read(conversation)


async def test_each_conversation_keeps_what_is_typed(store: Store) -> None:
    one, two = (store_turns(store, title, [("q", "a")]) for title in ("one", "two"))
    async with started(ScriptedCore(store)) as (app, pilot):
        await pilot.press(*"new")
        await app.chat.open_conversation(one)
        assert app.prompt.text == ""
        await pilot.press(*"first")
        app.prompt.post_message(events.Paste(PASTED))
        await wait_until(pilot, lambda: app.prompt.full_text == "first" + PASTED)
        await app.chat.open_conversation(two)
        assert app.prompt.text == ""
        await app.chat.open_conversation(one)
        assert app.prompt.full_text == "first" + PASTED != app.prompt.text, "it is folded, as it was"
        await press(pilot, "ctrl+n", until=lambda: app.prompt.text == "new")
    async with started(ScriptedCore(store)) as (app, pilot):
        await wait_until(pilot, lambda: app.prompt.text == "new")
        await app.chat.open_conversation(one)
        assert app.prompt.text == "first" + PASTED


async def test_what_is_typed_is_in_its_file_before_the_program_ends(store: Store) -> None:
    conversation = store_turns(store, "one", [("q", "a")])
    async with started(ScriptedCore(store), at=conversation) as (app, pilot):
        await press(pilot, *"half a thou", until=lambda: kept(store, conversation) == "half a thou")
        await press(pilot, *"ght", until=lambda: kept(store, conversation) == "half a thought")
        await press(pilot, "ctrl+u", until=lambda: kept(store, conversation) == "")
        folder = store.path.with_name("unsent")
        shutil.rmtree(folder)
        folder.write_text("in the way")
        await press(pilot, "a", until=lambda: app.toasted("cannot be saved"))
        assert app.prompt.text == "a"


async def test_what_was_typed_in_an_erased_conversation_leaves_the_disk(store: Store) -> None:
    gone, binned = (store_turns(store, title, [("q", "a")]) for title in ("gone", "binned"))
    for conversation in (gone, binned, "young"):
        UnsentTexts(store.path).write(conversation, "a thought")
    for conversation in (gone, binned):
        os.utime(store.path.parent / "unsent" / f"in-{conversation}", (0, 0))
    store.bin.erase(gone)
    store.bin.delete(binned)
    async with Window(ScriptedCore(store)).run_test() as pilot:
        await wait_until(pilot, lambda: kept(store, gone) == "")
    assert kept(store, binned) == "a thought", "it can come back"
    assert kept(store, "young") == "a thought", "it may be of a conversation that was begun a moment ago"


async def test_what_is_typed_in_one_burst_behind_a_question_is_kept_and_the_question_leaves(store: Store) -> None:
    async with started(ScriptedCore(store, [[asyncio.Event()]] * 3)) as (app, pilot):
        for keys in (("enter", "b"), ("ctrl+s", "b"), ("enter", "b", "enter")):
            await pilot.press("escape", "ctrl+n", "ctrl+u")
            await wait_until(pilot, lambda: not app.prompt.answering and app.chat.conversation.id is None)
            app.prompt.post_message(events.Paste(PASTED))
            await wait_until(pilot, lambda: app.prompt.full_text == PASTED)
            for pressed in ("ctrl+j", "a", *keys, "c"):
                app.post_message(events.Key(pressed, pressed if len(pressed) == 1 else None))
            await wait_until(pilot, lambda: app.prompt.text == "bc")
            assert app.prompt.earlier == [f"{PASTED}\na"], keys
            await wait_until(pilot, lambda: kept(store, app.chat.conversation.id) == "bc")


async def test_questions_of_all_conversations_are_recalled_and_what_was_sent_is_not_offered_again(store: Store) -> None:
    store_turns(store, "one", [("first", "a"), ("again", "b")])
    store_turns(store, "two", [("second", "a"), ("again", "b")])
    async with started(ScriptedCore(store, [[*verified("yes"), finished(3)]])) as (app, pilot):
        await wait_until(pilot, lambda: app.prompt.earlier == ["first", "second", "again"])
        await press(pilot, *"third", "enter", until=lambda: app.answers == ["yes"])
        seen = []
        for _ in range(4):
            await pilot.press("up")
            seen.append(app.prompt.text)
        assert seen == ["third", "again", "second", "first"]
        await press(pilot, "ctrl+u", *"later", "ctrl+s", until=lambda: app.waiting == ["later"])
    async with started(ScriptedCore(store)) as (app, pilot):
        assert app.prompt.text == ""
        await wait_until(pilot, lambda: app.prompt.earlier == ["first", "second", "again", "third"])
        await pilot.press("up")
        assert app.prompt.text == "third", "from the database"


async def test_a_prompt_that_is_taken_back_keeps_what_was_typed_elsewhere(store: Store) -> None:
    async with started(ScriptedCore(store, mode=ModeChanged("offline", "no route"))) as (app, pilot):
        await press(pilot, *"queued", "ctrl+s", until=lambda: app.waiting == ["queued"])
        await pilot.press("ctrl+n", *"typed")
        await app.chat.open_conversation(store.conversations.all()[0].id)
        await press(pilot, "ctrl+s", until=lambda: app.prompt.text == "queued" and app.chat.conversation.id is None)
        await pilot.press("up")
        assert app.prompt.text == "typed"


def script(folder: Path, body: str) -> str:
    """An editor that runs `body` on `path`."""
    file = folder / "editor.py"
    file.write_text(f"import pathlib, sys\npath = pathlib.Path(sys.argv[1])\n{body}\n")
    return shlex.join([sys.executable, str(file)])


async def test_an_editor_writes_beside_an_answer(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", script(tmp_path, "path.write_text(path.read_text().upper() + '\\nmore\\x1b[2J\\n')"))
    hold = asyncio.Event()
    async with started(Lending(ScriptedCore(store, [[hold, *verified("yes"), finished(3)]]))) as (app, pilot):
        await press(pilot, "a", "enter", until=lambda: app.prompt.answering)
        await pilot.press(*"text ")
        app.prompt.post_message(events.Paste(PASTED))
        await wait_until(pilot, lambda: "⟦" in app.prompt.text)
        await pilot.press("ctrl+g")
        hold.set()
        await wait_until(pilot, lambda: app.prompt.text == f"TEXT {PASTED.upper()}\nmore")
        await wait_until(pilot, lambda: app.answers == ["yes"])
        app.prompt.move_cursor((0, 0))
        await pilot.press("up")
        assert app.prompt.full_text == f"text {PASTED}", "what was there can be recalled"


async def test_a_failing_editor_takes_nothing(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    async with started(Lending(ScriptedCore(store))) as (app, pilot):
        await pilot.press(*"typed")
        for body, told in (
            ("sys.exit(3)", "exited with code 3; the prompt is unchanged"),
            ("path.write_text('half'); sys.exit(1)", "your text is in"),
            ("path.unlink()", "cannot be read"),
            ("", "no-such-editor did not start"),
        ):
            monkeypatch.setenv("VISUAL", script(tmp_path, body) if body else "no-such-editor --wait")
            await press(pilot, "ctrl+g", until=lambda: app.toasted(told))  # noqa: B023
            assert app.prompt.text == "typed", body
            left = list(tmp_path.glob("outrider-prompt-*"))
            assert [path.read_text() for path in left] == (["half"] if "half" in body else [])
            for path in left:
                path.unlink()
    async with started(ScriptedCore(store)) as (window, pilot):
        await wait_until(pilot, lambda: window.prompt.text == "typed")
        await press(pilot, "ctrl+g", until=lambda: window.toasted("cannot be lent"))
        assert window.prompt.text == "typed"


def test_which_editor() -> None:
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor_command({"VISUAL": " ", "EDITOR": "'my editor'"}) == ["my editor"]
    quoted = {"VISUAL": r'"C:\Program Files\np\np.exe" -multiInst'}
    assert editor_command(quoted, windows=True) == [r"C:\Program Files\np\np.exe", "-multiInst"]
    with pytest.raises(EditorFailed, match=r"\$EDITOR is not a command"):
        editor_command({"EDITOR": "'unclosed"})


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


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    unsent = UnsentTexts(tmp_path / "outrider.db")
    for conversation in ("one", None):
        unsent.write(conversation, "my secret")
    modes = {path.name[:3]: path.stat().st_mode & 0o777 for path in (tmp_path / "unsent").iterdir()}
    assert (modes["in-"], modes["new"]) == (0o600, 0o600)
    assert (tmp_path / "unsent").stat().st_mode & 0o777 == 0o700
    unsent.close()


async def test_a_full_disk_keeps_the_prompt_from_the_editor_but_loses_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "true")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    async with started(Lending(ScriptedCore(store))) as (app, pilot):
        await pilot.press("a")
        await press(pilot, "ctrl+g", until=lambda: app.toasted("temporary file"))
        assert app.prompt.text == "a"
