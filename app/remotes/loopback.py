"""The bundled verifier as a process of its own on this device, for as long as the app lives.

Its stdin is a pipe from the app. It ends when the pipe closes, so no verifier is left behind, however the app ends.
A start takes about a second, or some with PyTorch, and happens in the background. A verifier that dies is started
again, after a pause that grows with each failed start.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import secrets
import tempfile
from collections import deque
from pathlib import Path

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from app.own_process import own_command, own_environment
from app.remotes.source import SourceFailed
from drafter.cores import draft_threads
from drafter.extras import how_to_install
from remote import Kind, TransportOptions, VerifierClient
from remote.verifier.engines.graphs import graph_in, is_gguf

READY = re.compile(rb"https?://\S+")
"""The address in the line that a verifier prints when it is ready."""
START_SECONDS = 180.0
PAUSE_SECONDS = (1.0, 300.0)
"""Shortest and longest pause before another start."""
END_SECONDS = 2.0
"""Longest wait for it to end by itself; then it is killed."""
ADVICE = how_to_install("server")


class Loopback:
    """The source of the bundled verifier. `target`: a model's folder or name; `drafter`: a folder."""

    address = None
    chat = None
    model = None
    name = None
    system = None
    kind: Kind = "verifier"
    options = TransportOptions()

    def __init__(self, target: str, drafter: str) -> None:
        self._target = target
        self._drafter = drafter
        # A person who changed only one of the two may have chosen a pair that does not fit.
        self.own = (target == str(BUNDLED_TARGET)) == (drafter == str(BUNDLED_DRAFTER))
        self._makes = target != str(BUNDLED_TARGET) and drafter == str(BUNDLED_DRAFTER)
        self.url: str | None = None
        """Address of the verifier that was started last."""
        self._process: asyncio.subprocess.Process | None = None
        self._client: VerifierClient | None = None
        self._talk: deque[str] = deque(maxlen=20)
        self._reading: asyncio.Task[None] | None = None
        self._failures = 0

    @property
    def process_id(self) -> int | None:
        """Process id of the running verifier; None where none runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def client(self) -> VerifierClient:
        """Start the verifier where it is not running. Raises `SourceFailed`."""
        if self._client is None or self.process_id is None:
            if is_gguf(self._target):
                runtime, package, advice = "llama.cpp", "llama_cpp", how_to_install("gguf")
            else:
                runtime, package, advice = "PyTorch", "torch", ADVICE
            if graph_in(self._target) is None and importlib.util.find_spec(package) is None:
                raise SourceFailed(
                    f"the model on this device needs {runtime}: {advice}; until then the small model answers alone"
                )
            if Path(self._target).is_absolute() and not Path(self._target).exists():
                raise SourceFailed(f"there is no model in {self._target}; check the setting 'target', or reinstall")
            await self.close()
            if self._failures:
                least, most = PAUSE_SECONDS
                await asyncio.sleep(min(most, least * 2.0 ** (self._failures - 1)))
            self._failures += 1
            token = secrets.token_urlsafe(32)
            self.url = await self._start(token)
            self._client = VerifierClient(self.url, token)
            self._failures = 0
        return self._client

    async def gone(self) -> None:
        if self._process is not None:
            await self._process.wait()

    async def close(self) -> None:
        process, self._process = self._process, None
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    async def _start(self, token: str) -> str:
        """Start a verifier that answers only to `token`, because this device may have other accounts.

        Returns its URL. Raises `SourceFailed`.
        """
        with tempfile.TemporaryDirectory(prefix="outrider-") as folder:  # Private to this account.
            file = Path(folder) / "token"
            file.write_text(token, encoding="ascii")
            return await self._start_with(file)

    async def _start_with(self, token_file: Path) -> str:
        command = own_command("serve", "--port", "0", "--watch-stdin", "--threads", str(draft_threads()))
        command += ["--model", self._target, "--token-file", str(token_file), "--log-format", "off"]
        # A model that the person chose has no drafter yet: the verifier makes one, and finds it again the next time.
        command += [] if self._makes else ["--drafter", self._drafter]
        pipe = asyncio.subprocess.PIPE
        # A session of its own: Ctrl+C stops an answer, not the verifier.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            start_new_session=True,
            env=own_environment(),
        )
        self._process = process
        self._talk.clear()
        assert process.stdout is not None and process.stderr is not None
        self._reading = asyncio.create_task(self._listen(process.stderr))
        try:
            line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        except TimeoutError:
            raise SourceFailed(f"the server on this device was not ready within {START_SECONDS:.0f} s") from None
        found = READY.search(line)
        if found is None:
            await process.wait()
            await self._reading
            reason = next((line for line in reversed(self._talk) if line), f"it ended with {process.returncode}")
            raise SourceFailed(f"the server on this device did not start: {reason.removeprefix('outrider: ')}")
        return found.group().decode("ascii")

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        """Keep the last lines of its stderr, and empty the pipe."""
        async for line in stream:
            self._talk.append(line.decode("utf-8", "replace").strip())
