"""Files that only this account can read, and files that are replaced atomically."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

TURN_SECONDS = 2.0
"""Longest wait for another window. A change takes milliseconds, and a window that hangs must not block all others."""


def current_folder() -> Path:
    """The folder that this program was started in. It may have been removed since."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.environ.get("PWD") or Path.home())


def expanded(written: str) -> Path:
    """A path as a person writes it, with their home for a `~`. It may name nothing, or be no possible name."""
    return Path(os.path.expanduser(written))


def size_text(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size:,} bytes"


class NotText(ValueError):
    """A file that is not text in UTF-8. The message continues a sentence after the file's name, without a full stop."""


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, without a byte order mark. Raises `OSError`, `NotText`."""
    return text_of(path.read_bytes())


def text_of(data: bytes) -> str:
    """Bytes from elsewhere as text: UTF-8, without a byte order mark. Raises `NotText`."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
        raise NotText("is not text in UTF-8, but perhaps in UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotText(f"is not text in UTF-8 (line {line}, byte {error.start}); save it as UTF-8") from None


def create_private(path: Path, *, exclusive: bool = False) -> None:
    """Create an empty file with mode 0600, and its folder, if they are missing.

    `exclusive`: raise `FileExistsError` if the file exists. Raises `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if exclusive else 0), 0o600))


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one with mode 0600; create its folder. A link stays a link. Raises `OSError`."""
    path = path.resolve()  # People keep such files in a repository and link to them.
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, [text])


def replace_file(path: Path, pieces: Iterable[str], *, errors: str = "strict", sync: bool = True) -> None:
    """Replace a file atomically by these pieces as UTF-8, with mode 0600. Line ends are not translated.

    `errors`: handling of characters that UTF-8 cannot encode, as in `open`. `sync`: wait until the bytes are on disk.
    Raises `OSError`, and whatever `pieces` raises; then the old file is still there.
    """
    # 40 letters are at most 160 of the 255 bytes of a name. The file is made with mode 0600.
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
    try:
        with open(handle, "w", encoding="utf-8", errors=errors, newline="\n") as file:
            file.writelines(pieces)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


@contextlib.contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Lock out other windows while the block reads, changes and writes a file. Raises `OSError`.

    The folder is locked, because the file itself is replaced. Windows cannot lock folders: there, the last writer wins.
    """
    if sys.platform == "win32":
        yield
        return
    folder = path.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + TURN_SECONDS
        while not locked(handle) and time.monotonic() < deadline:
            time.sleep(0.005)
        yield
    finally:
        os.close(handle)


def locked(handle: int) -> bool:
    """Lock an open file or folder until it is closed. False while another window, or another handle, has it locked."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # This file system has no locks.
            pass
    return True


def is_private(path: Path) -> bool:
    """Whether no other account can read a file. Always True on Windows, where permissions are not read."""
    return os.name != "posix" or not path.stat().st_mode & 0o077
