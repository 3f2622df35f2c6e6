"""Traces by strace what a program and all its children connect to and write.

Libraries in C++ open sockets and files without Python, so hooks inside the interpreter are not enough.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import NamedTuple

CALLS = (
    "connect,sendto,sendmsg,sendmmsg,open,openat,openat2,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
)
DNS = 53
ADDRESS = re.compile(r'sa_family=AF_INET6?, .*?port=htons\((\d+)\).*?(?:inet_addr\(|AF_INET6, )"([^"]+)"')
CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
PLACE = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
WRITES = ("O_CREAT", "O_WRONLY", "O_RDWR")


class Seen(NamedTuple):
    """What a tracer saw. `connections`: those that left this device. `files`: opened to write, renamed or linked."""

    connections: list[str]
    files: set[Path]


class Strace:
    """Traces every system call that connects or writes. `folder` is new and holds a log for each process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.prefix = ["strace", "-ff", "--seccomp-bpf", "-qq", "-y", "-s", "300", "-e", f"trace={CALLS}"]
        self.prefix += ["-e", "signal=none", "-o", str(folder / "calls"), "--"]

    def seen(self) -> Seen:
        """What was seen; to be called after the program has ended."""
        seen = Seen([], set())
        for log in self._folder.iterdir():
            for line in log.read_text(errors="replace").splitlines():
                self._read(line, seen)
        return seen

    def _read(self, line: str, seen: Seen) -> None:
        found = CALL.match(line)
        if found is None:
            return
        name, arguments, result = found.groups()
        if name in ("connect", "sendto", "sendmsg", "sendmmsg"):
            if "systemd/resolve" in arguments or any(_leaves(*one) for one in ADDRESS.findall(arguments)):
                seen.connections.append(line[:200])
        elif int(result) >= 0 and (not name.startswith("open") or any(flag in arguments for flag in WRITES)):
            places = [Path(folder or "/", name) for folder, name in PLACE.findall(arguments)]
            seen.files.update(one for one in places if not str(one).startswith(("/dev/pts", "/dev/null", "/proc")))


def _leaves(port: str, address: str) -> bool:
    """Whether a connection leaves this device. A name server on loopback may ask others, so port 53 counts."""
    return int(port) == DNS or not ipaddress.ip_address(address.partition("%")[0]).is_loopback
