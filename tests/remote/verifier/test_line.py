"""Answers that wait for a place: in order, no more than agreed, and not for too long."""

from __future__ import annotations

import anyio
import pytest

from remote.verifier.completions.line import Line
from remote.verifier.refusals import Overloaded


async def stays() -> bool:
    return False


async def test_who_waits_comes_in_order_and_no_more_run_than_there_are_places() -> None:
    line, order, most = Line(2, 10), list[int](), 0

    async def answer(number: int) -> None:
        nonlocal most
        async with line.place(stays):
            order.append(number)
            most = max(most, line.running)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as group:
        for number in range(6):
            group.start_soon(answer, number)
    assert order == list(range(6)) and most == 2
    assert (line.running, line.waiting) == (0, 0)


async def test_a_place_is_given_back_by_an_answer_that_fails() -> None:
    line = Line(1, 5)
    with pytest.raises(ZeroDivisionError):
        async with line.place(stays):
            1 / 0  # noqa: B018
    assert line.running == 0


async def test_who_would_wait_too_long_is_told_at_once() -> None:
    line = Line(2, 100, max_wait=3.0)
    line._seconds = 3.0
    async with line.place(stays), line.place(stays), anyio.create_task_group() as group:
        assert not line.full
        while not line.full and line.waiting < 100:
            group.start_soon(line._enter, stays)
            await anyio.wait_all_tasks_blocked()
        assert line.waiting == 2, "the next one would wait for 4.5 s"
        line._seconds = 2.0
        assert not line.full
        line._seconds = 30.0
        assert line.full
        with pytest.raises(Overloaded, match="Try again in 45 s"):
            await line._enter(stays)
        group.cancel_scope.cancel()
