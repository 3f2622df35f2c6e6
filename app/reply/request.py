"""Requests to the assistant: a new answer, another one, or the continuation or verification of an existing one.

Each function stores a pending answer before anything is sent, and returns how that answer is to be written.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from app.attachments.images import is_image
from app.attachments.reader import one_line
from app.attachments.renderer import image_names
from app.config import ConfigError, Settings
from app.drafting.prompt import (
    conversation_messages,
    is_spelt,
    marks_said,
    spelt,
    system_apart,
)
from app.drafting.readings import Conversation, Kept
from app.events import Stretch, stretches_of, unchecked, written_here
from app.prompts import SUM_UP, WHOLE_TURNS
from app.reply.answer import SMALL_MODEL, Answer
from app.reply.call_history import call_text, spoken
from app.reply.errors import NoAnswer
from app.reply.generation import GenerationInput
from app.reply.judgement import drafted, verified_length
from app.sanitise import sanitise
from app.system_prompts import NO_PROMPT, SystemPrompts
from models.guide.prompt import Prompt
from models.text.chat_text import ChatText
from remote.openai.request_fields import prepared
from remote.protocol import Sampling
from storage import Choices, Message, Store
from storage import Stats as StoredStats

CONTEXT_TOKENS = 8192
"""Most tokens of a conversation that are read: the drafter's attention is computed over every earlier token."""
FRESH_TEMPERATURE = 0.8
"""Temperature of another answer if the settings name none or 0, which would give the existing answer again."""
SAMPLING = prepared(Sampling)


@dataclass(frozen=True)
class Request:
    """How a pending answer is sampled, how long it may get, and the stored answer that it begins with."""

    message: Message
    sampling: Sampling
    most: int | None
    """Maximum tokens of the whole answer, or None to fill the context."""
    stored: Message | None = None
    """The answer that it begins with, as it is stored."""
    begun: Message | None = None
    """The same in tokens of the drafter in use, once that is known."""
    does: Literal["answers", "verifies", "resumes", "sums up"] = "answers"
    """verifies: only the target may continue the begun answer. resumes: any available writer may. sums up: the
    conversation, which only the model that answers it may do."""
    waits: bool = False
    """Whether the question is queued if nobody is available to answer."""
    sent: str = ""
    """The text of the begun answer if a server sent it, so that its tokens only spell it."""
    redrawn: bool = False
    """Whether it is another answer, at a temperature that nobody chose."""
    anew: bool = False
    """Whether a server that checks no drafts gives its own answer, which is then compared with the begun one."""

    @property
    def about(self) -> dict[str, float | int | str | None]:
        """The statistics stored with the answer, so that one that is cut off can be continued in the same way."""
        sampling = self.sampling
        about: dict[str, float | int | str | None] = {"temperature": sampling.temperature}
        if sampling.temperature:
            about |= {"top_k": sampling.top_k, "top_p": sampling.top_p, "seed": sampling.seed}
        return about

    def in_tokens(self, text: ChatText) -> Request:
        """This request once it is known in which tokens the answer is written. Raises `NoAnswer`."""
        if (stored := self.stored) is None:
            return self
        if self.does == "resumes":
            begun = _to_go_on(text, stored)
            most = None if self.most is None else len(begun.tokens) + self.most
            return replace(self, begun=begun, most=most, sent="" if begun is stored else stored.text)
        begun = spelt(text, stored) if stored.tokens or drafted(stored) else stored
        most = None if self.most is None else max(self.most, len(begun.tokens))
        return replace(self, begun=begun, most=most, sent="" if begun.tokens else stored.text)

    def begin(self, text: ChatText) -> Answer:
        """The answer so far, with the marks of its names."""
        if self.begun is None:
            return Answer(text)
        marks = marks_said(text, self.begun)
        verified = 0 if self.anew else verified_length(self.begun)
        answer = Answer(text, self.begun.tokens, verified, self.sent, marks)
        if not self.anew:
            answer.recall(self._stretches(self.begun))
        if self.sent or verified:
            answer.model = _name_in(self.begun, "model")
        return answer

    def _stretches(self, begun: Message) -> Sequence[Stretch]:
        """Who wrote which part of the begun answer, as it was stored, or as its stored tokens show."""
        stretches = stretches_of(begun.stats)
        if self.sent and not stretches and self.stored is not None and drafted(self.stored):
            return [Stretch(0, _name_in(begun, "drafted_by") or SMALL_MODEL, here=True)]
        return stretches

    def read(
        self,
        store: Store,
        settings: Settings,
        text: ChatText,
        *,
        draft: bool,
        prompt: Prompt | None,
        most: int,
        kept: Kept,
    ) -> GenerationInput:
        """The input of the answer: the messages before it, not yet tokenised.

        `prompt`: the recipe of the drafter's own target. `most`, `kept`: as for `Conversation`. Raises `StorageError`.
        """
        thread = store.summaries.read(self.message.id)
        sums_up, called = self.does == "sums up", self.stored is not None and bool(self.stored.calls)
        if sums_up:
            thread = [call_text(message) for message in thread]
            settings = msgspec.structs.replace(settings, max_tokens=None)  # The limit of an answer would cut it off.
        chosen = store.conversations.get(self.message.conversation_id).choices
        unreadable = None
        if images := image_names(thread):
            unreadable = NoAnswer(
                f"The model here reads text and no images: {', '.join(images)}. Choose a server whose model reads "
                "images, or ask without it.",
                "refused",
                advice="The question and its files are kept.",
            )
        return GenerationInput(
            conversation=Conversation(text, thread, chosen.system, prompt, most, kept),
            resumed=len(self.begun.tokens) if self.begun is not None and self.does == "resumes" else 0,
            system=system_apart(thread, chosen.system)[0],
            system_digest=system_digest(chosen.system),
            messages=conversation_messages(thread, chosen.system),
            spoken=spoken(thread, chosen.system) if chosen.tools or called else (),
            sums_up=sums_up,
            images=[one_line(file.name) for message in thread for file in message.attachments if is_image(file)],
            text=text,
            settings=settings,
            sampling=self.sampling,
            most=self.most,
            redrawn=self.redrawn,
            draft=draft,
            prediction="" if self.begun is None or not drafted(self.begun) else self.begun.text,
            unreadable=unreadable,
        )

    def settles(self, *, done: bool, verified: bool, never: bool) -> str | None:
        """Id of the answer that leaves the queue if this one is `done` or can `never` be written, or None."""
        if self.does == "resumes":
            return self.stored.id if self.stored is not None and done and verified else None
        if self.stored is not None:
            return self.stored.id if done or never else None
        return self.message.id if done and verified or never else None


def settings_for(settings: Settings, choices: Choices, fixed: Collection[str] = ()) -> Settings:
    """The settings of one conversation: its choices override them, except those that are `fixed` for this run."""
    chosen = {name: value for name, value in choices.sampling.items() if name not in fixed}
    return msgspec.structs.replace(settings, **chosen)


def keep_default(store: Store, prompts: SystemPrompts, answer: Message, *, server: str | None, all: str | None) -> None:
    """Store the default system prompt with the conversation of a pending answer, if that is its first answer.

    So later changes of a default or of the library do not affect conversations that have begun. `server`, `all`: names
    of the server's default and of the settings', or `none`. Raises `StorageError`, and `NoAnswer` for a name that is
    not in the library.
    """
    name = server or all
    if name is None or name == NO_PROMPT:
        return
    choices = store.conversations.get(answer.conversation_id).choices
    if choices.system is not None:
        return
    messages = store.messages.of(answer.conversation_id)
    if any(message.role == "system" or (message.role == "assistant" and message.text) for message in messages):
        return
    try:
        prompt = prompts.named(name)
    except ConfigError as error:
        whose = "of this server" if server else "in the settings"
        raise NoAnswer(f"The default system prompt {whose} cannot be read: {error}.", "internal") from None
    chosen = msgspec.structs.replace(choices, system=prompt.text, system_name=prompt.name)
    store.conversations.choose(answer.conversation_id, chosen)


def system_digest(system: str | None) -> str | None:
    """A digest of the chosen system prompt, to compare answers under the same one, or None if none was chosen."""
    return hashlib.blake2b(system.encode(), digest_size=8).hexdigest() if system else None


def new_answer(settings: Settings, message: Message, *, waits: bool = False) -> Request:
    """The answer to a stored question.

    `waits`: it came from the queue; otherwise the settings decide whether it may wait.
    """
    return Request(message, _sampling(settings), settings.max_tokens, waits=waits or settings.offline == "queue")


def regenerate(store: Store, settings: Settings, message_id: str, *, target: bool) -> Request:
    """Another answer to a question, and not the same again. Raises `NoAnswer`, `StorageError`.

    A greedy answer can only be given once: if it already exists, the next one is sampled. `target`: the target answers,
    otherwise the drafter. Each version gets a different seed from the one in the settings.
    """
    message = store.messages.get(message_id)
    parent_id = message.id if message.role == "user" else message.parent_id
    if parent_id is None or store.messages.get(parent_id).role != "user":
        raise _impossible("There is no question before that answer; ask one.")
    pending = store.messages.add(message.conversation_id, "assistant", "", parent_id=parent_id, status="pending")
    versions = [version for version in store.branches.siblings(pending.id) if version.id != pending.id]
    sampling = _sampling(settings, version=len(versions))
    system = system_digest(store.conversations.get(message.conversation_id).choices.system)
    said = [version for version in versions if version.stats.get("system") == system]
    redrawn = not sampling.temperature and any(_is_greedy(version, target=target) for version in said)
    if redrawn:
        sampling = msgspec.structs.replace(sampling, temperature=FRESH_TEMPERATURE)
    return Request(pending, sampling, settings.max_tokens, redrawn=redrawn)


def resume(store: Store, settings: Settings, message_id: str, text: ChatText, *, only_calls: bool = False) -> Request:
    """The rest of an answer that was cut off, sampled as it was begun. Raises `NoAnswer`, `StorageError`.

    If answers have a limit, it may get as many additional tokens as a new one. An answer with tool calls keeps its text
    up to the last of them; with `only_calls`, it keeps only these and their results.
    """
    cut = store.messages.get(message_id)
    if cut.role != "assistant":
        raise _impossible("Only an answer can be continued; this is a question.")
    if cut.status in ("pending", "streaming"):
        raise _impossible("That answer is still being written; wait until it is done.")
    if not cut.text and not cut.calls:
        raise _impossible("That answer has no text to continue; ask for another answer.")
    if cut.calls:  # What the model says of their results is written anew.
        cut = replace(cut, text=cut.text[: cut.calls[-1].at], tokens=(), provenance=())
    if only_calls:
        cut = replace(cut, text="", stats={})
    _to_go_on(text, cut)
    pending = store.messages.resume(message_id, only_calls=only_calls)
    cut, sampling = replace(cut, calls=pending.calls), _as_begun(settings, cut.stats)
    return Request(pending, sampling, settings.max_tokens, cut, does="resumes")


def verify(store: Store, settings: Settings, answer: Message, *, anew: bool = False) -> Request:
    """The verification of an answer that was drafted offline. Raises `NoAnswer`, `StorageError`.

    `anew`: the server is available, but checks no drafts.
    """
    beside = store.messages.verify(answer.id)
    if beside is None:
        raise _impossible("Another window is working on that answer; wait until it is done.")
    return Request(beside, _sampling(settings), settings.max_tokens, answer, does="verifies", anew=anew)


def sum_up(store: Store, settings: Settings, conversation_id: str, parts: int = 1) -> Request:
    """A summary of all but the last turns of the shown branch. Raises `NoAnswer`, `StorageError`.

    `parts`: only the first of so many parts of the turns that are not summed up yet. It counts like any other.
    """
    thread = store.branches.thread(conversation_id)
    questions = [place for place, message in enumerate(thread) if message.role == "user"]
    ends = questions[-WHOLE_TURNS] if len(questions) > WHOLE_TURNS else 0
    before = store.summaries.of(conversation_id)
    if not ends or (before is not None and before.up_to == thread[ends - 1].id):
        raise _impossible(f"There is nothing to summarise yet: the last {WHOLE_TURNS} questions stay as they are.")
    known = 0 if before is None else 1 + next(at for at, one in enumerate(thread) if one.id == before.up_to)
    old = [place for place in questions if known <= place < ends]
    if parts > 1:
        if parts > len(old):  # The last part was one question already.
            raise _impossible(
                "One question with its answer is longer than the model can read. Nothing more was summarised."
            )
        ends = [*old, ends][max(1, len(old) // parts)]
    pending = store.summaries.begin(thread[ends - 1], SUM_UP)
    return Request(pending, _sampling(settings), None, does="sums up")


def _to_go_on(text: ChatText, cut: Message) -> Message:
    """A message that is to be continued, in these tokens. Raises `NoAnswer` if it cannot be."""
    if not cut.text:  # Only tool calls.
        return cut
    begun = spelt(text, cut)
    if _is_complete(begun, text.stop_tokens):
        why = unchecked(begun.stats)
        advice = f", and {why}: the model can check it" if why else "; ask for more in a new question"
        raise _impossible(f"That answer is complete{advice}.")
    if not is_spelt(text, begun):
        raise _impossible(
            "The small model cannot read that answer exactly, so it cannot be continued; ask for another answer."
        )
    return begun


def _name_in(message: Message, stat: str) -> str:
    """A name in the statistics of a message, or an empty text. An import may have anything there."""
    name = message.stats.get(stat)
    return sanitise(name) if isinstance(name, str) else ""


def _impossible(why: str) -> NoAnswer:
    return NoAnswer(why, "internal")


def _is_complete(answer: Message, stop_tokens: Collection[int]) -> bool:
    ended = bool(answer.tokens) and answer.tokens[-1] in stop_tokens
    return ended or (answer.status == "done" and answer.stats.get("reason") == "end")


def _is_greedy(version: Message, *, target: bool) -> bool:
    """Whether it is the greedy answer of the target, or of the drafter. A temperature of None is the server's own."""
    ours = bool(version.tokens) or "rounds" in version.stats  # Not imported.
    whose = all(version.provenance) and not written_here(version.stats) if target else not any(version.provenance)
    return (
        ours and whose and version.status == "done" and bool(version.text) and version.stats.get("temperature", 0) == 0
    )


def _sampling(settings: Settings, version: int = 0) -> Sampling:
    """The sampling of the settings. `version`: how many answers to the question already exist."""
    return Sampling(
        temperature=settings.temperature or 0.0,
        top_k=settings.top_k,
        top_p=settings.top_p,
        seed=secrets.randbits(32) if settings.seed is None else settings.seed + version,
    )


def _as_begun(settings: Settings, stats: StoredStats) -> Sampling:
    """The sampling in an answer's statistics, or else of the settings.

    Old and imported answers may contain anything.
    """
    known = {name: stats[name] for name in Sampling.__struct_fields__ if name in stats}
    if known.get("temperature") is not None:
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(known, SAMPLING)
    return _sampling(settings)
