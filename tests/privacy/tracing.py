"""Traces what a program and all its children connect to and write: by strace, or in a network namespace.

Libraries in C++ open sockets and files without Python, so hooks inside the interpreter are not enough.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

CALLS = (
    "connect,sendto,sendmsg,sendmmsg,open,openat,openat2,creat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
)
DNS = 53
ADDRESS = re.compile(r'sa_family=AF_INET6?, .*?port=htons\((\d+)\).*?(?:inet_addr\(|AF_INET6, )"([^"]+)"')
CALL = re.compile(r"(\w+)\((.*)\)\s+= (-?\d+)")
PLACE = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
WRITES = ("O_CREAT", "O_WRONLY", "O_RDWR")


@dataclass
class Seen:
    """What a tracer saw. `connections`: those that left this device. `files`: opened to write, renamed or linked."""

    connections: list[str] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)


class Strace:
    """Traces every system call that connects or writes. `folder` is new and holds a log for each process."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self.prefix = ["strace", "-ff", "--seccomp-bpf", "-qq", "-y", "-s", "300", "-e", f"trace={CALLS}"]
        self.prefix += ["-e", "signal=none", "-o", str(folder / "calls"), "--"]

    @staticmethod
    def works() -> bool:
        if shutil.which("strace") is None:
            return False
        return subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True).returncode == 0

    def seen(self) -> Seen:
        """What was seen; to be called after the program has ended."""
        seen = Seen()
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
            seen.files |= {place for place in places if not str(place).startswith(("/dev/pts", "/dev/null", "/proc"))}


class Namespace:
    """Runs a program in a network with only a loopback device; the kernel counts what tries to leave it.

    It sees no files: a test has to look into the folders that it gave.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._counts = folder / "counts"
        # Started by its path: in the namespace the tests may not be importable.
        self.prefix = ["unshare", "--map-root-user", "--net", sys.executable, __file__, str(self._counts)]

    @staticmethod
    def works() -> bool:
        if shutil.which("unshare") is None:
            return False
        return subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True).returncode == 0

    def seen(self) -> Seen:
        counts = json.loads(self._counts.read_text())
        return Seen([f"{name}: {count}" for name, count in counts.items() if count])


Tracer = type[Strace] | type[Namespace]


def tracers() -> list[Tracer]:
    """The tracers that work here, the better one first."""
    return [tracer for tracer in (Strace, Namespace) if tracer.works()]


def _leaves(port: str, address: str) -> bool:
    """Whether a connection leaves this device. A name server on loopback may ask others, so port 53 counts."""
    return int(port) == DNS or not ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _counts() -> dict[str, int]:
    """The kernel's counts of failed sends, and of UDP, which Outrider never uses."""
    rows = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines()]
    counts = {
        f"{names[0]}{name}": int(count)
        for names, row in zip(rows[::2], rows[1::2])
        for name, count in zip(names[1:], row[1:])
    }
    counts |= {
        name: int(count) for name, count in (line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
    }
    return {name: counts[name] for name in ("Ip:OutNoRoutes", "Ip6OutNoRoutes", "Udp:OutDatagrams", "Udp6OutDatagrams")}


def _run_inside(counts: Path, command: list[str]) -> int:
    """Run a command in this new namespace, and write what it tried to send to the file `counts`."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS
    before = _counts()
    code = subprocess.run(command, env=os.environ, check=False).returncode
    counts.write_text(json.dumps({name: count - before[name] for name, count in _counts().items()}))
    return code


if __name__ == "__main__":
    sys.exit(_run_inside(Path(sys.argv[1]), sys.argv[2:]))
