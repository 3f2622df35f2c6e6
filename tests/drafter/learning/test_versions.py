"""Versions on the disk: one is in use or none is, whatever happens while they are written."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from drafter.learning.versions import INDEX, Version, Versions
from drafter.step import Correction
from models.config import DrafterConfig, DrafterCorrupt
from tests.drafter.conftest import some_correction
from tests.models.text.test_template import tiny_config


@pytest.fixture
def config() -> DrafterConfig:
    return tiny_config(stop_tokens=())


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "learnt")


def about(created: str = "2030-01-01T00:00:00+00:00", messages: tuple[str, ...] = ("one", "two")) -> Version:
    return Version(
        number=0, created=created, state="not better", answers=30, tokens=900, tau_before=3.0, tau_after=3.5,
        low=0.1, high=0.2, fixed=0.05, seconds=1.0, messages=messages,
    )  # fmt: skip


def test_a_worse_one_changes_nothing_and_what_is_damaged_is_refused(versions: Versions, config: DrafterConfig) -> None:
    used = versions.publish(about(), some_correction(config))
    tried = versions.publish(about(), None)
    assert versions.in_use == used and tried.number == 2 and not tried.sha256
    wrong = Correction(np.zeros((config.hidden + 1, 2), np.float32), np.zeros((2, config.vocabulary), np.float32))
    with pytest.raises(DrafterCorrupt, match="another drafter"):
        versions.load(versions.publish(about(), wrong), config)
    versions.publish(about(), some_correction(config))
    (versions.folder / INDEX).write_text("{")
    assert versions.all() == [] and versions.in_use is None
    assert versions.publish(about(), some_correction(config)).state == "in use"


def test_two_older_ones_are_kept_and_come_back(versions: Versions, config: DrafterConfig) -> None:
    for seed in range(5):
        versions.publish(about(), some_correction(config, seed))
    assert sorted(path.name for path in versions.folder.glob("*.npz")) == [f"version-{n}.npz" for n in (3, 4, 5)]
    for gone, now in ((5, 4), (4, 3)):
        done = versions.roll_back()
        assert done is not None and done[1] is not None and (done[0].number, done[1].number) == (gone, now)
        assert np.array_equal(versions.load(done[1], config).up, some_correction(config, now - 1).up)
    last = versions.roll_back()
    assert last is not None and last[1] is None and versions.in_use is None
    assert versions.publish(about(), some_correction(config)).number == 6


def test_damaged_and_missing_files_are_refused_with_advice(versions: Versions, config: DrafterConfig) -> None:
    used = versions.publish(about(), some_correction(config))
    path = versions.folder / "version-1.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    for _ in ("changed", "missing"):
        with pytest.raises(DrafterCorrupt, match="outrider learn"):
            versions.load(used, config)
        path.unlink(missing_ok=True)
    deep = versions.publish(about(), None, graph(versions, b"whole"))
    path = versions.folder / "version-2.onnx"
    path.write_bytes(b"half")
    for _ in ("changed", "missing"):
        with pytest.raises(DrafterCorrupt, match="outrider learn --deep"):
            versions.graph(deep)
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("at", [1, 2])
def test_a_full_disk_or_a_kill_leaves_the_old_version_in_use(
    versions: Versions, config: DrafterConfig, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = versions.publish(about(), some_correction(config))
    calls = []

    def replace(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == at:
            raise OSError(28, "No space left on device")
        os.rename(source, target)

    monkeypatch.setattr("drafter.learning.versions.os.replace", replace)
    with pytest.raises(OSError, match="No space left"):
        versions.publish(about(), some_correction(config, 1))
    monkeypatch.undo()
    assert versions.in_use == used and np.array_equal(versions.load(used, config).up, some_correction(config).up)
    assert not list(versions.folder.glob("*.part"))
    assert versions.publish(about(), some_correction(config, 2)).number == 2


def graph(versions: Versions, content: bytes) -> Path:
    path = versions.scratch()
    path.write_bytes(content)
    return path


def test_graphs_are_kept_as_long_as_a_version_drafts_with_them(versions: Versions, config: DrafterConfig) -> None:
    first = versions.publish(about(), None, graph(versions, b"first"))
    assert first.state == "in use" and versions.graph(first) == versions.folder / "version-1.onnx"
    assert not versions.load(first, config).up.any(), "a graph needs no correction"
    for seed in range(3):
        base = msgspec.structs.replace(about(), graph=first.graph, graph_sha256=first.graph_sha256)
        last = versions.publish(base, some_correction(config, seed))
    assert versions.graph(last) == versions.folder / "version-1.onnx" and versions.load(last, config).up.any()
    second = versions.publish(about(), None, graph(versions, b"second"))
    versions.publish(about(), None, graph(versions, b"third"))
    assert [path.name for path in sorted(versions.folder.glob("*.onnx"))] == [f"version-{n}.onnx" for n in (1, 5, 6)]
    back = versions.roll_back()
    assert back is not None and back[1] is not None and back[1].number == second.number
    (versions.folder / "version-1.onnx").unlink()
    back = versions.roll_back()
    assert back is not None and back[1] is None, "the correction's graph is gone"
