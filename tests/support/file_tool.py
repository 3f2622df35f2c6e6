"""Tools for tests that run a real process: each call appends a line to a file, so a test can count the runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from app.tools.tool import Blank, ServerPrompt, ServerResource, Tool, ToolGone, ToolResult

APPEND = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + '\\n'); print('wrote', sys.argv[2])"


class FileTools:
    """One tool, `append`, of any server. `dies`: the connection ends after the work is done. `holds`: it never ends.
    `killed`: this program is, once the work is done."""

    def __init__(self, path: Path, *, dies: bool = False, holds: bool = False, killed: bool = False) -> None:
        self._path, self.dies, self.holds, self._killed = path, dies, holds, killed
        self.ran = asyncio.Event()

    @property
    def runs(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    async def offered(self, servers: Collection[str]) -> tuple[Tool, ...]:
        schema = {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}
        return tuple(Tool(one, "append", "Appends a line to a file.", schema, ("read-only",)) for one in servers)

    async def call(self, tool: Tool, arguments: Mapping[str, Any]) -> ToolResult:
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-c", APPEND, str(self._path), str(arguments["line"]), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await run.communicate()
        self.ran.set()
        if self._killed:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.dies:
            raise ToolGone("files ended in the middle of the call.", begun=True)
        if self.holds:
            await asyncio.Event().wait()
        return ToolResult(out.decode())

    async def prompts(self, server: str) -> tuple[ServerPrompt, ...]:
        return ()

    async def resources(self, server: str) -> tuple[ServerResource, ...]:
        return ()

    async def values(self, of: ServerPrompt | ServerResource, blank: Blank) -> tuple[str, ...]:
        return ()

    async def fill(self, prompt: ServerPrompt, values: Mapping[str, str]) -> str:
        raise ToolGone("there are no prompts", begun=False)

    async def read(self, server: str, uri: str) -> bytes:
        raise ToolGone("there are no resources", begun=False)

    async def aclose(self) -> None:
        """Nothing runs between calls."""
