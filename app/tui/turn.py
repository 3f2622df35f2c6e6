"""One question and its answer, running or stored, as the transcript shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from app.events import (
    Done,
    Dropped,
    Event,
    Failed,
    Judged,
    PageSource,
    Reasoned,
    ReplyText,
    Started,
    Stretch,
    ToolCalled,
    Withdrawn,
    ranges_here,
    stretches_of,
)
from app.prompts import request_of
from app.reply.judgement import own_judgement, stored_judgement, stored_withdrawn
from app.sanitise import one_line, sanitise
from app.tui.markdown.parser import leaves
from app.tui.markdown.struck import Struck
from storage import Attachment, Message

CUT = "cut at the length limit"
MOST_PAGES = 5
"""Pages that an answer may name. The guide names three at most; the store may hold imported messages, too."""
LONGEST_NAME = 80
"""Characters of a page's name."""
Outcome = Literal["running", "done", "stopped", "interrupted", "elsewhere", "failed"]
"""interrupted: its program died. elsewhere: another program is writing it."""
NOTED: Mapping[Outcome, str] = {
    "stopped": "stopped",
    "interrupted": "interrupted",
    "elsewhere": "another window is writing it",
}
Part = Literal["question", "answer"]


@dataclass(eq=False)
class Turn:
    """A question with its answer. It grows while its reply runs; widgets draw it again when `revision` has changed."""

    question: str
    asked: str = ""
    """Id of the question's message, if it is known."""
    reply: ReplyText = field(default_factory=ReplyText)
    message: str = ""
    """Id of the answer's message, once there is one."""
    outcome: Outcome = "running"
    error: str = ""
    queued: bool = False
    """Whether nobody could answer, so that the question or the rest of the answer waits in the queue."""
    cut: str = ""
    """What ended the answer before the model did; empty for a complete answer."""
    model: str = ""
    """Name of the model that answered, as one line; empty if it is not known."""
    drafted_by: str = ""
    """The model that wrote the unchecked part, or empty if unknown."""
    stretches: tuple[Stretch, ...] = ()
    """Who wrote which part, if a model on this device stood in for the server's."""
    provenance: tuple[bool, ...] = ()
    """For each token of the finished answer: True if the target verified it."""
    judged: Judged | None = None
    """What the target kept of a drafted answer, if this answer is that one or replaces it."""
    withdrawn: tuple[Dropped, ...] = ()
    """What models on this device had written in this answer, and the target did not keep."""
    awaiting: bool = False
    """Whether the answer is queued to be checked."""
    wordings: tuple[int, int] = (1, 1)
    """Which version of the question this is, from 1, and how many there are."""
    versions: tuple[int, int] = (1, 1)
    """Which version of the answer this is, from 1, and how many there are."""
    shaded: tuple[tuple[int, int], ...] = ()
    """Character ranges of the finished answer that are shaded as unverified."""
    sources: tuple[PageSource, ...] = ()
    before: str = ""
    """The question before it in the conversation."""
    attachments: tuple[Attachment, ...] = ()
    """The files that go with the question."""
    files_unfolded: bool = False
    """Whether their text is shown, not only their names."""
    thoughts: str = ""
    thought_seconds: float = 0.0
    thoughts_unfolded: bool = False
    calls: tuple[ToolCalled, ...] = ()
    """The tool calls, in order."""
    calls_unfolded: bool = False
    summary: str = ""
    """The summary that the model reads instead of all turns up to this one."""
    withdrawn_shown: bool = False
    """Whether the person wants to see the withdrawn text."""
    revision: int = 0

    @property
    def running(self) -> bool:
        return self.outcome == "running"

    @property
    def text(self) -> str:
        return self.reply.solid + self.reply.ghost

    @property
    def request(self) -> str:
        """The question and the one before it."""
        return request_of(self.question, self.before)

    @property
    def drafted(self) -> int:
        """Number of unverified tokens in the finished answer."""
        return self.provenance.count(False)

    @property
    def unchecked(self) -> tuple[tuple[int, int], ...]:
        """Ranges of characters to shade: what nobody verified, and what a model on this device wrote."""
        return (*self.shaded, *ranges_here(self.stretches, len(self.text)))

    @property
    def solid(self) -> int:
        """How many characters of a running answer are not dimmed: the server's, up to where another model continues."""
        here = (stretch.at for stretch in self.stretches if stretch.here)
        return min(len(self.reply.solid), next(here, len(self.reply.solid)))

    @property
    def asking(self) -> ToolCalled | None:
        """The tool call that waits for the person's yes."""
        return next((called for called in self.calls if called.asks), None) if self.running else None

    @property
    def verifiable(self) -> bool:
        """Whether the answer is finished and the target has not read all of it."""
        return bool((self.drafted or self._local) and self.message) and not self.running and self.judged is None

    @property
    def _local(self) -> Stretch | None:
        """What a model on this device wrote, if nobody has checked it."""
        return next((stretch for stretch in self.stretches if stretch.here), None)

    @property
    def answered_again(self) -> bool:
        """Whether a server that checks no drafts gave this answer after one that was written offline."""
        return self.judged is not None and self.judged.again is not None

    @property
    def dropped(self) -> tuple[Struck, ...]:
        """The texts that were read and that the target did not keep, each as separate Markdown, at its place."""
        texts, judged = self.withdrawn, self.judged
        if judged is not None and judged.dropped and not self.drafted and self._local is None:
            texts += (Dropped(judged.at, judged.dropped),)
        return tuple(Struck(at, f"```\n{text}" if _begins_in_code(text) else text) for at, text in texts)

    @property
    def struck(self) -> tuple[Struck, ...]:
        """Those of them that are shown, struck through."""
        return self.dropped if self.withdrawn_shown else ()

    @property
    def note(self) -> str:
        """The note about the finished answer; often empty."""
        parts = [] if self.versions[1] == 1 else [f"{self.versions[0]}/{self.versions[1]}"]
        if (local := self._local) is not None:
            written = f"{'' if local.at else 'all '}by {local.writer} on this device"
            parts.append(f"{written}, not checked" if self.judged is None else written)
        elif self.drafted:
            share = "" if self.drafted == len(self.provenance) else f": {self.drafted} of {len(self.provenance)} tokens"
            drafted = f"drafted offline by the {self.drafted_by}" if self.drafted_by else "drafted offline"
            parts.append(f"{drafted}, not checked{share}" if self.judged is None else drafted)
        if self.awaiting and (self.drafted or local is not None):
            parts.append("queued to be checked")
        elif self.awaiting and not self.error:
            parts.append("the rest follows when the server is back")
        if self.judged is not None:
            parts.append(str(self.judged))
        if self.outcome in NOTED:
            parts.append(NOTED[self.outcome])
        if self.cut:
            parts.append(self.cut)
        if not self.running and any(one.call.state == "unknown" and not one.call.result for one in self.calls):
            parts.append("a tool call may have run; /continue asks you about it")
        if self.outcome == "failed" and not self.error:
            parts.append("failed before it was complete")
        return " · ".join(parts)

    @property
    def code(self) -> str:
        """The last code block of the answer; empty if there is none."""
        return (self.codes or [""])[-1]

    @property
    def codes(self) -> list[str]:
        return [leaf.content.plain for leaf in leaves(self.text) if leaf.kind == "code"]

    def apply(self, event: Event) -> None:
        self.reply.apply(event)
        if isinstance(event, Started):
            self.message = event.message
        elif isinstance(event, Reasoned):
            self.thoughts += event.text
            self.thought_seconds = event.seconds
        elif isinstance(event, ToolCalled):
            place = event.call.place
            self.calls = (*self.calls[:place], event, *self.calls[place + 1 :])
        elif isinstance(event, Stretch):
            self.stretches += (event,)
        elif isinstance(event, Withdrawn):
            self.withdrawn = event.texts
        elif isinstance(event, Judged):
            self.judged = event
        elif isinstance(event, Done):
            self.outcome = "stopped" if event.stopped else "done"
            self.cut = event.cut or (CUT if event.reason == "length" else "")
            self.provenance, self.sources, self.model = event.provenance, event.sources, event.model
            self.drafted_by, self.stretches = event.drafted_by, event.stretches
            if not self.drafted:
                self.reply.ghost = ""  # Drafts of a round without a verdict are not stored.
        elif isinstance(event, Failed):
            self.outcome, self.error, self.queued = "failed", str(event), event.queued
        self.revision += 1

    def judge(self, judged: Judged | None) -> None:
        """Set what the target kept of this answer."""
        self.judged, self.awaiting = judged, False
        self.revision += 1

    def await_verification(self, awaiting: bool) -> None:
        if awaiting != self.awaiting:
            self.awaiting = awaiting
            self.revision += 1

    def place(self, versions: Mapping[str, tuple[int, int]]) -> None:
        """Set which versions these are. `versions`: the place and the number of versions, by message id."""
        places = versions.get(self.asked, (1, 1)), versions.get(self.message, (1, 1))
        if places != (self.wordings, self.versions):
            self.wordings, self.versions = places
            self.revision += 1

    def shade(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Set the shaded ranges of characters; none takes the shading off."""
        if tuple(ranges) != self.shaded:
            self.shaded = tuple(ranges)
            self.revision += 1

    @classmethod
    def of_thread(cls, thread: Iterable[Message], branches: Iterable[Message] = ()) -> list[Turn]:
        """Pair each stored question with its answer. The text is sanitised here, because it may be imported.

        `branches`: all messages of the conversation, to find what the target kept of a drafted answer.
        """
        messages = {message.id: message for message in branches}
        judgements: dict[str, Judged] = {}
        for message in messages.values():
            original = messages.get(message.verifies or "")
            if original is not None and (judged := stored_judgement(message, original)) is not None:
                judgements[message.id] = judgements[original.id] = judged
        turns: list[Turn] = []
        for message in thread:
            if message.role == "user":
                turns.append(
                    cls(sanitise(message.text), message.id, outcome="stopped", attachments=message.attachments)
                )
            elif message.role == "assistant":
                if not turns or turns[-1].message:
                    turns.append(cls(""))
                turn = turns[-1]
                turn.message, turn.provenance = message.id, tuple(message.provenance)
                turn.outcome = _outcome(message)
                turn.cut = _cut(message) if turn.outcome == "done" else ""
                turn.model, turn.drafted_by = model_of(message.stats), model_of(message.stats, "drafted_by")
                turn.reply.solid, turn.stretches = sanitise(message.text), stretches_of(message.stats)
                turn.sources = sources_of(message.stats)
                turn.calls = tuple(map(ToolCalled, message.calls))
                turn.thoughts, seconds = sanitise(message.reasoning), message.stats.get("reasoning_seconds")
                turn.thought_seconds = seconds if isinstance(seconds, float) else 0.0
                turn.withdrawn = stored_withdrawn(message.stats)
                turn.judged = judgements.get(message.id) or own_judgement(message)
        return turns


def place_questions(turns: Sequence[Turn]) -> None:
    """Set the preceding question of each turn of a conversation."""
    for before, turn in pairwise(turns):
        turn.before = before.question


Cursor = tuple[Turn, Part] | None
"""The message that keys act on, if one was chosen."""


def _outcome(message: Message) -> Outcome:
    if message.status == "pending" or message.status == "streaming":
        return "elsewhere"
    return "interrupted" if message.interrupted else message.status


def _cut(message: Message) -> str:
    """What ended a stored answer before the model did; empty for a whole answer."""
    cut, reason = message.stats.get("cut"), message.stats.get("reason")
    return sanitise(cut) if isinstance(cut, str) else CUT if reason == "length" else ""


def sources_of(stats: Mapping[str, Any]) -> tuple[PageSource, ...]:
    """The pages that a stored message names. What is not the name of a page is left out."""
    named = stats.get("sources")
    pages: dict[PageSource, None] = {}
    for one in named if isinstance(named, list) else ():
        parts = (one.get("page"), one.get("platform")) if isinstance(one, Mapping) else ()
        names = [part for part in parts if isinstance(part, str) and len(part) < LONGEST_NAME]
        if len(names) == 2 and names[0]:
            by: Literal["outrider", "tldr"] = "outrider" if one.get("by") == "outrider" else "tldr"
            pages[PageSource(one_line(names[0]), one_line(names[1]), by)] = None
    return tuple(pages)[:MOST_PAGES]


def model_of(stats: Mapping[str, object], name: str = "model") -> str:
    """The model's name in the statistics of an answer, as one line; empty if there is none."""
    model = stats.get(name)
    return one_line(model) if isinstance(model, str) else ""


def _begins_in_code(text: str) -> bool:
    """Whether a part of an answer begins inside a code block: then its first fence closes, and names no language."""
    languages = [found.strip() for found in re.findall(r"^ {0,3}(?:```|~~~)(.*)$", text, re.MULTILINE)]
    return bool(languages) and not languages[0] and (len(languages) % 2 == 1 or any(languages[1::2]))
