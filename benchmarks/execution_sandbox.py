"""A sandbox for commands that a model wrote: bubblewrap, with a single writable folder.

The command has new namespaces without a network, and no privileges. It sees a read-only /usr and an empty /tmp of its
own. It ends after at most ten seconds, and processes, memory and file sizes are limited. If run by root, it switches to
`nobody` first, because limits on processes do not apply to root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10
MEBIBYTE = 2**20
MOST_OUTPUT = MEBIBYTE
"""Bytes of standard output that are read."""
NOBODY = 65534
HOME = "/home/user"
WORK = f"{HOME}/work"
PLACES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Names in the root folder that link into /usr on Debian."""

PROGRAMS = {"bwrap": "bubblewrap", "prlimit": "util-linux", "zip": "zip", "unzip": "unzip"}
"""Programs that not every Debian has, and their packages. Some requests are about the last two."""


class NoSandbox(Exception):
    """No sandbox can be made here. The message says what to do about it."""


@dataclass(frozen=True)
class Ran:
    """The output of a command, and how it ended."""

    stdout: str
    stderr: str
    code: int
    """Its exit status, or 124 if its time was up."""


def check() -> None:
    """Raises `NoSandbox` if bubblewrap or another program is missing, or if bubblewrap may not make namespaces."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise NoSandbox(f"{program} is missing: install it, as with `apt-get install {package}`")
    with Folder() as folder:
        tried = run(folder, "echo box")
    if tried.stdout != "box\n":
        raise NoSandbox(f"bubblewrap cannot make a sandbox here: {tried.stderr.strip() or tried.code}")


class Folder:
    """A new folder for one command, as a context manager that removes it whatever the command did to its modes."""

    def __enter__(self) -> Path:
        self._path = Path(tempfile.mkdtemp(prefix="outrider-execution-", dir="/tmp"))
        self._work = self._path / "work"
        self._work.mkdir()
        self._path.chmod(0o755)
        return self._work

    def __exit__(self, *exception: object) -> None:
        for folder, folders, _ in os.walk(self._path):
            for name in folders:
                path = Path(folder, name)
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(self._path, ignore_errors=True)


def run(folder: Path, command: str, seconds: float = SECONDS) -> Ran:
    """Run a bash script in the sandbox, with `folder` as its working folder and the only one that it can write to."""
    rights: dict[str, object] = {}
    if os.geteuid() == 0:
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        for below, folders, names in os.walk(folder):
            for path in (below, *(os.path.join(below, name) for name in (*folders, *names))):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(  # type: ignore[call-overload]
            [*_box(folder), "bash", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, **rights
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = 124
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(MOST_OUTPUT).decode(errors="replace"))
    return Ran(*texts, code)


def _box(folder: Path) -> list[str]:
    """The command line in front of the command."""
    box = ["bwrap", "--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    box += ["--uid", "1000", "--gid", "1000", "--hostname", "box", "--ro-bind", "/usr", "/usr"]
    for name in PLACES:
        place = Path("/", name)
        if place.is_symlink():
            box += ["--symlink", f"usr/{name}", str(place)]
        elif place.is_dir():
            box += ["--ro-bind", str(place), str(place)]
    # awk is a link into this folder.
    box += ["--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--proc", "/proc", "--dev", "/dev"]
    box += ["--size", str(16 * MEBIBYTE), "--tmpfs", "/tmp", "--bind", str(folder), WORK, "--chdir", WORK]
    box += ["--remount-ro", "/", "--clearenv"]
    for name, value in (
        ("PATH", "/usr/bin:/bin"),
        ("HOME", HOME),
        ("USER", "user"),
        ("LANG", "C.UTF-8"),
        ("TZ", "UTC"),
    ):
        box += ["--setenv", name, value]
    limits = [f"--nproc={64}", f"--as={512 * MEBIBYTE}", f"--fsize={16 * MEBIBYTE}", f"--cpu={SECONDS}", "--core=0"]
    return [*box, "--", "prlimit", *limits, "--"]
