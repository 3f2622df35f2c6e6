"""Free memory: the machine's, or what a container's control group leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.free_memory import free_bytes

ROOM = 300 << 20


def group(folder: Path, limit: str, used: int, stale: int = 0, *, version: int = 2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {stale}\nslab 7\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    return tmp_path / "membership"


def test_a_limit_of_version_2_counts_without_pages_that_can_be_given_back(root: Path, membership: Path) -> None:
    membership.write_text("0::/app/inner\n")
    group(root / "app" / "inner", str(ROOM), used=200 << 20, stale=50 << 20)
    assert free_bytes(root, membership) == 150 << 20


def test_the_tightest_of_all_groups_above_counts(root: Path, membership: Path) -> None:
    membership.write_text("0::/app/inner\n")
    group(root / "app" / "inner", "max", used=1 << 20)
    group(root / "app", str(ROOM), used=280 << 20)
    assert free_bytes(root, membership) == 20 << 20


def test_a_limit_of_version_1_counts(root: Path, membership: Path) -> None:
    membership.write_text("11:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n")
    group(root / "memory" / "docker" / "abc", str(ROOM), used=100 << 20, version=1)
    assert free_bytes(root, membership) == 200 << 20


def test_in_a_container_the_top_is_its_own_group(root: Path, membership: Path) -> None:
    membership.write_text("0::/../../host/path\n")
    group(root, str(ROOM), used=100 << 20)
    assert free_bytes(root, membership) == 200 << 20
    membership.write_text("4:memory:/docker/not-to-be-seen\n")
    group(root / "memory", str(ROOM), used=250 << 20, version=1)
    assert free_bytes(root, membership) == 50 << 20


def test_a_group_that_is_full_leaves_nothing(root: Path, membership: Path) -> None:
    membership.write_text("0::/\n")
    group(root, str(ROOM), used=ROOM + 4096)
    assert free_bytes(root, membership) == 0


@pytest.mark.parametrize("text", ["", "0::/\n", "nonsense", "\xff"])
def test_without_a_limit_the_machines_own_memory_counts(root: Path, membership: Path, text: str) -> None:
    membership.write_text(text, encoding="latin-1")
    group(root, "max", used=1 << 40)
    assert free_bytes(root, membership) > 1 << 20
    assert free_bytes(root, root / "missing") > 1 << 20
