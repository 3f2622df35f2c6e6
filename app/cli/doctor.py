"""`outrider doctor`: checks every part, and says what is wrong and how to repair it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from app.cli import checks
from app.cli.fetched import use_of
from app.config import PREFIX, ConfigError, Folders, Settings, is_address, load_settings
from app.exits import FAILED, OK
from app.local.registry import duties
from app.remotes.check import Finding, check
from app.remotes.choice import source_of
from app.remotes.loopback import Loopback
from app.remotes.models import list_models, servers
from app.remotes.own_server import why_not
from app.remotes.registry import BUNDLED
from app.sanitise import sanitise
from drafter.floors import why_no_drafts
from drafter.runtime import Drafter, Runtime
from drafter.search import Pace
from drafter.shelf import kept
from models.config import DrafterError, read_config
from models.files import is_gguf
from remote import RemoteError


async def examine(options: Mapping[str, object], *, as_json: bool = False) -> int:
    """Print a line for each finding, or one JSON object; returns 1 if a part is broken, else 0.

    `options`: settings of the command line.
    """
    found: list[Finding] = []
    async for finding in _findings({name: value for name, value in options.items() if value is not None}):
        found.append(finding)
        if not as_json:
            print(finding, flush=True)
    broken = any(finding.state == "broken" for finding in found)
    if as_json:
        findings = [{"state": one.state, "part": one.part, "text": sanitise(one.text)} for one in found]
        print(json.dumps({"ok": not broken, "findings": findings}, indent=1))
    return FAILED if broken else OK


async def _findings(options: Mapping[str, object]) -> AsyncIterator[Finding]:
    folders = Folders.locate()
    yield checks.program()
    try:
        settings = load_settings(folders).replaced(options, "the command line")
        written = str(folders.settings) if folders.settings.exists() else f"defaults (no {folders.settings})"
        yield Finding("ok", "settings", written)
    except ConfigError as error:
        yield Finding("broken", "settings", str(error))
        settings = _readable(options)
    for finding in checks.variables(os.environ, folders):
        yield finding
    if settings.keys:
        yield _keys(settings)
    for finding in _local(folders, settings, await _trouble(folders, settings)):
        yield finding
    if settings.drafter_runtime == "onnx" and importlib.util.find_spec("onnxruntime") is None:
        yield Finding("broken", "drafter", "onnxruntime is missing: pip install onnxruntime")
        return
    drafter, finding = _drafter(Path(settings.drafter), settings.drafter_runtime)
    yield finding
    for shelf in (folders.made, folders.fetched):
        for folder, config in kept(shelf):
            if why_no_drafts(config) is not None:
                yield Finding("warning", "drafter", f"{folder}, for {config.target}: {use_of(config, chosen=False)}")
    if settings.remote is None:
        yield _torch(settings.target)
    if drafter is not None:
        async for finding in _verifier(settings, folders, drafter):
            yield finding


def _readable(options: Mapping[str, object]) -> Settings:
    """The readable settings of the command line and the environment; all other parts are checked anyway."""
    settings = Settings()
    given = {name: os.environ.get(PREFIX + name.upper()) for name in Settings.__struct_fields__}
    for name, value in (*given.items(), *options.items()):
        with contextlib.suppress(ConfigError):
            settings = settings.replaced({name: value} if value else {}, "")
    return settings


def _keys(settings: Settings) -> Finding:
    """The remapped keys. The screen is loaded only if there are any."""
    from app.tui.bindings import checked

    try:
        return Finding("ok", "keys", f"{len(checked(settings.keys))} of the screen's are remapped")
    except ConfigError as error:
        return Finding("broken", "keys", str(error))


async def _trouble(folders: Folders, settings: Settings) -> dict[str, str] | None:
    """Why servers do not answer, by name, or None in mode offline, where none is asked."""
    if settings.mode == "offline":
        return None
    try:
        names = [name for name in servers(settings, folders) if name != BUNDLED and not is_address(name)]
        return {listed.server: listed.trouble async for listed in list_models(names, settings, folders)}
    except ConfigError:  # `checks.remotes` says what is wrong with their file.
        return {}


def _local(folders: Folders, settings: Settings, trouble: Mapping[str, str] | None) -> Iterator[Finding]:
    """The checks that need no model. `trouble`: as for `checks.remotes`."""
    yield from checks.folders_of(folders)
    yield checks.disk(folders)
    yield checks.database(folders)
    encoding = sys.stdout.encoding or "ascii"
    yield from checks.terminal(os.environ, is_terminal=sys.stdout.isatty(), encoding=encoding)
    yield from checks.local_models(folders, settings)
    yield from checks.remotes(folders, trouble, duties(folders, settings))
    yield from checks.proxies(settings.remote if is_address(settings.remote or "") else None)
    yield from checks.port()
    yield from checks.reports(os.environ, Path.home())


def _drafter(folder: Path, runtime: Runtime) -> tuple[Drafter | None, Finding]:
    """Load the drafter, verify its checksums, and time one draft."""
    try:
        config = read_config(folder)
        read_config(folder, verify=tuple(config.files))
        drafter = Drafter.load(folder, runtime)
        context = drafter.context()
        context.commit(drafter.asked_as("hello"))
        next(context.generate(0.0, 0))  # Read the prompt first, so that only the draft is timed.
        begun = time.perf_counter()
        context.draft(Pace())
        milliseconds = 1000 * (time.perf_counter() - begun)
    except DrafterError as error:
        return None, Finding("broken", "drafter", str(error))
    text = f"{folder}, for {config.target}; with {drafter.runtime} a draft takes {milliseconds:.1f} ms"
    text += f"; {use_of(config, chosen=True)}"
    return drafter, Finding("ok", "drafter", text)


def _torch(target: str) -> Finding:
    if importlib.util.find_spec("torch") is None:
        if (why := why_not(target)) is None:
            runs = "llama.cpp" if is_gguf(target) else "ONNX Runtime"
            return Finding("ok", "torch", f"not here, and not needed: {target} is served by {runs}")
        return Finding("warning", "torch", f"no PyTorch: {why}, or add a server: outrider remote add")
    from importlib.metadata import version

    return Finding("ok", "torch", version("torch"))


async def _verifier(settings: Settings, folders: Folders, drafter: Drafter) -> AsyncIterator[Finding]:
    """The diagnosis of the server, as findings of part `server`: what is wrong, and whether it answers.

    In mode offline, only the bundled one is asked.
    """
    try:
        source = source_of(settings, folders)
    except (RemoteError, ConfigError) as error:
        yield Finding("broken", "server", str(error))
        return
    if source is None or (settings.mode == "offline" and not isinstance(source, Loopback)):
        return
    without_engine = settings.remote is None and why_not(settings.target) is not None and settings.mode != "edge"
    async for finding in check(source, settings, drafter=drafter, shelf=folders.fetched):
        if finding.part == "clock":
            yield finding
        elif finding.part == "set-up" and without_engine:  # By choice: the drafter answers alone.
            yield Finding("warning", "server", finding.text)
        elif finding.part == "answer" or (finding.state != "ok" and finding.part != "token"):
            yield replace(finding, part="server")
