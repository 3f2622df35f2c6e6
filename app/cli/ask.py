"""`outrider ask`: questions in, answers on stdout, messages on stderr.

Output and exit codes are an interface.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Any, Literal, TextIO

from msgspec.structs import replace

from app.attachments.preview import too_large
from app.attachments.reader import Gathered
from app.cli.output import print_json
from app.cli.settings import AskOptions
from app.cli.tool_consent import ToolConsent
from app.config import Folders, Settings
from app.events import (
    Done,
    Drafted,
    Event,
    Failed,
    Judged,
    ModeChanged,
    PageSource,
    Reasoned,
    Redrawn,
    ReplyText,
    Retracted,
    RoundEnded,
    RoundReport,
    Started,
    SystemUnread,
    ToolCalled,
    ToolsLeftOut,
    Verified,
    parts_here,
)
from app.exits import ANEW, FAILED, GO_ON, OK, UNREACHABLE, complain
from app.prompts import PromptEntry, request_of
from app.remotes.choice import choices_named
from app.remotes.offers import Told
from app.reply.assistant import Assistant, NotLoaded
from app.reply.bootstrap import open_assistant
from app.system_prompts import keep_system_prompt
from app.titles import title_from
from storage import Attachment, Choices, Message, Store
from storage.choices import ASKED

CODE_END = re.compile(r"[>\s]*(`{3,}|~{3,})\s*")
"""The line that ends a block of code."""
EXCERPT = 300
"""Characters of an answer that are quoted if it has not what was asked for."""
UNANSWERED = ("unavailable", "incompatible", "refused")
"""Codes of failures on the server's side: out of reach, of another kind, or a refusal."""


@dataclass(frozen=True)
class AskResult:
    reply: ReplyText
    done: Done | None
    failed: Failed | None
    trace: tuple[RoundReport, ...] = ()
    judged: Judged | None = None
    reasoning: str = ""
    """The model's reasoning before its answer."""
    told: str = ""
    """The last message about the mode that the person saw."""
    go_on: str = ""
    """How to continue an incomplete answer, where that is possible."""

    @property
    def text(self) -> str:
        return self.reply.solid + self.reply.ghost

    @property
    def broken(self) -> bool:
        """Whether there is an answer, but the server broke it off."""
        return self.done is not None and self.done.cut_by == "broken"

    @property
    def exit_code(self) -> int:
        """As docs/command-line.md lists them."""
        if self.done is not None:
            return FAILED if self.broken else OK
        unreachable = self.failed is not None and self.failed.code in UNANSWERED
        return UNREACHABLE if unreachable else FAILED

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints; only `error` if there is no answer."""
        if self.done is None:
            return {"error": str(self.failed) if self.failed else "the answer ended early"}
        stats = self.done.stats
        return {
            "text": self.text,
            "token_ids": list(self.done.token_ids),
            "model": self.done.model or None,
            "drafted_by": self.done.drafted_by or None,
            "stretches": [asdict(stretch) for stretch in self.done.stretches],
            "provenance": _provenance(self.done),
            "reason": self.done.reason,
            "cut": self.done.cut_by,
            "cut_by": self.done.cut or None,
            "go_on": self.go_on or None,
            "sources": [asdict(source) for source in self.done.sources],
            "reasoning": self.reasoning or None,
            "mode": self.reply.mode,
            "rounds": stats.rounds,
            "tau": round(stats.tau, 4) if stats.streamed is None or stats.rounds else None,
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
            "trace": [_rounded(asdict(report)) for report in self.trace],
        }


class TextWriter:
    """Writes text as it becomes final. Drafts are held back until they are verified or the answer ends.

    `final_drafts`: drafts are final at once, because nobody verifies them. `by_line`: write only whole lines, for a
    program that reads them.
    """

    def __init__(self, out: TextIO, *, final_drafts: bool, by_line: bool = False) -> None:
        self._out = out
        self._final_drafts = final_drafts
        self._by_line = by_line
        self._text = ReplyText()
        self._written = 0

    def apply(self, event: Event) -> None:
        self._text.apply(event)
        if isinstance(event, (Done, Failed)):
            self._end(self._text.solid + self._text.ghost)
        elif isinstance(event, (Verified, Drafted, Retracted)):
            text = self._text.solid + (self._text.ghost if self._final_drafts else "")
            self._write(text[: text.rfind("\n") + 1] if self._by_line else text)

    def cut(self) -> None:
        """Write what is final after an interruption, and end the line."""
        self._end(self._text.solid + (self._text.ghost if self._final_drafts else ""))

    def _end(self, text: str) -> None:
        self._write(text)
        if self._written:
            self._out.write("\n")
            self._out.flush()

    def _write(self, text: str) -> None:
        if len(text) > self._written:
            self._out.write(text[self._written :])
            self._out.flush()
            self._written = len(text)


async def ask(
    question: str, settings: Settings, folders: Folders, options: AskOptions, files: Gathered | None = None
) -> int:
    """Answer one question; returns the exit code. Raises what `open_assistant` does, and `NotFound`.

    A new conversation keeps the server and the model that the options name. If a resource in `files` cannot be read,
    nothing is asked.
    """
    asks = options.asks
    kept = choices_named(settings, folders, asks)
    opening = open_assistant(
        settings,
        folders,
        asks,
        draft=options.draft,
        conversation=options.conversation,
        last=options.last,
        fixed=options.fixed,
        tools=True,
    )
    async with opening as assistant:
        store = assistant.store
        attachments = await attachments_of(assistant, files) if files is not None else ()
        if attachments is None:
            return FAILED
        chosen = chosen_conversation(store, question, kept, options)
        writer = None
        if not options.json and options.extract is None:
            alone = assistant.backend.routing.connection_of(chosen) is None
            writer = TextWriter(sys.stdout, final_drafts=alone, by_line=not sys.stdout.isatty())
        if attachments:
            await assistant.settled()  # The model's context size is known only then.
            context = assistant.context(chosen)
            if said := too_large(attachments, None if context is None else context.limit - context.used):
                complain(said)
        result = await listen(
            assistant.reply(chosen, question, attachments),
            writer,
            calls=ToolConsent(assistant, options.allow),
            saved=folders.saved,
        )
        if (offer := assistant.offer) is not None and Told(folders.offers).first_time(offer):
            complain(offer.hint)
        for name, sentence in assistant.backend.routing.news_by_now:
            if Told(folders.offers).first(name):
                complain(sentence)
        thread = [] if result.done is None else store.branches.thread(chosen)
    if options.json and result.done is not None:
        conversation = {"conversation": chosen if folders.saved else None}
        print_json({**conversation, **result.as_json(), **_risks(asked_in(thread), result)})
    code = result.exit_code
    if options.extract is not None and result.done is not None and not _print_code(result, options.extract):
        code = FAILED
    _complain_of_end(result, asked_in(thread), options, saved=folders.saved)
    return code


async def attachments_of(assistant: Assistant, files: Gathered) -> Sequence[Attachment] | None:
    """The files and the resources of a question; None, and a message, if a resource cannot be read."""
    if not files.resources:
        return files.attachments
    from app.cli.files import with_resources
    from app.tools.resources import read_resources

    try:
        read = await read_resources(await assistant.tools(), files.resources)
    except NotLoaded as error:
        read = Gathered(problems=[str(error)])
    return with_resources(files.attachments, read)


def _print_code(result: AskResult, which: Literal["last", "all"]) -> bool:
    """Print only the code of an answer. Returns whether there is any, and it is complete."""
    blocks, complete = _code_of(result.text)
    if not complete:
        complain("the last code block of the answer is incomplete, so it is not printed")
        blocks = [] if which == "last" else blocks
    elif not blocks:
        complain(f"the answer has no code block: {shorten(result.text, EXCERPT, placeholder=' …')}")
    print("\n".join(blocks if which == "all" else blocks[-1:]), end="", flush=True)
    return complete and bool(blocks)


def _code_of(answer: str) -> tuple[list[str], bool]:
    """The contents of an answer's fenced code blocks, each with a line end; and whether the last one is complete.

    An incomplete block is left out: its last command may be half of one that means something else.
    """
    from app.complete_markdown import complete_markdown  # Only `--extract` needs it.

    blocks, lines = list[str](), answer.split("\n")
    for token in complete_markdown("zero").enable(["fence", "list", "blockquote", "code"]).parse(answer):
        if token.type != "fence" or token.map is None:
            continue
        first, end = token.map[0], token.map[1]
        closing = CODE_END.fullmatch(lines[end - 1]) if end - 1 > first else None
        if closing is None or not closing[1].startswith(token.markup):
            return blocks, False
        blocks.append(token.content)
    return blocks, True


def _complain_of_end(result: AskResult, asked: str, options: AskOptions, *, saved: bool) -> None:
    """Print what an answer does not say itself: risks, what was not checked, sources, and what to do now."""
    if result.done is not None:
        if options.json:
            complain_of_unchecked(result.done)
            return
        complain_of_answer(result.done, result.text, asked)
        if sys.stderr.isatty():
            for source in result.done.sources:
                complain(_source_line(source))
    if result.failed is not None and result.failed.queued:
        complain("the chat sends the question when it is open; to send it now, run: outrider queue send")
    elif result.failed is not None and result.failed.wants_token:
        complain("to give its token: outrider remote token NAME; for an address without a name: --token-file FILE")
    elif result.failed is not None and result.failed.code == "unavailable" and not result.text and saved:
        complain("to keep the question until the server is back: outrider ask --queue")


async def ask_all(prompts: Sequence[PromptEntry], settings: Settings, folders: Folders, options: AskOptions) -> int:
    """Answer every question of a prompt file, one JSON object per line; returns the exit code."""
    code, told = OK, ""
    asks = options.asks
    kept = choices_named(settings, folders, asks)
    async with open_assistant(settings, folders, asks, draft=options.draft, tools=True) as assistant:
        for prompt in prompts:
            conversation = chosen_conversation(assistant.store, prompt.turns[0], kept, options)
            for number, turn in enumerate(prompt.turns):
                result = await listen(
                    assistant.reply(conversation, turn),
                    told=told,
                    calls=ToolConsent(assistant, options.allow),
                    saved=folders.saved,
                )
                told = result.told
                name = {} if prompt.id is None else {"id": prompt.id}
                asked = request_of(turn, prompt.turns[number - 1] if number else "")
                print_json({**name, "prompt": turn, **result.as_json(), **_risks(asked, result)})
                if result.done is None or result.broken:
                    code = result.exit_code
                    break
            if code == UNREACHABLE:
                break
    return code


def asked_in(thread: Sequence[Message]) -> str:
    """The last question of a thread, and the previous one, which it may follow up."""
    *_, before, question = ["", "", *(message.text for message in thread if message.role == "user")]
    return request_of(question, before)


def complain_of_answer(done: Done, text: str, asked: str) -> None:
    """Report the risks of the commands in an answer, and how much of it was not checked."""
    # Loading the parser and the rules takes some 40 ms, when the answer is already printed.
    from app.cli.risks import complain_of, told_risks

    complain_of(told_risks(asked, text))
    complain_of_unchecked(done)


def complain_of_unchecked(done: Done) -> None:
    """Report how much of an answer the model has not checked."""
    drafted, tokens = done.provenance.count(False), len(done.provenance)
    name = done.drafted_by or "small model"
    if local := parts_here(done.stretches):
        for writer, what in local.items():
            complain(f"{writer}, on this device, wrote {what}; it was not checked")
    elif drafted and drafted == tokens:
        complain(f"the {name} alone wrote this answer; it was not checked")
    elif drafted:
        complain(f"{drafted} of {tokens} tokens were drafted by the {name} and not checked")


async def listen(
    answer: AsyncGenerator[Event, None],
    writer: TextWriter | None = None,
    *,
    told: str = "",
    calls: ToolConsent | None = None,
    saved: bool = True,
) -> AskResult:
    """Follow one answer to its end; messages go to stderr, text to `writer` as it arrives.

    `told`: the last message about the mode that the person saw; it is not repeated. `calls`: decides about tool calls.
    `saved`: whether the conversation is stored, so that it can be continued.
    """
    reply = ReplyText()
    done: Done | None = None
    failed: Failed | None = None
    trace: list[RoundReport] = []
    judged: Judged | None = None
    reasoning: list[str] = []
    async with aclosing(answer) as events, _cut_on_interrupt(writer):
        async for event in events:
            reply.apply(event)
            if writer is not None:
                writer.apply(event)
            if isinstance(event, Started) and calls is not None:
                calls.conversation = event.conversation
            if isinstance(event, ModeChanged):
                before, told = told, str(event)
                if told != before and (event.mode == "offline" or (event.mode != "edge" and sys.stderr.isatty())):
                    complain(told)
            elif isinstance(event, Done):
                done = event
            elif isinstance(event, Failed):
                failed = event if saved else dataclasses.replace(event, advice="")
                complain(str(failed))
            elif isinstance(event, RoundEnded) and event.report is not None:
                trace.append(event.report)
            elif isinstance(event, Reasoned):
                reasoning.append(event.text)
            elif isinstance(event, ToolCalled) and calls is not None:
                calls.hear(event)
            elif isinstance(event, SystemUnread | Redrawn | ToolsLeftOut):
                complain(str(event))
            elif isinstance(event, Judged):
                judged = event
    if words := len("".join(reasoning).split()):
        complain(f"reasoned for {words:,} word{'s' * (words > 1)} before the answer (--json has them)")
    go_on = "" if done is None else _go_on(done, saved=saved)
    if done is not None and done.cut:
        complain(f"the answer is incomplete: {done.cut}{'. To continue: ' if go_on else ''}{go_on}")
    return AskResult(reply, done, failed, tuple(trace), judged, "".join(reasoning), told, go_on)


def _go_on(done: Done, *, saved: bool) -> str:
    """How to continue an incomplete answer; empty for a complete one, and for one that cannot be continued."""
    longer = "; a longer answer: --max-tokens" if done.cut.endswith("(max_tokens)") else ""
    return f"{ANEW if done.full else GO_ON}{longer}" if done.cut and saved else ""


def _provenance(done: Done) -> dict[str, int]:
    """How many of the answer's tokens come from which source.

    With a server that checks no drafts there is only `streamed`.
    """
    streamed = {"streamed": done.stats.streamed or 0}
    if done.stats.streamed is not None and not done.provenance:
        return streamed
    return {"verified": done.provenance.count(True), "drafted": done.provenance.count(False), **streamed}


def _risks(asked: str, result: AskResult) -> dict[str, Any]:
    """The field `risks` of an answer. `asked`: the question and the one before it."""
    if result.done is None:
        return {}
    from app.cli.risks import told_risks

    return {"risks": [told.as_json() for told in told_risks(asked, result.text)]}


@asynccontextmanager
async def _cut_on_interrupt(writer: TextWriter | None) -> AsyncIterator[None]:
    try:
        yield
    except asyncio.CancelledError:
        if writer is not None:
            writer.cut()
        raise


def _source_line(source: PageSource) -> str:
    if source.by == "tldr":
        return f"from the page {source.page} (tldr pages)"
    return f"from Outrider's own examples; more on the page {source.page} (tldr pages)"


def _whole(rate: float | None) -> int | None:
    return None if rate is None else round(rate)


def _rounded(value: Any) -> Any:
    """A copy with numbers rounded to six decimals: seconds to the microsecond."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def chosen_conversation(store: Store, question: str, kept: Choices, options: AskOptions) -> str:
    """The id of the conversation that a question belongs to: the one to continue, or a new one with these choices.

    Raises `NotFound`, `StorageError`.
    """
    chosen = store.conversations.to_continue(options.conversation, last=options.last)
    if chosen is None:
        chosen = store.conversations.create(title_from(question), replace(kept, origin=ASKED)).id
    if options.tools:
        choices = store.conversations.get(chosen).choices
        store.conversations.choose(chosen, replace(choices, tools=tuple(dict.fromkeys(options.tools))))
    if options.system is not None:
        keep_system_prompt(store, chosen, options.system)
    return chosen
