"""Of two drafters of a device the faster one drafts, for this line, and trying the other costs little."""

from __future__ import annotations

import msgspec
import pytest

from app.remotes.drafter_meter import MOST_RETRIED, RETRIED, DrafterMeter
from app.remotes.mode_meter import MODES, Learnt, ModeMeter, Verifying
from tests.app.remotes.test_mode_meter import Line

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


def test_after_each_losing_trial_the_slower_one_rests_twice_as_long() -> None:
    device = Device(NEAR)
    for _ in range(5 * MOST_RETRIED):
        device.answer()
    begun = [at for at in range(1, len(device.used)) if device.used[at] == MODEL and device.used[at - 1] == SMALL]
    rests = [later - earlier for earlier, later in zip(begun, begun[1:])]
    assert rests[0] <= RETRIED + 4 and rests == sorted(rests) and MOST_RETRIED <= rests[-1] <= MOST_RETRIED + 4


def test_it_follows_a_line_that_changes() -> None:
    device = Device(NEAR)
    for _ in range(12):
        device.answer()
    for line in device.lines:
        line.rtt = FAR
    for _ in range(2):
        device.answer()
    assert device.used[-1] == MODEL, "what was measured without the round trip tells"


def test_what_was_learnt_outlasts_the_program() -> None:
    device = Device(FAR)
    for _ in range(12):
        device.answer()
    assert device.used[-1] == MODEL
    again = Device(FAR)
    for line, before in zip(again.lines, device.lines):
        line.meter = ModeMeter(MODES, msgspec.json.decode(msgspec.json.encode(before.meter.learnt), type=Learnt))
    again.meter = DrafterMeter([line.meter for line in again.lines])
    again.answer()
    assert again.used == [MODEL]


def test_where_no_drafter_helps_both_are_known_and_nothing_is_lost() -> None:
    device = Device(FAR)
    for line in device.lines:
        line.tau, line.hosted = 1.0, (1, 0.01)
    plain = device.lines[0].plain
    assert all(device.answer() <= 1.05 * plain for _ in range(20)) and MODEL in device.used
    small, model = (meter.learnt.hosted for meter in device.meter.modes)
    assert small is model, "what the server does without them is measured once"


def test_the_figures_of_both_are_said() -> None:
    device = Device(NEAR)
    for meter, name in zip(device.meter.modes, ("the small model", "qwen on this device")):
        meter.drafter = name
    for _ in range(5):
        device.answer()
    said = device.meter.modes[device.used[-1]].why(NEAR)
    assert said.startswith("the small model drafts: ") and "qwen on this device: " in said and "the server: " in said
