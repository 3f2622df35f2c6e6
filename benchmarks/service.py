"""Many clients at once, through OpenAI's API: Outrider's engines, with and without drafts, compared with other servers.

    python -m benchmarks.service [--clients 1,2,4,8,16,32,64] [--answers 3] [--rounds 2] [--engines onnx,torch]
                                 [--ways openai,hosted,edge] [--gguf f32,q8_0] [--llama-server PROGRAM]
                                 [--transformers PYTHON] [--json OUT]
    python -m benchmarks.service --model FILE.gguf --llama-server PROGRAM [--clients ...] [--json OUT]

All servers run the bundled target, or the GGUF file of `--model`, each with its default number of threads (llama.cpp:
one for each core), and are loaded at the same time. They are asked in turn, so that other load on the machine affects
all of them. In a round, each client asks one everyday question after another, at temperature 0, and streams its answer
to the end. In a round no question is asked twice. A refused request is retried when the server says. `--gguf` writes
GGUF files of these forms, for the engine `llama` and for llama.cpp's own server, the program of `--llama-server`.
`--transformers` is a Python with transformers[serving], whose `transformers serve` batches continuously. `--ways`:
Outrider's servers are also asked in its own protocol, for hosted answers and in rounds (benchmarks/service_ways.py).

- `tokens_per_second`: of all clients together; tokens are counted by the target's tokenizer
- `tokens_per_cpu_second`: CPU of the server's processes
- `first_ms`, `gap_ms`: to the first text of an answer, and from one piece of text to the next, p50 and p95
- `passes`: forward passes of Outrider's servers per 100 tokens, each for all that ask
- `pieces`: pieces of an answer; `refused`: requests that had to be tried again; `failed`: answers that never came
- `same`: share of the answers that are those that this server gave to one client alone, of the questions asked then
- `memory_mb`: resident, when the round ends
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.bundled import DATA, DRAFTER, REPOSITORY, TARGET, write
from benchmarks.everyday import read_questions
from benchmarks.processes import cpu_seconds, resident_mb
from benchmarks.service_ways import PATIENCE, TRIES, WAYS, Asked, Drafts, by_tokens, drafts_of
from drafter.runtime import Drafter
from models.engines.memory_encoder import ArrayEncoder
from models.engines.onnx_engine import OnnxEngine
from models.files import TARGET_GRAPH
from models.gguf.text import text_source
from models.text.chat_text import ChatText
from models.text.text_side import read_text_side
from remote.openai.schema import DONE
from remote.openai.sse import EventReader

MOST_TOKENS = 64
START_SECONDS = 180.0
END_SECONDS = 10.0
LEAST = 24
"""Fewest answers of a round."""
KNOWN = 60
"""Questions whose answers to a single client are recorded before the rounds."""
COUNTS = [1, 2, 4, 8, 16, 32, 64]
"""How many clients ask at once."""
TEXT_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
"""The files besides the weights that devices need."""


@dataclass(frozen=True)
class Server:
    """A program that serves a model. `command`: with `{port}` in it."""

    title: str
    command: tuple[str, ...]
    model: str = TARGET.name
    """Its name there."""
    ours: bool = False
    """Whether it also speaks Outrider's own protocol."""
    port: int = 0
    """Where it listens. 0: at a free port."""


class Running:
    """A server's process, as a context manager."""

    def __init__(self, server: Server) -> None:
        self.server = server
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = server.port or free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.alone: dict[str, dict[str, str]] = {}
        """The answers to a single client, by the way of asking and the question."""

    def __enter__(self) -> Running:
        command = [part.format(port=self._port) for part in self.server.command]
        self._home = tempfile.TemporaryDirectory()
        environment = {**os.environ, "OUTRIDER_HOME": self._home.name, "HF_HUB_OFFLINE": "1"}
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(httpx.HTTPError):
                # It may want its key, or list nothing. While it loads the model, it says 503.
                if httpx.get(f"{self.url}/v1/models", timeout=5, trust_env=False).status_code in (200, 401, 403, 404):
                    return self
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise SystemExit(f"{self.server.title} did not start; run it by hand to see why: {' '.join(command)}")
            time.sleep(0.3)

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._home.cleanup()

    def kill(self) -> None:
        """End it and what it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def passes(self) -> int | None:
        """Forward passes of the target so far, each for all sessions at once, or None if not reported."""
        return passes(self.url) if self.server.ours else None

    @property
    def process(self) -> int:
        """Its process id."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU of the process and of those that it started."""
        return cpu_seconds(self._process.pid)

    def resident_mb(self) -> float:
        """Memory of the process and of those that it started."""
        return resident_mb(self._process.pid)


def passes(url: str, token: str = "none") -> int:
    """Forward passes of an Outrider server's target so far, each for all sessions at once."""
    head = {"authorization": f"Bearer {token}"}
    page = httpx.get(f"{url}/metrics", headers=head, timeout=PATIENCE, trust_env=False).text
    found = re.search(r"^outrider_batches_total ([\d.e+]+)$", page, re.MULTILINE)
    assert found is not None, page
    return int(float(found[1]))


async def answered(client: httpx.AsyncClient, model: str, question: str, asked: Asked) -> None:
    """Ask one question, and read the answer to its end."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": MOST_TOKENS,
        "stream": True,
    }
    begun = time.monotonic()
    for _ in range(TRIES):
        try:
            wait = await _read(client, body, begun, question, asked)
        except httpx.RemoteProtocolError:  # The server closed the connection between two requests.
            wait = 0.0
        if wait is None:
            return
        asked.refused += 1
        await asyncio.sleep(wait)
    asked.failed += 1


async def _read(
    client: httpx.AsyncClient, body: dict[str, Any], begun: float, question: str, asked: Asked
) -> float | None:
    """Read one answer. Returns the seconds after which to try again, if the server refused it."""
    text, last, events = "", begun, EventReader()
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code in (429, 503):
            await response.aread()
            return float(response.headers.get("retry-after", "1"))
        if response.status_code != 200:
            asked.failed += 1
            return None
        async for chunk in response.aiter_raw():
            for data in events.feed(chunk):
                if data == DONE or not (choices := json.loads(data).get("choices")):
                    continue
                if piece := choices[0]["delta"].get("content"):
                    now = time.monotonic()
                    asked.took(now - last, not text)
                    last, text = now, text + piece
    asked.texts[question] = text
    return None


async def load(running: Running, clients: int, questions: Sequence[str]) -> tuple[Asked, float]:
    """Have this many clients ask, each its share of the questions. Returns their measurements and the total seconds."""
    asked, waiting = Asked(), list(reversed(questions))
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=running.url, timeout=PATIENCE, limits=limits, trust_env=False) as client:

        async def one() -> None:
            while waiting:
                await answered(client, running.server.model, waiting.pop(), asked)

        begun = time.monotonic()
        await asyncio.gather(*(one() for _ in range(clients)))
        return asked, time.monotonic() - begun


def spread(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=20)
    return {"p50": round(1000 * statistics.median(values), 1), "p95": round(1000 * cuts[18], 1)}


class Clients:
    """Asks servers in all ways. `drafts`: of a device, for each question; empty if no device drafts."""

    def __init__(self, prompts: Sequence[str], ways: Sequence[str], model: Path | None) -> None:
        if model is None:
            self.text = ChatText.load(DRAFTER)
        else:
            with text_source(str(model)) as folder:
                self.text = read_text_side(Path(folder)).text
        self._prompts = {question: self.text.render([("user", question)]) for question in prompts}
        self._drafts: Drafts = {}
        if "edge" in ways:
            engine = OnnxEngine(TARGET / TARGET_GRAPH, ArrayEncoder.load(DRAFTER))
            self._drafts = drafts_of(engine, Drafter.load(DRAFTER), self._prompts, MOST_TOKENS)

    def ask(self, running: Running, way: str, clients: int, questions: Sequence[str]) -> tuple[Asked, float]:
        """Have this many clients ask. Returns their measurements and the total seconds."""
        if way == "openai":
            return asyncio.run(load(running, clients, questions))
        drafts = self._drafts if way == "edge" else None
        return asyncio.run(by_tokens(running.url, clients, questions, self._prompts, self.text, MOST_TOKENS, drafts))

    def measured(self, running: Running, way: str, clients: int, questions: Sequence[str]) -> dict[str, Any]:
        """One round of one server."""
        before, cpu = running.passes(), running.cpu_seconds()
        asked, seconds = self.ask(running, way, clients, questions)
        cpu, passes = running.cpu_seconds() - cpu, running.passes()
        tokens = sum(len(self.text.encode(answer)) + 1 for answer in asked.texts.values())
        alone = running.alone[way]
        known = [answer == alone[question] for question, answer in asked.texts.items() if question in alone]
        return {
            "tokens_per_second": round(tokens / seconds, 1),
            "tokens_per_cpu_second": round(tokens / max(cpu, 0.01), 1),
            "first_ms": spread(asked.first),
            "gap_ms": spread(asked.gaps),
            "passes": None if passes is None or before is None else round(100 * (passes - before) / tokens, 1),
            "pieces": round(asked.pieces / max(1, len(asked.texts)), 1),
            "refused": asked.refused,
            "failed": asked.failed,
            "same": round(sum(known) / len(known), 3) if known else None,
            "memory_mb": round(running.resident_mb()),
        }


def servers(arguments: argparse.Namespace, folder: Path) -> Iterator[Server]:
    """All servers. GGUF files are written into `folder`, next to the bundled tokenizer."""
    files = {form: folder / form / f"shell-guide-{form}.gguf" for form in arguments.gguf}
    for form, file in files.items():
        from tests.support.gguf_writer import write_gguf  # Needs the `gguf` package.

        file.parent.mkdir()
        write_gguf(TARGET, file, form)
        for name in TEXT_FILES:
            shutil.copy(TARGET / name, file.parent)
    serve = (sys.executable, "-m", "app.cli", "serve", "--port", "{port}")
    if own := arguments.model:
        files = {own.stem: own}
        yield Server("Outrider", (*serve, "--model", str(own), "--no-drafter"), own.stem, ours=True)
    for engine in () if own else arguments.engines:
        for form, file in files.items() if engine == "llama" else [(None, TARGET)]:
            title = f"Outrider, {engine if form is None else f'llama.cpp {form}'}"
            of = (*serve, "--engine", engine, "--model", str(file))
            name = TARGET.name if form is None else file.stem
            yield Server(title, (*of, "--drafter", str(DRAFTER)), name, ours=True)
            yield Server(f"{title}, no drafts", (*of, "--no-drafter"), name, ours=True)
    threads = str(len(os.sched_getaffinity(0)))
    for form, file in files.items() if arguments.llama_server else ():
        slots = ("--parallel", str(max(arguments.clients)), "-c", str(1024 * max(arguments.clients)), "-t", threads)
        command = (arguments.llama_server, "-m", str(file), "--port", "{port}", "--jinja", *slots)
        yield Server(f"llama.cpp, {form}", command)
    if arguments.transformers:
        python = shutil.which(arguments.transformers)
        if python is None or not (launcher := Path(python).with_name("transformers")).exists():
            raise SystemExit(f"{arguments.transformers} has no `transformers serve`: give the path of one that has it.")
        serving = (str(launcher), "serve", "--host", "127.0.0.1", "--port", "{port}", "--device", "cpu")
        yield Server("transformers serve", (*serving, "--continuous-batching"), str(TARGET))


def parser() -> argparse.ArgumentParser:
    known = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known.add_argument("--clients", type=lambda text: [int(part) for part in text.split(",")], default=COUNTS)
    known.add_argument("--answers", type=int, default=3, help="of each client in a round; at least 24 in all")
    known.add_argument("--rounds", type=int, default=2)
    known.add_argument("--engines", type=lambda text: text.split(","), default=["onnx", "torch"])
    known.add_argument("--ways", type=lambda text: text.split(","), default=["openai"], metavar=",".join(WAYS))
    known.add_argument("--model", type=Path, metavar="FILE")
    known.add_argument("--llama-server", metavar="PROGRAM")
    known.add_argument("--transformers", metavar="PYTHON")
    known.add_argument("--gguf", type=lambda text: text.split(","), default=[], metavar="FORM,...")
    known.add_argument("--json", type=Path, metavar="OUT")
    return known


def main() -> None:
    arguments = parser().parse_args()
    if not arguments.gguf and arguments.model is None and (arguments.llama_server or "llama" in arguments.engines):
        parser().error("llama.cpp needs --gguf, for instance --gguf q8_0")
    if unknown := set(arguments.ways) - set(WAYS):
        parser().error(f"there is no way {min(unknown)!r}; there are {', '.join(WAYS)}")
    prompts = [
        one.prompt for name in ("everyday", "everyday_rephrased") for one in read_questions(DATA / f"{name}.jsonl")
    ]
    rows: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    asking = Clients(prompts, arguments.ways, arguments.model)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        listed = list(servers(arguments, folder))  # Missing programs are reported before any server is started.
        all_running = [stack.enter_context(Running(server)) for server in listed]
        pairs = [(one, way) for one in all_running for way in arguments.ways if way == "openai" or one.server.ours]
        for running, way in pairs:
            running.alone[way] = asking.ask(running, way, 1, prompts[:KNOWN])[0].texts
        for turn in range(arguments.rounds):
            for clients in arguments.clients:
                count = max(LEAST, arguments.answers * clients)
                # Different questions for each number of clients, so that none profits from earlier ones.
                questions = random.Random(f"{turn} {clients}").sample(prompts, min(count, len(prompts)))
                for running, way in pairs:
                    row = asking.measured(running, way, clients, questions)
                    rows.setdefault((running.server.title, way, clients), []).append(row)
                    print(f"{running.server.title}, {way}, {clients} clients: {row}", flush=True)
    found = [
        {"server": title, "way": way, "clients": clients, "rounds": each}
        for (title, way, clients), each in rows.items()
    ]
    write(arguments.json, found, answers=arguments.answers)


if __name__ == "__main__":
    main()
