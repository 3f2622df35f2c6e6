"""A real verifier process on loopback, for tests that talk to it or kill it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Self

from tests.support.patience import PATIENCE_SECONDS

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(eq=False)
class VerifierProcess:
    """`outrider serve` with a tiny pair. The port stays the same after a restart.

    `prefix`: a command that runs it, for instance in another network namespace. `token_file`: the token that clients
    must send if `host` is not loopback. `options`: more of them. `home`: the program's own folders. `said`: a file for
    what it says on stderr. `model`: another one in the place of the pair's, which is served without the pair's drafter.
    """

    pair: Path
    _: KW_ONLY
    host: str = "127.0.0.1"
    prefix: Sequence[str] = ()
    token_file: Path | None = None
    options: Sequence[str] = ()
    home: Path | None = None
    said: Path | None = None
    model: Path | None = None
    port: int = field(default=0, init=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def id(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def command(self) -> list[str]:
        command = [*self.prefix, sys.executable, "-m", "app.cli", "serve", "--watch-stdin"]
        command += ["--host", self.host, "--port", str(self.port), "--allow-host", "verifier.example"]
        command += ["--model", str(self.model or self.pair / "target")]
        command += ["--drafter", str(self.pair / "drafter")] if self.model is None else []
        command += [] if self.token_file is None else ["--token-file", str(self.token_file)]
        return [*command, *self.options]

    def start(self) -> Self:
        """Start the process, and wait until it answers."""
        environment = os.environ | ({} if self.home is None else {"OUTRIDER_HOME": str(self.home)})
        with open(self.said or os.devnull, "ab") as said:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}
            self._process = subprocess.Popen(self.command(), text=True, cwd=REPOSITORY, env=environment, **pipes)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.fullmatch(r"outrider server ready at https?://\S+:(\d+)\n", line)
        assert found is not None, f"the verifier did not start: {line!r}"
        self.port = int(found[1])
        return self

    def signal(self, which: signal.Signals) -> None:
        """Send it a signal, and do not wait for what comes of it."""
        assert self._process is not None
        os.kill(self._process.pid, which)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.stop()

    def pause(self) -> None:
        """Stop it with SIGSTOP: its connections stay open, and nothing answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def interrupt(self) -> int:
        """Stop it as Ctrl+C does. Its exit code."""
        self.signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> int:
        """Wait until it ends. Its exit code."""
        assert self._process is not None
        code = self._process.wait(PATIENCE_SECONDS)
        self.stop()
        return code

    def left(self) -> tuple[int, str]:
        """End its stdin, as the end of an app does. Its exit code, and what else it said on stdout."""
        assert self._process is not None
        said, _ = self._process.communicate(timeout=PATIENCE_SECONDS)
        code, self._process = self._process.returncode, None
        return code, said

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()
