"""Kills a program in the middle of tool calls, again and again: `python -m benchmarks.chaos_tools [--kills 100]`.

Each time, a real `outrider ask` calls a tool that appends a line to a file, and is killed at a random moment. Then the
answers are continued in the same database, and every call that certainly did not run is made. What the tool wrote is
counted: a line too few is a lost call, a line too many one that was made twice. A call that may have run is left to the
person, so it may have its line or not, and never two.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from app.config import Folders, Settings
from app.events import ToolCalled
from app.reply.bootstrap import open_assistant
from app.tools.mcp_file import McpFile
from storage import Store
from tests.support.chat_server import ChatServer, Script

TOOL = '''
import os, sys, time
from mcp.server.mcpserver import MCPServer
server = MCPServer("chaos")
@server.tool()
def append(line: str) -> str:
    """Appends a line to a file."""
    with open(sys.argv[1], "a") as file:
        file.write(line + "\\n")
        file.flush()
        os.fsync(file.fileno())
    time.sleep(0.2)
    return "wrote " + line
server.run()
'''
LONGEST = 1.0
"""Most seconds from the question to the kill. The two requests and the call take some 0.5 s."""


class Caller(ChatServer):
    """Asks for one call, with the question's own line, and answers once it has the result."""

    asked_for = asyncio.Event()
    """Set when a question is here."""

    async def _answer(self, asked: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked_for.set()
        last = asked["messages"][-1]
        line = next(one["content"] for one in reversed(asked["messages"]) if one["role"] == "user")
        call = {"name": "chaos__append", "arguments": json.dumps({"line": line})}
        delta = {"tool_calls": [{"index": 0, "id": f"call-{line}", "type": "function", "function": call}]}
        wants = Script([delta], reason="tool_calls", pause=0.1)
        await self._say(wants if last["role"] == "user" else Script(["Done."], pause=0.1), reader, writer)


async def killed(url: str, number: int, seconds: float) -> bool:
    """Ask in a program of its own, which is killed that long after its question is here, unless it has ended."""
    Caller.asked_for.clear()
    words = ["-m", "app.cli", "ask", "--remote", url, "--tools", "chaos", "--allow", "append", f"line-{number}"]
    quiet = asyncio.subprocess.DEVNULL
    asking = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        await Caller.asked_for.wait()
        await asyncio.wait_for(asking.wait(), seconds)
        return False
    except TimeoutError:
        os.kill(asking.pid, signal.SIGKILL)
        await asking.wait()
        return True


async def continued(settings: Settings, folders: Folders) -> None:
    """Continue every answer that was cut off, and say no to what may have run."""
    async with open_assistant(settings, folders, tools=True) as assistant:
        store = assistant.store
        for conversation in store.conversations.all():
            answer = store.branches.thread(conversation.id)[-1]
            if not answer.interrupted or not answer.calls:
                continue
            async for event in assistant.resume(answer.id):
                if isinstance(event, ToolCalled) and event.asks:
                    assistant.decide(conversation.id, event.call.place, "no" if event.again else "yes")


async def measure(kills: int, seed: int) -> dict[str, int]:
    """Counts of calls: lost, doubled, and what became of them."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as home:
        os.environ["OUTRIDER_HOME"] = home
        folders, file = Folders.locate(), Path(home) / "lines"
        folders.config.mkdir(parents=True, exist_ok=True)
        (script := Path(home) / "tool.py").write_text(TOOL)
        McpFile(folders).put("chaos", {"command": sys.executable, "args": [str(script), str(file)]})
        async with Caller([]).listening() as port:
            url = f"http://127.0.0.1:{port}/v1"
            number = cut = 0
            while cut < kills:
                number += 1
                cut += await killed(url, number, chance.uniform(0.0, LONGEST))
            await continued(Settings(remote=url), folders)
        lines = Counter(file.read_text().splitlines())
        found: Counter[str] = Counter(kills=cut, doubled=sum(count > 1 for count in lines.values()))
        with Store.read(folders.database) as store:
            for conversation in store.conversations.all():
                for call in store.branches.thread(conversation.id)[-1].calls:
                    found[call.state] += 1
                    found["lost"] += call.state in ("done", "asked") and not lines[json.loads(call.arguments)["line"]]
    return {"lost": 0, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = asyncio.run(measure(options.kills, options.seed))
    print(json.dumps(found))
    sys.exit(bool(found["lost"] or found["doubled"]))


if __name__ == "__main__":
    main()
