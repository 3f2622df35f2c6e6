"""What was found out about a file is found out once, and again when anything has changed."""

from __future__ import annotations

from pathlib import Path

from models.engines.kept_check import TreeCheck, checked


def test_a_file_is_tried_once_until_it_or_the_library_changes(tmp_path: Path) -> None:
    file, kept, tries = tmp_path / "model.gguf", tmp_path / "kept", list[str]()
    file.write_bytes(b"weights")

    def check() -> TreeCheck:
        tries.append(file.read_text())
        return TreeCheck(f"it is {tries[-1]}", len(tries))

    found = checked([file], "one", kept, check)
    assert checked([file], "one", kept, check) == found == TreeCheck("it is weights", 1)
    assert checked([file], "two", kept, check) == TreeCheck("it is weights", 2)
    file.write_bytes(b"others!!")
    assert checked([file], "one", kept, check) == TreeCheck("it is others!!", 3)
    assert checked([file], "one", None, check).alike == 4
    for one in kept.iterdir():
        one.write_bytes(b"{")
    assert checked([file], "one", kept, check).alike == 5
    assert checked([file], "one", kept, check).alike == 5
    assert checked([file], "one", file, check).alike == 6, "a folder that cannot be written"
