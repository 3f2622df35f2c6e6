"""Teaches a drafter from the checked answers on this device, and puts what it learnt in use if that is surely better.

Each answer is drafted again with the memory that had arrived then (`storage/replays.py`). The newest answers judge what
was learnt from older ones, because it is for those that come next. Of the older ones, most are learnt from, some say
when to stop, and some are the fixed set, of which little may be lost. Both versions are compared as they will run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.drafting.prompt import conversation_tokens
from drafter.config import GRAPH, DrafterConfig, DrafterError, read_config
from drafter.guide.recipe import open_prompt
from drafter.learning.comparison import Hits, compare, is_better, surely_less
from drafter.learning.correction import learn
from drafter.learning.samples import Chunk, Replayer, Round, Samples
from drafter.learning.versions import Version, Versions
from drafter.memory import MalformedMemory, unpack_memory
from drafter.step import Correction, StepGraph
from drafter.text import ChatText
from remote.protocol import DIGEST_BYTES, RunningDigest
from storage import Message, NotFound, Store
from storage.replays import Replay

MOST_ANSWERS = 2_000
"""Newest answers that are learnt from."""
MOST_BYTES = 256 << 20
"""Bytes of hidden states that are held in memory."""
FEWEST = 30
"""Answers to learn from; with fewer, nothing is learnt yet."""
PARTS = 5
"""The newest of so many parts judges. One in so many of the others is in the fixed set, and one says when to stop."""
FIXED = 40
"""Answers of the fixed set, the oldest ones, at most."""
FEWEST_LIVE, MOST_LIVE = 20, 200
"""Answers with the version in use, and as many without, that say whether it keeps what it promised."""
NEARBY = 4
"""Conversations whose memory is kept at hand, for what the next ones begin with."""


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
    samples: Samples


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
        self._replayer = Replayer(StepGraph(folder / GRAPH, self._config, states=True), self._config)
        self._nearby: dict[str, list[tuple[int, int, bytes]]] = {}
        """Stored memory of the conversations that were read last."""

    @property
    def target(self) -> str:
        """Name of the model that the drafter is for."""
        return self._config.target

    @property
    def config(self) -> DrafterConfig:
        """The config of the drafter."""
        return self._config

    def waiting(self) -> int:
        """Answers that are newer than the last try."""
        replays = self._store.replays.all(bytes.fromhex(self._config.memory), MOST_ANSWERS)
        versions = self.versions.all()
        seen = set(versions[-1].messages) if versions else set()
        return next((at for at, replay in enumerate(reversed(replays)) if replay.message_id in seen), len(replays))

    def learn(
        self, progress: Callable[[int, int], None] = lambda done, of: None, halted: Callable[[], bool] = lambda: False
    ) -> Version:
        """Learn from all that is there, and put the result in use if it is better.

        `progress` is told how many answers of how many were read. `halted`: asked between two answers and two passes.
        Raises `NothingLearnt`, `StorageError`, `OSError`.
        """
        begun = time.monotonic()
        now = self._correction()
        lessons = self.lessons(progress, halted)
        if len(lessons) < FEWEST:
            raise NothingLearnt(f"{len(lessons)} checked answers to learn from; {FEWEST} are enough")
        older, judging = lessons[: -(len(lessons) // PARTS)], lessons[-(len(lessons) // PARTS) :]
        fixed, stopping = older[::PARTS][:FIXED], older[1::PARTS]
        learnt = [one for at, one in enumerate(older) if at % PARTS > 1]
        vocabulary = len(self._config.draft_vocabulary) or self._config.vocabulary
        samples = Samples.of([one.samples for one in learnt])
        new = learn(samples, Samples.of([one.samples for one in stopping]), vocabulary, halted=halted)
        if new is None and now is not None:
            new = Correction.none(self._config)  # The drafter as it came may be better than what it has learnt.
        if halted():
            raise NothingLearnt("it was interrupted")
        newest = compare(self.hits(judging, now), self.hits(judging, new))
        oldest = compare(self.hits(fixed, now), self.hits(fixed, new))
        better = new is not None and is_better(newest, oldest)
        version = Version(
            number=0,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            state="not better",
            answers=len(lessons),
            tokens=len(samples),
            tau_before=newest.before,
            tau_after=newest.after,
            low=newest.low,
            high=newest.high,
            fixed=oldest.gain,
            seconds=time.monotonic() - begun,
            messages=tuple(one.message_id for one in lessons),
        )
        return self.versions.publish(version, new if better else None)

    def check_live(self) -> Version | None:
        """Take the version in use back if the answers that were drafted with it gained surely less than those before.

        Returns what was taken back. Raises `StorageError`, `OSError`.
        """
        version = self.versions.in_use
        if version is None:
            return None
        live: list[tuple[int, int]] = []
        before: list[tuple[int, int]] = []
        for replay in self._store.replays.all(bytes.fromhex(self._config.memory), MOST_ANSWERS):
            stats = self._store.messages.get(replay.message_id).stats
            rounds, gained, learnt = stats.get("rounds"), stats.get("verified"), stats.get("learnt", 0)
            if isinstance(rounds, int) and isinstance(gained, int) and rounds:
                (live if learnt == version.number else before).append((gained, rounds))
        if min(len(live), len(before)) < FEWEST_LIVE or not surely_less(live[-MOST_LIVE:], before[-MOST_LIVE:]):
            return None
        self.versions.roll_back()
        return version

    def _correction(self) -> Correction | None:
        """That of the version in use; one that cannot be read, or learnt from what is gone, counts as none."""
        version = self.versions.in_use
        if version is None or not self._store.replays.holds(version.messages):
            return None
        try:
            return self.versions.load(version, self._config)
        except DrafterError:
            return None

    def hits(self, lessons: Sequence[Lesson], correction: Correction | None) -> list[Hits]:
        """For each answer, where the drafter with this correction guesses right, as it will run."""
        replayer = self._replayer.corrected(correction)
        if correction is None:
            return [one.samples.hits for one in lessons]
        return [replayer.samples(one.tokens, one.rounds, self._unpacked(one.memory)).hits for one in lessons]

    # ---- reading -----------------------------------------------------------------------------------------------------

    def lessons(
        self, progress: Callable[[int, int], None] = lambda done, of: None, halted: Callable[[], bool] = lambda: False
    ) -> list[Lesson]:
        """The answers that can be drafted again, oldest first. Raises `NothingLearnt` when it is halted."""
        replays = self._store.replays.all(bytes.fromhex(self._config.memory), MOST_ANSWERS)
        lessons: list[Lesson] = []
        taken, replayer = 0, self._replayer.corrected(None)
        for at, replay in enumerate(replays):
            if halted():
                raise NothingLearnt("it was interrupted")
            lesson = self._lesson(replay, replayer)
            progress(at + 1, len(replays))
            if lesson is not None and taken + lesson.samples.states.nbytes <= MOST_BYTES:
                taken += lesson.samples.states.nbytes
                lessons.append(lesson)
        return lessons

    def _lesson(self, replay: Replay, replayer: Replayer) -> Lesson | None:
        try:
            *thread, answer = self._store.branches.path(replay.message_id)
            tokens = [*self._asked(thread, replay), *answer.tokens]
            rounds = tuple(Round(*one) for one in replay.rounds)
            memory = self._memory(replay, tokens)
            samples = replayer.samples(tokens, rounds, self._unpacked(memory))
        except (NotFound, MalformedMemory, ValueError):
            return None  # Changed, evicted or damaged since then: another answer will do.
        return Lesson(replay.message_id, replay.conversation_id, tuple(tokens), rounds, memory, samples)

    def _asked(self, thread: Sequence[Message], replay: Replay) -> list[int]:
        """The tokens before the answer. Raises `ValueError` if they are others than when it was drafted."""
        chosen = self._store.conversations.get(replay.conversation_id).choices.system
        for prompt in (self._prompt, None):
            tokens = conversation_tokens(self._text, thread, prompt, system=None if prompt else chosen)
            if len(tokens) == replay.prompt:
                return tokens
        raise ValueError("the conversation is read in another way now")

    def _unpacked(self, memory: Sequence[tuple[int, int, bytes]]) -> list[Chunk]:
        layers = self._config.memory_layers
        return [(start, unpack_memory(data, count, layers)) for start, count, data in memory]

    def _memory(self, replay: Replay, tokens: Sequence[int]) -> tuple[tuple[int, int, bytes], ...]:
        """The chunks of memory that are kept of these tokens."""
        digests = RunningDigest()
        digests.extend(tokens)
        found: dict[int, tuple[int, bytes]] = {}
        # The newest conversations before this one lent it what they begin with in common (`Drafting._restore`).
        stored = self._store.memory.load(replay.conversation_id, bytes.fromhex(self._config.memory))
        for chunks in (*self._nearby.values(), stored):
            for start, count, data in chunks:
                if start + count <= len(tokens) and digests.at(start + count) == data[:DIGEST_BYTES]:
                    found[start] = count, data[DIGEST_BYTES:]
        self._nearby = dict(list({**self._nearby, replay.conversation_id: stored}.items())[-NEARBY:])
        return tuple((start, count, data) for start, (count, data) in sorted(found.items()))
