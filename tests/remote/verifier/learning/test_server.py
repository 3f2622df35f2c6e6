"""A real server that learns: for whom it publishes, what a kill leaves, and that no text is on the disk or in a log."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drafter.runtime import Drafter
from models.config import GRAPH, read_config
from remote import Refused, VerifierClient
from remote.delivery import fetch_drafter
from remote.protocol import Card, Progress, Sampling, unpack_tokens
from remote.verifier.learning.artefacts import Artefacts, Learnt
from tests.support.learnable import bewilder, build_learnable
from tests.support.made_once import made_once
from tests.support.patience import IDLE_PATIENCE_SECONDS, PATIENCE_SECONDS
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.training

ANNA, BERT = "0123456789abcdef-anna", "0123456789abcdef-bert"
QUESTIONS = [f"how do I unpack number {number} of xylophones" for number in range(4)]
ABOUT = Learnt(number=0, created="2030", answers=1, before=1.0, after=2.0, low=0.1, high=0.2, fixed=0.0)


@pytest.fixture(scope="session")
def learnable_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pair whose drafter's layers can be trained."""
    return made_once(tmp_path_factory, "learnable-pair", build_learnable)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"anna {ANNA}\nbert {BERT}\n")
    return path


def server(pair: Path, tmp_path: Path, tokens: Path | None, *options: str) -> VerifierProcess:
    said, home = tmp_path / "said", tmp_path / "home"
    options = ("--engine", "torch", *(options or ("--learn", "own")))  # Its forwards are slow enough for drafts to pay.
    return VerifierProcess(pair, token_file=tokens, options=options, home=home, said=said)


async def ask(url: str, token: str | None, drafter: Drafter, count: int, most: int = 24) -> float:
    """Ask in conversations of their own. Returns the tokens a round."""
    rounds = gained = 0
    async with VerifierClient(url, token) as client:
        for number in range(count):
            prompt = drafter.asked_as(QUESTIONS[number % len(QUESTIONS)])
            stream = await client.session().stream(
                prompt, Sampling(), most=most, memory_from=0, deadline=PATIENCE_SECONDS, silence=PATIENCE_SECONDS
            )
            async for frame in stream:
                if isinstance(frame, Progress):
                    rounds, gained = rounds + 1, gained + len(unpack_tokens(frame.tokens))
    return gained / rounds


async def card_of(url: str, token: str | None) -> Card:
    async with VerifierClient(url, token) as client:
        return await client.card(PATIENCE_SECONDS)


async def newer_than(first: Card, url: str, token: str | None) -> Card:
    """The card as soon as it offers another drafter."""
    until = time.monotonic() + IDLE_PATIENCE_SECONDS
    while (card := await card_of(url, token)).drafter == first.drafter:
        assert time.monotonic() < until, "nothing was published"
        await asyncio.sleep(0.2)
    return card


def learners(of: VerifierProcess) -> Iterator[int]:
    """The processes that learn for this server. Linux only."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, about = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue
        if b"remote.verifier.learning.worker" in command and int(about.rpartition(")")[2].split()[1]) == of.id:
            yield int(folder.name)


async def learner(of: VerifierProcess) -> int:
    until = time.monotonic() + IDLE_PATIENCE_SECONDS
    while not (found := list(learners(of))):
        assert time.monotonic() < until, "nobody learns"
        await asyncio.sleep(0.05)
    return found[0]


def state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def assert_no_text(drafter: Drafter, *places: Path) -> None:
    """No words of a question and no token ids of one are in any of these files."""
    ids = drafter.text.encode(QUESTIONS[0])
    packed = [b"xylophones", *(b"".join(one.to_bytes(width, "little") for one in ids[-6:]) for width in (2, 4, 8))]
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place]) if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        assert not any(one in data for one in packed), path


async def test_each_holder_gets_a_drafter_that_learnt_from_their_answers_alone(
    learnable_pair: Path, tmp_path: Path, tokens: Path
) -> None:
    drafter = Drafter.load(learnable_pair / "drafter")
    with server(learnable_pair, tmp_path, tokens) as serving:
        first = await card_of(serving.url, ANNA)
        before = await ask(serving.url, ANNA, drafter, 40)
        await ask(serving.url, BERT, drafter, 4)
        learnt = await newer_than(first, serving.url, ANNA)
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
            assert learnt.drafter is not None
            with pytest.raises(Refused):
                async for _ in client.delivered(learnt.drafter.digest, None, 0, PATIENCE_SECONDS):
                    pass
        assert_no_text(drafter, tmp_path / "home", tmp_path / "said", tmp_path / "shelf")
    said = (tmp_path / "said").read_text()
    assert "for each of 2 token holders alone" in said and "learnt for anna" in said and "learnt for bert" not in said
    with server(learnable_pair, tmp_path, tokens) as serving:
        assert (await card_of(serving.url, ANNA)).drafter == learnt.drafter, "it is there after a restart"
        assert (await card_of(serving.url, BERT)).drafter == first.drafter
        await ask(serving.url, BERT, drafter, 4)  # Drafts are as large as pays, which a new server has to find out.
        assert await ask(serving.url, ANNA, drafter, 8) > 1.2 * before


async def test_learning_stands_back_and_a_kill_leaves_nothing_of_it(learnable_pair: Path, tmp_path: Path) -> None:
    drafter, home = Drafter.load(learnable_pair / "drafter"), tmp_path / "home"
    serving = server(learnable_pair, tmp_path, None)
    with serving:
        first = await card_of(serving.url, None)
        await ask(serving.url, None, drafter, 32)
        process = await learner(serving)
        os.kill(process, signal.SIGKILL)
        until = time.monotonic() + IDLE_PATIENCE_SECONDS
        while "ended early" not in (tmp_path / "said").read_text():
            assert time.monotonic() < until
            await asyncio.sleep(0.1)
        assert (await card_of(serving.url, None)).drafter == first.drafter

        await ask(serving.url, None, drafter, 32)
        process = await learner(serving)
        while state(process) != "T":  # Each round stops it, until somebody is quiet for a while.
            await ask(serving.url, None, drafter, 1)
            assert time.monotonic() < until
        serving.kill()
        while state(process) not in ("gone", "Z"):
            assert time.monotonic() < until, "it outlives its server, though it was stopped"
            await asyncio.sleep(0.05)
    with server(learnable_pair, tmp_path, None) as again:
        assert (await card_of(again.url, None)).drafter == first.drafter
        files = [path.name for path in (home / "data/drafters/made").rglob("*") if path.is_file()]
        assert files == ["lock"], "nothing is left of a try that was not finished"
        assert_no_text(drafter, home, tmp_path / "said")


async def test_too_few_token_holders_share_nothing(learnable_pair: Path, tmp_path: Path, tokens: Path) -> None:
    drafter = Drafter.load(learnable_pair / "drafter")
    with server(learnable_pair, tmp_path, tokens, "--learn", "shared") as serving:
        await ask(serving.url, ANNA, drafter, 2)
    said = (tmp_path / "said").read_text()
    assert "nothing is learnt: a shared drafter needs 5 token holders, and the token file knows 2" in said
    assert not (tmp_path / "home/data/drafters").exists()


def test_two_are_kept_and_damaged_ones_count_as_none(learnable_pair: Path, tmp_path: Path) -> None:
    base, made = learnable_pair / "drafter", []
    artefacts = Artefacts(tmp_path / "learnt", base, read_config(base))
    for seed in range(3):
        graph = artefacts.scratch("anna")
        bewilder(base, graph, seed)
        made.append(artefacts.publish("anna", graph, ABOUT))
    assert [one.about.number for one in made] == [1, 2, 3] and not made[0].folder.exists()
    assert [one.folder for one in artefacts.all("anna")] == [made[1].folder, made[2].folder]
    assert len({one.delivery.digest for one in made}) == 3 and artefacts.all("bert") == []
    made[2].graph.write_bytes(b"junk")
    assert [one.folder for one in artefacts.all("anna")] == [made[1].folder]
    artefacts.scratch("anna").write_bytes(b"unfinished")
    artefacts.tidy()
    assert sorted(path.name for path in made[1].folder.parent.iterdir()) == sorted(one.folder.name for one in made[1:])
