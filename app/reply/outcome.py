"""How a reply ends: what is stored of the answer, and which event reports it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.events import Cut, Done, Dropped, Failed, Judged, PageSource, Withdrawn
from app.exits import GO_ON
from app.reply.errors import NoAnswer
from app.reply.generation import Generation
from app.reply.judgement import (
    drafted,
    judge,
    judge_again,
    judge_texts,
    judgement_stats,
    parting,
    stored_withdrawn,
    texts_dropped,
    verified_length,
)
from app.reply.request import Request
from app.sanitise import one_line, sanitise
from models.config import DrafterError
from models.guide.sources import sources
from storage import FinalStatus, Message, StorageBusy, StorageError, Store

SAVE_TRIES = 6
"""Tries to store a complete answer; each waits five seconds for its turn."""
SAVE_PAUSE_SECONDS = 0.2
"""Pause between two tries, for the screen."""
NEVER_AGAIN = ("too_long", "refused", "broken")
"""Codes of failures after which a question leaves the queue: it would fail again, or be charged twice."""
WRITERS = ("model", "streamed", "drafted_by", "stretches", "withdrawn")
"""Statistics that say who wrote a text."""
MOST_NAME = 200
"""Characters of a server's name for its model that are stored."""


@dataclass(frozen=True)
class ReplyOutcome:
    """How a reply ended. By default, its reader has left."""

    status: FinalStatus = "stopped"
    last: Done | Failed | None = None
    """The last event, or None if its reader has left."""
    judged: Judged | None = None
    """What the target kept of an answer that was drafted offline."""
    withdrawn: Withdrawn | None = None
    """What it did not keep of what was read of this answer."""
    settles: str | None = None
    """Id of the answer that leaves the queue."""
    waits: bool = False
    """Whether the question, or the rest of its answer, waits in the queue."""


def completed(request: Request, generation: Generation) -> ReplyOutcome:
    answer = generation.answer
    assert generation.reason is not None
    stopped = generation.reason == "stopped"
    tokens, provenance = tuple(answer.tokens), tuple(answer.provenance)
    cut, kind, pages, model = _cut(generation), _cut_kind(generation), _sources(generation), _one_line(answer.model)
    drafter, stretches = answer.drafted_by, tuple(answer.stretches)
    stats = generation.stats
    done = Done(stopped, generation.reason, tokens, provenance, stats, cut, kind, pages, model, drafter, stretches)
    verified = all(provenance)
    judged = _kept(request, generation)
    called = request.stored is not None and request.stored.calls  # Then a server has written it, and none drafted it.
    if verified and not stopped and request.begun is not None and not called:
        judged = _judged(request.begun, generation)
    all_here = bool(stretches) and stretches[0].here  # A server that has written a part is not asked again.
    settles = request.settles(done=not stopped, verified=verified and not all_here, never=False)
    withdrawn = _withdrawn(request, generation, judged)
    return ReplyOutcome("stopped" if stopped else "done", done, judged, withdrawn, settles)


def _judged(begun: Message, generation: Generation) -> Judged | None:
    """The judgement of the drafted part of an answer, if there was one, and if somebody else wrote it again."""
    answer = generation.answer
    again = generation.figures.answered_again(_one_line(answer.model))
    if not drafted(begun):
        return None
    if again is not None:
        return None if any(one.here for one in answer.stretches) else judge_again(begun, answer.text, again)
    if answer.local:  # Its tokens only spell what it wrote.
        checked = answer.decoded(verified_length(begun))
        return judge_texts(begun.id, [(len(checked), begun.text)], answer.text, generation.given.text.length)
    return judge(begun, answer.tokens, answer.text)


def _withdrawn(request: Request, generation: Generation, judged: Judged | None = None) -> Withdrawn | None:
    """What the target did not keep of what models on this device had written in this answer, in any of its versions.

    Without `judged`: the end of the version before.
    """
    answer, begun = generation.answer, request.begun
    before: list[Dropped] = []
    if begun is not None and not request.anew:
        same = parting(begun.text, answer.text)  # What follows may be another text by now.
        before = [Dropped(min(one.at, same), one.text) for one in stored_withdrawn(begun.stats)]
    told = None if begun is None or judged is None else begun.text
    drafts = [text for _, text in answer.withdrawn if sanitise(text) != told]
    texts: tuple[Dropped, ...] = (*before, *texts_dropped(drafts, answer.text))
    return Withdrawn(texts) if texts else None


def _kept(request: Request, generation: Generation) -> Judged | None:
    """How much the target kept of what such models wrote in a new answer.

    None if it kept all, or has not read the whole answer: that must not look checked.
    """
    answer = generation.answer
    if request.begun is not None or answer.suffix or answer.stretches:
        return None
    judged = judge_texts(request.message.id, answer.withdrawn, answer.text, generation.given.text.length)
    return Judged(judged.message, judged.kept, judged.of, "") if judged is not None and judged.dropped else None


def failed(
    request: Request, generation: Generation | None, error: NoAnswer | DrafterError | StorageError
) -> ReplyOutcome:
    """The outcome of a reply that `error` ended, perhaps before it began."""
    if isinstance(error, NoAnswer):
        last, never, waits = error.event, error.event.code in NEVER_AGAIN, error.passing and request.waits
    else:
        last, never, waits = Failed(str(error), "internal"), isinstance(error, DrafterError), False
    if generation is not None and generation.called and waits:
        # Asked again from the queue, the model would have its calls made again.
        never, waits = True, False
        last = replace(last, advice=f"The tool calls are kept, and are not made again. To continue: {GO_ON}.")
    if waits:
        what = "The question waits and is sent"
        if generation is not None and (generation.answer.text or (generation.desk and generation.desk.calls)):
            what = "The answer so far is kept. The rest follows"
        last = replace(last, message=f"{error} {what} when the server is back.", queued=True, advice="")
    settles = request.settles(done=False, verified=False, never=never)
    judged = None if generation is None else _kept(request, generation)
    withdrawn = None if generation is None else _withdrawn(request, generation)
    return ReplyOutcome("failed", last, judged, withdrawn, settles, waits)


async def save(store: Store, request: Request, generation: Generation | None, outcome: ReplyOutcome) -> Failed | None:
    """Store the answer and its statistics. Returns the error if that is impossible.

    A waiting question returns to the queue; if its answer has begun, the answer is queued to be completed.

    Another program may hold the database for longer than a call waits, such as a new version that migrates it, or the
    import of a very long conversation. An answer must not be lost for that reason, so storing is retried.
    """
    message_id, begun, reasoning = request.message.id, request.stored, ""
    written = ((), (), "") if begun is None else (begun.tokens, begun.provenance, begun.text)
    if generation is not None:
        answer, reasoning = generation.answer, generation.answer.reasoning
        written = tuple(answer.tokens), tuple(answer.provenance), answer.text
    stats = _stats(request, generation, outcome)
    tries = SAVE_TRIES
    while True:
        try:
            if outcome.waits:
                if not written[2] and store.queue.defer(message_id) is not None:
                    return None
                # Before `finish`: if the program dies in between, it is completed too.
                store.queue.add_verification(message_id, first=True)
            store.messages.finish(
                message_id, *written, outcome.status, stats, settles=outcome.settles, reasoning=reasoning
            )
            return None
        except StorageError as error:
            tries -= 1
            if not isinstance(error, StorageBusy) or not tries:
                return Failed(str(error), "internal")
        await asyncio.sleep(SAVE_PAUSE_SECONDS)


def _stats(request: Request, generation: Generation | None, outcome: ReplyOutcome) -> dict[str, Any]:
    stats: dict[str, Any] = dict(request.about)
    if generation is None and (begun := request.stored) is not None:
        stats |= {name: begun.stats[name] for name in WRITERS if name in begun.stats}
    if generation is not None:
        totals = generation.stats
        stats |= {
            **asdict(totals),
            "tau": totals.tau,
            "reason": generation.reason,
            **stats_so_far(request, generation, outcome.judged),
        }
        if totals.streamed is not None and not totals.rounds:
            del stats["verified"]  # It checks no drafts, so there is nothing to count.
            stats["tau"] = None
            stats |= dict.fromkeys(generation.given.left_to_server)
        if version := generation.drafting.version:
            stats["learnt"] = version
        if (system := generation.given.system_digest) is not None:
            stats["system"] = system
        if generation.answer.reasoning:
            stats["reasoning_seconds"] = generation.answer.reasoning_seconds
    if outcome.judged is not None:
        stats |= judgement_stats(outcome.judged)
    if isinstance(outcome.last, Done) and outcome.last.sources:
        stats["sources"] = [asdict(source) for source in outcome.last.sources]
    return stats


def stats_so_far(request: Request, generation: Generation, judged: Judged | None = None) -> dict[str, Any]:
    """The statistics stored with an answer while it is being written, in case it is never finished.

    `judged`: as for `_withdrawn`.
    """
    withdrawn = _withdrawn(request, generation, judged)
    said = {} if withdrawn is None else {"withdrawn": [list(one) for one in withdrawn.texts]}
    return {**request.about, **_server_stats(generation), **said}


def _sources(generation: Generation) -> tuple[PageSource, ...]:
    if not generation.guided or generation.figures.streamed is not None:
        return ()
    found = sources(generation.hits, generation.answer.text)
    return tuple(PageSource(hit.page.name, hit.page.platform, "outrider" if hit.own else "tldr") for hit in found)


def _cut(generation: Generation) -> str:
    """What ended the answer before the model did, in words; empty if it is complete or was stopped."""
    if generation.cut_by or generation.reason != "length":
        return _one_line(generation.cut_by)
    if _cut_kind(generation) == "context":
        return "the conversation has reached the length that the model can read"
    return f"cut at {generation.most:,} tokens (max_tokens)"


def _cut_kind(generation: Generation) -> Cut | None:
    """What ended the answer before the model did, as one word, or None if it is complete or was stopped."""
    if generation.cut_kind is not None or generation.reason != "length":
        return generation.cut_kind
    given, written = generation.given, len(generation.answer.tokens)
    full = generation.figures.streamed is None and (given.most is None or written < given.most)
    return "context" if full else "length"


def _server_stats(generation: Generation) -> dict[str, Any]:
    """The stored facts about the server that answered: its model, what cut off the answer, and its token counts."""
    stats: dict[str, Any] = {"cut": _cut(generation) or None, "cut_by": _cut_kind(generation)}
    if generation.answer.model:
        stats["model"] = _one_line(generation.answer.model)
    if generation.answer.drafted_by:
        stats["drafted_by"] = _one_line(generation.answer.drafted_by)
    if generation.answer.stretches:
        parts = generation.answer.stretches
        stats["stretches"] = [asdict(replace(part, writer=_one_line(part.writer))) for part in parts]
    if (usage := generation.figures.usage) is not None:
        stats |= {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
    return stats | generation.figures.spent


def _one_line(text: str) -> str:
    """A server's words as one short line, fit for statistics and exports."""
    return one_line(text)[:MOST_NAME]
