"""Makes a drafter for a model that has none while the server is idle, and keeps it.

The server answers first. Then a separate process makes the drafter (`maker_worker.py`), and teaches it if it guesses
badly; it is suspended while anybody asks. Work done before a kill is kept. As soon as the drafter is useful, the server
uses it. What it becomes after that is used from the next start on.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, Self

import msgspec
from filelock import BaseFileLock

from drafter.floors import LEAST_TAU, why_no_drafts
from drafter.questions import usual_questions
from models.config import CONFIG, ENCODER, GRAPH, TEMPLATE, TOKENIZER, DrafterError, read_config
from models.engines.engine import EngineError
from models.extras import how_to_install
from remote.verifier.idle import Quiet, StandingBack, put
from remote.verifier.options import ServeOptions
from remote.verifier.shared_files import linked, locked
from remote.verifier.start_errors import NoMemory, say

MADE_AS = 3
"""Version of the way drafters are made, so that one made in an older way is no longer used."""
LOOK_SECONDS = 0.25
QUIET_SECONDS = 2.0
"""Seconds without a question after which the process is resumed."""
FIRST_SECONDS = 60.0
"""It begins after the first answer, or after this many seconds without a question."""
TOLD_SECONDS = {"answers": 30.0, "layers": 0.0, "learning": 900.0}
"""Seconds between two progress lines of a stage. The first one comes at once."""
LEARNING_SECONDS = 7200.0
"""Longest time for which a drafter learns, in seconds of the processor."""
PART, GROWN, LIVE, LOCK = ".part", ".grown", ".live", ".lock"
"""Ends of names next to a drafter's folder: the folders of its work, of what it has become, for the next start, and of
what was useful first, which the running server uses; and the file that its server locks."""
_CLAIMED: dict[Path, BaseFileLock] = {}


class MakingTask(msgspec.Struct, frozen=True):
    model: str
    out: str
    """The drafter's folder."""
    work: str
    """The folder that keeps the answers, and what was learnt, until the drafter is made."""
    budget: int
    questions: tuple[str, ...]
    """Typical questions. The target's answers select what the drafter can say, and show how well it guesses."""
    kept: str | None = None
    template: str | None = None
    learning: float = 0.0
    """Longest time for which the drafter learns if it guesses badly, in seconds of the processor."""


class MakingProgress(msgspec.Struct, frozen=True, tag=True):
    stage: Literal["answers", "layers", "learning"]
    done: int = 0
    of: int = 0
    left: float = 0.0
    """Estimated CPU seconds left in this stage. Learning may end sooner."""
    tau: float = 1.0
    """Tokens per round so far."""


class MakingOutcome(msgspec.Struct, frozen=True, tag=True):
    """The result of the process."""

    said: str
    """A sentence that describes the drafter, or says why there is none."""
    made: bool


def kept_drafter(model: str, budget: int, kept: Path, template: str | None = None) -> Path | None:
    """The folder for the drafter of this size for `model`, a folder, a file or a name, in its current state.

    `template`: a chat template to use instead of the model's own. The folder need not exist. None if the model is not
    on this machine yet.
    """
    found = Path(model)
    if not found.exists():
        try:
            from transformers.utils import cached_file

            config = cached_file(model, CONFIG, local_files_only=True, _raise_exceptions_for_missing_entries=False)
        except (ImportError, OSError):  # Not a model's name, or one that was never fetched.
            config = None
        if config is None:
            return None
        found = Path(config).parent
    parts: tuple[object, ...] = (MADE_AS, budget) if template is None else (MADE_AS, budget, template)
    running = hashlib.sha256(msgspec.json.encode(parts))
    for file in sorted(found.iterdir()) if found.is_dir() else [found]:
        about = file.stat()
        running.update(msgspec.json.encode((file.name, about.st_size, about.st_mtime_ns)))
    return kept / f"{found.stem[:40] if found.is_file() else found.name[:40]}-{running.hexdigest()[:16]}"


class Kept(NamedTuple):
    """The drafter that this device may have made, and its state."""

    folder: Path | None
    """None if there is no useful one."""
    said: str | None = None
    """Message about it for the person."""
    due: bool = False
    """Whether it is to be made."""


def look_up(options: ServeOptions) -> Kept:
    """The drafter that was made for the model of these options, if one is wanted."""
    if options.no_drafter or options.made is None:
        return Kept(None)
    folder = kept_drafter(options.model, options.budget, options.made, options.template)
    if folder is not None:
        with contextlib.suppress(OSError):  # Then the older one is used.
            claim(folder)
            take_grown(folder)
            shutil.rmtree(beside(folder, LIVE), ignore_errors=True)
    if folder is None or not folder.is_dir():
        return Kept(None, due=True)
    learning = beside(folder, PART).is_dir()
    try:
        if (why := why_no_drafts(read_config(folder))) is not None:
            end = "; it continues to learn" if learning else ""
            return Kept(None, f"no drafts: one was made of the model's own layers, and {why}{end}", learning)
        read_config(folder, verify=(GRAPH, TOKENIZER, TEMPLATE, ENCODER))
    except DrafterError as error:
        return Kept(None, f"the drafter is made again: {error}", due=True)
    return Kept(folder, due=learning)


def beside(folder: Path, end: str) -> Path:
    return folder.with_name(folder.name + end)


def claim(folder: Path) -> None:
    """Keep other servers from making or replacing a drafter until this process ends. Raises `OSError` if one does."""
    if folder in _CLAIMED:
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    _CLAIMED[folder] = locked(beside(folder, LOCK), "makes the drafter of this model")


def take_grown(folder: Path) -> None:
    """Replace a drafter by what it has become, if it has learnt. Call this while nobody uses it."""
    if (grown := beside(folder, GROWN)).is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(grown, folder)


def snapshot(folder: Path) -> Path:
    """A copy of the drafter in `folder`, or of what it has become, that stays unchanged while that improves."""
    grown, live = beside(folder, GROWN), beside(folder, LIVE)
    shutil.rmtree(live, ignore_errors=True)
    shutil.copytree(grown if grown.is_dir() else folder, live, copy_function=linked)
    return live


def task_for(options: ServeOptions) -> MakingTask | None:
    """The task of making a drafter for the served model; or None and a sentence if none can be made here."""
    if lacking := [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]:
        advice = f"{how_to_install('server')}, or ask for none with --no-drafter"
        say(f"no drafter: {' and '.join(lacking)} are missing, so none can be made: {advice}")
        return None
    assert options.made is not None
    folder = kept_drafter(options.model, options.budget, options.made, options.template)
    assert folder is not None  # The model is here: it was loaded.
    try:
        claim(folder)
    except OSError as error:
        say(f"no drafter is made here: {error}")
        return None
    return MakingTask(
        model=options.model,
        out=str(folder),
        work=str(beside(folder, PART)),
        budget=options.budget,
        questions=tuple(usual_questions()),
        kept=None if options.texts is None else str(options.texts),
        template=options.template,
        learning=LEARNING_SECONDS,
    )


class Maker:
    """Runs the process that makes a drafter. Enter it once the server answers."""

    def __init__(
        self, task: MakingTask, publish: Callable[[Path], None] | None = None, first_seconds: float = FIRST_SECONDS
    ) -> None:
        """`publish`: has the server use the useful drafter in a folder, at most once. It may raise `OSError`,
        `DrafterError`, `EngineError` and `NoMemory`. None: it is for the next start.
        """
        self.quiet = Quiet()
        """Is notified when the engine is wanted."""
        self.outcome: MakingOutcome | None = None
        self._task, self._first_seconds, self._publish = task, first_seconds, publish
        self._process: StandingBack | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="making", daemon=True)
        self._told, self._stage = 0.0, ""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            while not self._stop.wait(LOOK_SECONDS):
                if self._process is None:
                    asked = self.quiet.wanted_before or time.monotonic() - begun >= self._first_seconds
                    if asked and self.quiet.lasted(QUIET_SECONDS):
                        self._begin()
                elif self._process.ended:
                    return
                else:
                    self.quiet.let_go_on(QUIET_SECONDS)
        except OSError as error:
            say(f"no drafter can be made: {error}")
        finally:
            self.quiet.hold(None)
            if self._process is not None:
                if not self._process.ended:
                    self._process.kill()
                elif self.outcome is None:
                    say("making a drafter failed: its process ended early. It is tried again at the next start.")

    def _begin(self) -> None:
        say("making a drafter while the server is idle ...")
        module = "remote.verifier.making.maker_worker"
        self._process = StandingBack(module, lambda stdin: put(stdin, self._task), self._hear)
        self.quiet.hold(self._process)

    def _hear(self, line: bytes) -> None:
        message = msgspec.json.decode(line, type=MakingProgress | MakingOutcome)
        if isinstance(message, MakingOutcome):
            self.outcome = message
            say(message.said)
            if message.made:
                self._use()
        elif message.stage != self._stage or time.monotonic() - self._told >= TOLD_SECONDS[message.stage]:
            self._told, self._stage = time.monotonic(), message.stage
            say(_told(message))
        if isinstance(message, MakingProgress) and message.tau >= LEAST_TAU:
            self._use()

    def _use(self) -> None:
        """Make the server use the drafter, unless it already uses one."""
        when = "from the next start on"
        if self._publish is not None:
            publish, self._publish = self._publish, None
            try:
                publish(snapshot(Path(self._task.out)))
                when = "from now on"
            except (OSError, DrafterError, EngineError, NoMemory) as error:
                say(f"the drafter is not used yet: {error}")
        say(f"the drafter is used {when}")


def _told(progress: MakingProgress) -> str:
    if progress.stage == "layers":
        return "making a drafter: the answers are complete; assembling and measuring its layers"
    left = f"{progress.left:.0f} s" if progress.left < 90 else f"{progress.left / 60:.0f} min"
    if progress.stage == "learning":
        return f"the drafter learns: {progress.tau:.1f} tokens a round, {left} of processor time to go at most"
    return f"making a drafter: {progress.done} of {progress.of} answers, {left} of processor time to go"
