from dataclasses import replace

from rich.style import Style
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from app.events import Done, Drafted, Failed, Judged, Retracted, Stats, Verified
from app.tui.turn import Turn
from app.tui.widgets.markdown_view import HELD
from app.tui.widgets.message import AnswerView, WithdrawnLine
from storage import Store
from tests.app.tui.scripted import ScriptedCore, finished, press, store_turns, verified, wait_until
from tests.app.tui.window import Window, rows_of, started

TEXT = (
    "Use `tar` to **unpack** it\nhere:\n\n```sh\ntar xf a.tar\n```\n\n- `-x` extracts\n- `-f` names it\n\nThat is all"
)


class Host(App[None]):
    """Shows one turn."""

    CSS_PATH = "../../../app/tui/widgets/message.tcss"

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self.turn = turn

    def compose(self) -> ComposeResult:
        yield AnswerView(self.turn)

    @property
    def answer(self) -> AnswerView:
        return self.query_one(AnswerView)

    @property
    def shown(self) -> list[str]:
        return self.answer.prose.plain.split("\n")

    @property
    def screen_text(self) -> list[str]:
        return rows_of(self.answer.prose)


async def test_a_streamed_answer_ends_as_if_it_had_come_at_once() -> None:
    turn = Turn("q")
    app = Host(turn)
    stored = Host(Turn("q", outcome="done"))
    stored.turn.reply.solid = TEXT
    async with app.run_test() as pilot:
        for count, event in enumerate(verified(TEXT, 1)):
            turn.apply(event)
            if count % 7 == 0:
                await app.answer.flush()
        await app.answer.flush()
        await pilot.pause()
        before = app.screen_text
        turn.apply(finished(9))
        await wait_until(pilot, lambda: app.answer.drawn)
        await pilot.pause()
        assert app.screen_text == before, "nothing moves at the end"
        parsed = app.answer.prose.parsed
    async with stored.run_test():
        assert stored.answer.prose.source == TEXT
        assert stored.answer.prose.parsed == parsed
        assert stored.screen_text == before


async def test_other_words_take_the_place_of_those_that_are_withdrawn_without_a_jump() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        turn.apply(Verified("one\n\n", 2, 0))
        turn.apply(Drafted("two\n\nthree\n", 4))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "two", "", "three"])
        turn.apply(Verified("other", 1, 0))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other", "", ""])
        turn.apply(Drafted(" words\n\nend\n", 3))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other words", "", "end"])
        turn.apply(Drafted("x\n\n" * 7, 14))
        await wait_until(pilot, lambda: len(app.screen_text) > 15)
        turn.apply(Retracted(18))
        await wait_until(pilot, lambda: len(app.screen_text) == 3 + HELD)
        turn.apply(finished(3))
        await wait_until(pilot, lambda: app.screen_text == ["one", "", "other"])


async def test_a_long_block_that_is_read_in_a_thread_comes_whole() -> None:
    turn = Turn("q")
    async with started(Host(turn), (80, 24)) as (app, pilot):
        text = "[word] " * 2000
        turn.apply(Verified(text, 9, 0))
        await wait_until(pilot, lambda: app.answer.prose.plain == text.strip())
        turn.apply(Verified("end", 9, 0))
        turn.apply(finished(9))
        await wait_until(pilot, lambda: app.answer.drawn and app.answer.prose.plain == f"{text}end")


# ---- the turn that a view shows --------------------------------------------------------------------------------------


def played(*events: Drafted | Verified | Judged | Done | Failed) -> Turn:
    turn = Turn("q")
    for event in events:
        turn.apply(event)
    return turn


def test_an_answer_finished_offline_says_so() -> None:
    assert played(Drafted("ls", 2), finished(2, 2)).note == "drafted offline, not checked"
    assert played(Drafted("ls", 1), Verified("ls -l", 2, 1), finished(2)).note == ""
    turn = played(Verified("ls", 1, 0), Drafted(" -l", 2), finished(3, 2))
    assert (turn.text, turn.note) == ("ls -l", "drafted offline, not checked: 2 of 3 tokens")
    named = played(Drafted("ls", 2), replace(finished(2, 2), drafted_by="small model for qwen"))
    assert named.note == "drafted offline by the small model for qwen, not checked"


def test_an_answer_cut_at_the_limit_says_so_and_when_it_is_opened_again(store: Store) -> None:
    assert played(Verified("ls", 1, 0), Done(False, "length", (1,), (True,), Stats())).note == "cut at the length limit"
    conversation = store.conversations.create("t").id
    answer = store.messages.ask(conversation, "a", parent_id=None).id
    store.messages.finish(answer, (1,), (True,), "ls", "done", {"reason": "length"})
    (turn,) = Turn.of_thread(store.branches.thread(conversation))
    assert turn.note == "cut at the length limit"


def test_stopping_drops_guesses_that_were_not_stored_and_a_failure_keeps_the_text() -> None:
    turn = played(Verified("ls", 1, 0), Drafted(" -l", 2), finished(1, stopped=True))
    assert (turn.text, turn.note, turn.outcome) == ("ls", "stopped", "stopped")
    turn = played(Verified("ls", 1, 0), Failed("No verifier; run `outrider serve`.", "unavailable"))
    assert (turn.text, turn.error, turn.note) == ("ls", "No verifier; run `outrider serve`.", "")


def test_stored_text_is_sanitised_and_a_question_without_an_answer_shows_as_stopped(store: Store) -> None:
    conversation = store_turns(store, "t", [("a\x1b]52;c;aGk=\x07b", "c\x1b[2Jd")])
    tip = store.conversations.get(conversation).tip_id
    store.messages.add(conversation, "user", "e", parent_id=tip, status="done")
    turns = Turn.of_thread(store.branches.thread(conversation))
    assert [(turn.question, turn.text, turn.note) for turn in turns] == [("ab", "cd", ""), ("e", "", "stopped")]


# ---- what the check of a draft did not keep: struck through where it stood, as far as it is wanted -------------------

KEPT = "Use `tar`. It knows "
DRAFT = f"{KEPT}these options:\n\n- `-x` extracts\n- `-v` names each\n\n```sh\ntar xf file\n```\n"
OWN = f"{KEPT}many forms:\n\n```sh\ntar xvzf file\n```\n"
LABEL = "10 drafted words were not kept when the answer was checked"


def judged(store: Store, draft: str = DRAFT, own: str = OWN) -> str:
    conversation = store.conversations.create("t").id
    drafted = store.messages.ask(conversation, "Unpack it", parent_id=None)
    store.messages.finish(drafted.id, range(40), [False] * 40, draft, "done", {})
    answer = store.messages.verify(drafted.id)
    assert answer is not None
    stats = {"kept": 11, "of": 40}
    store.messages.finish(answer.id, range(60), [True] * 60, own, "done", stats, settles=drafted.id)
    return conversation


def rows(answer: AnswerView) -> list[str]:
    """The rows of the answer; struck text stands between tildes."""

    def said(text: str, style: Style | None) -> str:
        return f"~{text.strip()}~" if style is not None and style.strike and text.strip() else text

    prose = answer.prose
    strips = [prose.render_line(y) for y in range(prose.size.height)]
    return ["".join(said(part.text, part.style) for part in strip).rstrip() for strip in strips]


def struck(answer: AnswerView) -> str:
    return " ".join(part for row in rows(answer) for part in row.split("~")[1::2])


async def shown(pilot: Pilot[None], app: Window, conversation: str) -> AnswerView:
    """The checked answer, with the words that were not kept."""
    await app.turn_to(pilot, conversation, until=lambda: bool(app.screen.query(WithdrawnLine)))
    answer = app.screen.query_one(AnswerView)
    await wait_until(pilot, lambda: answer.prose.size.height > 3)
    await press(pilot, "alt+up", until=lambda: answer.has_class("-cursor"))
    await pilot.pause()
    await press(pilot, "w", until=lambda: bool(struck(answer)))
    return answer


async def test_it_is_struck_through_where_it_stood_and_can_be_hidden_and_shown_again(store: Store) -> None:
    async with started(ScriptedCore(store), (80, 24)) as (app, pilot):
        answer = await shown(pilot, app, judged(store))
        await wait_until(pilot, lambda: rows(answer)[-1].strip() == "tar xvzf file")
        first, *others = [row.strip() for row in rows(answer) if "~" in row]
        assert first == "Use tar. It knows ~these options:~ many forms:"
        assert others == ["• ~-x extracts~", "• ~-v names each~", "~tar xf file~"]
        assert app.text(".withdrawn") == f"▾ {LABEL}"
        await press(pilot, "w", until=lambda: app.text(".withdrawn") == f"▸ {LABEL}" and not struck(answer))
        assert rows(answer)[0] == "Use tar. It knows many forms:"
        await pilot.pause()
        await pilot.click(WithdrawnLine)
        await wait_until(pilot, lambda: app.text(".withdrawn") == f"▾ {LABEL}" and "these options:" in struck(answer))
        anew = AnswerView(answer.turn)
        await app.screen.mount(anew)
        await wait_until(pilot, lambda: "these options:" in struck(anew))


async def test_struck_text_is_neither_copied_nor_selected_and_nothing_is_told_where_all_was_kept(store: Store) -> None:
    draft, own = "Try:\n\n```sh\ncd /x\ntar xf file\n```\n", "Try:\n\n```sh\ncd /x\ntar xvzf file\n```\n"
    async with started(ScriptedCore(store)) as (app, pilot):
        answer = await shown(pilot, app, judged(store, draft, own))
        said = ["cd /x", "~tar xf file~", "tar xvzf file"]
        await wait_until(pilot, lambda: [row.strip() for row in rows(answer)[3:]] == said)
        answer.prose.action_copy_block(1)
        await wait_until(pilot, lambda: app.clipboard == "cd /x\ntar xvzf file")
        answer.prose.text_select_all()
        await wait_until(pilot, lambda: app.screen.get_selected_text() is not None)
        assert app.screen.get_selected_text() == "Try:\ncd /x\ntar xvzf file"
        await app.turn_to(pilot, judged(store, KEPT, OWN), until=lambda: app.answers == [OWN])
        assert not app.screen.query(WithdrawnLine)
        app.prompt.focus()
        await press(pilot, "alt+up", "w", until=lambda: app.toasted("rejected no words"))
