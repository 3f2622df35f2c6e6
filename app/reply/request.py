"""What an answer is to be: a new one, another one, or what becomes of one that is there.

Each function here stores what is asked and a pending answer, before anything is sent, and says how that is to be given.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import msgspec

from app.config import Settings
from app.drafting.spelling import is_spelt, spelt
from app.reply.answer import Answer
from app.reply.generation import NoAnswer
from app.reply.judgement import verified_length
from drafter.text import ChatText
from remote.protocol import Sampling
from storage import Message, Store
from storage import Stats as StoredStats

FRESH_TEMPERATURE = 0.8
"""At which an answer is given again where the settings say 0, or it would be the same one."""


@dataclass(frozen=True)
class Task:
    """How a pending answer is sampled, how long it may get, and the stored one that it begins with."""

    message: Message
    """What it is to become."""
    sampling: Sampling
    most: int
    """Tokens of the whole answer."""
    begun: Message | None = None
    """In tokens of the drafter in use."""
    does: Literal["answers", "verifies", "resumes"] = "answers"
    """Verifies: the target alone goes on with the begun answer. Resumes: whoever is there does."""
    waits: bool = False
    """Where nobody is there to answer, the question waits in the queue."""
    told: str = ""
    """The text of the begun answer, where its tokens only spell what a server has told."""

    @property
    def about(self) -> dict[str, float | int | str | None]:
        """What is stored of it with the answer, so that one that is cut off can go on as it was begun."""
        sampling = self.sampling
        about: dict[str, float | int | str | None] = {"temperature": sampling.temperature}
        if sampling.temperature:
            about |= {"top_k": sampling.top_k, "top_p": sampling.top_p, "seed": sampling.seed}
        return about

    def begin(self, text: ChatText) -> Answer:
        """The answer as far as it is there."""
        if self.begun is None:
            return Answer(text)
        return Answer(text, self.begun.tokens, verified_length(self.begun), self.told)

    def settles(self, *, done: bool, verified: bool, never: bool) -> str | None:
        """The answer that nothing waits for any more, once this one is `done`, or can `never` be."""
        if self.does == "resumes":
            return self.begun.id if self.begun is not None and done and verified else None
        if self.begun is not None:
            return self.begun.id if done or never else None
        return self.message.id if done and verified or never else None


def new_answer(settings: Settings, message: Message, *, waits: bool = False) -> Task:
    """To a question that is stored already. `waits`: it came out of the queue, else the settings say what it does."""
    return Task(message, _sampling(settings), settings.most_tokens, waits=waits or settings.offline == "queue")


def ask(store: Store, settings: Settings, conversation_id: str, prompt: str) -> Task:
    """A question after all that is shown. Raises `StorageError`."""
    tip_id = store.conversations.get(conversation_id).tip_id
    return new_answer(settings, store.messages.ask(conversation_id, prompt, parent_id=tip_id))


def edit(store: Store, settings: Settings, message_id: str, text: str) -> Task:
    """Another wording of a question, beside it. Raises `NoAnswer`, `StorageError`."""
    question = store.messages.get(message_id)
    if question.role != "user":
        raise _not("Only a question can be put in other words; have the answer given again.")
    return new_answer(settings, store.messages.ask(question.conversation_id, text, parent_id=question.parent_id))


def regenerate(store: Store, settings: Settings, message_id: str, *, target: bool) -> Task:
    """Another answer beside one, or to a question; not the same again. Raises `NoAnswer`, `StorageError`.

    Who answers greedily gives an answer once: where that one is there already, the next is sampled. `target`: it is
    the target that answers, else the drafter. A seed that was chosen gives each version another.
    """
    message = store.messages.get(message_id)
    parent_id = message.id if message.role == "user" else message.parent_id
    if parent_id is None or store.messages.get(parent_id).role != "user":
        raise _not("There is no question before that answer; ask one.")
    pending = store.messages.add(message.conversation_id, "assistant", "", parent_id=parent_id, status="pending")
    versions = [version for version in store.branches.siblings(pending.id) if version.id != pending.id]
    sampling = _sampling(settings, version=len(versions))
    if not sampling.temperature and any(_greedy(version, target=target) for version in versions):
        sampling = msgspec.structs.replace(sampling, temperature=FRESH_TEMPERATURE)
    return Task(pending, sampling, settings.most_tokens)


def resume(store: Store, settings: Settings, message_id: str, text: ChatText) -> Task:
    """An answer that was cut off goes on, sampled as it was begun. Raises `NoAnswer`, `StorageError`.

    It may have as many tokens more as a new one has.
    """
    cut = store.messages.get(message_id)
    if cut.role != "assistant":
        raise _not("Only an answer can go on; this is a question.")
    if cut.status in ("pending", "streaming"):
        raise _not("That answer is still being written; wait until it is done.")
    if not cut.text:
        raise _not("There is nothing of that answer to go on with; have it given again.")
    begun = spelt(text, cut)
    if _complete(begun, text.stop_tokens):
        raise _not("That answer is complete; ask for more in a new question.")
    if not is_spelt(text, begun):
        raise _not("The drafter cannot spell that answer, so nobody can go on with it; have it given again.")
    most, told = len(begun.tokens) + settings.most_tokens, "" if begun is cut else cut.text
    return Task(store.messages.resume(message_id), _as_begun(settings, cut.stats), most, begun, "resumes", told=told)


def verify(store: Store, settings: Settings, drafted: Message, text: ChatText) -> Task:
    """An answer that was drafted alone, and what the target makes of it. Raises `NoAnswer`, `StorageError`."""
    beside = store.messages.verify(drafted.id)
    if beside is None:
        raise _not("Another window is at work on that answer; wait until it is done.")
    begun = spelt(text, drafted) if drafted.tokens else drafted
    most, told = max(settings.most_tokens, len(begun.tokens)), "" if drafted.tokens else drafted.text
    return Task(beside, _sampling(settings), most, begun, "verifies", told=told)


def _not(why: str) -> NoAnswer:
    return NoAnswer(why, "internal")


def _complete(answer: Message, stop_tokens: Collection[int]) -> bool:
    ended = bool(answer.tokens) and answer.tokens[-1] in stop_tokens
    return ended or (answer.status == "done" and answer.stats.get("reason") == "end")


def _greedy(version: Message, *, target: bool) -> bool:
    """Whether it is the greedy answer of the target, or of the drafter."""
    ours = bool(version.tokens) or "rounds" in version.stats  # Not imported.
    whose = all(version.provenance) if target else not any(version.provenance)
    return ours and whose and version.status == "done" and bool(version.text) and not version.stats.get("temperature")


def _sampling(settings: Settings, version: int = 0) -> Sampling:
    return Sampling(
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        seed=secrets.randbits(32) if settings.seed is None else settings.seed + version,
    )


def _as_begun(settings: Settings, stats: StoredStats) -> Sampling:
    """As its statistics tell, but for answers of earlier versions, and imported ones, which may say anything."""
    known = {name: stats[name] for name in Sampling.__struct_fields__ if name in stats}
    if "temperature" in known:
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(known, Sampling)
    return _sampling(settings)
