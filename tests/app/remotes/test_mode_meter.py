"""The choice of mode and drafter follows from rounds and the round trip, not from noise; and what is kept of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.remotes import last_seen, speed
from app.remotes.drafter_meter import DrafterMeter
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import MODES, RETRIED, ModeMeter, Verifying
from app.remotes.offers import Told
from app.remotes.speed import Speed
from remote import TransportOptions

TOKENS = 80
"""Tokens of an answer."""
FORWARD, DRAFT = 0.010, 0.015
"""Seconds of a forward, and of a draft on this device."""


class Line:
    """A server and a line that are as fast as told, and the time that answers take over it."""

    def __init__(self, *, rtt: float, tau: float, hosted: tuple[int, float] = (1, FORWARD), draft: float = DRAFT):
        """`tau`: tokens of an edge round. `hosted`: tokens and seconds of a hosted round."""
        self.rtt, self.tau, self.hosted, self.draft = rtt, tau, hosted, draft
        self.meter = ModeMeter()
        self.used: list[Verifying] = []
        """The mode of each round."""

    def answer(self) -> float:
        """Seconds of one more answer, by the meter's choices."""
        meter, said, owed, taken = self.meter, 0, 0.0, self.rtt
        mode = meter.choose(self.rtt)
        opening = True
        while said < TOKENS:
            self.used.append(mode)
            if mode == "hosted":
                new, seconds = self.hosted
                meter.hosted(new, seconds, opening=opening)
                if meter.watches(self.rtt, shared=False):
                    meter.watched(int(self.tau), self.draft, 4)
            else:
                owed += self.tau
                new, seconds = int(owed), self.draft + FORWARD
                owed -= new
                meter.edge(new, seconds, FORWARD, opening=opening)
                seconds += 0.0 if opening else self.rtt
            said, taken, opening = said + new, taken + seconds, False
            if (after := meter.review(self.rtt)) != mode:
                mode, taken = after, taken + self.rtt
        return taken

    @property
    def plain(self) -> float:
        """Seconds of an answer in plain decoding."""
        return self.rtt + TOKENS * FORWARD


@pytest.mark.parametrize("rtt", [0.001, 0.3])
@pytest.mark.parametrize("tau", [1.0, 1.6])
def test_where_drafts_do_not_pay_every_answer_is_a_plain_stream(rtt: float, tau: float) -> None:
    line = Line(rtt=rtt, tau=tau)
    for _ in range(5 * RETRIED):
        assert line.answer() <= 1.05 * line.plain
    assert set(line.used) == {"hosted"}


def test_edge_mode_is_entered_in_the_first_answer_where_it_wins_and_stays() -> None:
    line = Line(rtt=0.005, tau=5.0)
    first = line.answer()
    assert line.used[0] == "hosted" and line.used[-1] == "edge" and first < line.plain
    assert line.answer() < 0.7 * line.plain
    assert line.used[-int(TOKENS / 5) :] == ["edge"] * int(TOKENS / 5)


def test_a_mode_that_gets_slower_is_left() -> None:
    line = Line(rtt=0.005, tau=5.0)
    line.answer(), line.answer()
    assert line.meter.mode == "edge"
    line.rtt = 0.2
    line.answer()
    assert line.meter.mode == "hosted"
    line.rtt = 0.005
    line.answer()
    assert line.meter.mode == "edge", "the line has changed, and not what rounds take"


def test_the_slower_mode_is_looked_at_again_and_taken_when_it_has_become_the_faster_one() -> None:
    line = Line(rtt=0.005, tau=5.0)
    line.answer(), line.answer()
    line.hosted = (5, FORWARD)  # The server drafts from now on, and faster.
    for _ in range(2 * RETRIED):
        line.answer()
    assert line.used[-1] == "hosted"


def test_what_is_not_allowed_is_never_chosen() -> None:
    only = ModeMeter(("edge",))
    assert (only.choose(1.0), only.review(1.0), only.why(1.0)) == ("edge", "edge", "")
    assert not only.may_watch(0.0, shared=False)


# ---- of two drafters ------------------------------------------------------------------------------------------------


SMALL, MODEL = 0, 1
NEAR, FAR = 0.001, 0.1


class Device:
    """A small model that is quick, and a whole model that guesses more, for a server that writes slowly."""

    def __init__(self, rtt: float, allowed: tuple[Verifying, ...] = MODES) -> None:
        hosted = (1, 0.05)
        self.lines = [
            Line(rtt=rtt, tau=3.0, hosted=hosted, draft=0.002),
            Line(rtt=rtt, tau=8.0, hosted=hosted, draft=0.1),
        ]
        for line in self.lines:
            line.meter = ModeMeter(allowed)
        self.allowed = allowed
        self.meter = DrafterMeter([line.meter for line in self.lines])
        self.used: list[int] = []
        """The drafter of each answer."""

    def answer(self) -> float:
        """Seconds of one more answer, by the meter's choices."""
        at = self.meter.choose(self.lines[0].rtt, self.allowed)
        self.used.append(at)
        self.lines[at].meter.learnt.uses += 1
        return self.lines[at].answer()


@pytest.mark.parametrize("allowed", [MODES, ("edge",)])
@pytest.mark.parametrize(("rtt", "faster"), [(NEAR, SMALL), (FAR, MODEL)])
def test_the_one_with_which_this_line_is_faster_drafts(rtt: float, faster: int, allowed: tuple[Verifying, ...]) -> None:
    device = Device(rtt, allowed)
    seconds = sum(device.answer() for _ in range(60))
    assert device.used[0] == SMALL and MODEL in device.used, "both are tried"
    assert device.used[-20:].count(faster) >= 18
    alone = Device(rtt, allowed)
    for _ in range(4):
        alone.lines[faster].answer()
    best = sum(alone.lines[faster].answer() for _ in range(60))
    assert seconds < 1.5 * best, f"trials cost {seconds / best:.2f}"


# ---- what is kept from one run to the next ---------------------------------------------------------------------------


async def opened(path: Path | None, key: str) -> Speed:
    found = Speed(TransportOptions(), record=path)
    await found.recall(key)
    return found


async def keep(path: Path | None, key: str) -> Speed:
    """Learn that edge mode is faster, as answers do, and keep it."""
    one = await opened(path, key)
    for _ in range(20):
        one.modes.hosted(1, 0.1)
        one.modes.edge(5, 0.1, 0.05)
    assert one.modes.choose(0.01) == "edge"
    one.answered()
    await one.close()
    return one


async def test_the_next_start_begins_in_the_mode_that_won(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "modes.json"
    before = await keep(path, "one")
    assert os.stat(path).st_mode & 0o077 == 0
    again, other = await opened(path, "one"), await opened(path, "two")
    assert again.modes.mode == again.modes.choose(0.01) == "edge"
    assert again.modes.rates(0.01) == before.modes.rates(0.01)
    assert other.modes.mode == "hosted"
    await keep(None, "one")
    assert (await opened(None, "one")).modes.mode == "hosted"


@pytest.mark.parametrize("content", ["", "[]", '{"one": {"mode": "chain"}}', '{"one": {"drafts": -1}}'])
async def test_a_bad_file_counts_as_nothing_and_is_replaced(tmp_path: Path, content: str) -> None:
    paths = [tmp_path / name for name in ("modes.json", "servers.json", "offers.json")]
    for path in paths:
        path.write_text(content)
    assert (await opened(paths[0], "one")).modes.mode == ModeMeter().mode
    assert LastSeen(paths[1]).memory("http://one") is None
    assert Told(paths[2]).first("one") and not Told(paths[2]).first("one")
    await keep(paths[0], "one")
    LastSeen(paths[1]).note("http://one", b"1")
    assert (await opened(paths[0], "one")).modes.mode == "edge"
    assert LastSeen(paths[1]).memory("http://one/ ") == b"1"


def test_what_cannot_be_written_is_known_to_this_run_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "servers.json"
    for seen in (LastSeen(path), LastSeen(None)):
        seen.note("http://one", b"1")
        assert seen.memory("http://one") == b"1" and LastSeen(path).memory("http://one") is None


async def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_seen, "MOST", 3)
    monkeypatch.setattr(speed, "MOST", 3)
    seen, modes = LastSeen(tmp_path / "servers.json"), tmp_path / "modes.json"
    for number in (0, 1, 2, 0, 3):
        seen.note(f"http://{number}", bytes([1, number]))
        await keep(modes, str(number))
    again = LastSeen(tmp_path / "servers.json")
    assert [again.memory(f"http://{number}") is not None for number in range(4)] == [False, True, True, True]
    kept = [(await opened(modes, str(number))).modes.mode == "edge" for number in range(4)]
    assert kept == [True, False, True, True], "one that answered again is new again"
