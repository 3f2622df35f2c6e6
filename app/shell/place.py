"""The location of the shell helper: its folder, its socket, and the version and home that it belongs to.

The client imports this at each key press, so it imports as little as possible: 30 ms of Python are a fifth of the time
that a key may take.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that holds the packages."""
PREFIX = "OUTRIDER_"
OF_HOME = ("OUTRIDER_HOME", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
"""Variables that locate settings and data."""


class NoPlace(Exception):
    """There is no private folder for the socket; the message says why and what to do."""


def folder() -> str:
    """The private folder of this account for sockets, created if missing. Raises `NoPlace`."""
    if not hasattr(os, "getuid"):
        raise NoPlace("The shell integration needs Unix sockets, which this system does not have.")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = runtime if os.path.isabs(runtime) and os.access(runtime, os.W_OK) else _temporary()
    path = os.path.join(base, f"outrider-{os.getuid()}")
    try:
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):  # Another shell was quicker.
                os.mkdir(path, 0o700)
        found = os.lstat(path)
    except OSError as error:
        raise NoPlace(f"The folder {path} cannot be created: {error.strerror}.") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NoPlace(f"{path} is not a private folder of this account. Remove it, or set XDG_RUNTIME_DIR to one.")
    return path


def home() -> str:
    """A name for the settings and data that the environment selects. A shell with another home has another helper."""
    chosen = os.environ.get(OF_HOME[0])
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    return "|".join(os.environ.get(name, "") for name in OF_HOME[1:])


def socket_path() -> str:
    """The socket of this account's helper for this home. Raises `NoPlace`."""
    # A name of fixed length: the path of a Unix socket has at most 104 bytes on macOS.
    return os.path.join(folder(), f"{zlib.crc32(home().encode('utf-8', 'surrogateescape')):08x}.sock")


def build() -> str:
    """Identifies the installed version: a helper of another build is replaced."""
    here = os.path.dirname(os.path.abspath(__file__))
    with os.scandir(here) as files:
        newest = max(file.stat().st_mtime_ns for file in files if file.name.endswith(".py"))
    return f"{newest}:{sys.executable}:{here}"


def settings_environment() -> dict[str, str]:
    """The variables that are settings. The helper uses those of the requesting shell."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


def _temporary() -> str:
    chosen = os.environ.get("TMPDIR", "")
    return chosen if os.path.isabs(chosen) and os.path.isdir(chosen) else "/tmp"
