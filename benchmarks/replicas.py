"""Verifiers of one pair that replace each other: one is killed, another answers, the killed one comes back.

They are processes with a port each, or replicas behind the proxy of Ray Serve.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys

from benchmarks.bundled import REPOSITORY
from tests.support.ray_processes import replicas_of

REPLICAS = 3


class Replica:
    """A verifier in a process of its own. It can be killed, and comes back on another port."""

    def __init__(self, target: str, drafter: str, *options: str) -> None:
        self._command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--watch-stdin"]
        self._command += ["--model", target, "--drafter", drafter, *options]
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0

    async def start(self) -> None:
        """Start it, and return once it answers. Raises `RuntimeError` if it does not."""
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=nothing, cwd=REPOSITORY
        )
        assert process.stdout is not None
        line = await process.stdout.readline()
        found = re.search(rb":(\d+)\s*$", line)
        if found is None:
            raise RuntimeError(f"a verifier did not start; {' '.join(self._command)} says why")
        self.port = int(found[1])

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    @property
    def id(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    async def stop(self) -> None:
        """Close its stdin, and wait until it has ended its own child processes."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    async def end(self) -> None:
        """Kill it, and wait until it is gone."""
        self.kill()
        if self._process is not None:
            await self._process.wait()


class Replicas:
    """Several verifiers. The first running one answers."""

    def __init__(self, target: str, drafter: str, count: int = REPLICAS) -> None:
        self._running: list[Replica] = []
        self._starting = {Replica(target, drafter): None for _ in range(count)}
        self._tasks: dict[Replica, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Replicas:
        try:
            for replica in list(self._starting):  # One after another; in parallel they would take just as long.
                await self._start(replica)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for replica in [*self._running, *self._starting]:
            await replica.end()

    @property
    def ports(self) -> list[int]:
        """Ports of the running ones."""
        return [replica.port for replica in self._running]

    async def ready(self) -> None:
        """Return when one of them can be killed. Raises `RuntimeError` if one did not start."""
        while len(self._running) < 2:
            await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            for replica, task in list(self._tasks.items()):
                if task.done():
                    del self._tasks[replica]
                    task.result()

    def restart(self) -> None:
        """Kill the one that answers. The next one takes its place, and the killed one restarts in the background."""
        dead = self._running.pop(0)
        dead.kill()
        self._starting[dead] = None
        self._tasks[dead] = asyncio.create_task(self._start(dead))

    async def _start(self, replica: Replica) -> None:
        await replica.end()
        await replica.start()
        del self._starting[replica]
        self._running.append(replica)


class RayReplicas:
    """Several verifiers behind Ray's proxy, on one port. Ray replaces one that is killed."""

    def __init__(self, target: str, drafter: str, count: int = 2) -> None:
        self._server, self._count = Replica(target, drafter, "--replicas", str(count)), count

    async def __aenter__(self) -> RayReplicas:
        await self._server.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._server.stop()

    @property
    def ports(self) -> list[int]:
        """The port of the proxy."""
        return [self._server.port]

    async def ready(self) -> None:
        """Return once all of them run."""
        while len(replicas_of(self._server.id)) < self._count:
            await asyncio.sleep(0.1)

    def restart(self) -> None:
        """Kill the oldest one, if another one is left."""
        if len(running := replicas_of(self._server.id)) > 1:
            os.kill(min(running), signal.SIGKILL)
