"""The reference for answers: llama.cpp through its own API for a GGUF file, transformers for a folder.

    python -m benchmarks.reference MODEL [--threads N]

llama.cpp runs as its own server runs it by default: flash attention where it suits, a cache of float16, 2,048 tokens in
a batch and 512 in a part of it, one sequence. Answers are greedy. Each line of stdin is a request, a JSON object, and
gives one line on stdout:

- `{"text": "..."}` -> `{"tokens": [...]}`: special tokens in the text are special, and nothing is added. llama.cpp only
- `{"prompt": [...], "most": 80}` -> `{"tokens": [...], "first": 0.1, "seconds": 2.0}`: the answer to a prompt, and the
  seconds to its first token and to its last one. `first` is null where transformers answers
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from app.config import REPOSITORY
from models.cores import usable_cores
from models.engines.llama_lane import model_parameters
from models.files import is_gguf

BATCH, PART = 2048, 512
Reply = dict[str, Any]


class LlamaReference:
    """A GGUF file in llama.cpp. A conversation holds `room` tokens."""

    def __init__(self, path: str, threads: int, room: int = 4096) -> None:
        import llama_cpp

        self._lib: Any = llama_cpp
        self._quiet = llama_cpp.llama_log_callback(lambda *_: None)  # llama.cpp keeps no reference of its own.
        llama_cpp.llama_log_set(self._quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(path.encode(), model_parameters(llama_cpp))
        if not self._model:
            raise SystemExit(f"llama.cpp cannot load {path}.")
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch, parameters.n_seq_max = room, BATCH, PART, 1
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
        parameters.no_perf = True
        self._context = llama_cpp.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise SystemExit(f"llama.cpp has no room for {room} tokens.")
        self._batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self._words = llama_cpp.llama_model_get_vocab(self._model)
        self._size = llama_cpp.llama_vocab_n_tokens(self._words)

    def tokens(self, text: str) -> list[int]:
        """The ids of a text. Special tokens in it are special, and nothing is added."""
        written = text.encode()
        room = (self._lib.llama_token * (len(written) + 16))()
        count = self._lib.llama_tokenize(self._words, written, len(written), room, len(room), False, True)
        return list(room[:count])

    def answer(self, prompt: list[int], most: int) -> Reply:
        """Answer greedily, from an empty cache. The token that ends the answer is its last one."""
        begun = time.perf_counter()
        self._lib.llama_memory_clear(self._lib.llama_get_memory(self._context), True)
        for start in range(0, len(prompt), BATCH):
            self._run(prompt[start : start + BATCH], start)
        tokens = [self._likeliest()]
        first = time.perf_counter() - begun
        while len(tokens) < most and not self._lib.llama_vocab_is_eog(self._words, tokens[-1]):
            self._run(tokens[-1:], len(prompt) + len(tokens) - 1)
            tokens.append(self._likeliest())
        return {"tokens": tokens, "first": first, "seconds": time.perf_counter() - begun}

    def _run(self, tokens: list[int], start: int) -> None:
        batch = self._batch
        batch.n_tokens = len(tokens)
        for at, token in enumerate(tokens):
            batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.seq_id[at][0] = token, start + at, 1, 0
            batch.logits[at] = at == len(tokens) - 1
        if status := self._lib.llama_decode(self._context, batch):
            raise SystemExit(f"llama.cpp could not compute this (status {status}).")

    def _likeliest(self) -> int:
        logits = self._lib.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, (self._size,)).argmax())


def by_transformers(folder: str) -> Callable[[list[int], int], Reply]:
    """`generate`, greedy, with the weights as the server loads them."""
    from benchmarks import single_device  # PyTorch takes seconds to import, and a GGUF file does not need it.
    from models.engines.target import load_target

    model = load_target(folder).model

    def answer(prompt: list[int], most: int) -> Reply:
        begun = time.perf_counter()
        tokens = single_device.by_transformers(model, max_new_tokens=most)(prompt)
        return {"tokens": tokens, "first": None, "seconds": time.perf_counter() - begun}

    return answer


class Reference:
    """This module in a process of its own, as a context manager."""

    def __init__(self, model: Path) -> None:
        self._command = [sys.executable, "-m", "benchmarks.reference", str(model)]

    def __enter__(self) -> Reference:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, text=True, cwd=REPOSITORY)
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()  # The process ends with its stdin.

    def ask(self, **request: object) -> Reply:
        """Send a request, and wait for its result."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        if not (line := stdout.readline()):
            raise RuntimeError(f"the reference ended with {self._process.wait()}; what it said stands above")
        return dict(json.loads(line))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", help="a GGUF file, or a model's folder")
    parser.add_argument("--threads", type=int, default=usable_cores(), metavar="N", help="default: all cores")
    arguments = parser.parse_args()
    llama = LlamaReference(arguments.model, arguments.threads) if is_gguf(arguments.model) else None
    answer = by_transformers(arguments.model) if llama is None else llama.answer
    for line in sys.stdin:
        request = json.loads(line)
        if "text" in request and llama is not None:
            reply: Reply = {"tokens": llama.tokens(request["text"])}
        else:
            reply = answer(request["prompt"], request["most"])
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
