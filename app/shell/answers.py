"""Answers the keys of the shell. The assistant answers as for `outrider ask`, but stores nothing permanently.

Its conversations are in a database in the helper's private folder. Each is erased when it is answered, and the
database when the helper ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path

from app.commands.conditions import left_out
from app.commands.requests import unasked
from app.commands.risk import Kind, Risk, Severity
from app.commands.risks import risks
from app.config import BUNDLED_DRAFTER, Folders, Settings, is_address, load_settings
from app.events import Done, Failed, ReplyText, Stretch
from app.remotes.choice import source_of
from app.remotes.last_seen import LastSeen
from app.remotes.registry import Remotes
from app.reply.assistant import Assistant
from app.reply.bootstrap import local_model, with_stand_in
from app.reply.routing import Options
from app.sanitise import sanitise
from app.shell.command_text import command_of, question_for, question_of_failure, same_words, whole_command
from app.shell.explanation import explanation, known_parts
from app.shell.ghost import ghost_text, reads_as_words
from app.shell.mends import Failure, mend
from app.shell.requests import Answer, Request
from drafter.runtime import Drafter
from drafter.shelf import Drafters
from storage import Store

log = logging.getLogger("outrider.shell")
MODEL = "Your model"
"""The source of an explanation that a model wrote."""


class NoCommand(Exception):
    """There is no answer to a key press; the message says why."""


class Answers:
    """Answers the requests of one home's shells, one after another. `scratch`: a folder for temporary data."""

    def __init__(self, folders: Folders, home: str, scratch: Path) -> None:
        self._folders = folders
        self._home = home
        self._scratch = scratch
        self._turn = asyncio.Lock()
        self._drafter: Drafter | None = None
        self._drafter_of: tuple[str, str] | None = None
        self._assistant: Assistant | None = None
        self._opened: object = None
        """The settings and the state of the remotes' registry for which the assistant was opened."""
        self._open = AsyncExitStack()
        shutil.rmtree(scratch, ignore_errors=True)  # A helper that crashed may have left it.

    @property
    def remote(self) -> str:
        """Who answers, in words; empty while nothing is loaded."""
        return "" if self._assistant is None else self._assistant.status().why

    async def answer(self, request: Request) -> Answer:
        """Raises `NoCommand`, and what the assistant's parts raise: `ConfigError`, `DrafterError`, `StorageError`."""
        if request.kind == "ghost":
            words = request.text
            return Answer(await asyncio.to_thread(ghost_text, words) if reads_as_words(words) else "")
        if request.home != self._home:
            raise NoCommand("OUTRIDER_HOME has changed since this shell loaded the integration. Open a new shell.")
        if not request.text.strip():
            raise NoCommand(EMPTY[request.kind])
        if request.kind == "command":
            return await self._command(request)
        if request.kind == "explain":
            return await self._explanation(request)
        return await self._mend(request)

    async def close(self) -> None:
        """Release the assistant, and erase its data."""
        await self._open.aclose()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # ---- kinds -------------------------------------------------------------------------------------------------------

    async def _command(self, request: Request) -> Answer:
        async with self._turn:
            assistant = await self._loaded(request)
            question = question_for(request.text, request.shell, pair=self._is_pair(assistant, request))
            text, unchecked = await _ask(assistant, question, whole_command)
        command = command_of(text)
        if command is None:
            first = next((line.strip() for line in text.splitlines() if line.strip()), "")
            raise NoCommand(first[:200] or "The model gave no command.")
        told = await asyncio.to_thread(self._noted, command, request, assistant)
        return Answer(command, "; ".join([*told, *unchecked]))

    async def _explanation(self, request: Request) -> Answer:
        sources = await asyncio.to_thread(known_parts, request.text, request.path)
        notes: list[str] = []
        async with self._turn:
            settings = self._settings(request)
            # The bundled pair was made to give commands. Its explanations are not worth reading.
            if settings.drafter != str(BUNDLED_DRAFTER) or self._has_remote(settings):
                assistant = await self._loaded(request)
                if not self._is_pair(assistant, request):
                    question = f"Explain this shell command, part by part and briefly: {request.text}"
                    try:
                        text, notes = await _ask(assistant, question, lambda _: False)
                        sources.append((MODEL, text))
                    except NoCommand as error:
                        if not sources:
                            raise
                        notes = [str(error)]
        if not sources:
            raise NoCommand("Nothing is known about this command: it has neither a tldr page nor a manual page.")
        return Answer(explanation(sources, request.columns), "; ".join(notes))

    async def _mend(self, request: Request) -> Answer:
        failure = Failure(request.text, request.status, request.error, request.cwd, request.path)
        if (found := await asyncio.to_thread(mend, failure)) is not None:
            return Answer(found.command, found.why)
        async with self._turn:
            assistant = await self._loaded(request)
            question = question_of_failure(failure.command, failure.status, failure.error, request.shell)
            text, unchecked = await _ask(assistant, question, whole_command)
            pair = self._is_pair(assistant, request)
        command = command_of(text)
        # Shell Guide was not made to fix commands: its answer counts only if it is about the same things.
        if command is None or command == failure.command or (pair and not same_words(failure.command, command)):
            raise NoCommand(NO_MEND if request.error else f"{NO_MEND} {MORE}")
        told = await asyncio.to_thread(self._noted, command, request, assistant)
        return Answer(command, "; ".join([*told, "the model's proposal", *unchecked]))

    def _noted(self, command: str, request: Request, assistant: Assistant) -> list[str]:
        """The note on a command. Raises `NoCommand` if the bundled pair invented a program's name."""
        found = risks(command, request.path)
        if self._is_pair(assistant, request) and (name := made_up(found)):
            raise NoCommand(f"No command is known for that. The model's answer runs `{name}`, which is unknown here.")
        return risk_notes((*found, *left_out(request.text, command, found)), request.text)

    # ---- what is loaded ----------------------------------------------------------------------------------------------

    def _settings(self, request: Request) -> Settings:
        settings = with_stand_in(load_settings(self._folders, request.environment), self._folders, log.warning)
        # Nothing waits in a queue that is erased.
        return settings.replaced({"offline": "fail"}, "the shell") if settings.offline == "queue" else settings

    async def _drafter_for(self, settings: Settings, cwd: str) -> Drafter:
        wanted = str(Path(cwd or "/", settings.drafter)), settings.drafter_runtime
        if self._drafter is None or self._drafter_of != wanted:
            self._drafter = await asyncio.to_thread(Drafter.load, Path(wanted[0]), settings.drafter_runtime)
            self._drafter_of = wanted
        return self._drafter

    async def _loaded(self, request: Request) -> Assistant:
        """The assistant for the settings of the requesting shell; a new one if they have changed."""
        settings = self._settings(request)
        opened = settings, request.cwd if not Path(settings.drafter).is_absolute() else "", self._registry()
        if self._assistant is None or opened != self._opened:
            self._assistant = None
            await self._open.aclose()
            drafter = await self._drafter_for(settings, request.cwd)
            seen = await asyncio.to_thread(LastSeen, self._folders.servers)
            store = self._open.enter_context(Store.open(self._scratch / "questions.db"))
            source, stand_in = source_of(settings, self._folders), partial(local_model, self._folders)
            options = Options(Drafters(drafter), source, settings, seen=seen, stand_in=stand_in)
            assistant = Assistant(store, options)
            self._assistant = await self._open.enter_async_context(assistant)
            self._opened = opened
            log.info("loaded for %s", "offline" if settings.mode == "offline" else "a server")
        return self._assistant

    def _has_remote(self, settings: Settings) -> bool:
        """Whether the person chose their own server. Raises `ConfigError`."""
        if settings.mode == "offline":
            return False
        chosen = settings.remote or ""
        return is_address(chosen) or Remotes(self._folders).meant_by(settings.remote) is not None

    def _registry(self) -> tuple[int, int]:
        """A stamp that changes when a remote is added or another one is chosen."""
        with contextlib.suppress(OSError):
            found = (self._folders.config / "remotes.toml").stat()
            return found.st_mtime_ns, found.st_ino
        return 0, 0

    def _is_pair(self, assistant: Assistant, request: Request) -> bool:
        """Whether the bundled pair answers, which has its own form of question."""
        bundled = Path(request.cwd or "/", self._settings(request).drafter) == BUNDLED_DRAFTER
        return bundled and assistant.backend.routing.fits


ALONE = "from the small model alone, not checked"
NO_MEND = "No fix is known for this command."
MORE = "Its output may help: COMMAND 2>&1 | outrider fix"
EMPTY = {
    "command": "Type what you want to do, in plain words, then press the key.",
    "explain": "There is no command in the line to explain.",
    "fix": "No failed command is known in this shell.",
}


def made_up(found: Sequence[Risk]) -> str | None:
    """The first program, if any, that neither this device nor a page knows."""
    return next((risk.words[0] for risk in found if risk.kind is Kind.UNKNOWN), None)


def risk_notes(found: Sequence[Risk], question: str) -> list[str]:
    """The risks of a command in words: those that were not asked for, and all dangers."""
    surprises = set(unasked(question, found))
    notes = []
    for risk in found:
        if risk in surprises:
            notes.append(f"{risk.severity}: it {risk.sentence}, and you did not ask for that")
        elif risk.severity.rank >= Severity.WARNING.rank:
            notes.append(f"{risk.severity}: it {risk.sentence}")
    return list(dict.fromkeys(notes))


async def _ask(assistant: Assistant, question: str, enough: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The answer to one question, and who wrote what nobody has checked of it. It ends early once it is `enough`.

    Raises `NoCommand`.
    """
    store = assistant.store
    conversation = store.conversations.create().id
    reply, failed = ReplyText(), None
    done: Done | None = None
    here: list[Stretch] = []
    try:
        async with aclosing(assistant.reply(conversation, question)) as events:
            async for event in events:
                reply.apply(event)
                if isinstance(event, Failed):
                    failed = event
                elif isinstance(event, Done):
                    done, here = event, list(event.stretches)
                elif isinstance(event, Stretch):
                    here.append(event)
                elif enough(reply.solid):
                    break
    finally:
        store.bin.erase(conversation)
    if failed is not None and not enough(reply.solid):
        raise NoCommand(failed.message)
    unchecked = [f"from {one.writer} on this device, not checked" for one in here if one.here]
    if not unchecked and done is not None and not all(done.provenance):
        unchecked = [ALONE]
    return sanitise(reply.solid + (reply.ghost if done else "")), unchecked
