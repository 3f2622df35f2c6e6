"""Archives that would fill the memory or take for ever are refused with a sentence, at little cost."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.archive import importer as reading
from app.archive import json_stream as streaming
from app.archive.errors import Unreadable
from app.archive.importer import import_file
from storage import Store
from tests.support.serving import REPOSITORY

MEBIBYTE = 1 << 20
MOST_MEMORY = 400 * MEBIBYTE
"""Four times what the import of a small export takes."""
MOST_SECONDS = 30.0
"""Processor time, which other processes do not increase. This work took 215 seconds when all was read at once."""
LIMIT = 4 << 30
"""Limit of the address space, so that a bomb that succeeds hurts no other process."""
PROGRAM = f"""
import atexit, os, pathlib, resource
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))
status, copy = pathlib.Path("/proc/self/status"), pathlib.Path(os.environ["OUTRIDER_HOME"], "status")
atexit.register(lambda: copy.write_text(status.read_text()))
from app.cli.__main__ import main
main()
"""
"""Reports the process's own use at its end. The peak of `wait4` would also count the memory of this test process, which
the new one copies before it begins."""

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it"),
]


class Import(NamedTuple):
    code: int
    said: str
    memory: int
    seconds: float


def imported(path: Path, home: Path) -> Import:
    """Runs `outrider import PATH` in its own process and measures its memory and processor time."""
    home.mkdir()
    with (home / "said").open("w+b") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "import", str(path)],
            env={**os.environ, "OUTRIDER_HOME": str(home)}, cwd=REPOSITORY, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode()
    peak = re.search(r"VmHWM:\s+(\d+) kB", (home / "status").read_text())
    assert peak is not None
    return Import(process.returncode, text, int(peak[1]) << 10, used.ru_utime + used.ru_stime)


def zipped(path: Path, pieces: Iterable[bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with (
        zipfile.ZipFile(path, "w", method, compresslevel=1) as archive,
        archive.open("conversations.json", "w") as member,
    ):
        for piece in pieces:
            member.write(piece)
    return path


def lying(path: Path, size: int) -> Path:
    """The archive with a false size of its member in the directory."""
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02") + 24
    data[place : place + 4] = struct.pack("<I", size)
    path.write_bytes(data)
    return path


def held(path: Path, home: Path) -> Import:
    """Runs the import, which must fail with a sentence and within the bounds."""
    ended = imported(path, home)
    assert ended.code == 1 and ended.said.startswith("outrider: ") and "Traceback" not in ended.said, ended.said
    assert ended.memory < MOST_MEMORY and ended.seconds < MOST_SECONDS, ended
    return ended


@pytest.mark.parametrize(
    ("method", "blocks"),
    [(zipfile.ZIP_DEFLATED, 24), (zipfile.ZIP_BZIP2, 1), (zipfile.ZIP_LZMA, 1)],
    ids=["deflate", "bz2", "lzma"],
)
def test_a_member_that_lies_about_its_size(tmp_path: Path, method: int, blocks: int) -> None:
    block = b" " * (16 * MEBIBYTE)
    path = lying(zipped(tmp_path / "bomb.zip", (block for _ in range(blocks)), method), 1000)
    ended = held(path, tmp_path / "home")
    if method != zipfile.ZIP_DEFLATED:
        assert "conversations.json" in ended.said and "uses an unsupported compression method" in ended.said


@pytest.mark.parametrize(
    ("start", "unit", "end"),
    [
        (b"[", b'{"mapping":{}},', b"{}]"),
        (b'[{"mapping":{"a":[', b"[],", b"[]]}}]"),
        (b'["', b"a", b'"]'),
        (b"[", b"[", b""),
    ],
    ids=["conversations", "lists", "text", "depth"],
)
def test_a_small_file_that_is_large_inside(tmp_path: Path, start: bytes, unit: bytes, end: bytes) -> None:
    block = unit * (MEBIBYTE // len(unit))
    path = zipped(tmp_path / "bomb.zip", [start, *(block for _ in range(160)), end])
    assert path.stat().st_size < 2 * MEBIBYTE
    assert "bomb.zip" in held(path, tmp_path / "home").said


def test_one_conversation_that_is_too_large(tmp_path: Path) -> None:
    """The file is not compressed more than text can be."""
    noise = random.Random(1).randbytes(MEBIBYTE).hex().encode()
    path = zipped(tmp_path / "large.zip", [b'[{"title":"', *(noise for _ in range(20)), b'","mapping":{}}]'])
    assert "larger than 32 MiB" in held(path, tmp_path / "home").said


def test_a_file_of_one_large_value_is_no_better_outside_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(b'[{"mapping":{"a":[' + b"[]," * (8 * MEBIBYTE) + b"[]]}}]")
    assert "too many parts" in held(path, tmp_path / "home").said


def test_more_parts_or_bytes_than_any_export_has(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MOST", 10)
    monkeypatch.setattr(reading, "MOST_MEMBERS", 10)
    monkeypatch.setattr(reading, "LARGEST", MEBIBYTE)
    many, plain = tmp_path / "many.json", tmp_path / "plain.json"
    many.write_text("[" + ",".join(['{"mapping": {}}'] * 11) + "]")
    plain.write_bytes(b" " * (2 * MEBIBYTE) + b"[]")
    members, large = tmp_path / "members.zip", tmp_path / "large.zip"
    for path, count, text in ((members, 11, "[]"), (large, 3, "[]" + " " * (MEBIBYTE // 2))):
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(f"conversations-{number:03}.json", text)
    size = "larger than 1 MiB"
    for path, says in ((many, "more than 10"), (members, "more than 10"), (plain, size), (large, size)):
        with pytest.raises(Unreadable, match=says):
            import_file(store, path)


def test_a_device_without_an_end_is_not_read(store: Store) -> None:
    with pytest.raises(Unreadable, match="is not a regular file"):
        import_file(store, Path("/dev/zero"))
