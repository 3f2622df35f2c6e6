"""Finds what a question names: `@src/start.py`, `@"a b.txt"`, `@~/notes.md`, `@src/` for a folder, `@https://…` for a
page, `@SERVER:URI` for a resource of an MCP server.

People write `@` for other things too: addresses, decorators, names. So only a path that exists counts. Text that looks
like a path but does not exist is reported, never left out silently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal
from urllib.parse import unquote, urlsplit

from app.sanitise import sanitise

BEFORE = r"""\s(\[{"'`*_“‘«\u3000-\u9fff\uac00-\ud7af\uff00-\uffef"""
"""Characters that may precede an `@` at the start of a word. Scripts without spaces between words are part of it."""
MENTION = re.compile(rf"""(?<![^{BEFORE}])@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\ |[^\s"'`])+))""")
"""An `@` at the start of a word, then a path in quotes, or without spaces that have no backslash before them."""
ARMED = re.compile(rf"(?<![^{BEFORE}])@(?=\S)")
"""Any `@` with which a mention could begin, also within another one."""
TRAILING = ".,;:!?)]}>*_”’»。、，；：！？）】」』"
"""Punctuation that ends a sentence and is not part of a path, unless a file has that name."""
KNOWN_ENDINGS = frozenset({
    "bash", "bat", "c", "cc", "cfg", "conf", "cpp", "css", "csv", "diff", "docx", "env", "gif", "go", "h", "hpp", "htm",
    "html", "ini", "ipynb", "java", "jpeg", "jpg", "js", "json", "jsonl", "kt", "log", "lua", "md", "odt", "patch",
    "pdf", "php", "png", "ps1", "py", "rb", "rs", "rst", "sh", "sql", "svg", "swift", "tex", "toml", "ts", "tsv", "tsx",
    "txt", "vue", "webp", "xml", "yaml", "yml", "zip", "zsh",
})  # fmt: skip
"""Endings by which a word without a slash looks like a file name, unlike `@app.route`."""
PLACE = re.compile(r"(?::\d+){1,2}$|#L\d+(?:-L?\d+)?$")
"""A place in a file, as compilers, `grep -n` and links to code write it."""
WEB = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)
"""How an address of the web begins."""
RESOURCE = re.compile(r"([A-Za-z0-9_-]+):[A-Za-z][A-Za-z0-9+.-]*:.")
"""How a resource begins: the name of its server, and a URI with its scheme."""
MOST_MENTIONS = 200
"""Most mentions that are read. A longer list is pasted text, not a way to name files."""


@dataclass(frozen=True)
class Mention:
    """A path or an address in a question, after an `@`."""

    raw: str
    """As written, without quotes and backslashes."""
    start: int
    """The offset of the `@` in the text."""
    end: int
    path: Path
    """Of a page and a resource: meaningless."""
    kind: Literal["file", "folder", "page", "resource", "missing"]

    @property
    def name(self) -> str:
        return self.raw if self.kind in ("page", "resource") else shown_name(self.raw)


def mentions(text: str, cwd: Path, servers: Collection[str] = ()) -> list[Mention]:
    """Find the mentions in a text, in order, each once. `missing`: those that look like a path but do not exist.

    `servers`: names of the MCP servers whose resources count.
    """
    found: dict[str, Mention] = {}
    for count, match in enumerate(MENTION.finditer(text)):
        if count == MOST_MENTIONS:
            break
        if (mention := _mention(match, cwd, servers)) is not None:
            found.setdefault(mention.raw, mention)
    return list(found.values())


def disarmed(text: str) -> str:
    """The text with a backslash before each `@` that could name something: it names nothing any more."""
    return ARMED.sub(r"\\@", text)


def shown_name(raw: str) -> str:
    """The name under which a file is attached: as written, but without the folders above this one.

    The location of a person's files is private, and the end of a path identifies them well enough.
    """
    pure = PurePath(raw)
    folder = "/" if raw.endswith(("/", os.sep)) else ""
    if pure.is_absolute() or raw.startswith("~") or ".." in pure.parts:
        return (pure.name or "folder") + folder
    return pure.as_posix() + folder


def is_web(raw: str) -> bool:
    """Whether this is the address of a page, and not a path."""
    return WEB.match(raw) is not None


def is_resource(raw: str, servers: Collection[str]) -> bool:
    """Whether this names a resource of one of these MCP servers."""
    begun = RESOURCE.match(raw)
    return begun is not None and begun[1] in servers


def located(raw: str, cwd: Path) -> Path:
    """The absolute location of a path."""
    return cwd / os.path.expanduser(raw)


def written(path: Path, cwd: Path) -> str | None:
    """How a person would name this path in a question, or None if its name cannot be typed.

    A name may hold control characters and quotes. Such a file can be given with `--file`.
    """
    try:
        raw = path.relative_to(cwd).as_posix()
    except ValueError:
        raw = str(path)
    if path.is_dir():
        raw = f"{raw.rstrip('/')}/"
    if sanitise(raw) != raw or "\n" in raw or '"' in raw or not raw.isprintable():
        return None
    return f"@{raw}" if _end_of(f"@{raw}") == len(raw) + 1 and raw[-1] not in TRAILING else f'@"{raw}"'


def dropped(paste: str) -> Path | None:
    """The file or folder that pasted text names, if it consists of one existing path.

    A terminal pastes a dropped file as a path in quotes, with backslashes, or as a `file://` address. Only an absolute
    path counts: a word that happens to name a file here is more often just a word.
    """
    text = paste.strip()
    if not text or len(text) > 4096 or "\n" in text or "\r" in text:
        return None
    for raw in _unquoted(text):
        path = Path(os.path.expanduser(raw))
        if path.is_absolute() and _exists(path):
            return path
    return None


def _unquoted(text: str) -> Iterator[str]:
    if text.startswith("file://"):
        address = urlsplit(text)
        if address.netloc in ("", "localhost"):
            yield unquote(address.path)
        return
    yield text
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        yield text[1:-1].replace("'\\''", "'")
    yield re.sub(r"\\(.)", r"\1", text)


def _end_of(text: str) -> int:
    match = MENTION.match(text)
    return 0 if match is None else match.end()


def _mention(match: re.Match[str], cwd: Path, servers: Collection[str]) -> Mention | None:
    quoted = match[1] or match[2]
    raw = quoted or match[3].replace("\\ ", " ")
    end = match.end()
    resource = is_resource(raw, servers)
    if resource or WEB.match(raw):
        while not quoted and raw[-1] in TRAILING and not (raw[-1] == ")" and "(" in raw):
            raw, end = raw[:-1], end - 1
        return Mention(raw, match.start(), end, cwd, "resource" if resource else "page")
    if not quoted:
        while raw and not _exists(located(raw, cwd)) and (over := _not_of_the_path(raw)):
            raw, end = raw[:-over], end - over
    if not raw:
        return None
    path = located(raw, cwd)
    if _exists(path):
        if is_folder(path):
            # A word such as @test may name a folder by accident, whose contents would all be sent.
            if not raw.endswith(("/", os.sep)) and raw not in (".", ".."):
                return Mention(raw, match.start(), end, path, "missing") if "/" in raw or quoted else None
            return Mention(raw, match.start(), end, path, "folder")
        return Mention(raw, match.start(), end, path, "file")
    if quoted or _looks_like_path(raw, cwd):
        return Mention(raw, match.start(), end, path, "missing")
    return None


def _not_of_the_path(raw: str) -> int:
    """How many characters at the end of a word are punctuation, or a place in the file, as 0 if there are none."""
    place = PLACE.search(raw)
    return len(place[0]) if place else int(raw[-1] in TRAILING)


def _looks_like_path(raw: str, cwd: Path) -> bool:
    if re.fullmatch(r"[\w.~ /\\+-]+", raw) is None:
        return False
    if raw.startswith(("./", "../", "~/", "/")) or raw.endswith("/"):
        return True
    if raw.rpartition(".")[2].lower() in KNOWN_ENDINGS and "." in raw:
        return True
    first, slash, _ = raw.partition("/")
    return bool(slash) and is_folder(located(first, cwd))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # Too long, a null byte, or no right to look.
        return False


def is_folder(path: Path) -> bool:
    """Whether a path that a person wrote is a folder that can be seen."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
