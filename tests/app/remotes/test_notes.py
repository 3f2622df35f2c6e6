"""What is kept of servers from one run to the next: private, newest last, and never in the way of an answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.remotes import last_seen, speed
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import ModeMeter
from app.remotes.offers import Told
from app.remotes.speed import Speed, key_of
from models.config import GRAPH, DrafterConfig, read_config
from remote import TransportOptions
from remote.protocol import Card, Limits


@pytest.fixture
def drafter(tiny_pair: Path) -> DrafterConfig:
    return read_config(tiny_pair / "drafter")


def card(target: str = "target") -> Card:
    limits = Limits(max_nodes=64, max_depth=32, max_tokens=300, max_body_bytes=4096)
    return Card(
        version=1, target=target, vocabulary=100, tokenizer=bytes(16), chat_template="", stop_tokens=(1,),
        limits=limits, memory=None,
    )  # fmt: skip


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


async def test_the_next_start_begins_with_the_drafter_that_won(tmp_path: Path) -> None:
    path = tmp_path / "modes.json"
    one = Speed(TransportOptions(), record=path)
    await one.recall("small model", "whole model")
    for drafter in (0, 1):
        one.use(drafter)
        for _ in range(40):
            one.modes.edge(1 + 7 * drafter, 0.1, 0.05)
        one.modes.learnt.uses = 1
    assert one.drafters.choose(0.01, ("edge",)) == 1
    for meter in one.drafters.modes:
        for _ in range(400):
            meter.edge(8, 0.1, 0.05)
    one.answered()
    await one.close()
    again = Speed(TransportOptions(), record=path)
    await again.recall("small model", "whole model")
    assert again.drafters.choose(0.01, ("edge",)) == 1, "neither is better now"
    assert all(meter.learnt.edge.known for meter in again.drafters.modes)


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


@pytest.mark.parametrize("read_only", [True, False])
def test_what_cannot_be_written_is_known_to_this_run_alone(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "file").write_text("")
    seen = LastSeen(tmp_path / "file" / "servers.json" if read_only else None)
    seen.note("http://one", b"1")
    assert (
        seen.memory("http://one") == b"1" and LastSeen(tmp_path / "file" / "servers.json").memory("http://one") is None
    )


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


def test_another_address_target_or_drafter_begins_anew(drafter: DrafterConfig) -> None:
    other = replace(drafter, files={**drafter.files, GRAPH: "0" * 64})
    keys = {
        key_of("http://one", card(), drafter),
        key_of("http://two", card(), drafter),
        key_of("http://one", card("other"), drafter),
        key_of("http://one", card(), other),
        key_of(None, card(), drafter),
    }
    assert len(keys) == 5 and key_of("http://one/ ", card(), drafter) in keys
