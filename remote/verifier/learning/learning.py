"""Learning on the server: from whose answers, when, and which drafter each holder is offered.

A thread checks now and then. If there are enough new answers and nobody wants the engine, it starts a process that
learns and pauses whenever a turn is wanted. A drafter that is significantly better is published; the answers never are.
"""

from __future__ import annotations

import contextlib
import importlib.util
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from drafter.learning.parts import FEWEST
from drafter.progress import StageProgress, stage
from models.config import GRAPH, GRAPH_WEIGHTS, DrafterConfig, DrafterError
from models.extras import how_to_install
from remote.verifier.drafting.own_drafter import OwnDrafter
from remote.verifier.idle import Quiet
from remote.verifier.learning.answers import Answer, Answers
from remote.verifier.learning.artefacts import KEPT, Artefact, Artefacts
from remote.verifier.learning.recorder import Recorder
from remote.verifier.learning.task import LearningProcess, Outcome, Task
from remote.verifier.options import ServeOptions
from remote.verifier.start_errors import say

ENOUGH = 20
"""New answers after which another try is worthwhile."""
ENOUGH_EACH = 10
"""Answers from which on a holder counts, if several share a drafter."""
QUIET_SECONDS = 1.5
"""Seconds without a turn of the engine after which the learning process is resumed."""
LOOK_SECONDS = 0.25
MOST_LOADED = 8
"""Number of holders whose own graph the server itself drafts with; for others it drafts with the original one."""
SHARED = "_shared"
"""The folder of what all holders share. No holder has this name."""


@dataclass
class _Group:
    """Token holders that share a drafter."""

    artefacts: list[Artefact]
    tried: int = -1
    """Number of the newest answer at the last try."""
    taught: frozenset[int] = frozenset()
    """The answers that the graph in use has learnt from."""


@dataclass(frozen=True)
class _Try:
    group: str
    process: LearningProcess
    graph: Path
    answers: list[tuple[int, Answer]]
    stages: contextlib.ExitStack


def cannot_learn(config: DrafterConfig) -> str | None:
    """Why a drafter cannot learn on a server, or None if it can."""
    if not config.correctable:
        return "the drafter was made by an older Outrider; make it again"
    if GRAPH_WEIGHTS in config.files:
        return "the drafter is too large"
    missing = [name for name in ("torch", "onnx") if importlib.util.find_spec(name) is None]
    return f"{missing[0]} is missing: {how_to_install('server')}" if missing else None


class Learning:
    """Learns for the drafter in `base`, which `own` drafts with, while the block runs.

    `recorder` belongs to the engine's thread. Raises `OSError` if another server learns for the same drafter.
    """

    def __init__(
        self, options: ServeOptions, base: Path, config: DrafterConfig, own: OwnDrafter, holders: frozenset[str]
    ) -> None:
        self._shared, self._fewest = options.learn == "shared", options.learn_holders
        self._base, self._config, self._own = base, config, own
        self.answers = Answers()
        self.recorder = Recorder(self.answers, config.first_memory)
        self.quiet = Quiet()
        self._artefacts = Artefacts(options.learnt, base, config)
        names = [SHARED] if self._shared else sorted(holders)
        self._groups = {name: _Group([]) for name in names}
        self._drafters = {name: own.twin() for name in names}
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._trying: _Try | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
        self._alone = self._artefacts.lock()

    def __str__(self) -> str:
        if self._shared:
            each = f"once {self._fewest} token holders have had {ENOUGH_EACH} answers each"
            return f"one drafter for all, {each}"
        count = len(self._groups)
        return "for all clients" if count == 1 else f"for each of {count} token holders separately"

    def drafter(self, holder: str) -> OwnDrafter:
        """The drafter that the server uses for a holder."""
        return self._drafters[self._group(holder)]

    def offers(self, holder: str) -> list[Artefact]:
        """The drafters learnt for a holder: the newest one and its predecessor, oldest first."""
        return self._groups[self._group(holder)].artefacts

    def due(self) -> str | None:
        """The group with the most new answers among those that have enough, or None."""
        found = []
        for name, group in self._groups.items():
            lessons = self._lessons(name)
            fresh = sum(number > group.tried for number, _ in lessons)
            if fresh >= ENOUGH and len(lessons) >= FEWEST:
                found.append((fresh, name))
        return max(found)[1] if found else None

    def __enter__(self) -> Self:
        """Load what was learnt before, and begin."""
        self._artefacts.tidy()
        for name, group in self._groups.items():
            group.artefacts = self._artefacts.all(name)[-KEPT:]
            if group.artefacts and len(self._loaded) < MOST_LOADED:
                self._use(name, group.artefacts[-1])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, and forget the answers. An unfinished try leaves nothing."""
        self._stop.set()
        self._thread.join()
        self.answers.clear()
        self._alone.release()

    def _group(self, holder: str) -> str:
        return SHARED if self._shared else holder

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.wait(LOOK_SECONDS):
                try:
                    self._look()
                except (OSError, DrafterError) as error:
                    self._abandon()
                    say(f"learning failed: {error}")
        finally:
            self._abandon()

    def _look(self) -> None:
        if self._trying is None:
            name = self.due() if self.quiet.lasted(QUIET_SECONDS) else None
            if name is not None:
                self._begin(name)
        elif self._trying.process.ended:
            trying, outcome = self._trying, self._trying.process.outcome
            self._put_away()
            try:
                self._finish(trying, outcome)
            finally:
                trying.graph.unlink(missing_ok=True)
        else:
            self.quiet.let_go_on(QUIET_SECONDS)

    def _lessons(self, name: str) -> list[tuple[int, Answer]]:
        """The answers that a group may learn from, oldest first."""
        if not self._shared:
            return self.answers.of(name)
        givers = [holder for holder, count in self.answers.counts().items() if count >= ENOUGH_EACH]
        if len(givers) < self._fewest:
            return []
        return sorted((one for holder in givers for one in self.answers.of(holder)), key=lambda one: one[0])

    def _begin(self, name: str) -> None:
        group, answers = self._groups[name], self._lessons(name)
        group.tried = max(number for number, _ in answers)
        now = group.artefacts[-1].graph if group.artefacts else self._base / GRAPH
        graph, stages = self._artefacts.scratch(name), contextlib.ExitStack()
        shown: StageProgress | None = None
        known = 0

        def told(done: int, of: int) -> None:
            nonlocal shown, known
            if shown is None:
                shown = stages.enter_context(stage(f"learning from {len(answers)} answers", of))
            shown.advance(done - known)
            known = done

        task = Task(graph=str(now), config=self._config, out=str(graph), answers=len(answers))
        sent = [(number in group.taught, answer) for number, answer in answers]
        process = LearningProcess(task, sent, told)
        self._trying = _Try(name, process, graph, answers, stages)
        self.quiet.hold(process)

    def _finish(self, trying: _Try, outcome: Outcome | None) -> None:
        group, whose = self._groups[trying.group], "all" if self._shared else trying.group
        if outcome is None or (gain := outcome.gain) is None:
            say(f"learning for {whose} failed: {outcome.failed if outcome else 'its process ended early'}")
            return
        told = f"{gain.before:.2f} -> {gain.after:.2f} tokens a round ({gain.low:+.1%} to {gain.high:+.1%})"
        told += f" after {gain.answers} answers"
        if not outcome.better:
            say(f"learnt for {whose}: {told}. That is not significantly better, so nothing changes.")
            return
        made = self._artefacts.publish(trying.group, trying.graph, gain)
        group.taught = frozenset(number for number, _ in trying.answers)
        group.artefacts = [*group.artefacts, made][-KEPT:]
        self._use(trying.group, made)
        say(f"learnt for {whose}: {told}. It now drafts with that, and devices may fetch it.")

    def _use(self, name: str, artefact: Artefact) -> None:
        """Draft with what was learnt. The one taken into use longest ago makes room."""
        self._drafters[name].become(artefact.graph, artefact.about.number)
        self._loaded[name] = None
        self._loaded.move_to_end(name)
        if len(self._loaded) > MOST_LOADED:
            longest, _ = self._loaded.popitem(last=False)
            self._drafters[longest].become(None, 0)

    def _put_away(self) -> None:
        if self._trying is not None:
            self.quiet.hold(None)
            self._trying.stages.close()
            self._trying = None

    def _abandon(self) -> None:
        """End a running try; nothing is left of it."""
        if (trying := self._trying) is not None:
            trying.process.kill()
            self._put_away()
            with contextlib.suppress(OSError):
                trying.graph.unlink(missing_ok=True)
