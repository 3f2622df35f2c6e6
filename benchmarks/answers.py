"""Answers to the prompts of a benchmark, from `outrider ask --prompts` or from a model alone; and the code in them.

Each way of answering has a name: a mode of `outrider ask`, the name of the folder of a `--model`, or that of the file
of `--answers`. Ways without pages before a question, because of `--pages`, end with ", no pages".
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from app.cli.machine import machine
from benchmarks.bundled import DRAFTER, REPOSITORY, machine_and_pair
from models.config import read_config, write_config
from models.guide.names import NoMarks
from models.guide.pages import FILE, FORMAT, SCHEMA, Pages
from models.guide.prompt import Prompt
from models.guide.recipe import has_marks, recipe_for
from models.guide.search import platforms_of

FENCE = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
"""A code fence; the end of the text closes one that is open."""
INLINE = re.compile(r"`([^`\n]+)`")
"""Code inside a line."""

BATCH = 16
"""Conversations that a model answers in one batch."""


class NoAnswers(Exception):
    """Not all prompts were answered, so that a share would mislead. The message says why."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that say who answers."""
    parser.add_argument("--mode", nargs="+", default=["edge"], choices=["edge", "hosted", "offline", "auto"])
    parser.add_argument("--remote", metavar="URL", help="the server; without it, the bundled model")
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="ask this checkpoint of Shell Guide's target, without Outrider"
    )
    parser.add_argument(
        "--pages",
        choices=["with", "without", "both"],
        default=None,
        help="what stands before each question; default: what the drafter's folder says",
    )
    parser.add_argument("--answers", type=Path, metavar="FILE", help="judge the answers in these JSON lines")


def share(rows: Sequence[Mapping[str, Any]], way: str) -> str:
    """The share of right answers in one way: `85.0% (102 of 120)`."""
    faults = [row["fault"] for row in rows if row["mode"] == way]
    right = faults.count(None)
    return f"{right / len(faults):.1%} ({right} of {len(faults)})" if faults else ""


def measured_with(arguments: argparse.Namespace) -> dict[str, object]:
    """The machine, and the pair where the bundled one answered."""
    return machine() if arguments.model or arguments.answers or arguments.remote else machine_and_pair()


def ask_as_told(
    arguments: argparse.Namespace, prompts: Sequence[Mapping[str, Any]], most: int
) -> dict[str, dict[str, str]]:
    """The answers to prompts, by the name of the way and then by the prompt's `id`.

    `arguments`: with those of `add_options`. `most`: tokens of an answer. Raises `NoAnswers`.
    """
    if arguments.answers:
        return {arguments.answers.name: answers_in(arguments.answers.read_text(encoding="utf-8"))}
    ways: dict[str, dict[str, str]] = {}
    for pages in ("with", "without") if arguments.pages == "both" else (arguments.pages,):
        ending = ", no pages" if pages == "without" else ""
        with drafter_reading(pages) as folder:
            if arguments.model:
                prompt = prompt_of(folder, arguments.model)
                ways[arguments.model.name + ending] = generate_all(arguments.model, prompts, prompt, most)
                continue
            for mode in arguments.mode:
                limit = ["--max-tokens", str(most)]
                given = ask_all(prompts, mode, remote=arguments.remote, options=limit, drafter=folder)
                ways[mode + ending] = given
    return ways


def prompt_of(folder: Path, model: Path) -> Prompt | None:
    """The prompt recipe of the drafter's folder for this checkpoint, if any."""
    if not read_config(folder).prompt_recipe:
        return None
    return Prompt(Pages.open(folder / FILE), platforms_of(sys.platform), marks_names=has_marks(model))


@contextlib.contextmanager
def drafter_reading(pages: str | None) -> Iterator[Path]:
    """The bundled drafter's folder, or a copy of it that uses its pages (`with`) or none (`without`)."""
    if pages is None:
        yield DRAFTER
        return
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(shutil.copytree(DRAFTER, Path(parent) / DRAFTER.name))
        file = folder / FILE
        if pages == "without":
            file.unlink(missing_ok=True)
            with contextlib.closing(sqlite3.connect(file)) as database, database:
                database.executescript(SCHEMA)
                database.execute("INSERT INTO facts VALUES ('format', ?)", (FORMAT,))
        recipe = recipe_for(folder)
        write_config(folder, msgspec.structs.replace(read_config(folder), prompt_recipe=recipe))
        yield folder


def ask_all(
    prompts: Sequence[Mapping[str, Any]],
    mode: str,
    *,
    remote: str | None = None,
    options: Sequence[str] = (),
    drafter: Path | None = None,
) -> dict[str, str]:
    """The greedy answers to prompts, by their `id`, independent of the caller's settings.

    `remote`: a server's address, which gets the caller's `OUTRIDER_TOKEN`; None: the bundled model. `options`: more of
    `outrider ask`. `drafter`: its folder; None: the bundled one. Of a conversation (`turns`), the last answer. Raises
    `NoAnswers`.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    if remote is not None and (token := os.environ.get("OUTRIDER_TOKEN")):
        environment["OUTRIDER_TOKEN"] = token
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "prompts.jsonl"
        file.write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts), encoding="utf-8")
        command = [sys.executable, "-m", "app.cli", "ask", "--prompts", str(file), "--mode", mode]
        command += ["--temperature", "0", *options]
        # The token applies only to an address from the environment, not from the command line.
        environment |= {"OUTRIDER_HOME": home, "OUTRIDER_REMOTE": remote or "bundled"}
        if drafter is not None:
            environment["OUTRIDER_DRAFTER"] = str(drafter)
        ran = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", env=environment, cwd=REPOSITORY)
    answers = answers_in(ran.stdout)
    if len(answers) < len(prompts):
        raise NoAnswers(f"`outrider ask --mode {mode}` ended with {ran.returncode}, after {len(answers)} answers")
    return answers


def answers_in(lines: str) -> dict[str, str]:
    """The last answer to each prompt in JSON lines, by id. Lines without an answer are left out."""
    rows = [json.loads(line) for line in lines.splitlines() if line.strip()]
    return {row["id"]: row["text"] for row in rows if "text" in row}


def generate_all(model: Path, prompts: Sequence[Mapping[str, Any]], prompt: Prompt | None, most: int) -> dict[str, str]:
    """The greedy answers of a checkpoint by transformers alone, by id: of a conversation (`turns`), the last answer.

    `prompt`: the recipe that puts pages before a question, or None for the plain chat template. `most`: tokens of an
    answer.
    """
    import torch
    from transformers import AutoTokenizer

    from models.engines.target import load_target

    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    network = load_target(str(model), device="cpu").model
    said: dict[str, list[tuple[str, str]]] = {one["id"]: [] for one in prompts}
    left = {one["id"]: list(one.get("turns") or [one["prompt"]]) for one in prompts}
    while asking := [name for name, turns in left.items() if turns]:
        for name in asking:
            said[name].append(("user", left[name].pop(0)))
        asking.sort(key=lambda name: len(said[name]))
        for first in range(0, len(asking), BATCH):
            batch = asking[first : first + BATCH]
            texts = []
            for name in batch:
                messages = said[name] if prompt is None else prompt.apply(said[name])
                chat = [{"role": role, "content": text} for role, text in messages]
                texts.append(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False))
            read = tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
            with torch.inference_mode():
                out = network.generate(**read, max_new_tokens=most, do_sample=False)
            for name, row in zip(batch, out[:, read["input_ids"].shape[1] :]):
                marks = (
                    NoMarks() if prompt is None else prompt.marks(text for role, text in said[name] if role == "user")
                )
                said[name].append(("assistant", marks.shown(tokenizer.decode(row, skip_special_tokens=True))))
    return {name: turns[-1][1] for name, turns in said.items()}
