"""Whether a command did what was asked: its output, and the files after it.

`stdout` of a judge has `how` and what the output should be. `exact`: `text`, line by line. `lines`: `text`, its lines
in any order. `words`: `text`, its lines in any order, and the words of a line too. `numbers`: `numbers` are all
separate numbers in the output, in order. `contains`: each of `all`, and none of `lacks`. `matches`: the pattern `text`
is found in it. `names`: `names` is the set of the tree's files that the output names, whatever else a line says of
them. A leading `./` in paths, repeated blanks and empty lines never count.

`after` says what must be at a path in the end: null, nothing; a text, a file with it; or an object with some of `dir`,
`mode`, `executable` (by its owner), `link`, `inode_of` (a path with the same file), `size`, `text`, `contains`,
`lacks`, `matches`, `gz` (whether it is compressed), `gzip` (the text in it), `members` (the files of an archive),
`base_names` (theirs without folders), `or_gone`. An empty object allows anything. Files that existed before and are not
mentioned must be unchanged. New files are allowed, unless `only` is true.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from typing import Any

from benchmarks.execution_sandbox import Ran
from benchmarks.execution_tree import Entry, dated, members

_NUMBER = re.compile(r"(?<![\w./-])-?\d+(?:\.\d+)?(?![\w/:-]|\.\w)")

Tree = Mapping[str, Entry]


def fault(judge: Mapping[str, Any], ran: Ran, before: Tree, after: Tree) -> str | None:
    """What is wrong with a run, in a few words, or None if it is right."""
    if ran.code == 124:
        return "it did not end"
    if (said := judge.get("stdout")) and not _output_right(said, ran.stdout, before):
        return "the output is another one"
    wanted = {dated(path): entry for path, entry in judge.get("after", {}).items()}
    for path, entry in wanted.items():
        if (why := _entry_fault(entry, after.get(path), after)) is not None:
            return f"{path}: {why}"
    for path, entry in before.items():
        if path not in wanted and (path not in after or after[path].same != entry.same):
            return f"{path}: it should be as it was"
    if judge.get("only") and (new := sorted(set(after) - set(before) - set(wanted))):
        return f"{new[0]}: it should not be there"
    return None


def plain(text: str) -> list[str]:
    """The lines of a text, normalised for differences between correct commands."""
    lines = (re.sub(r"(?<!\S)\./", "", " ".join(line.split())) for line in text.splitlines())
    return [line for line in lines if line]


def _output_right(said: Mapping[str, Any], output: str, before: Tree) -> bool:
    how = said["how"]
    if how == "exact":
        return plain(output) == plain(dated(said["text"]))
    if how == "lines":
        return sorted(plain(output)) == sorted(plain(dated(said["text"])))
    if how == "words":
        return _words(output) == _words(dated(said["text"]))
    if how == "numbers":
        return [float(number) for number in _NUMBER.findall(output)] == said["numbers"]
    if how == "contains":
        text = "\n".join(plain(output)) + "\n"
        return all(part in text for part in said["all"]) and not any(part in text for part in said["lacks"])
    if how == "matches":
        return re.search(said["text"], output) is not None
    if how == "names":
        return _named(output, before) == set(said["names"])
    raise ValueError(f"{how!r} is no way to judge an output")


def _words(text: str) -> list[list[str]]:
    return sorted(sorted(re.split(r"[\s:,=]+", line)) for line in plain(text))


def _named(output: str, before: Tree) -> set[str]:
    """The last parts of those paths of the tree that the output names."""
    known = sorted({path.rsplit("/", 1)[-1] for path in before}, key=len, reverse=True)
    ends = "|".join(map(re.escape, known))
    # A name at the end of a path: the characters before and after it are not part of a name.
    return set(re.findall(rf"(?<![\w.-])({ends})(?=/?(?:[\s:,'\"]|$))", output))


def _entry_fault(wanted: Any, entry: Entry | None, after: Tree) -> str | None:
    """What is wrong with one path."""
    if wanted is None:
        return None if entry is None else "it should be gone"
    if entry is None:
        return None if isinstance(wanted, dict) and wanted.get("or_gone") else "it is missing"
    if isinstance(wanted, str):
        wanted = {"text": wanted}
    return next((f"its {key} is wrong" for key in wanted if not _holds(key, wanted[key], entry, after)), None)


def _holds(key: str, value: Any, entry: Entry, after: Tree) -> bool:
    text = entry.data.decode(errors="replace") if entry.kind == "file" else ""
    match key:
        case "dir":
            return entry.kind == "dir"
        case "mode":
            return entry.mode == value
        case "link":
            return entry.kind == "link" and entry.data.decode() in (value, f"./{value}", f"/home/user/work/{value}")
        case "inode_of":
            return value in after and entry.inode == after[value].inode
        case "text":
            return entry.kind == "file" and _ends(text) == _ends(dated(value))
        case "executable":
            return bool(int(entry.mode, 8) & 0o100) == value
        case "size":
            return len(entry.data) == value
        case "contains":
            return all(part in text for part in value)
        case "lacks":
            return not any(part in text for part in value)
        case "matches":
            return re.search(value, text) is not None
        case "gz":
            return entry.data.startswith(b"\x1f\x8b") == value
        case "gzip":
            return _unpacked(entry.data) == value
        case "members" | "base_names":
            names = members(entry.data) or ()
            return sorted(name.rsplit("/", 1)[-1] if key == "base_names" else name for name in names) == sorted(value)
        case "or_gone":
            return True
        case _:
            raise ValueError(f"{key!r} is no way to judge a file")


def _ends(text: str) -> list[str]:
    """The lines without blanks at their ends, and without empty ones at the end of the file."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n").split("\n")


def _unpacked(data: bytes) -> str | None:
    try:
        return gzip.decompress(data).decode()
    except (OSError, EOFError, zlib.error):
        return None
