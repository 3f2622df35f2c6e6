"""Pretrained models as published, through all of Outrider: starts, tokens, equal text, speed, memory, a kill.

    python -m benchmarks.real_models --models DIR [--only NAME] [--parts start,tokens,...] [--quick] [--json OUT]
                                     [--make] [--drafters DIR] [--llama-server COMMAND]

DIR holds GGUF files, and folders with a `config.json`; the variable OUTRIDER_REAL_MODELS may name it too. Nothing is
fetched. If a part of a model fails, its row says so, and the rest continues. Parts:

- `start`: medians from launching `outrider serve --no-drafter` to its line "ready", and to the first word of an answer,
  with an empty home and with one in which the server ran before; then its memory after ten answers
- `tokens`: the prompts of 20 conversations in the server's tokens, compared with those of transformers and of llama.cpp
- `drafter`: what a server measures of the drafter that it makes. `--make` makes one where none is kept in `--drafters`;
  else the one counts that `outrider serve` has made on this device
- `answers`: greedy answers that equal, letter by letter, those of llama.cpp (a folder: of transformers); those of a
  server that was asked the same before; and those with drafts, which must equal those without. A drafter that is too
  bad to be used drafts here all the same; `trees` always drafts, also where that does not pay
- `speed`: tokens per second from the first piece of text to the end, and the seconds to that piece, one client. All
  ways take turns, question by question, each time with another one first. A server reads a prompt once, so only the
  first way waits for that. `--llama-server` is the command of another server, with `{model}` and `{port}` in it; the
  app asks it as it asks any other
- `kill`: what `outrider ask` shows when the server is killed in the middle of an answer, and what `--mode offline` does
  then

One after another; nothing else should run. Use `--quick` to see that all of it works.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx
import msgspec

from app.cli.machine import machine
from app.config import REPOSITORY
from benchmarks.processes import resident_mb
from benchmarks.real_answers import answers, speed
from benchmarks.real_run import KEPT, POEM, QUESTIONS, START_SECONDS, Count, Figures, NotStarted, Run, kept
from benchmarks.reference import Reference
from benchmarks.servers import Person
from benchmarks.service import answered
from benchmarks.service_ways import Asked
from drafter.floors import why_no_drafts, why_not_alone
from models.config import GRAPH, Measured, read_config
from models.files import is_gguf
from models.text.template import TemplateFailed

VARIABLE = "OUTRIDER_REAL_MODELS"
USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
CONVERSATIONS: tuple[tuple[tuple[str, str], ...], ...] = (
    *(((USER, question),) for question in QUESTIONS),
    ((SYSTEM, "You answer in one word."), (USER, QUESTIONS[2])),
    ((SYSTEM, "Du bist ein Übersetzer.\n\n- kurz\n- höflich"), (USER, "Straße, Größe, Äpfel: 50 € (§ 12)")),
    ((USER, QUESTIONS[2]), (ASSISTANT, "Paris."), (USER, "And of Italy?")),
    ((SYSTEM, "Be brief."), (USER, "Hi"), (ASSISTANT, "Hello!"), (USER, "2+2?"), (ASSISTANT, "4"), (USER, "Thanks.\n")),
    ((USER, "def f(x):\n    if x:\n\t\treturn 0.5  # half\n\n\nWhat is wrong?"),),
    ((USER, "  two spaces before, tabs\t\tbetween, and lines after \n\n"),),
    ((USER, "3.14159 1,000,000 2026-01-31 0x1F 12345678901 ½ ² Ⅷ"),),
    ((USER, "你好，世界！これはテストです。한국어도 Привет مرحبا नमस्ते"),),
    ((USER, "👩\u200d💻 🇩🇪 👍\U0001f3fd ❤\ufe0f n\u0303 é \u00a0\u2003 “quoted”—it's don't WE'VE"),),
    ((USER, "<a href='x.html?q=1&b=%20'>{{ f(x) }}</a> {% if %} $HOME `ls -l | wc` \\n"),),
)
# ---- parts -----------------------------------------------------------------------------------------------------------


def start(run: Run) -> Figures:
    figures = defaultdict[str, list[float]](list)
    for number in range(run.repeats):
        home = run.work / f"start-{number}"
        for which in ("first", "second"):
            with run.serve("--no-drafter", home=home) as serving:
                asked = asyncio.run(_asked(serving.url, QUESTIONS[:1]))
                figures[f"{which} start, ready: s"].append(serving.seconds)
                figures[f"{which} start, first word: s"].append(asked[0] - serving.begun)
                if number == run.repeats - 1 and which == "second":
                    asyncio.run(_asked(serving.url, run.questions[1:]))
                    figures[f"memory after {len(run.questions)} answers, RSS: MB"].append(resident_mb(serving.process))
    return {name: round(statistics.median(values), 2) for name, values in figures.items()}


async def _asked(url: str, questions: Sequence[str]) -> list[float]:
    """Ask through OpenAI's API. Returns when the first text of each answer arrived."""
    came = []
    async with httpx.AsyncClient(base_url=url, timeout=START_SECONDS, trust_env=False) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]
        for question in questions:
            asked, begun = Asked(), time.monotonic()
            await answered(client, model, question, asked)
            if not asked.first:
                raise NotStarted("no answer came")
            came.append(begun + asked.first[0])
    return came


def tokens(run: Run) -> Figures:
    from transformers import AutoTokenizer

    with run.serve("--no-drafter"):
        text = run.text()
    where = {"gguf_file": run.model.name} if run.is_gguf else {}
    folder = run.model.parent if run.is_gguf else run.model
    theirs = AutoTokenizer.from_pretrained(folder, local_files_only=True, **where)
    same = defaultdict[str, list[bool]](list)
    with contextlib.ExitStack() as stack:
        llama = stack.enter_context(Reference(run.model)) if run.is_gguf else None
        for conversation in CONVERSATIONS:
            try:
                rendered = text.render_after(None, conversation)
            except TemplateFailed:
                continue  # A template may not accept a system message.
            spoken = [{"role": role, "content": content} for role, content in conversation]
            written = theirs.apply_chat_template(spoken, tokenize=False, add_generation_prompt=True)
            same["text as transformers renders it"].append(written == rendered.text)
            ids = theirs(written, add_special_tokens=False)["input_ids"]
            same["tokens as in transformers"].append(ids == rendered.tokens)
            if llama is not None:
                same["tokens as in llama.cpp"].append(llama.ask(text=rendered.text)["tokens"] == rendered.tokens)
    if not same:
        raise NotStarted("its chat template renders none of the conversations")
    return {what: Count(sum(found), len(found)) for what, found in same.items()}


def drafter(run: Run) -> Figures:
    out = run.drafters / run.name
    seconds = None
    if run.make and not (out / GRAPH).is_file():
        begun = time.monotonic()
        command = (sys.executable, "-m", "app.cli", "drafter", "make", "--target", str(run.model), "--out", str(out))
        out.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        if done.returncode:
            return {"made": f"no: {(done.stderr.splitlines() or ['it said nothing'])[-1]}"}
        seconds = round(time.monotonic() - begun)
    if (folder := kept(run)) is None:
        return {"made": "no: --make makes one"}
    config = read_config(folder)
    measured = msgspec.to_builtins(config.measured) if isinstance(config.measured, Measured) else {}
    return {
        **({} if seconds is None else {"made in: s": seconds}),
        "tokens a round": measured.get("tau"),
        "right without the model": measured.get("alone"),
        "perplexity alone": measured.get("perplexity"),
        "repeated alone": measured.get("repeated"),
        "used and offered": f"no: {why}" if (why := why_no_drafts(config)) else "yes",
        "writes alone": f"no: {why}" if (why := why_not_alone(config)) else "yes",
    }


def kill(run: Run) -> Figures:
    person = Person(str(run.work / "person"))
    with run.serve("--no-drafter") as serving:
        added = person.run("remote", "add", "real", serving.url)
        asked = ("ask", "--remote", "real", POEM)
        code, said, told = person.interrupted(*asked, then=lambda _: serving.kill())
    offline = person.run("ask", "--mode", "offline", "--remote", "real", QUESTIONS[0])
    return {
        "server added": "yes" if added.returncode == 0 else f"no: {added.stderr}",
        "killed, exit code": code,
        "killed, text": f"{len(said.split())} words, to “{said.strip()[-60:]}”",
        "killed, told": told.strip(),
        "offline, exit code": offline.returncode,
        "offline, text": offline.stdout.strip(),
        "offline, told": offline.stderr.strip(),
    }


PARTS: Mapping[str, Callable[[Run], Figures]] = {
    part.__name__: part for part in (start, tokens, drafter, answers, speed, kill)
}


# ---- the table -------------------------------------------------------------------------------------------------------


def models(folder: Path, only: str | None = None) -> list[Path]:
    """The GGUF files and the models' folders in `folder`; with `only`, those whose names have it in them."""
    found = sorted(path for path in folder.iterdir() if is_gguf(str(path)) or (path / "config.json").is_file())
    return [path for path in found if only is None or only.lower() in path.name.lower()]


def measured(run: Run, parts: Sequence[str]) -> dict[str, Figures]:
    """The figures of each part of one model."""
    found = {}
    for part in parts:
        print(f"{run.name}: {part} ...", file=sys.stderr, flush=True)
        try:
            found[part] = PARTS[part](run)
        except (Exception, SystemExit) as error:  # One part must not stop the others: that it failed is a figure too.
            found[part] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def written(found: Mapping[str, Mapping[str, Figures]]) -> str:
    """A table with a row for each figure, and a column for each model."""
    labels = dict.fromkeys((part, label) for one in found.values() for part in one for label in one[part])
    lines = [
        [f"{part}: {label}", *(_cell(one.get(part, {}).get(label)) for one in found.values())] for part, label in labels
    ]
    head = ["", *found]
    rule = ["---", *("--:" for _ in found)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def _cell(value: object) -> str:
    return "–" if value is None else " ".join(str(value).split()).replace("|", "\\|")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=os.environ.get(VARIABLE) or None, metavar="DIR")
    parser.add_argument("--only", metavar="NAME", help="models with NAME in their names")
    parser.add_argument("--parts", type=lambda words: words.split(","), default=list(PARTS), metavar="PART,...")
    parser.add_argument("--quick", action="store_true", help="two short answers, once")
    parser.add_argument("--make", action="store_true", help="make drafters, minutes each; they are kept")
    parser.add_argument("--drafters", type=Path, default=KEPT, metavar="DIR", help="where those are kept")
    parser.add_argument("--llama-server", default="", metavar="COMMAND", help="'llama-server -m {model} --port {port}'")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args(argv)
    if arguments.models is None:
        parser.error(f"give the folder of the models with --models or {VARIABLE}")
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)!r}; there are {', '.join(PARTS)}")
    if not arguments.models.is_dir() or not (listed := models(arguments.models, arguments.only)):
        parser.error(f"there is no such model in {arguments.models}")
    options = {name: getattr(arguments, name) for name in ("quick", "make", "drafters", "llama_server")}
    found: dict[str, dict[str, Figures]] = {}
    for model in listed:
        with tempfile.TemporaryDirectory() as work:
            run = Run(model.resolve(), Path(work), **options)
            found[run.name] = measured(run, arguments.parts)
        if arguments.json:  # After each model: a run of hours may be interrupted.
            document = {"machine": machine(), "quick": arguments.quick, "models": found}
            arguments.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(written(found))


if __name__ == "__main__":
    main()
