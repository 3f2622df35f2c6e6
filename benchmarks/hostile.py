"""Hostile requests at a server of the bundled model: raw bytes, and requests that are nearly right, by their schema.

    python -m benchmarks.hostile [--requests 100000] [--seed 1] [--json OUT]
    python -m benchmarks.hostile --openapi FILE

Half of the requests are bodies for OpenAI's two paths with some fields changed: to a value of another type, out of its
bounds, far too large, or of the right kind. A quarter are such bodies with their bytes changed. The others are raw
bytes on a fresh connection: broken request lines, headers and lengths, and bodies that end early.

No answer may be a fault of the server (status 5xx; 503 and 429 mean that it is full, and are counted apart), none may
take longer than a minute, and afterwards the server must give the answer that it gave before, with no session more and
with about the memory that it had after the first tenth.

`--openapi` writes the schema of these paths, for tools such as schemathesis (benchmarks/conformance.py runs that).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.openapi import CHAT, TEXT, document
from benchmarks.pair import machine_and_pair
from models.config import read_config
from tests.support.gateways import GatewayProcess
from tests.support.serving import VerifierProcess

PATIENCE_SECONDS = 60.0
AT_ONCE = 32
LONGEST = 128
"""Tokens of a session. A valid request may ask for all of them."""
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "list files"}], "max_tokens": 3, "temperature": 0}
CHANGED: dict[str, list[Any]] = {
    "messages": [
        [], None, "x", [{}], [{"role": "user"}], [{"role": "tool", "content": "x"}], [{"role": "assistant"}],
        [{"role": "user", "content": [{"type": "text", "text": "ls"}]}],
        [{"role": "user", "content": "\ud7ff\x00<|end|>"}],
        [{"role": "user", "content": "a" * 5000}], [{"role": "user", "content": [{"type": "image_url"}]}],
        [{"role": "user", "content": "ls"}] * 200,
    ],
    "prompt": [
        "", [], "ls", ["ls", "cat"], [1, 2, 3], [[1], [2]], [-1], [1 << 40], [None], ["ls"] * 70, [[]], "<|user|>",
    ],
    "model": ["", "shell-guide", "other", 3, None, "x" * 4000],
    "max_tokens": [0, -1, 1, 2, 1 << 62, 1.5, "3", None],
    "max_completion_tokens": [0, 1, 1 << 40, None, []],
    "temperature": [-1, 0, 1e-45, 1e-300, 2, 100, 101, "hot", None, 1e308],
    "top_p": [0, 1e-30, 0.5, 1, 2, None, "x"],
    "top_k": [-2, -1, 0, 1, 1 << 30, 1 << 40, 0.5],
    "seed": [-(1 << 63), (1 << 63) - 1, 1 << 63, 0, 1.5, None],
    "stop": ["", "l", [""], ["a", "b"], ["x"] * 16, ["x"] * 17, 7, None, ["\u0000"], "a" * 5000],
    "n": [0, 1, 2, 16, 17, "2", None],
    "stream": [True, False, None, "yes"],
    "stream_options": [{}, {"include_usage": True}, {"include_usage": 1}, None, []],
    "logprobs": [True, False, 0, 5, 21, -1, None, "x"],
    "top_logprobs": [0, 5, 20, 21, None],
    "logit_bias": [{}, {"5": 100}, {"5": -100}, {"x": 1}, {"99999": 1}, {"5": 1e9}, {"-1": 0}, {"٣": 1}, None, []],
    "presence_penalty": [-2, 0, 2, 3, None, "x"],
    "frequency_penalty": [-2, 0, 2, 3, None],
    "response_format": [
        {"type": "text"}, {"type": "json_object"}, {"type": "xml"}, {}, None, "json", {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"schema": {"type": "string"}}},
        {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}},
        {"type": "json_schema", "json_schema": {"schema": {"pattern": "(((("}}},
        {"type": "json_schema", "json_schema": {"schema": []}},
        {"type": "json_schema", "json_schema": {"schema": {"enum": []}}},
        {"type": "json_schema", "json_schema": {"schema": {"type": "array", "minItems": 1 << 31}}},
    ],
    "prediction": [
        {"content": "ls -l"}, {"content": ""}, {}, {"content": [{"type": "text", "text": "ls"}]}, "ls", None,
    ],
    "continue_final_message": [True, False, None],
    "add_generation_prompt": [True, False],
    "tools": [[], [{"type": "function"}], None, "x"],
    "tool_choice": ["none", "auto", "required", {}],
    "echo": [True, False, 2],
    "suffix": ["", "x", None],
    "best_of": [1, 2, 0, None],
    "min_p": [0, 0.1, "x"],
    "user": ["me", 7, {}],
    "unheard of": [None, {"a": [[[[]]]]}],
}  # fmt: skip
"""Values for each field: good, at a bound, beyond it, and of another type."""


def body(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A path, and a request for it with some fields changed."""
    path = rng.choice([CHAT, CHAT, TEXT])
    made = dict(QUESTION)
    if path == TEXT:
        made = {"prompt": "list files", "max_tokens": 3, "temperature": 0}
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        field = rng.choice(list(CHANGED))
        made[field] = rng.choice(CHANGED[field])
    if rng.random() < 0.05:
        made.pop(rng.choice(list(made)))
    return path, made


def bent(rng: random.Random, data: bytes) -> bytes:
    """Bytes of which some are cut out, doubled or made up."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del changed[at : at + rng.randint(1, 20)]
        elif kind == 1:
            changed[at:at] = rng.randbytes(rng.randint(1, 8))
        elif kind == 2:
            changed[at:at] = changed[at : at + 20]
        else:
            changed[at:at] = rng.choice([b"[" * 3000, b'{"a":' * 500, b"\\ud800", b"1e999", b"NaN", b"-0", b"\xff\xfe"])
    return bytes(changed)


def raw(rng: random.Random) -> bytes:
    """What is no proper HTTP request, or one that lies about its body."""
    path, made = body(rng)
    data = json.dumps(made).encode()
    length = rng.choice([len(data), len(data), 0, -1, len(data) + 9, 1 << 70, "x", ""])
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n"
    head += rng.choice(
        ["", "", "Transfer-Encoding: chunked\r\n", "Expect: 100-continue\r\n", "Content-Encoding: gzip\r\n"]
    )
    whole = head.encode() + b"\r\n" + data
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randint(1, 400))
    return bent(rng, whole) if kind == 1 else whole[: rng.randrange(len(whole))] if kind == 2 else whole


class Attack:
    """Sends hostile requests to a server, and counts what comes of them."""

    def __init__(self, server: VerifierProcess | GatewayProcess, seed: int) -> None:
        self._server, self._rng = server, random.Random(seed)
        self.statuses = Counter[str]()
        self.faults = list[dict[str, Any]]()
        self.slowest = 0.0
        self.sent = 0

    async def one(self, client: httpx.AsyncClient) -> None:
        kind = self._rng.random()
        begun = time.monotonic()
        if kind < 0.75:
            path, made = body(self._rng)
            data = json.dumps(made).encode() if kind < 0.5 else bent(self._rng, json.dumps(made).encode())
            told = await self._posted(client, path, data)
        else:
            data = raw(self._rng)
            path, told = "raw", await self._thrown(data)
        seconds = time.monotonic() - begun
        self.slowest = max(self.slowest, seconds)
        self.sent += 1
        self.statuses[told] += 1
        if told.startswith("5") and told != "503" or told in ("hung", "broken stream") or seconds > PATIENCE_SECONDS:
            self.faults.append({"path": path, "said": told, "bytes": repr(data[:2000]), "seconds": seconds})
            print(self.faults[-1], flush=True)

    async def _posted(self, client: httpx.AsyncClient, path: str, data: bytes) -> str:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await client.post(path, content=data, headers={"content-type": "application/json"})
        except (TimeoutError, httpx.TimeoutException):
            return "hung"
        except httpx.HTTPError as error:
            return type(error).__name__
        if answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream"):
            ended = answer.text.endswith("data: [DONE]\n\n")
            return "200" if ended else "stream with an error" if '"error"' in answer.text else "broken stream"
        return str(answer.status_code)

    async def _thrown(self, data: bytes) -> str:
        """Send raw bytes, and read one answer, or until the server closes the connection."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
                try:
                    writer.write(data)
                    await writer.drain()
                    if self._rng.random() < 0.95:  # The others wait for the server's deadline.
                        writer.write_eof()
                    answer = await _answer(reader)
                finally:
                    writer.close()
        except TimeoutError:
            return "hung"
        except OSError:
            return "closed"
        return answer[9:12].decode(errors="replace") if answer.startswith(b"HTTP/1.1 ") else "closed"


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """The first answer that says how long it is, or all that came before the connection was closed.

    A request whose `Connection: close` was spoilt leaves it open, for the next one.
    """
    answer = b""
    while piece := await reader.read(1 << 16):
        answer += piece
        head, _, content = answer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        if length is not None and len(content) >= int(length[1]):
            break
    return answer


def resident(process: int) -> int:
    """Resident bytes of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) << 10


async def attacked(count: int, seed: int) -> dict[str, Any]:
    """One server, and so many requests."""
    with tempfile.TemporaryDirectory() as scratch:
        pair = Path(scratch)
        (pair / "target").symlink_to(BUNDLED_TARGET)
        (pair / "drafter").symlink_to(BUNDLED_DRAFTER)
        with VerifierProcess(pair, options=["--max-tokens", str(LONGEST)]) as server:
            limits = httpx.Limits(max_connections=AT_ONCE)
            options: dict[str, Any] = {"timeout": PATIENCE_SECONDS, "trust_env": False, "limits": limits}
            async with httpx.AsyncClient(base_url=server.url, **options) as client:
                before = (await client.post(CHAT, json=QUESTION)).json()["choices"]
                attack, memory, begun = Attack(server, seed), list[tuple[int, int]](), time.monotonic()

                async def attacker() -> None:
                    while attack.sent < count:
                        await attack.one(client)
                        if attack.sent % max(1, count // 20) == 0:
                            memory.append((attack.sent, resident(server.id)))
                            print(
                                f"{attack.sent}/{count}", dict(attack.statuses), memory[-1][1] >> 20, "MB", flush=True
                            )

                await asyncio.gather(*(attacker() for _ in range(AT_ONCE)))
                after = (await client.post(CHAT, json=QUESTION)).json()["choices"]
                metrics = (await client.get("/metrics")).text.splitlines()
                running = next(line.split()[1] for line in metrics if line.startswith("outrider_running_sessions "))
            return {
                "requests": attack.sent,
                "seconds": time.monotonic() - begun,
                "statuses": dict(sorted(attack.statuses.items())),
                "faults": attack.faults,
                "slowest_seconds": attack.slowest,
                "same_answer": before == after,
                "running_sessions": int(float(running)),
                "resident_bytes": memory,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--openapi", type=Path)
    options = parser.parse_args()
    if options.openapi is not None:
        options.openapi.write_text(
            json.dumps(document(read_config(BUNDLED_DRAFTER).vocabulary), indent=1) + "\n", "utf-8"
        )
        return
    found = asyncio.run(attacked(options.requests, options.seed))
    print(json.dumps({key: value for key, value in found.items() if key != "resident_bytes"}, indent=1))
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine_and_pair(), **found}, indent=1) + "\n", "utf-8")
    if found["faults"] or not found["same_answer"] or found["running_sessions"]:
        raise SystemExit("The server did not stand it.")


if __name__ == "__main__":
    main()
