"""The header of a GGUF file is read as it was written, and a damaged one is told."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import CorruptWeights
from models.gguf.header import TENSORS, read_header, whole_size
from tests.support.gguf_files import write_vocabulary

ENTRIES = {
    "a.text": "Größe 你好 \n", "a.flag": True, "a.number": 4_000_000_000, "some.texts": ["", "b", "é" * 40],
    "some.numbers": [1, -2, 3], "some.scores": [0.5, -1.25],
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_vocabulary(tmp_path_factory.mktemp("header") / "a.gguf", ENTRIES)


def headed(path: Path, rest: bytes, *, version: int = 3, entries: int = 1) -> Path:
    """A file with this many entries, according to itself, and these bytes behind that."""
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, entries) + rest)
    return path


def entry(kind: int, value: bytes, name: bytes = b"a") -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def test_every_entry_comes_back_and_one_of_another_type_is_told(file: Path) -> None:
    header = read_header(file)
    assert header.text("a.text") == ENTRIES["a.text"] and header.flag("a.flag") is True
    assert header.number("a.number") == 4_000_000_000 and header.number("llama.context_length") == 512
    assert header.texts("some.texts") == ENTRIES["some.texts"]
    assert header.numbers("some.numbers") == (1, -2, 3) and header.numbers("some.scores") == (0.5, -1.25)
    assert header.text("none") is None
    only = read_header(file, ("a.number", "some.numbers"))
    assert dict(only.entries) == {"a.number": 4_000_000_000, "some.numbers": (1, -2, 3)}
    for asked in (header.number, header.flag, header.texts, header.numbers):
        with pytest.raises(CorruptWeights, match=r"a\.gguf is damaged: its entry a\.text is not .*Fetch it again"):
            asked("a.text")
    with pytest.raises(CorruptWeights, match="not a whole number"):
        header.number("a.flag")


def test_the_size_of_a_whole_file_is_known_from_the_sizes_of_the_format(tmp_path: Path) -> None:
    for kind in ("F32", "Q8_0", "Q4_K"):
        path, quantised = tmp_path / f"{kind}.gguf", gguf.GGMLQuantizationType[kind]
        block, size = gguf.GGML_QUANT_SIZES[quantised]
        writer = gguf.GGUFWriter(path, "llama")
        for rows in (3, 1):
            raw = np.zeros((rows, 256 // block * size), np.uint8)
            writer.add_tensor(f"of {rows}", raw, raw_dtype=quantised)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        assert whole_size(path) <= path.stat().st_size < whole_size(path) + 32
    assert {kind: gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)] for kind in TENSORS} == TENSORS


def test_a_file_cut_short_at_any_byte_is_told(file: Path, tmp_path: Path) -> None:
    whole, cut = file.read_bytes(), tmp_path / "cut.gguf"
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        only = ("a.number",) if size % 2 else None
        try:
            header = read_header(cut, only)
        except CorruptWeights as error:
            assert str(cut) in str(error) and "Fetch it again" in str(error)
        else:  # Only the padding is gone.
            assert header.entries == read_header(file, only).entries and whole[size:].strip(b"\0") == b""


@given(at=st.integers(min_value=0), value=st.integers(0, 255))
def test_a_changed_byte_never_breaks_the_reader(file: Path, at: int, value: int) -> None:
    data = bytearray(file.read_bytes())
    data[at % len(data)] = value
    changed = file.parent / "changed.gguf"
    changed.write_bytes(data)
    try:
        read_header(changed)
    except CorruptWeights as error:
        assert str(changed) in str(error)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (entry(8, struct.pack("<Q", 1 << 62)), "a text of 4,611,686,018,427,387,904 bytes"),
        (entry(9, struct.pack("<IQ", 8, 1 << 40)), "1,099,511,627,776 texts"),
        (entry(9, struct.pack("<IQ", 4, 1 << 40)), "1,099,511,627,776 numbers"),
        (entry(9, struct.pack("<IQ", 8, 3) + struct.pack("<Q", 1 << 63) * 3), "ends within|a text of"),
        (entry(9, struct.pack("<IQ", 9, 1)), "unknown type, 9"),
    ],
)
@pytest.mark.parametrize("only", [None, ()])
def test_a_header_that_lies_is_refused(tmp_path: Path, rest: bytes, said: str, only: tuple[str, ...] | None) -> None:
    with pytest.raises(CorruptWeights, match=said):
        read_header(headed(tmp_path / "a.gguf", rest + b"\0" * 64), only)


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    tensor = struct.pack("<Q", 1) + b"t" + struct.pack("<I", 1 << 30) + bytes(64)
    (tmp_path / "t.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + tensor)
    with pytest.raises(CorruptWeights, match="a tensor with 1,073,741,824 dimensions"):
        whole_size(tmp_path / "t.gguf")
    with pytest.raises(CorruptWeights, match="1,099,511,627,776 entries"):
        read_header(headed(tmp_path / "a.gguf", b"", entries=1 << 40))
    version_2 = headed(tmp_path / "2.gguf", entry(4, struct.pack("<I", 7)), version=2)
    assert read_header(version_2).number("a") == 7
    with pytest.raises(CorruptWeights, match=r"version 1; versions 2 and 3 are supported\. Fetch or convert it again"):
        read_header(headed(tmp_path / "1.gguf", b"", version=1))
    with pytest.raises(CorruptWeights, match="big-endian"):
        read_header(headed(tmp_path / "b.gguf", b"", version=3 << 24))
    for content in (b"", b"GG", b"not one at all"):
        (tmp_path / "none.gguf").write_bytes(content)
        with pytest.raises(CorruptWeights, match=r"none\.gguf is not a GGUF file"):
            read_header(tmp_path / "none.gguf")
    with pytest.raises(CorruptWeights, match="cannot be read"):
        read_header(tmp_path)
