"""Teaches a drafter from the checked answers on this device, and uses what it learnt if that is certainly better.

Each answer is drafted again with the memory that had arrived then (`storage/replays.py`). The newest answers judge what
was learnt from older ones, because learning is for future answers. Of the older ones, most are learnt from, some say
when to stop, and some are the fixed set, on which little may be lost. Both versions are compared as they will run.

There are two ways to learn. A correction of the logits takes seconds and no PyTorch. Learning *deeply* trains the
drafter's attention layers, which takes PyTorch and minutes, and gains more than twice as much.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from app.drafting.prompt import replayed_tokens
from drafter.learning.comparison import Hits, compare, is_better, surely_less
from drafter.learning.correction import learn
from drafter.learning.distributions import NOTHING, Distributions, MalformedDistributions
from drafter.learning.parts import FEWEST, split
from drafter.learning.samples import Chunk, Replayer, Round, Samples
from drafter.learning.versions import Version, Versions
from drafter.step import Correction, StepGraph
from models.config import DIGEST_BYTES, GRAPH, GRAPH_WEIGHTS, DrafterConfig, DrafterError, read_config
from models.extras import how_to_install
from models.guide.recipe import open_prompt
from models.memory import MalformedMemory, unpack_memory
from models.text.chat_text import ChatText
from remote.protocol import RunningDigest
from storage import NotFound, Store
from storage.replays import Replay

if TYPE_CHECKING:
    from drafter.training.adaptation import Replayed

MOST_ANSWERS = 2_000
"""Newest answers that are learnt from."""
MOST_BYTES = 256 << 20
"""Bytes of hidden states that are held in memory."""
FEWEST_LIVE, MOST_LIVE = 20, 200
"""Fewest and most answers with the version in use, and as many without, that show whether it keeps its promise."""
NEARBY = 4
"""Conversations whose memory stays loaded, because later ones may have the same beginning."""


def missing_for_deep() -> str:
    """The packages that deep learning of a drafter lacks, as a sentence; empty if nothing is missing."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("onnx") is None:
        return f"learning deeply needs PyTorch and onnx: {how_to_install('train')}"
    return ""


class NothingLearnt(Exception):
    """Why a drafter cannot learn now, as a sentence for people."""


@dataclass(frozen=True)
class Lesson:
    """A checked answer that was drafted again."""

    message_id: str
    conversation_id: str
    tokens: tuple[int, ...]
    rounds: tuple[Round, ...]
    memory: tuple[tuple[int, int, bytes], ...]
    """Chunks as they are stored: first token, number of tokens, packed rows. Unpacked rows take far more room."""
    target: Distributions
    """What the target might have said, as far as known."""
    samples: Samples
    graph: Path | None
    """The graph that drafted it again, or None for the drafter's own."""


class Drafts(NamedTuple):
    """The drafter's correction, if any, and its learnt graph, or None for its own graph."""

    correction: Correction | None
    graph: Path | None


class Learner:
    """Learns for the drafter in one folder. `learnt`: the folder of all drafters' versions.

    Raises `NothingLearnt` for a drafter that takes no correction, `DrafterError` for one that cannot be opened.
    """

    def __init__(self, store: Store, folder: Path, learnt: Path) -> None:
        self._store = store
        self._config = read_config(folder, verify=(GRAPH,))
        if not self._config.correctable:
            raise NothingLearnt("it was made by an older Outrider, and cannot learn; make or fetch it again")
        self.versions = Versions.of(learnt, self._config)
        self._text = ChatText.load(folder)
        self._prompt = open_prompt(folder, self._config)
        self.folder = folder
        self._graph: Path | None = None
        """The graph that `_replayer` runs, or None for the drafter's own."""
        self._replayer = self._opened(None)
        self._nearby: dict[str, list[tuple[int, int, bytes]]] = {}
        """Stored memory of the conversations that were read last."""

    @property
    def target(self) -> str:
        return self._config.target

    @property
    def config(self) -> DrafterConfig:
        return self._config

    @property
    def answers(self) -> int:
        return len(self._store.replays.all(self._config.memory_digest, MOST_ANSWERS))

    def waiting(self, *, deep: bool = False) -> int:
        """Number of answers that are newer than the last try, or than the last `deep` one."""
        replays = self._store.replays.all(self._config.memory_digest, MOST_ANSWERS)
        # After a server's version all answers are new; a version that was not taken does not count as a try.
        tries = [one for one in self.versions.all() if not one.offered or one.state == "in use"]
        versions = [one for one in tries if one.deep or not deep]
        seen = set(versions[-1].messages) if versions else set()
        return next((at for at, replay in enumerate(reversed(replays)) if replay.message_id in seen), len(replays))

    def learn(
        self,
        progress: Callable[[int, int], None] = lambda done, of: None,
        halted: Callable[[], bool] = lambda: False,
        *,
        deep: bool = False,
        steps: Callable[[int, int], None] = lambda done, of: None,
    ) -> Version:
        """Learn from all available answers, and use the result if it is better.

        `progress` is called with the number of answers read so far and in total, `steps` with the completed steps of
        deep learning. `halted`: checked between answers, steps and passes. Raises `NothingLearnt`, `DrafterError`,
        `StorageError`, `OSError`.
        """
        begun = time.monotonic()
        if deep:
            self._check_deep()
        in_use, now = self.in_use()
        lessons = self.lessons(progress, halted, graph=now.graph)
        if len(lessons) < FEWEST:
            raise NothingLearnt(f"only {len(lessons)} of the {FEWEST} checked answers that learning needs")
        learnt, stopping, judging, fixed = split(lessons)
        # The next version has also learnt from the answers of this graph.
        taught = () if in_use is None or not in_use.graph else in_use.messages
        made = self.versions.scratch()
        try:
            if deep:
                new = self._learn_deeply(now.graph, learnt, stopping, made, taught, steps, halted)
            else:
                new = self._learn_correction(now, learnt, stopping, halted)
            if halted():
                raise NothingLearnt("it was interrupted")
            newest = compare(self.hits(judging, *now), self.hits(judging, *(new or now)))
            oldest = compare(self.hits(fixed, *now), self.hits(fixed, *(new or now)))
            better = new is not None and is_better(newest, oldest)
            version = msgspec.structs.replace(
                Version.judged(len(lessons), newest, oldest, time.monotonic() - begun),
                tokens=sum(len(one.samples) for one in learnt),
                messages=tuple(dict.fromkeys((*taught, *(one.message_id for one in lessons)))),
                deep=deep,
                graph=in_use.graph if in_use else 0,
                graph_sha256=in_use.graph_sha256 if in_use else "",
            )
            if new is None or not better:
                return self.versions.publish(msgspec.structs.replace(version, graph=0, graph_sha256=""), None)
            return self.versions.publish(version, new.correction, made if deep else None)
        finally:
            made.unlink(missing_ok=True)

    def _check_deep(self) -> None:
        """Raises `NothingLearnt` where the attention layers cannot be trained."""
        if GRAPH_WEIGHTS in self._config.files:
            raise NothingLearnt("it is too large to be trained on this device; learn without `deep`")
        if missing := missing_for_deep():
            raise NothingLearnt(missing)

    def _learn_correction(
        self, now: Drafts, learnt: Sequence[Lesson], stopping: Sequence[Lesson], halted: Callable[[], bool]
    ) -> Drafts | None:
        vocabulary = len(self._config.draft_vocabulary) or self._config.vocabulary
        samples, judged = (Samples.of([one.samples for one in some]) for some in (learnt, stopping))
        new = learn(samples, judged, vocabulary, halted=halted)
        if new is None and now.correction is not None:
            new = Correction.none(self._config)  # It may be better without what it has learnt.
        return None if new is None else Drafts(new, now.graph)

    def _learn_deeply(
        self,
        graph: Path | None,
        learnt: Sequence[Lesson],
        stopping: Sequence[Lesson],
        made: Path,
        seen: Sequence[str],
        steps: Callable[[int, int], None],
        halted: Callable[[], bool],
    ) -> Drafts | None:
        """Train a copy of `graph`, which is written to `made`. `seen`: ids of the answers that it learnt from."""
        from drafter.training.adaptation import adapt

        fresh = [one for one in learnt if one.message_id not in set(seen)]
        known = [one for one in learnt if one.message_id in set(seen)]
        newer, older = (fresh, known) if fresh else (known, [])
        parts = self.replayed(newer), self.replayed(older), self.replayed(stopping)
        better = adapt(graph or self.folder / GRAPH, self._config, *parts, made, progress=steps, halted=halted)
        return Drafts(None, made) if better else None

    def check_live(self) -> Version | None:
        """Roll back the version in use if the answers drafted with it gained certainly less than those before.

        Only answers with all rounds drafted here count. Returns the version that was rolled back, if any. Raises
        `StorageError`, `OSError`.
        """
        version = self.versions.in_use
        if version is None:
            return None
        live: list[tuple[int, int]] = []
        before: list[tuple[int, int]] = []
        for replay in self._store.replays.all(self._config.memory_digest, MOST_ANSWERS):
            stats = self._store.messages.get(replay.message_id).stats
            rounds, gained, learnt = stats.get("rounds"), stats.get("verified"), stats.get("learnt", 0)
            if isinstance(rounds, int) and isinstance(gained, int) and 0 < rounds <= len(replay.rounds):
                (live if learnt == version.number else before).append((gained, rounds))
        if min(len(live), len(before)) < FEWEST_LIVE or not surely_less(live[-MOST_LIVE:], before[-MOST_LIVE:]):
            return None
        self.versions.roll_back()
        return version

    def replayed(self, lessons: Sequence[Lesson]) -> list[Replayed]:
        """These answers as `adapt` takes them."""
        from drafter.training.adaptation import Replayed

        return [Replayed(one.tokens, one.rounds, partial(self._unpacked, one.memory), one.target) for one in lessons]

    def in_use(self) -> tuple[Version | None, Drafts]:
        """The version in use, and its drafts.

        One that cannot be read, or that learnt from deleted answers, counts as none.
        """
        version = self.versions.in_use
        if version is None or not self._store.replays.holds(version.messages):
            return None, Drafts(None, None)
        try:
            correction = self.versions.load(version, self._config) if version.sha256 else None
            return version, Drafts(correction, self.versions.graph(version))
        except DrafterError:
            return None, Drafts(None, None)

    def hits(self, lessons: Sequence[Lesson], correction: Correction | None, graph: Path | None = None) -> list[Hits]:
        """For each answer, where the drafter with this correction and graph guesses right, as at inference.

        `graph` None: the drafter's own.
        """
        if correction is None and all(one.graph == graph for one in lessons):
            return [one.samples.hits for one in lessons]
        replayer = self.replayer(graph).corrected(correction)
        return [replayer.samples(one.tokens, one.rounds, self._unpacked(one.memory)).hits for one in lessons]

    def replayer(self, graph: Path | None) -> Replayer:
        """The replayer for this graph, with its last correction; None means the drafter's own graph."""
        if graph != self._graph:
            self._replayer, self._graph = self._opened(graph), graph
        return self._replayer

    def _opened(self, graph: Path | None) -> Replayer:
        return Replayer(StepGraph(graph or self.folder / GRAPH, self._config, states=True), self._config)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def lessons(
        self,
        progress: Callable[[int, int], None] = lambda done, of: None,
        halted: Callable[[], bool] = lambda: False,
        *,
        graph: Path | None = None,
    ) -> list[Lesson]:
        """The answers that can be drafted again, oldest first, drafted by this graph; None means the drafter's own.

        Raises `NothingLearnt` if it is halted.
        """
        replays = self._store.replays.all(self._config.memory_digest, MOST_ANSWERS)
        lessons: list[Lesson] = []
        taken, replayer = 0, self.replayer(graph).corrected(None)
        for at, replay in enumerate(replays):
            if halted():
                raise NothingLearnt("it was interrupted")
            lesson = self._lesson(replay, replayer)
            progress(at + 1, len(replays))
            if lesson is not None:
                taken += lesson.samples.states.nbytes
                lessons.append(lesson)
            while taken > MOST_BYTES:
                taken -= lessons.pop(0).samples.states.nbytes
        return lessons

    def _lesson(self, replay: Replay, replayer: Replayer) -> Lesson | None:
        try:
            tokens = replayed_tokens(self._store, self._text, self._prompt, replay)
            rounds = tuple(Round(*one) for one in replay.rounds)
            memory, target = self._memory(replay, tokens), self._target(replay, len(tokens))
            samples = replayer.samples(tokens, rounds, self._unpacked(memory), target)
        except (NotFound, MalformedMemory, ValueError):
            return None  # Changed, evicted or damaged since then: another answer will do.
        read = tuple(tokens), rounds, memory, target, samples
        return Lesson(replay.message_id, replay.conversation_id, *read, self._graph)

    def _target(self, replay: Replay, length: int) -> Distributions:
        """What the target might have said in an answer that ends at `length` tokens."""
        try:
            return Distributions.unpack(replay.distributions).within(replay.prompt, length)
        except MalformedDistributions:
            return NOTHING  # Not kept, or damaged; its tokens still count.

    def _unpacked(self, memory: Sequence[tuple[int, int, bytes]]) -> list[Chunk]:
        layers = self._config.memory_layers
        return [(start, unpack_memory(data, count, layers)) for start, count, data in memory]

    def _memory(self, replay: Replay, tokens: Sequence[int]) -> tuple[tuple[int, int, bytes], ...]:
        """The stored chunks of memory of these tokens."""
        digests = RunningDigest()
        digests.extend(tokens)
        found: dict[int, tuple[int, bytes]] = {}
        first = self._config.first_memory
        if first is not msgspec.UNSET and tokens[:1] == [first.token]:  # It is known, so no server is asked for it.
            found[0] = 1, first.memory
        # The newest earlier conversations provided the memory of their common beginning (`Drafting._restore`).
        stored = self._store.memory.load(replay.conversation_id, self._config.memory_digest)
        for chunks in (*self._nearby.values(), stored):
            for start, count, data in chunks:
                if start + count <= len(tokens) and digests.at(start + count) == data[:DIGEST_BYTES]:
                    found[start] = count, data[DIGEST_BYTES:]
        self._nearby = dict(list({**self._nearby, replay.conversation_id: stored}.items())[-NEARBY:])
        return tuple((start, count, data) for start, (count, data) in sorted(found.items()))
