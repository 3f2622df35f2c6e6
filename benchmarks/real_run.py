"""One pretrained model for `benchmarks.real_models`: its server, its text side and its drafter."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from app.config import REPOSITORY, Folders
from drafter.floors import LEAST_TAU, why_no_drafts
from models.config import GRAPH, Measured, read_config, write_config
from models.files import is_gguf
from models.gguf.text import text_source
from models.text.chat_text import ChatText
from models.text.text_side import read_text_side
from remote.verifier.making.birth import BUDGET
from remote.verifier.making.maker import kept_drafter

KEPT = REPOSITORY / "runs" / "real-models"
"""Folder of the drafters that the benchmark has made, each in one that is named after its model."""
START_SECONDS = 600.0
QUESTIONS = (
    "How do I list the newest files first?",
    "Write a haiku about rain.",
    "What is the capital of France?",
    "Explain recursion to a child.",
    "Write a Python function that reverses a string.",
    "Why is the sky blue?",
    "Give me three ideas for dinner.",
    "Translate 'good morning' into German.",
    "What does HTTP 404 mean?",
    "How tall is Mount Everest?",
)
POEM = "Write a poem of twenty short lines about the sea. Each line stands on its own."
Figures = dict[str, Any]


class NotStarted(Exception):
    """A server did not start; the message says why."""


class Count(NamedTuple):
    """How many are right."""

    right: int
    of: int

    def __str__(self) -> str:
        return f"{self.right} of {self.of}"


@dataclass(frozen=True)
class Run:
    """One model, and how it is measured. `work`: a folder for this run alone."""

    model: Path
    work: Path
    quick: bool = False
    make: bool = False
    drafters: Path = KEPT
    llama_server: str = ""

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def is_gguf(self) -> bool:
        return is_gguf(str(self.model))

    @property
    def home(self) -> Path:
        """The home of the servers, except those of `start`."""
        return self.work / "home"

    @property
    def repeats(self) -> int:
        return 1 if self.quick else 3

    @property
    def questions(self) -> Sequence[str]:
        return QUESTIONS[:2] if self.quick else QUESTIONS

    @property
    def tokens(self) -> int:
        """Most tokens of an answer."""
        return 24 if self.quick else 80

    def serve(self, *options: str, home: Path | None = None) -> Serving:
        command = (sys.executable, "-m", "app.cli", "serve", "--model", str(self.model), "--port", "0", *options)
        return Serving(command, home or self.home)

    def text(self) -> ChatText:
        """The tokenizer and the template that a server with this home gives to devices, once one has run there."""
        with text_source(str(self.model), folders(self.home).texts) as folder:
            text = read_text_side(Path(folder)).text
        if text is None:
            raise NotStarted("it has no chat template that can be rendered")
        return text


def folders(home: Path) -> Folders:
    return Folders.locate({"OUTRIDER_HOME": str(home)})


class Serving:
    """`outrider serve` with its own home, as a context manager. Raises `NotStarted`."""

    def __init__(self, command: Sequence[str], home: Path) -> None:
        self._command, self._home = command, home
        self.url = ""
        self.begun = self.seconds = 0.0
        """When it was launched, and how long it took to be ready."""

    def __enter__(self) -> Serving:
        self._home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
        environment = {**kept, "OUTRIDER_HOME": str(self._home), "HF_HUB_OFFLINE": "1"}
        said = self._home / "serve.log"
        self.begun = time.monotonic()
        with said.open("w") as log:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                [*self._command, "--watch-stdin"], cwd=REPOSITORY, env=environment, stdin=pipe, stdout=pipe, stderr=log
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        self.seconds = time.monotonic() - self.begun
        if (found := re.search(r"ready at (\S+)", line)) is None:
            self.kill()
            raise NotStarted(f"it was not served: {(said.read_text().splitlines() or ['it said nothing'])[-1]}")
        self.url = found[1]
        return self

    def __exit__(self, *exception: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate()

    @property
    def process(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


def kept(run: Run) -> Path | None:
    """The folder of a drafter that was made of this model: by this benchmark, or by a server on this device."""
    served = kept_drafter(str(run.model), BUDGET, Folders.locate().made)
    places = [run.drafters / run.name, *([] if served is None else [served])]
    with_graph = [place for place in places if (place / GRAPH).is_file()]
    return next((place for place in [*with_graph, *places] if place.is_dir()), None)


def usable(run: Run) -> Path | None:
    """A drafter's folder whose figures allow it to draft, a copy if its own do not; None if there is no graph."""
    folder = kept(run)
    if folder is None or not (folder / GRAPH).is_file():
        return None
    config = read_config(folder)
    if why_no_drafts(config) is None:
        return folder
    copy = run.work / "drafter"
    if not copy.exists():
        shutil.copytree(folder, copy)
        found = config.measured
        if not isinstance(found, Measured):
            found = Measured(tau=LEAST_TAU, alone=0.0, perplexity=1e6, repeated=1.0)
        write_config(copy, msgspec.structs.replace(config, measured=msgspec.structs.replace(found, tau=LEAST_TAU)))
    return copy
