"""Real clients of OpenAI's API at a server of ours: each parameter, through each client's own words for it.

    python -m benchmarks.clients [--python PYTHON] [--node-modules DIR] [--json OUT]

A client is a small program in `benchmarks/client_programs/`, which asks what it is told on stdin and prints what came.
`--python` is an interpreter that has `openai`, `litellm`, `langchain-openai` and `llm`; `--node-modules` a folder with
`openai`, `ai` and `@ai-sdk/openai-compatible`. A client that is missing is left out.

What is expected comes from plain HTTP requests to the same server: the text of an answer must be the same, character by
character, and so must its number of tokens, its log-probabilities, or the field and the status of an error. A client
that has no words for a parameter, or does not pass an answer's part on, has a dash.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from app.config import BUNDLED_DRAFTER, BUNDLED_TARGET
from benchmarks.pair import machine_and_pair
from tests.support.serving import VerifierProcess

PROGRAMS = Path(__file__).parent / "client_programs"
CLIENTS: Mapping[str, tuple[str, str]] = {
    "openai, Python": ("python", "openai_python.py"),
    "openai, JavaScript": ("node", "openai_js.mjs"),
    "litellm": ("python", "litellm_python.py"),
    "langchain-openai": ("python", "langchain_python.py"),
    "ai SDK": ("node", "ai_sdk.mjs"),
    "llm": ("python", "llm_python.py"),
}
TOKEN, QUESTION, SECONDS = "a-token-for-the-clients", "How do I list the files in a folder, the newest first?", 600.0
SYSTEM = {"role": "system", "content": "Answer with one command."}
USER = {"role": "user", "content": QUESTION}
SCHEMA = {
    "type": "object",
    "properties": {"command": {"enum": ["ls", "find"]}, "sure": {"type": "boolean"}},
    "required": ["command", "sure"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
BASE: dict[str, Any] = {"messages": [USER], "temperature": 0, "max_tokens": 30}
CASES: Mapping[str, dict[str, Any]] = {
    "chat": BASE,
    "system": {**BASE, "messages": [SYSTEM, USER]},
    "parts of text": {**BASE, "messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]},
    "stream": {**BASE, "stream": True},
    "stream, usage": {**BASE, "stream": True, "stream_options": {"include_usage": True}},
    "temperature, top_p, seed": {**BASE, "temperature": 0.8, "top_p": 0.9, "seed": 7},
    "max_completion_tokens": {"messages": [USER], "temperature": 0, "max_completion_tokens": 7},
    "n": {**BASE, "temperature": 0.8, "seed": 7, "n": 2},
    "stop": {**BASE, "stop": ["-"]},
    "logprobs": {**BASE, "logprobs": True, "top_logprobs": 2},
    "logit_bias": {**BASE, "logit_bias": {"300": 5.0}},
    "penalties": {**BASE, "presence_penalty": 1.5, "frequency_penalty": 1.0},
    "response_format": {
        **BASE, "max_tokens": 60,
        "response_format": {"type": "json_schema", "json_schema": {"name": "call", "strict": True, "schema": SCHEMA}},
    },
    "prediction": {**BASE, "prediction": {"type": "content", "content": "ls -lt"}},
    "plain text": {"prompt": "ls -l", "temperature": 0, "max_tokens": 12},
    "models": {"models": True},
    "error 400": {**BASE, "messages": [{"role": "user", "content": "list files " * 3000}]},
    "error 401": {**BASE, "token": "another-token-that-is-wrong"},
    "error 404": {**BASE, "model": "another"},
    "tools": {**BASE, "tools": [TOOL]},
}  # fmt: skip


async def expected(url: str) -> dict[str, dict[str, Any]]:
    """What plain HTTP requests give, by the case."""
    found: dict[str, dict[str, Any]] = {}
    async with httpx.AsyncClient(base_url=url, timeout=SECONDS, trust_env=False) as client:
        for name, case in CASES.items():
            fields = {key: value for key, value in case.items() if key not in ("stream", "stream_options", "token")}
            headers = {"authorization": f"Bearer {case.get('token', TOKEN)}"}
            if "models" in case:
                listed = (await client.get("/models", headers=headers)).json()
                found[name] = {"models": [model["id"] for model in listed["data"]]}
                continue
            path = "/completions" if "prompt" in case else "/chat/completions"
            answer = await client.post(path, json=fields, headers=headers)
            found[name] = _told(answer.status_code, answer.json())
    return found


def _told(status: int, body: dict[str, Any]) -> dict[str, Any]:
    if status != 200:
        return {"status": status, "message": body["error"]["message"]}
    choices = body["choices"]
    told: dict[str, Any] = {
        "texts": [choice["text"] if "text" in choice else choice["message"]["content"] for choice in choices],
        "tokens": body["usage"]["completion_tokens"],
    }
    if "logprobs" in choices[0] and choices[0]["logprobs"]:
        told["logprobs"] = [[one["token"], round(one["logprob"], 4)] for one in choices[0]["logprobs"]["content"]]
    return told


def judged(wanted: dict[str, Any], got: dict[str, Any] | None) -> str:
    """`exact`, a dash where the client cannot say it, or what is different."""
    if got is None or got.get("unsupported"):
        return "–"
    if "status" in wanted:
        if "texts" in got:
            return "no error"
        if got.get("status") not in (None, wanted["status"]):
            return f"status {got['status']}"
        return "exact" if wanted["message"] in got.get("message", "") else f"said: {got.get('message', '')[:200]}"
    if got.get("object") is not None:  # The client parses JSON, and passes only that on.
        return "exact" if got["object"] == json.loads(wanted["texts"][0]) else f"other JSON: {got['object']}"
    for key, value in wanted.items():
        if key == "texts" and got.get(key) != value:
            return f"other text: {json.dumps(got.get(key) or got)[:200]}"
        if key in got and key != "texts" and got[key] != value:
            return f"other {key}: {json.dumps(got[key])[:200]}"
    if "logprobs" in wanted and "logprobs" not in got:
        return "text exact, logprobs not passed on"
    return "exact"


def asked(kind: str, program: str, url: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """What a client's program prints; None: the client is not installed."""
    runner = options.python if kind == "python" else "node"
    modules = {} if options.node_modules is None else {"OUTRIDER_NODE_MODULES": str(options.node_modules.resolve())}
    told = json.dumps({"url": url, "token": TOKEN, "cases": CASES})
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "LLM_USER_PATH": home, "NO_PROXY": "127.0.0.1"}
        try:
            ran = subprocess.run(
                [runner, str(PROGRAMS / program)],
                input=told, capture_output=True, text=True, timeout=SECONDS, cwd=home, env={**environment, **modules},
            )  # fmt: skip
        except FileNotFoundError:
            return None
    if "ModuleNotFoundError" in ran.stderr or "ERR_MODULE_NOT_FOUND" in ran.stderr:
        return None
    if ran.returncode:
        raise SystemExit(f"{program} ended with {ran.returncode}: {ran.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--node-modules", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        pair, token = Path(scratch) / "pair", Path(scratch) / "token"
        pair.mkdir()
        (pair / "target").symlink_to(BUNDLED_TARGET)
        (pair / "drafter").symlink_to(BUNDLED_DRAFTER)
        token.write_text(TOKEN)
        with VerifierProcess(pair, token_file=token) as server:
            url = f"{server.url}/v1"
            wanted = asyncio.run(expected(url))
            rows, versions = [], {}
            for title, (kind, program) in CLIENTS.items():
                if (got := asked(kind, program, url, options)) is None:
                    print(f"{title}: not installed", flush=True)
                    continue
                versions[title] = got.pop("version")
                results = {name: judged(wanted[name], got.get(name)) for name in CASES}
                print(title, versions[title], json.dumps(results, indent=1, ensure_ascii=False), flush=True)
                rows.append({"client": title, "version": versions[title], "results": results})
    if options.json is not None:
        told = {"machine": machine_and_pair(), "rows": rows}
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
