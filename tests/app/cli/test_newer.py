"""A newer version of a fetched small model: taken where it is better here, never without consent, and told of."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.remotes.notes import ORIGINS, origins
from drafter.learning.parts import FEWEST
from drafter.learning.versions import Version, Versions
from drafter.step import Correction
from models.config import GRAPH, read_config, write_config
from remote.verifier.learning.artefacts import Artefacts, Gain
from tests.app.cli.test_learn import LEARNT
from tests.support.commands import Outrider, answer_many
from tests.support.figures import on_shelf
from tests.support.learnable import bewilder, build_learnable
from tests.support.made_once import made_once
from tests.support.serving import VerifierProcess

pytestmark = pytest.mark.training

GAIN = Gain(answers=1, before=1.0, after=2.0, low=0.1, high=0.2, fixed=0.0)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`good` and `bad`: the same pair of its own, with a drafter that guesses well, and one that guesses wrong."""

    def make(folder: Path) -> None:
        build_learnable(folder / "good", seed=7)
        shutil.copytree(folder / "good", folder / "bad")
        bewilder(folder / "good/drafter", folder / "bad/drafter" / GRAPH)
        write_config(folder / "bad/drafter", read_config(folder / "bad/drafter"))

    return made_once(tmp_path_factory, "good-and-bad", make)


@pytest.fixture
def outrider(outrider: Outrider, monkeypatch: pytest.MonkeyPatch) -> Outrider:
    """The program of a device that has the bundled small model and fetches others."""
    monkeypatch.setenv("OUTRIDER_MAX_TOKENS", "12")
    monkeypatch.delenv("OUTRIDER_DRAFTER")  # One that is set drafts for every server.
    return outrider


Serve = Callable[..., VerifierProcess]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server whose drafter came as in `pair`, and has learnt to guess as that in `taught`.

    A second one takes the place of the first.
    """
    started: list[VerifierProcess] = []

    def start(pair: Path, taught: Path | None = None) -> VerifierProcess:
        home, base = tmp_path / "server", pair / "drafter"
        if taught is not None:
            artefacts = Artefacts(home / "data/drafters/made/learnt", base, read_config(base))
            graph = artefacts.scratch("everyone")
            shutil.copyfile(taught / "drafter" / GRAPH, graph)
            artefacts.publish("everyone", graph, GAIN)
        one = VerifierProcess(pair, options=("--learn", "own"), home=home)
        for before in started:
            one.port = before.port
            before.stop()
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.stop()


def versions_of(home: Path) -> list[Version]:
    (fetched,) = (home / "data/drafters/fetched").iterdir()
    return Versions.of(home / "data/drafters/learnt", read_config(fetched)).all()


def test_a_better_one_is_taken_after_a_look_that_was_agreed_to(
    outrider: Outrider, home: Path, pairs: Path, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve(pairs / "bad").url
    assert outrider("drafter", "fetch", url).code == 0
    (folder,) = (home / "data/drafters/fetched").iterdir()
    assert origins(folder) == [url]
    answer_many(outrider, url, FEWEST, tmp_path)
    serve(pairs / "bad", taught=pairs / "good")

    # Nobody has named that server here, so nobody is asked; then it is named.
    monkeypatch.setattr("os.nice", lambda by: by)
    assert "newer version" not in outrider("learn").out and all(not one.offered for one in versions_of(home))
    (folder / ORIGINS).rename(folder / "aside")
    monkeypatch.setenv("OUTRIDER_REMOTE", url)
    assert "newer version" not in outrider("learn").out, "it was not fetched from there, as far as anybody knows"
    (folder / "aside").rename(folder / ORIGINS)

    looked = outrider("learn")
    assert looked.code == 0 and "has a newer version of its small model; downloading it: 1 MB" in looked.err
    assert "the newer version of 127.0.0.1" in looked.out and "It now drafts with version" in looked.out
    newest = next(one for one in versions_of(home) if one.offered)
    assert newest.state in ("in use", "older"), "unless what was learnt on top of it is in use already"
    assert newest.tau_after > newest.tau_before and newest.low > 0
    assert not list((home / "data/drafters/learnt/offered").iterdir()), "what was judged is not kept twice"
    before = outrider("ask", "what is it").out
    assert "has taught" not in outrider("learn").err, "it is known now"
    history = outrider("drafter", "history").out
    assert ", from 127.0.0.1" in history, "what was learnt on top of it may be in use"
    assert outrider("drafter", "rollback").code == 0
    assert "evaluated before" in outrider("drafter", "fetch", url).err
    assert outrider("ask", "what is it").out == before, "a drafter changes no text"


def test_a_worse_one_is_taken_only_where_nothing_was_learnt_and_nothing_can_judge_it(
    outrider: Outrider, home: Path, pairs: Path, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, other_home = serve(pairs / "good").url, tmp_path / "another-device"
    for device in (other_home, home):
        monkeypatch.setenv("OUTRIDER_HOME", str(device))
        assert outrider("drafter", "fetch", url).code == 0
    answer_many(outrider, url, FEWEST - 1, tmp_path)
    (folder,) = (home / "data/drafters/fetched").iterdir()
    config = read_config(folder)
    own = Versions.of(home / "data/drafters/learnt", config)
    own.publish(LEARNT, Correction.none(config))
    serve(pairs / "good", taught=pairs / "bad")

    few = outrider("drafter", "fetch", url)
    assert few.code == 1 and "only 29 of the 30 checked answers needed to judge the newer version" in few.err
    assert own.in_use is not None and own.in_use.number == 1 and not own.offered
    answer_many(outrider, url, 2, tmp_path)
    judged = outrider("drafter", "fetch", url)
    assert judged.code == 0 and "The current drafter stays in use." in judged.out
    assert [one.state for one in own.all()] == ["in use", "not better"] and len(own.offered) == 1
    assert not list(own.folder.glob("*.onnx")), "its graph is not kept"

    monkeypatch.setenv("OUTRIDER_HOME", str(other_home))
    monkeypatch.setenv("OUTRIDER_LEARN", "false")
    refused = outrider("drafter", "fetch", url)
    assert refused.code == 1 and "`learn = false`" in refused.err and versions_of(other_home) == []
    monkeypatch.delenv("OUTRIDER_LEARN")
    taken = outrider("drafter", "fetch", url)
    assert taken.code == 0 and "too few checked answers to evaluate it" in taken.out
    assert [one.state for one in versions_of(other_home)] == ["in use"]
    assert "not measured" in outrider("drafter", "history").out
    assert outrider("ask", "what is it", "--remote", url).code == 0
    assert outrider("learn", "--forget").code == 0 and versions_of(other_home) == []


def test_one_without_figures_is_not_used_until_it_is_fetched_again(outrider: Outrider, pairs: Path, home: Path) -> None:
    old = on_shelf(pairs / "good/drafter", home / "data/drafters/fetched", None)
    listed = outrider("drafter", "list").out.splitlines()[-1]
    again = "not used: it was never measured; to fetch it again: outrider drafter fetch NAME"
    assert old.name[:12] in listed and listed.endswith(f"fetched; {again}")
    examined = outrider("doctor", "--remote", "http://127.0.0.1:9")
    assert f"{old}, for" in examined.out and again in examined.out, examined
    with VerifierProcess(pairs / "good") as serving:
        told = [outrider("ask", "what is it", "--remote", serving.url).err for _ in range(2)]
        assert ["is not used: it was never measured" in one for one in told] == [True, False], "it is said once"
        fetched = outrider("drafter", "fetch", serving.url)
        assert fetched.code == 0 and Path(fetched.out.strip()).name != old.name, fetched
        lines = outrider("drafter", "list").out
        assert (
            lines.count("not used") == 1
            and lines.count("fetched; drafts, and writes alone while its server is away") == 1
        )
        again = outrider("drafter", "fetch", serving.url)
        assert (again.code, again.out) == (0, fetched.out)
        assert outrider("ask", "what is it", "--remote", serving.url).code == 0
    alone = outrider("ask", "what is it", "--remote", serving.url)
    assert alone.code == 0 and "the small model for" in alone.err and alone.out
    assert outrider("drafter", "rm", old.name[:12]).code == 0 and not old.exists()
