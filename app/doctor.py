"""`outrider doctor`: looks at every part, says what is wrong, and how to mend it."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.config import ConfigError, Folders, Settings, load_settings
from app.connection import Source, SourceFailed, chosen
from app.opening import source_of
from app.sanitise import sanitise
from drafter.config import DrafterError, read_config
from drafter.runtime import Drafter, Runtime
from drafter.search import Pace
from drafter.tree import DraftTree
from remote import CompletionsClient, RemoteError, VerifierClient, detect
from remote.openai import Model
from remote.protocol import Card, Sampling
from storage import StorageError, Store

CARD_SECONDS = 10.0
ROUND_SECONDS = 30.0
MARKS = {"ok": "✓", "warning": "!", "broken": "✗"}


@dataclass(frozen=True)
class Finding:
    """One part and its state; `text` says how to mend it where it is not well."""

    state: Literal["ok", "warning", "broken"]
    part: str
    text: str

    def __str__(self) -> str:
        return f"{MARKS[self.state]} {self.part:<10} {sanitise(self.text)}"


async def examine(options: Mapping[str, object]) -> int:
    """Print a line for each part; 1 if one is broken, else 0. `options`: settings of the command line."""
    broken = False
    async for finding in _findings({name: value for name, value in options.items() if value is not None}):
        print(finding, flush=True)
        broken = broken or finding.state == "broken"
    return 1 if broken else 0


async def _findings(options: Mapping[str, object]) -> AsyncIterator[Finding]:
    folders = Folders.locate()
    try:
        settings = load_settings(folders).replaced(options, "the command line")
        written = str(folders.settings) if folders.settings.exists() else f"defaults (no {folders.settings})"
        yield Finding("ok", "settings", written)
    except ConfigError as error:
        yield Finding("broken", "settings", str(error))
        settings = Settings()
    yield _database(folders)
    if settings.drafter_runtime == "onnx" and importlib.util.find_spec("onnxruntime") is None:
        yield Finding("broken", "drafter", "onnxruntime is missing: pip install onnxruntime")
        return
    drafter, finding = _drafter(Path(settings.drafter), settings.drafter_runtime)
    yield finding
    if settings.remote is None:
        yield _torch()
    if drafter is not None and settings.mode != "offline":
        yield await _verifier(settings, folders, drafter)


def _database(folders: Folders) -> Finding:
    try:
        store = Store.open(folders.database)
        count = len(store.conversations())
        store.close()
    except StorageError as error:
        return Finding("broken", "database", str(error))
    return Finding("ok", "database", f"{folders.database}, {count} conversations")


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
        advice = "no PyTorch, so no verifier on this device: pip install 'outrider[server]', or set a remote"
        return Finding("warning", "torch", advice)
    from importlib.metadata import version

    return Finding("ok", "torch", version("torch"))


async def _verifier(settings: Settings, folders: Folders, drafter: Drafter) -> Finding:
    try:
        source = source_of(settings, folders)
        assert source is not None
        try:
            return await _answering(source, settings, drafter)
        finally:
            await source.close()
    except (RemoteError, SourceFailed, ConfigError) as error:
        by_choice = settings.remote is None and importlib.util.find_spec("torch") is None and settings.mode != "edge"
        return Finding("warning" if by_choice else "broken", "verifier", str(error))


async def _answering(source: Source, settings: Settings, drafter: Drafter) -> Finding:
    client, chat = await source.client(), source.chat
    found = await detect(client, chat, CARD_SECONDS, tokenizer=drafter.text.digest, kind=source.kind)
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
    after = "is gone on with" if model.continues else "is asked for anew"
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
