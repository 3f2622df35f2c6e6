"""What was learnt of the modes is kept for a server, its target and a drafter, and for no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.remotes.mode_meter import ModeMeter
from app.remotes.mode_record import MOST, ModeRecord, key_of
from models.config import GRAPH, DrafterConfig, read_config
from remote.protocol import Card, Limits


@pytest.fixture
def drafter(tiny_pair: Path) -> DrafterConfig:
    return read_config(tiny_pair / "drafter")


def card(target: str = "target") -> Card:
    limits = Limits(max_nodes=64, max_depth=32, max_tokens=300, max_body_bytes=4096)
    return Card(
        version=1,
        target=target,
        vocabulary=100,
        tokenizer=bytes(16),
        chat_template="",
        stop_tokens=(1,),
        limits=limits,
        memory=None,
    )


def test_it_is_there_at_the_next_start(tmp_path: Path) -> None:
    meter, path = ModeMeter(), tmp_path / "kept" / "modes.json"
    for _ in range(20):
        meter.hosted(1, 0.1)
        meter.edge(5, 0.1, 0.05)
    assert meter.choose(0.01) == "edge"
    ModeRecord(path).save("one", meter.learnt)
    found = ModeRecord(path).load("one")
    assert found is not None and os.stat(path).st_mode & 0o077 == 0
    again = ModeMeter()
    again.recall(found)
    assert again.mode == again.choose(0.01) == "edge" and again.rates(0.01) == meter.rates(0.01)
    assert ModeRecord(path).load("two") is None


@pytest.mark.parametrize("content", ["", "[]", '{"one": {"mode": "chain"}}', '{"one": {"drafts": -1}}', "\x00"])
def test_a_bad_file_counts_as_nothing_and_is_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "modes.json"
    path.write_text(content)
    record = ModeRecord(path)
    assert record.load("one") is None
    record.save("one", ModeMeter().learnt)
    assert record.load("one") is not None


def test_so_many_servers_are_kept(tmp_path: Path) -> None:
    record = ModeRecord(tmp_path / "modes.json")
    for number in range(MOST + 1):
        record.save(str(number), ModeMeter().learnt)
    assert record.load("0") is None and record.load("1") is not None and record.load(str(MOST)) is not None
    nowhere = ModeRecord(None)
    nowhere.save("one", ModeMeter().learnt)
    assert nowhere.load("one") is None


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
