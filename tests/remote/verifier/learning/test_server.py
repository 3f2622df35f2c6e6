"""A real server that learns: for whom it publishes, what a kill leaves, and that no text is on the disk or in a log."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from drafter.learning.parts import FEWEST
from drafter.runtime import Drafter
from models.config import GRAPH, read_config
from remote import Refused, VerifierClient
from remote.delivery import fetch_drafter
from remote.protocol import Card, Progress, Sampling, unpack_tokens
from remote.verifier.learning.artefacts import Artefacts, Gain
from remote.verifier.learning.learning import ENOUGH
from remote.verifier.options import ServeOptions
from remote.verifier.serve import build_app
from tests.remote.verifier.test_http import running
from tests.support.learnable import bewilder, build_learnable
from tests.support.made_once import made_once
from tests.support.patience import IDLE_PATIENCE_SECONDS, PATIENCE_SECONDS
from tests.support.ray_processes import command, descendants
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.training

ANNA, BERT = "0123456789abcdef-anna", "0123456789abcdef-bert"
QUESTIONS = [f"how do I unpack number {number} of xylophones" for number in range(4)]
GAIN = Gain(answers=1, before=1.0, after=2.0, low=0.1, high=0.2, fixed=0.0)


@pytest.fixture(scope="session")
def learnable_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pair whose drafter's layers can be trained."""
    return made_once(tmp_path_factory, "learnable-pair", build_learnable)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"anna {ANNA}\nbert {BERT}\n")
    return path


def server(pair: Path, tmp_path: Path, tokens: Path) -> VerifierProcess:
    options = ("--engine", "torch", "--learn", "own")  # Its forwards are slow enough for drafts to pay.
    home, said = tmp_path / "home", tmp_path / "said"
    return VerifierProcess(pair, token_file=tokens, options=options, home=home, said=said)


async def ask(url: str, token: str, drafter: Drafter, count: int) -> float:
    """Ask in conversations of their own. Returns the tokens a round."""
    rounds = gained = 0
    async with VerifierClient(url, token) as client:
        for number in range(count):
            prompt = drafter.asked_as(QUESTIONS[number % len(QUESTIONS)])
            stream = await client.session().stream(
                prompt, Sampling(), most=24, memory_from=0, deadline=PATIENCE_SECONDS, silence=PATIENCE_SECONDS
            )
            async for frame in stream:
                if isinstance(frame, Progress):
                    rounds, gained = rounds + 1, gained + len(unpack_tokens(frame.tokens))
    return gained / rounds


async def card_of(url: str, token: str) -> Card:
    async with VerifierClient(url, token) as client:
        return await client.card(PATIENCE_SECONDS)


async def until(holds: Callable[[], object], what: str) -> None:
    ends = time.monotonic() + IDLE_PATIENCE_SECONDS
    while not (await found if isinstance(found := holds(), Coroutine) else found):
        assert time.monotonic() < ends, what
        await asyncio.sleep(0.2)


def learners(of: VerifierProcess) -> list[int]:
    """The processes that learn for this server. Linux only."""
    return [one for one in descendants(of.id) if "learning.worker" in command(one)]


def state(process: int) -> str:
    """The letter that /proc has for it, such as `T` if it is stopped; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def assert_no_text(drafter: Drafter, *places: Path) -> None:
    """No words of a question and no token ids of one are in any of these files."""
    ids = drafter.text.encode(QUESTIONS[0])
    packed = [b"xylophones", *(b"".join(one.to_bytes(width, "little") for one in ids[-6:]) for width in (2, 4, 8))]
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        assert not any(one in data for one in packed), path


@pytest.mark.usefixtures("forward")
async def test_a_holder_gets_a_drafter_of_their_own_answers_and_a_kill_leaves_nothing(
    learnable_pair: Path, tmp_path: Path, tokens: Path
) -> None:
    drafter, said, made = (
        Drafter.load(learnable_pair / "drafter"),
        tmp_path / "said",
        tmp_path / "home/data/drafters/made",
    )

    def kept() -> set[Path]:
        return {path for path in made.rglob("*") if path.is_file()}

    with server(learnable_pair, tmp_path, tokens) as serving:
        first = await card_of(serving.url, ANNA)
        before = await ask(serving.url, ANNA, drafter, FEWEST)
        await until(lambda: learners(serving), "nobody learns")
        os.kill(learners(serving)[0], signal.SIGKILL)
        await until(lambda: "ended early" in said.read_text(), "it is not noticed")
        assert (await card_of(serving.url, ANNA)).drafter == first.drafter
        await ask(serving.url, BERT, drafter, 4)
        await ask(serving.url, ANNA, drafter, ENOUGH)

        async def published() -> bool:
            return (await card_of(serving.url, ANNA)).drafter != first.drafter

        await until(published, "nothing was published")
        learnt = await card_of(serving.url, ANNA)
        after = await ask(serving.url, ANNA, drafter, 8)
        assert after > 1.2 * before, "the server itself drafts with it"
        assert await ask(serving.url, BERT, drafter, 4) < after
        assert (await card_of(serving.url, BERT)).drafter == first.drafter

        async with VerifierClient(serving.url, ANNA) as client:
            folder = await fetch_drafter(client, learnt, tmp_path / "shelf")
            assert read_config(folder, verify=(GRAPH,)).memory == drafter.config.memory
            old = await fetch_drafter(client, first, tmp_path / "shelf")
            assert (old / GRAPH).read_bytes() == (learnable_pair / "drafter" / GRAPH).read_bytes(), "it is there still"
        async with VerifierClient(serving.url, BERT) as client:
            with pytest.raises(Refused):
                async for _ in client.delivered(learnt.drafter.digest, None, 0):
                    pass
        assert_no_text(drafter, tmp_path / "home", said, tmp_path / "shelf")
        files = kept()

        await ask(serving.url, ANNA, drafter, ENOUGH)
        await until(lambda: learners(serving), "nobody learns again")
        (process,) = learners(serving)

        async def stopped() -> bool:
            await ask(serving.url, BERT, drafter, 1)  # Each round stops it, until somebody is quiet for a while.
            return state(process) == "T"

        await until(stopped, "it goes on")
        serving.kill()
        await until(lambda: state(process) in ("", "Z"), "it outlives its server, though it was stopped")
    text = said.read_text()
    assert "each of 2 token holders separately" in text and "learnt for anna" in text and "learnt for bert" not in text

    options = {"engine": "torch", "learn": "own", "token_file": tokens, "made": made}
    app = build_app(ServeOptions(str(learnable_pair / "target"), learnable_pair / "drafter", **options).read())
    assert app.beside is not None
    with app.beside, running(app) as url:
        assert (await card_of(url, ANNA)).drafter == learnt.drafter, "it is there after a restart"
        assert (await card_of(url, BERT)).drafter == first.drafter
        assert kept() == files, "nothing is left of a try that was not finished"
        await ask(url, BERT, drafter, 4)  # Drafts are as large as pays, which a new server has to find out.
        assert await ask(url, ANNA, drafter, 8) > 1.2 * before


def test_too_few_token_holders_share_nothing(
    learnable_pair: Path, tmp_path: Path, tokens: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, drafter, made = str(learnable_pair / "target"), learnable_pair / "drafter", tmp_path / "made"
    build_app(ServeOptions(model, drafter, learn="shared", token_file=tokens, made=made).read())
    said = capsys.readouterr().err
    assert "nothing is learnt: a shared drafter needs 5 token holders, and the token file has 2" in said
    assert not made.exists()


def test_two_are_kept_and_damaged_ones_count_as_none(learnable_pair: Path, tmp_path: Path) -> None:
    base, made = learnable_pair / "drafter", []
    artefacts = Artefacts(tmp_path / "learnt", base, read_config(base))
    for seed in range(3):
        graph = artefacts.scratch("anna")
        bewilder(base, graph, seed)
        made.append(artefacts.publish("anna", graph, GAIN))
    assert [one.about.number for one in made] == [1, 2, 3] and not made[0].folder.exists()
    assert [one.folder for one in artefacts.all("anna")] == [made[1].folder, made[2].folder]
    assert len({one.delivery.digest for one in made}) == 3 and artefacts.all("bert") == []
    made[2].graph.write_bytes(b"junk")
    assert [one.folder for one in artefacts.all("anna")] == [made[1].folder]
    artefacts.scratch("anna").write_bytes(b"unfinished")
    artefacts.tidy()
    assert sorted(path.name for path in made[1].folder.parent.iterdir()) == sorted(one.folder.name for one in made[1:])
