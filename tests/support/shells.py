"""Real shells in a pseudo-terminal, with the integration that `outrider shell` prints."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from tests.support.chat_server import ChatServer, in_thread
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import REPOSITORY
from tests.support.terminal import Terminal, visible

Name = Literal["bash", "zsh", "fish"]
NAMES: tuple[Name, ...] = ("bash", "zsh", "fish")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
SOURCED: Mapping[str, str] = {"bash": 'eval "$({})"', "zsh": 'eval "$({})"', "fish": "{} | source"}
PROBE_KEY = "\x18p"
COMMAND_KEY, EXPLAIN_KEY, UNDO, KILL_LINE, INTERRUPT = "\x1bm", "\x1bi", "\x1f", "\x15", "\x03"
QUESTION, REPLY = b"\x1b[5n", "\x1b[0n"
"""What bash asks a terminal whether it is well, and the answer of every terminal."""


def installed(name: Name) -> bool:
    return shutil.which(name) is not None


class ShellTerminal(Terminal):
    """A shell that has sourced the integration. Its terminal answers as terminals do."""

    def __init__(self, name: Name, environment: Mapping[str, str], folder: Path) -> None:
        prompt = {"PS1": "> ", "LANG": "C.UTF-8", "HISTFILE": ""}
        super().__init__(COMMANDS[name], environment={**environment, **prompt}, folder=folder)
        self.name = name
        self._probe = folder / "line-probe"
        self._asked = 0
        self._marks = 0
        self.probes = 0
        """How often the line was read."""

    def read(self, seconds: float) -> bytes:
        data = super().read(seconds)
        while self._asked < self.raw.count(QUESTION):
            self._asked += 1
            self.type(REPLY)
        return data

    def source(self, *options: str) -> None:
        """Source the integration, and wait until it is there."""
        words = " ".join([sys.executable, "-P", "-m", "app.start", "shell", self.name, *options])
        self.run(SOURCED[self.name].format(words))
        self.run(PROBES[self.name].replace("@", str(self._probe)))

    def run(self, line: str) -> str:
        """Run a line, and return what came until it has ended."""
        self._marks += 1
        mark = f"end-{self._marks}-"
        begun = len(self.raw)
        self.type(f"{line}; echo end-'{self._marks}'-\r")
        self.wait_for(lambda: mark in visible(self.raw[begun:]), PATIENCE_SECONDS)
        return visible(self.raw[begun:])

    def press(self, keys: str, shown: str) -> str:
        """Type keys, wait until new text holds `shown`, and return the new text."""
        begun = len(self.raw)
        self.type(keys)
        self.wait_for(lambda: shown in visible(self.raw[begun:]), PATIENCE_SECONDS)
        return visible(self.raw[begun:])

    def line(self) -> str:
        """What is in the line, according to the shell itself."""
        self._probe.unlink(missing_ok=True)
        self.probes += 1
        self.type(PROBE_KEY)
        self.wait_for(self._probe.exists, PATIENCE_SECONDS)
        return self._probe.read_text(encoding="utf-8")

    def wait_for_line(self, line: str) -> None:
        self.wait_for(lambda: self.line() == line, PATIENCE_SECONDS)


PROBES: Mapping[str, str] = {
    "bash": """bind -x '"\\C-xp": printf %s "$READLINE_LINE" >@.new; mv @.new @'""",
    "zsh": "_probe() { print -rn -- $BUFFER >@.new; command mv @.new @ }; zle -N _probe; bindkey '^Xp' _probe",
    "fish": "bind \\cxp 'printf %s (commandline | string collect) >@.new; command mv @.new @'",
}
"""What makes a key write the line to a file, which then appears whole."""


def environment_of(home: Path, runtime: Path, **settings: str) -> dict[str, str]:
    """Variables of a person whose helper is nobody else's."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "OUTRIDER_HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": "1",
        **settings,
    }


def stop_helper(environment: Mapping[str, str]) -> None:
    """End the helper of these variables, and wait until it has ended."""
    command = [sys.executable, "-P", "-m", "app.start", "shell", "--stop"]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def served(server: ChatServer) -> Iterator[str]:
    """Run a scripted server in a thread, because a terminal is waited for in the test's own; yields its address."""
    with in_thread(server.listening()) as port:
        yield f"http://127.0.0.1:{port}/v1"
