"""Free memory: the machine's, or what a container's control group leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.free_memory import free_bytes, total_bytes

MIB = 1 << 20
V2, V1 = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""The names of the limit, of what is used, and of what of it can be given back, in both versions of control groups."""


def group(folder: Path, limit: object, used: int, stale: int = 0, names: tuple[str, str, str] = V2) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {stale}\nslab 7\n")


@pytest.mark.parametrize(
    ("member_of", "groups", "free"),
    [
        ("0::/app/inner\n", {"app/inner": (300 * MIB, 200 * MIB, 50 * MIB)}, 150),
        ("0::/app/inner\n", {"app/inner": ("max", MIB), "app": (300 * MIB, 280 * MIB)}, 20),
        (
            "11:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n",
            {"memory/docker/abc": (300 * MIB, 100 * MIB, 0, V1)},
            200,
        ),
        ("0::/../../host/path\n", {"": (300 * MIB, 100 * MIB)}, 200),
        ("4:memory:/docker/not-to-be-seen\n", {"memory": (300 * MIB, 250 * MIB, 0, V1)}, 50),
        ("0::/\n", {"": (300 * MIB, 300 * MIB + 4096)}, 0),
    ],
    ids=["given back", "tightest above", "version 1", "in a container", "in one of version 1", "full"],
)
def test_the_tightest_limit_counts(tmp_path: Path, member_of: str, groups: dict[str, tuple], free: int) -> None:
    (tmp_path / "membership").write_text(member_of)
    for name, values in groups.items():
        group(tmp_path / "cgroup" / name, *values)
    assert free_bytes(tmp_path / "cgroup", tmp_path / "membership") == free * MIB
    assert total_bytes(tmp_path / "cgroup", tmp_path / "membership") == 300 * MIB


@pytest.mark.parametrize("text", ["0::/\n", "nonsense", "\xff"])
def test_without_a_limit_the_machines_own_memory_counts(tmp_path: Path, text: str) -> None:
    (tmp_path / "membership").write_text(text, encoding="latin-1")
    group(tmp_path / "cgroup", "max", used=1 << 40)
    assert free_bytes(tmp_path / "cgroup", tmp_path / "membership") > MIB
    assert free_bytes(tmp_path / "cgroup", tmp_path / "missing") > MIB
    own = total_bytes(tmp_path / "cgroup", tmp_path / "missing")
    assert own is not None and free_bytes(tmp_path / "cgroup", tmp_path / "missing") <= own


@pytest.mark.parametrize(("said", "free"), [("MemFree: 9 kB\nMemAvailable:   700000 kB\n", 700_000 << 10), ("", None)])
def test_what_the_system_would_give_back_is_free(tmp_path: Path, said: str, free: int | None) -> None:
    (tmp_path / "meminfo").write_text(said)
    found = free_bytes(tmp_path, tmp_path / "membership", tmp_path / "meminfo")
    assert found == free if free else found > MIB
