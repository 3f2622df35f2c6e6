"""`outrider doctor`: looks at every part, says what is wrong, and how to mend it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from app.cli import checks as checkups
from app.cli import leftovers
from app.cli.checks import Finding
from app.config import ConfigError, Folders, Settings, is_address, load_settings
from app.exits import FAILED, OK
from app.remotes.connection import Source, SourceFailed, chosen
from app.reply.bootstrap import source_of
from app.sanitise import sanitise
from drafter.config import DrafterError, read_config
from drafter.extras import how_to_install
from drafter.runtime import Drafter, Runtime
from drafter.search import Pace
from drafter.tree import DraftTree
from remote import CompletionsClient, RemoteError, VerifierClient, detect
from remote.openai.schema import Model
from remote.protocol import Card, Sampling

CARD_SECONDS = 10.0
ROUND_SECONDS = 30.0
SKEW_SECONDS = 120.0
"""Between two clocks, from which on certificates and tokens may seem too young or too old."""


async def examine(options: Mapping[str, object], *, as_json: bool = False) -> int:
    """Print a line for each part, or one JSON object; 1 if one is broken, else 0.

    `options`: settings of the command line.
    """
    found: list[Finding] = []
    async for finding in _findings({name: value for name, value in options.items() if value is not None}):
        found.append(finding)
        if not as_json:
            print(finding, flush=True)
    broken = any(finding.state == "broken" for finding in found)
    if as_json:
        findings = [{**asdict(finding), "text": sanitise(finding.text)} for finding in found]
        print(json.dumps({"ok": not broken, "findings": findings}, indent=1))
    return FAILED if broken else OK


async def _findings(options: Mapping[str, object]) -> AsyncIterator[Finding]:
    folders = Folders.locate()
    yield checkups.program()
    try:
        settings = load_settings(folders).replaced(options, "the command line")
        written = str(folders.settings) if folders.settings.exists() else f"defaults (no {folders.settings})"
        yield Finding("ok", "settings", written)
    except ConfigError as error:
        yield Finding("broken", "settings", str(error))
        settings = _of_command_line(options)
    if settings.keys:
        yield _keys(settings)
    for finding in _local(folders, settings):
        yield finding
    if settings.drafter_runtime == "onnx" and importlib.util.find_spec("onnxruntime") is None:
        yield Finding("broken", "drafter", "onnxruntime is missing: pip install onnxruntime")
        return
    drafter, finding = _drafter(Path(settings.drafter), settings.drafter_runtime)
    yield finding
    if settings.remote is None:
        yield _torch()
    if drafter is not None and settings.mode != "offline":
        async for finding in _verifier(settings, folders, drafter):
            yield finding


def _of_command_line(options: Mapping[str, object]) -> Settings:
    """The defaults with what was asked for, where that can be used: the other parts are looked at all the same."""
    try:
        return Settings().replaced(options, "the command line")
    except ConfigError:
        return Settings()


def _keys(settings: Settings) -> Finding:
    """The remapped keys. The screen knows them, and is loaded where there are any."""
    from app.tui.bindings import checked

    try:
        return Finding("ok", "keys", f"{len(checked(settings.keys))} of the screen's are remapped")
    except ConfigError as error:
        return Finding("broken", "keys", str(error))


def _local(folders: Folders, settings: Settings) -> Iterator[Finding]:
    """What needs no model and no network."""
    yield from checkups.folders_of(folders)
    yield checkups.disk(folders)
    yield checkups.database(folders)
    encoding = sys.stdout.encoding or "ascii"
    yield from checkups.terminal(os.environ, is_terminal=sys.stdout.isatty(), encoding=encoding)
    yield from checkups.remotes(folders)
    yield from checkups.proxies(settings.remote if is_address(settings.remote or "") else None)
    yield from checkups.port()
    yield from leftovers.reports(os.environ, Path.home())


def _drafter(folder: Path, runtime: Runtime) -> tuple[Drafter | None, Finding]:
    """Opened, checked against all its checksums, and tried on one draft."""
    try:
        config = read_config(folder)
        read_config(folder, verify=tuple(config.files))
        drafter = Drafter.load(folder, runtime)
        context = drafter.context()
        context.commit(drafter.text.render([("user", "hello")]))
        next(context.generate(0.0, 0))  # The prompt is read, so that only the draft is timed.
        begun = time.perf_counter()
        context.draft(Pace())
        milliseconds = 1000 * (time.perf_counter() - begun)
    except DrafterError as error:
        return None, Finding("broken", "drafter", str(error))
    text = f"{folder}, for {config.target}; with {drafter.runtime} a draft takes {milliseconds:.1f} ms"
    return drafter, Finding("ok", "drafter", text)


def _torch() -> Finding:
    if importlib.util.find_spec("torch") is None:
        advice = f"no PyTorch, so no verifier on this device: {how_to_install('server')}, or set a remote"
        return Finding("warning", "torch", advice)
    from importlib.metadata import version

    return Finding("ok", "torch", version("torch"))


async def _verifier(settings: Settings, folders: Folders, drafter: Drafter) -> AsyncIterator[Finding]:
    try:
        source = source_of(settings, folders)
    except (RemoteError, ConfigError) as error:
        yield Finding("broken", "verifier", str(error))
        return
    assert source is not None
    client: VerifierClient | None = None
    try:
        try:
            client = await source.client()
            yield await _answering(source, settings, drafter)
        except (RemoteError, SourceFailed, ConfigError) as error:
            by_choice = settings.remote is None and importlib.util.find_spec("torch") is None
            yield Finding("warning" if by_choice and settings.mode != "edge" else "broken", "verifier", str(error))
        if client is not None:  # Also where it failed: its clock may be why.
            for finding in _clock(client):
                yield finding
    finally:
        await source.close()


def _clock(client: VerifierClient) -> Iterator[Finding]:
    """Where the two clocks differ by so much that certificates may be refused."""
    ahead = client.ahead_seconds
    if ahead is not None and abs(ahead) > SKEW_SECONDS:
        which = "behind" if ahead > 0 else "ahead of"
        text = f"this device's clock is {abs(ahead) / 60:,.0f} minutes {which} {client.host}'s; set whichever is wrong"
        yield Finding("warning", "clock", f"{text}, or certificates may be refused")


async def _answering(source: Source, settings: Settings, drafter: Drafter) -> Finding:
    client, chat = await source.client(), source.chat
    digest = drafter.text.digest
    found = await detect(client, chat, CARD_SECONDS, tokenizer=digest, kind=source.kind, model=source.model)
    if chat is None or isinstance(found, Card):
        assert isinstance(found, Card)
        return await _round_trip(client, found, drafter)
    return await _completion(chat, chosen(found, source.model, chat.host), settings, len(found))


async def _completion(client: CompletionsClient, model: Model, settings: Settings, models: int) -> Finding:
    """One token of a server that is no verifier."""
    stream = await client.chat(
        [("user", "hello")],
        Sampling(),
        model=model.id,
        most=1,
        deadline=ROUND_SECONDS,
        silence=ROUND_SECONDS,
        patience=ROUND_SECONDS,
    )
    async for _ in stream:
        pass
    others = "" if models == 1 else f" of {models} models"
    after = "can be gone on with" if model.continues else "has to be asked for anew"
    text = (
        f"{client.host} is an OpenAI-compatible server; {model.id}{others} answers, without memory; "
        f"round trip {1000 * (client.rtt_seconds or 0.0):.0f} ms; an answer that is cut off {after}"
    )
    if settings.mode == "edge":
        return Finding("broken", "verifier", f"{text}; it verifies no drafts, so choose --mode auto or hosted")
    return Finding("ok", "verifier", text)


async def _round_trip(client: VerifierClient, card: Card, drafter: Drafter) -> Finding:
    """One round of one token."""
    session = client.session()
    prompt = drafter.text.render([("user", "hello")])
    reply = await session.round(prompt, DraftTree.empty(), Sampling(), memory_from=None, deadline=ROUND_SECONDS)
    await reply.aclose()
    await session.close(CARD_SECONDS)
    milliseconds = 1000 * reply.rtt_seconds
    text = f"{card.target} answers; round trip {milliseconds:.0f} ms, limit {card.limits.max_tokens} tokens"
    if card.memory is None or card.memory.digest != drafter.memory_digest:
        return Finding("warning", "verifier", f"{text}; its memory does not fit this drafter, so drafts are worse")
    return Finding("ok", "verifier", text)
