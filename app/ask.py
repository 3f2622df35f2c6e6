"""`outrider ask`: questions in, answers on stdout, talk on stderr. Its output and exit codes are an interface."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any, TextIO

from app.config import Folders, Settings
from app.events import Done, Drafted, Event, Failed, Judged, ModeChanged, Paced, ReplyText, Retracted, Verified
from app.opening import open_assistant
from app.prompts import Prompt
from storage import Store

OK, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130
TITLE_LENGTH = 60


@dataclass(frozen=True)
class Answered:
    """One question's outcome."""

    reply: ReplyText
    done: Done | None
    failed: Failed | None
    trace: tuple[Paced, ...] = ()
    judged: Judged | None = None

    @property
    def text(self) -> str:
        return self.reply.solid + self.reply.ghost

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints; with `error` where there is no answer."""
        if self.done is None:
            return {"error": self.failed.message if self.failed else "the answer ended early"}
        stats = self.done.stats
        return {
            "text": self.text,
            "token_ids": list(self.done.token_ids),
            "provenance": {"verified": self.done.provenance.count(True), "drafted": self.done.provenance.count(False)},
            "mode": self.reply.mode,
            "rounds": stats.rounds,
            "tau": round(stats.tau, 4),
            "drafted_nodes": stats.drafted_nodes,
            "second_stage": stats.second_stage,
            "ahead_tries": stats.ahead_tries,
            "ahead_hits": stats.ahead_hits,
            "ahead_adopted": stats.ahead_adopted,
            "seconds": round(stats.seconds, 4),
            "first_token_seconds": None if stats.first_token_seconds is None else round(stats.first_token_seconds, 4),
            "rtt_ms": None if stats.rtt_ms is None else round(stats.rtt_ms, 3),
            "line": stats.line,
            "up_bytes_per_second": _whole(stats.up_bytes_per_second),
            "down_bytes_per_second": _whole(stats.down_bytes_per_second),
            "bytes_up": stats.bytes_up,
            "bytes_down": stats.bytes_down,
            "trace": [_rounded(asdict(paced)) for paced in self.trace],
        }


class Stream:
    """Text as it becomes final: what may still be taken back is kept until it is verified, or the answer ends."""

    def __init__(self, out: TextIO, *, final_drafts: bool) -> None:
        self._out = out
        self._final_drafts = final_drafts
        self._text = ReplyText()
        self._written = 0

    def apply(self, event: Event) -> None:
        self._text.apply(event)
        if isinstance(event, (Verified, Drafted, Retracted, Done, Failed)):
            everything = self._final_drafts or isinstance(event, (Done, Failed))
            text = self._text.solid + (self._text.ghost if everything else "")
            self._out.write(text[self._written :])
            self._written = max(self._written, len(text))
        if isinstance(event, (Done, Failed)) and self._written:
            self._out.write("\n")
        self._out.flush()


async def ask(question: str, settings: Settings, folders: Folders, *, as_json: bool, draft: bool) -> int:
    """Answer one question; returns the exit code. Raises what `open_assistant` does."""
    async with open_assistant(settings, folders, draft=draft) as assistant:
        stream = None
        if not as_json and sys.stdout.isatty():
            stream = Stream(sys.stdout, final_drafts=settings.mode == "offline")
        answered = await listen(assistant.reply(new_conversation(assistant.store, question), question), stream)
    if answered.done is not None:
        if as_json:
            _print_json(answered.as_json())
        elif stream is None:
            print(answered.text)
        if drafted := answered.done.provenance.count(False):
            say(f"{drafted} of {len(answered.done.provenance)} tokens come from the drafter alone, not verified")
    return _exit_code(answered, settings, draft)


async def ask_all(prompts: Sequence[Prompt], settings: Settings, folders: Folders, *, draft: bool) -> int:
    """Answer every question of a prompt file, one JSON object a line; returns the exit code."""
    code = OK
    async with open_assistant(settings, folders, draft=draft) as assistant:
        for prompt in prompts:
            conversation = new_conversation(assistant.store, prompt.turns[0])
            for turn in prompt.turns:
                answered = await listen(assistant.reply(conversation, turn))
                name = {} if prompt.id is None else {"id": prompt.id}
                _print_json({**name, "prompt": turn, **answered.as_json()})
                if answered.done is None:
                    code = _exit_code(answered, settings, draft)
                    break
            if code == UNREACHABLE:
                break
    return code


async def listen(answer: AsyncGenerator[Event, None], stream: Stream | None = None) -> Answered:
    """One answer to its end; talk on stderr, text to `stream` as it comes."""
    reply = ReplyText()
    done: Done | None = None
    failed: Failed | None = None
    trace: list[Paced] = []
    judged: Judged | None = None
    async with aclosing(answer) as events:
        async for event in events:
            reply.apply(event)
            if stream is not None:
                stream.apply(event)
            if isinstance(event, ModeChanged) and event.mode != "edge":
                say(f"{event.mode}: {event.why}")
            elif isinstance(event, Done):
                done = event
            elif isinstance(event, Failed):
                failed = event
                say(event.message)
            elif isinstance(event, Paced):
                trace.append(event)
            elif isinstance(event, Judged):
                judged = event
    return Answered(reply, done, failed, tuple(trace), judged)


def _whole(rate: float | None) -> int | None:
    return None if rate is None else round(rate)


def _rounded(value: Any) -> Any:
    """Numbers that a person may read: seconds to the microsecond."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def new_conversation(store: Store, question: str) -> str:
    """Its id; it is named after the question."""
    title = " ".join(question.split())
    return store.create_conversation(title[:TITLE_LENGTH]).id


def _exit_code(answered: Answered, settings: Settings, draft: bool) -> int:
    if answered.done is not None:
        return OK
    needs_verifier = settings.mode == "edge" or not draft
    unreachable = answered.failed is not None and answered.failed.code in ("unavailable", "incompatible")
    return UNREACHABLE if needs_verifier and unreachable else FAILED


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def say(sentence: str) -> None:
    print(f"outrider: {sentence}", file=sys.stderr, flush=True)
