"""A model on this device continues the answers of a server that is away, at the character that was reached.

Its process is killed, its file is deleted, nobody needs it, it does not fit.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.cli.own_server import NICENESS
from app.config import Settings, Unanswered
from app.events import ModeChanged, StandIn, Stretch, Verified
from app.remotes import loopback
from app.remotes.choice import UnusableSource
from app.remotes.loopback import LocalModel
from app.remotes.source import Source
from app.reply import routing
from app.reply.assistant import Assistant
from app.reply.reply import MOST_RESTARTS
from app.reply.request import regenerate
from app.tui.turn import Turn
from remote.openai.schema import OWNER
from remote.protocol import Sampling
from storage import Store
from tests.app.reply.conftest import Connect
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import (
    LOCAL,
    Heard,
    Here,
    ask,
    ask_once,
    hear,
    until,
    until_connected,
    until_mode,
    working_off,
)
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.faults

QUESTION = "how do I unpack a tar archive?"
BRIEF = Settings(offline="queue", max_tokens=4, temperature=0.0)


def stored(database: Path, heard: Heard) -> Turn:
    """The turn that a window shows of an answer later."""
    with Store.open(database) as store:
        message = store.messages.get(heard.message)
        (turn,) = Turn.of_thread(store.branches.thread(message.conversation_id))
    assert turn.text == heard.text
    return turn


async def rest_of(verifier: VerifierProcess, begun: str, most: int = 24) -> str:
    """What the model on this device says after `begun`."""
    source = Here(verifier.url + "/v1")
    assert source.chat is not None
    (model,) = await source.chat.models(60.0)
    said = [("user", QUESTION), ("assistant", begun)] if begun else [("user", QUESTION)]
    stream = await source.chat.chat(
        said, Sampling(temperature=0.0), model=model.id, most=most, deadline=60.0, silence=60.0, continued=bool(begun)
    )
    text = "".join([piece async for piece in stream])
    await source.close()
    return text


@pytest.mark.parametrize("begun", ["Use `tar`:\n\n```sh\ntar -xf ", "naïve 🦀"])
async def test_an_answer_goes_on_at_the_character_where_the_line_broke(
    stands_in: Connect, database: Path, verifier: VerifierProcess, begun: str
) -> None:
    server = ChatServer([Script([begun[:5], begun[5:]], cut=True)])
    heard = await ask_once(stands_in(server, Here(verifier.url + "/v1")), QUESTION)
    assert heard.text.startswith(begun) and heard.text[len(begun) :] == await rest_of(verifier, begun)
    assert len(server.asked) == 1, "a question may cost money"
    assert heard.done.stretches == (Stretch(0, "talker"), Stretch(len(begun), "small one", here=True))
    assert heard.done.model == "talker", "the model that the person chose did write a part"
    assert not heard.done.stats.counted, "nobody has counted the tokens of the whole answer"
    offline = [event for event in heard.of(ModeChanged) if event.mode == "offline"]
    assert offline[-1].model == "small one" and not offline[-1].checks
    running = Turn("")
    for event in heard.events:
        running.apply(event)
        if isinstance(event, Stretch):
            assert running.solid == len(begun), "the rest is dimmed while it is written"
    turn = stored(database, heard)
    assert running.unchecked == turn.unchecked == ((len(begun), len(turn.text)),)
    assert turn.note.startswith("by small one on this device, not checked")


async def leave(opened: Assistant, server: ChatServer) -> None:
    server.away, shown = True, opened.backend.routing.shown
    assert shown is not None
    shown.connect_again("a test")
    await until_mode(opened, "offline")


@pytest.mark.parametrize("away", [True, False])
async def test_what_the_server_wrote_before_a_stop_stays_the_servers(stands_in: Connect, away: bool) -> None:
    server = ChatServer([Script(["Use tar"], hold=True), Script([" to"], cut=True)], owner="vllm")
    async with stands_in(server, ChatServer([Script([" unpack"])], owner=OWNER)) as opened:
        begun = await ask(opened, QUESTION, watch=lambda heard: heard.text and opened.stop())
        assert begun.done.stopped
        if away:
            await leave(opened, server)
        heard = await hear(opened.resume(begun.message))
    known = "Use tar" if away else "Use tar to"
    assert heard.text == f"{known} unpack" and heard.done.model == "talker"
    assert heard.done.stretches == (Stretch(0, "talker"), Stretch(len(known), "small one", here=True))


@pytest.fixture
def battery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    supplies = tmp_path / "supplies"
    (supplies / "BAT0").mkdir(parents=True)
    for name, said in {"type": "Battery", "status": "Discharging", "capacity": "30"}.items():
        (supplies / "BAT0" / name).write_text(f"{said}\n")
    monkeypatch.setattr("app.battery.SUPPLIES", supplies)
    return supplies / "BAT0"


async def test_it_reads_along_with_an_own_server(stands_in: Connect, verifier: VerifierProcess, battery: Path) -> None:
    here = ChatServer([], owner=OWNER, reads=True)
    settings = Settings(mode="hosted", offline="local", max_tokens=300, temperature=0.0)
    async with stands_in(verifier.port, here, settings, path="") as opened:
        await until_connected(opened)
        local = opened.backend.routing.stand_in(None)
        assert local is not None
        local.start()
        await until(lambda: local.verifier is not None)
        heard = await ask(opened, QUESTION)
        assert heard.done and not here.asked
        read = [asked["messages"] for asked in here.read]
        assert read[0] == [{"role": "user", "content": QUESTION}], "the question is read before there is an answer"
        begun = [messages[-1]["content"] for messages in read[1:]]
        assert begun and all(0 < len(text) <= len(heard.text) and heard.text.startswith(text) for text in begun)
        (battery / "capacity").write_text("29\n")
        here.read.clear()
        assert (await ask(opened, "and now?")).done and not here.read


async def test_an_answer_of_which_nothing_is_missing_is_complete(stands_in: Connect) -> None:
    whole = ChatServer([Script([])], owner=OWNER)
    server = ChatServer([Script(["Use tar."], cut=True)])
    heard = await ask_once(stands_in(server, whole), QUESTION)
    assert whole.asked and heard.text == "Use tar." and not heard.done.stretches, "it has written nothing"
    assert heard.done.model == "talker" and heard.done.reason == "end"


async def test_it_answers_while_a_server_is_away(stands_in: Connect, database: Path, verifier: VerifierProcess) -> None:
    server = ChatServer([Script(["x"])], away=True)
    async with stands_in(server, Here(verifier.url + "/v1")) as opened:
        heard = await ask(opened, QUESTION)
        assert heard.text == await rest_of(verifier, "") and heard.done.stats.line == "offline"
        first, second = (event for event in heard.of(ModeChanged) if event.mode == "offline")
        assert first.why.startswith("small one on this device loads: ") and first.model == "small one"
        assert second.why.startswith("small one on this device writes: ")
        assert heard.done.model == "small one" and heard.done.stretches == (Stretch(0, "small one", here=True),)
        server.away = False
        assert (await ask(opened, QUESTION)).text == "x", "it is back, although nobody has noticed yet"
    assert stored(database, heard).note.startswith("all by small one on this device, not checked")


async def test_what_a_server_refuses_nobody_else_answers(stands_in: Connect, verifier: VerifierProcess) -> None:
    server = ChatServer([], refuses="The model talker was retired.")
    heard = await ask_once(stands_in(server, Here(verifier.url + "/v1")), QUESTION)
    assert heard.failed is not None and "retired" in heard.failed.message and not heard.text


async def test_a_model_that_is_added_while_the_program_runs_answers(stands_in: Connect) -> None:
    known: dict[str | None, Source] = {None: UnusableSource("there is no model 'qwen' on this device")}
    async with (
        ChatServer([Script(["Use tar."])], owner=OWNER).listening() as port,
        stands_in(ChatServer([], away=True), known) as opened,
    ):
        heard = await ask(opened, QUESTION)
        assert heard.failed is not None
        assert "The model on this device cannot answer: there is no model 'qwen'" in heard.failed.message
        known[None] = Here(f"http://127.0.0.1:{port}/v1")
        assert (await ask(opened, QUESTION)).text == "Use tar."


TOO_LONG = "the request exceeds the available context size"


@pytest.mark.parametrize(
    ("local", "why"),
    [
        (ChatServer([], owner=OWNER, refuses=TOO_LONG), f"it refused (400): {TOO_LONG}"),
        (ChatServer([Script([])], owner=OWNER), "it ended its answer without a word"),
    ],
    ids=["too long", "silent"],
)
async def test_what_it_cannot_answer_waits_for_the_server(stands_in: Connect, local: ChatServer, why: str) -> None:
    server = ChatServer([Script(["x"])], away=True)
    async with stands_in(server, local, Settings(offline="queue")) as opened, working_off(opened) as done:
        await until_mode(opened, "offline")
        opened.outbox.enqueue(opened.store.conversations.create("waits").id, QUESTION)
        await opened.stand_by("small one")
        await until(lambda: len(done) == 1)
        failed = done[0].failed
        assert failed is not None and failed.queued and f"small one on this device cannot answer: {why}" in str(failed)
        assert [one.text for one in opened.outbox.queued()] == [QUESTION] and not server.asked
        server.away = False
        await until(lambda: len(done) == 2)
        assert done[1].text == "x" and not opened.outbox.queued()


async def test_an_answer_that_the_model_here_cannot_go_on_with_ends_as_without_one(stands_in: Connect) -> None:
    server = ChatServer([Script(["Use tar"], cut=True), Script(["x"])])
    local = ChatServer([], owner=OWNER, refuses=TOO_LONG)
    heard = await ask_once(stands_in(server, local), QUESTION)
    assert heard.failed is not None and heard.failed.code == "broken" and "is kept" in heard.failed.advice
    assert f"small one on this device cannot continue: it refused (400): {TOO_LONG}" in heard.failed.message
    assert heard.text == "Use tar" and len(server.asked) == 1, "a question may cost money"


@pytest.mark.parametrize("owner", ["somebody", "vllm"])
@pytest.mark.parametrize("crashes", [1, MOST_RESTARTS + 1])
async def test_text_of_a_model_that_ends_is_continued_by_who_can(stands_in: Connect, owner: str, crashes: int) -> None:
    server = ChatServer([Script([" it"])], owner=owner, away=True)
    local = ChatServer([*[Script(["Use tar "], cut=True)] * crashes, Script(["-x"])], owner=OWNER)
    async with stands_in(server, local) as opened:

        async def watch(heard: Heard) -> None:
            if isinstance(heard.last, Stretch):
                server.away = False
                await until_mode(opened, "hosted")

        heard = await ask(opened, QUESTION, watch=watch)
    if owner == "vllm":
        assert heard.text == "Use tar it" and len(server.asked) == 1
        assert heard.done.stretches == (Stretch(0, "small one", here=True), Stretch(8, "talker"))
        return
    assert not server.asked, "it would begin a different answer"
    assert heard.done.stretches == (Stretch(0, "small one", here=True),)
    if crashes <= MOST_RESTARTS:
        assert heard.text == "Use tar -x" and heard.done.reason == "end"
    else:
        assert heard.text == "Use tar " * crashes and heard.done.cut_by == "broken"
        assert heard.done.cut.startswith("small one on this device cannot continue: its answer ended early")


async def test_what_it_has_gone_on_with_itself_is_not_judged(stands_in: Connect, database: Path) -> None:
    local = ChatServer([Script(["Use tar"], hold=True), Script([" -x"])], owner=OWNER)
    async with stands_in(ChatServer([Script(["x"])], away=True), local) as opened:
        begun = await ask(opened, QUESTION, watch=lambda heard: heard.text and opened.stop())
        heard = await hear(opened.resume(begun.message))
        assert heard.text == "Use tar -x" and heard.judged is None
        turn = stored(database, heard)
        assert turn.verifiable and turn.note.startswith("all by small one on this device, not checked")
        again = regenerate(opened.store, LOCAL, heard.message, target=True)
        assert again.sampling.temperature == 0.0, "the server has not given its likeliest answer yet"


async def test_a_server_goes_on_after_what_was_written_here_of_an_answer_that_it_began(stands_in: Connect) -> None:
    server = ChatServer([Script(["Use tar"], hold=True), Script([" it"])], owner="vllm")
    async with stands_in(server, ChatServer([Script([" to unpack"], cut=True)], owner=OWNER)) as opened:
        begun = await ask(opened, QUESTION, watch=lambda heard: heard.text and opened.stop())
        await leave(opened, server)

        async def watch(heard: Heard) -> None:
            if isinstance(heard.last, Stretch) and heard.last.here:
                server.away = False
                await until_mode(opened, "hosted")

        heard = await hear(opened.resume(begun.message), watch)
    assert server.asked[-1]["messages"][-1]["content"] == "Use tar to unpack"
    assert heard.text == "Use tar to unpack it"


Own = tuple[Unanswered | None, str | None]


class Other(Here):
    """Another model of this device."""

    name = "other one"


@pytest.mark.parametrize(
    ("settings", "own", "fixed", "writer"),
    [
        (Settings(offline="queue"), ("local", None), "", "small one"),
        (Settings(offline="local", local="a"), (None, "b"), "", "other one"),
        (Settings(offline="local", local="a"), ("queue", None), "", ""),
        (Settings(offline="local", local="a"), ("fail", "b"), "offline local", "small one"),
    ],
)
async def test_a_server_has_settings_of_its_own_and_the_command_line_overrides_them(
    stands_in: Connect, verifier: VerifierProcess, settings: Settings, own: Own, fixed: str, writer: str
) -> None:
    here = Here(verifier.url + "/v1")
    models: dict[str | None, Source] = {None: here, "a": here, "b": Other(verifier.url + "/v1")}
    settings = settings.replaced({"max_tokens": 4, "temperature": 0.0}, "a test")
    away, fixes = ChatServer([], away=True), frozenset(fixed.split())
    heard = await ask_once(stands_in(away, models, settings, own=own, fixed=fixes), QUESTION)
    if writer:
        assert [stretch.writer for stretch in heard.done.stretches] == [writer]
    else:
        assert heard.failed is not None and heard.failed.queued


async def test_another_model_is_chosen_while_the_program_runs(stands_in: Connect, verifier: VerifierProcess) -> None:
    models: dict[str | None, Source] = {"a": Here(verifier.url + "/v1"), "b": Other(verifier.url + "/v1")}
    async with stands_in(ChatServer([], away=True), models, BRIEF) as opened:
        for name, writer in (("a", "small one"), ("b", "other one")):
            await opened.settled()
            changes = opened.changes()
            await anext(changes)
            await opened.stand_by(name)
            assert opened.standing_by == StandIn(name), "nothing of it runs yet"
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await anext(changes)).model == name, "the window hears of it"
            await changes.aclose()
            heard = await ask(opened, QUESTION)
            assert [stretch.writer for stretch in heard.done.stretches] == [writer]
            assert heard.done.stats.bytes_up == heard.done.stats.bytes_down == 0, "nothing was sent over a line"
            assert opened.standing_by == StandIn(name, "ready")
            status = opened.status()
            assert (status.mode, status.alone, status.model) == ("offline", True, name)
        await opened.stand_by(None)
        assert opened.standing_by is None
        heard = await ask(opened, QUESTION)
        assert heard.failed is not None and heard.failed.queued
        assert not opened.status().alone


async def test_another_model_that_is_needed_elsewhere_ends_no_answer(
    stands_in: Connect, verifier: VerifierProcess
) -> None:
    models: dict[str | None, Source] = {"a": Here(verifier.url + "/v1"), "b": Other(verifier.url + "/v1")}
    settings = SETTINGS.replaced({"local": "a"}, "a test")
    async with stands_in(ChatServer([], away=True), models, settings) as opened:
        routing = opened.backend.routing

        def need_another(heard: Heard) -> None:
            if heard.text:
                routing.stand_in("b")

        heard = await ask(opened, QUESTION, watch=need_another)
        assert [stretch.writer for stretch in heard.done.stretches] == ["small one"]


@pytest.mark.parametrize(
    ("offline", "own", "missed"), [("queue", None, "the server"), ("queue", "queue", None), ("local", None, None)]
)
async def test_a_server_is_missed_while_it_is_away_and_nobody_answers_for_it(
    stands_in: Connect, offline: Unanswered, own: Unanswered | None, missed: str | None
) -> None:
    server = ChatServer([Script(["x"])], away=True)
    models: dict[str | None, Source] = {None: Here("http://127.0.0.1:9/v1")}
    async with stands_in(server, models, Settings(offline=offline), own=(own, None)) as opened:
        await until_mode(opened, "offline")
        assert opened.missed == missed
        server.away = False
        await until_mode(opened, "hosted")
        assert opened.missed is None


async def test_what_waits_is_answered_in_order_by_a_chosen_model(stands_in: Connect, verifier: VerifierProcess) -> None:
    server = ChatServer([Script(["later"]), Script(["again"]), Script(["mine"])], away=True)
    models: dict[str | None, Source] = {"a": Here(verifier.url + "/v1")}
    async with stands_in(server, models, BRIEF) as opened, working_off(opened) as done:
        store, outbox = opened.store, opened.outbox
        first = (await ask(opened, QUESTION)).started.conversation
        outbox.enqueue(other := store.conversations.create("b").id, "and elsewhere?")
        outbox.enqueue(first, "and then?")
        await opened.stand_by("a")
        await until(lambda: len(done) == 3)
        outbox.enqueue(other, "for the server alone")
        assert [heard.started.conversation for heard in done] == [first, other, first]
        assert all(heard.done and heard.done.stretches == (Stretch(0, "small one", here=True),) for heard in done)
        asked = [message.text for message in store.branches.thread(first) if message.role == "user"]
        assert asked == [QUESTION, "and then?"]
        assert [one.kind for one in outbox.queued()] == ["verify"] * 3 + ["ask"] and not server.asked
        server.away = False
        await until(lambda: len(done) == 7)
        assert len(server.asked) == 4 and not outbox.queued()


# ---- its process -----------------------------------------------------------------------------------------------------


LONGER = 400
"""More tokens than a tiny model has written when its first word is read here."""
SETTINGS = Settings(offline="local", max_tokens=LONGER, temperature=0.0)


@pytest.fixture
async def away() -> AsyncIterator[int]:
    """A server that is out of reach."""
    async with ChatServer([], away=True).listening() as port:
        yield port


@pytest.fixture
def target(tiny_pair: Path, tmp_path: Path) -> Path:
    """A model's folder, with the weights that another program reads, which take no memory here, and a dead link."""
    folder = Path(shutil.copytree(tiny_pair / "target", tmp_path / "target"))
    (folder / "pytorch_model.bin").touch()
    os.truncate(folder / "pytorch_model.bin", 1 << 42)
    (folder / "notes.txt").symlink_to("nowhere")
    return folder


async def killed(opened: Assistant, source: LocalModel, *, deleted: bool = False) -> tuple[Heard, list[str]]:
    """An answer whose writer is killed at its first word, and the text that was there at each change of the mode."""
    begun, process = list[str](), None

    def watch(heard: Heard) -> None:
        nonlocal process
        if isinstance(heard.last, ModeChanged) and heard.last.mode == "offline":
            begun.append(heard.text)
        if isinstance(heard.last, Verified) and heard.last.text and process is None:
            process = source.process_id
            assert process is not None
            assert os.getpriority(os.PRIO_PROCESS, process) == min(19, os.nice(0) + NICENESS)
            os.kill(process, signal.SIGKILL)
            if deleted:
                shutil.rmtree(source.path)

    return await ask(opened, QUESTION, watch=watch), begun


async def test_killed_while_it_writes_it_is_started_again_and_goes_on(
    stands_in: Connect, away: int, target: Path, verifier: VerifierProcess
) -> None:
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS) as opened:
        heard, begun = await killed(opened, source)
    first, reached = dict.fromkeys(begun)  # It may also say there that its model is reasoning.
    assert first == "" and 0 < len(reached) < len(heard.text)
    assert heard.text == reached + await rest_of(verifier, reached, LONGER), "nothing is lost or duplicated"
    assert heard.done.stretches == (Stretch(0, "small one", here=True),)


async def test_its_file_is_deleted_and_it_is_killed(stands_in: Connect, away: int, target: Path) -> None:
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS) as opened:
        heard, _ = await killed(opened, source, deleted=True)
        stored = opened.store.messages.get(heard.message)
    assert heard.failed is not None and f"small one is not in {target} any more" in heard.failed.message
    assert heard.text and stored.text == heard.text, "what it had written is kept"


async def test_it_ends_when_nobody_needs_it_and_starts_again(
    stands_in: Connect, away: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "IDLE_SECONDS", 0.1)
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS.replaced({"max_tokens": 24}, "test")) as opened:
        first = await ask(opened, QUESTION)
        assert first.done
        await until(lambda: source.process_id is None)
        assert (await ask(opened, QUESTION)).text == first.text


async def test_what_does_not_fit_into_memory_is_not_started(
    stands_in: Connect, away: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "ROOM_BYTES", 1 << 60)
    source = LocalModel("small one", target)
    async with stands_in(away, source, SETTINGS) as opened:
        heard = await ask(opened, QUESTION)
        assert heard.failed is not None and "small one needs 1152921504.6 GB of memory, and" in heard.failed.message
        assert source.process_id is None and source.url is None
