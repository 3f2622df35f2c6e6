"""What is kept of servers from one run to the next: private, newest last, and never in the way of an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.remotes import last_seen, speed
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import ModeMeter
from app.remotes.offers import Told
from app.remotes.speed import Speed
from remote import TransportOptions


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
