"""Checks of `outrider doctor` that need no model and no network: folders, disk, database, terminal, remotes, port."""

from __future__ import annotations

import contextlib
import difflib
import os
import platform
import shlex
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from httpx import InvalidURL

from app.config import PREFIX, ConfigError, Folders, Settings, Unanswered
from app.local.registry import Duty, LocalModels, absent
from app.remotes.check import Finding
from app.remotes.registry import Remotes
from app.version import version_line
from models.files import why_absent
from remote import Misconfigured
from remote.proxies import environment_problems, environment_proxy
from storage import StorageError, Store

SCARCE_BYTES = 200 << 20
"""Free space below which there is a warning: the database and its backup before a migration may need it."""
LEAST_BYTES = 10 << 20
"""Free space below which nothing more can be saved."""
SERVE_PORT = 8000
"""Default port of `outrider serve`."""

ALIKE = 0.9
"""How alike two names are of which one may be the other, misspelt."""


def program() -> Finding:
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    return Finding("ok", "program", f"{version_line()}, {python}")


def variables(environment: Mapping[str, str], folders: Folders) -> Iterator[Finding]:
    """A warning for each variable whose name is nearly that of a setting, and that is nothing else."""
    settings = [f"{PREFIX}{name.upper()}" for name in ("home", *Settings.__struct_fields__) if name != "keys"]
    tokens = set[str | None]()
    with contextlib.suppress(ConfigError):  # `remotes` says what is wrong.
        tokens = {remote.token_variable for _, remote in Remotes(folders)}
    for variable in sorted(set(environment) - tokens - set(settings)):
        if variable.startswith(PREFIX) and (near := difflib.get_close_matches(variable.upper(), settings, 1, ALIKE)):
            yield Finding("warning", "settings", f"{variable} has no effect; did you mean {near[0]}?")


def folders_of(folders: Folders) -> Iterator[Finding]:
    """Findings on whether each folder is writable. Creates none."""
    parts = (("data", folders.data), ("settings", folders.config), ("log", folders.logs))
    wrong = [(what, path, reason) for what, path in parts if (reason := _unwritable(path))]
    for what, path, reason in wrong:
        lost = {"log": "nothing is logged", "settings": "no server can be added"}.get(what, "nothing works")
        text = f"{lost}, because the {what} folder {path} cannot be written to ({reason})"
        advice = "make it writable, or set OUTRIDER_HOME to another folder"
        yield Finding("broken" if what == "data" else "warning", "folders", f"{text}; {advice}")
    if not wrong:
        yield Finding("ok", "folders", ", ".join(str(path) for path in dict.fromkeys(path for _, path in parts)))


def disk(folders: Folders) -> Finding:
    where = _nearest(folders.data)
    try:
        free = shutil.disk_usage(where).free
    except OSError as error:
        return Finding("warning", "disk", f"the free space of {where} is unknown: {error.strerror}")
    text = f"{free / (1 << 20):,.0f} MB free for {folders.data}"
    if free < LEAST_BYTES:
        return Finding("broken", "disk", f"{text}; nothing more can be saved: free some space")
    if free < SCARCE_BYTES:
        return Finding("warning", "disk", f"{text}; free some space soon, or answers can no longer be saved")
    return Finding("ok", "disk", text)


def database(folders: Folders) -> Finding:
    """Open the database like any command, which creates or migrates it, and read it completely."""
    path = folders.database
    try:
        with Store.open(path) as store:
            damage, count = store.database.damage(), len(store.conversations.all())
    except StorageError as error:
        return Finding("broken", "database", f"{error}{_backups(path)}")
    if damage is not None:
        advice = "export what can be read (outrider export --all), then move the file away"
        return Finding("broken", "database", f"{path} is damaged ({damage}); {advice}{_backups(path)}")
    return Finding("ok", "database", f"{path}, {count} conversation{'s' * (count != 1)}")


def terminal(environment: Mapping[str, str], *, is_terminal: bool, encoding: str) -> Iterator[Finding]:
    """Whether the chat screen can be drawn on this terminal."""
    if "utf" not in encoding.lower():
        advice = "set LANG to a UTF-8 locale such as C.UTF-8 or en_US.UTF-8"
        yield Finding(
            "warning", "terminal", f"the output is encoded as {encoding}, which lacks many characters; {advice}"
        )
    if not is_terminal:
        yield Finding("ok", "terminal", "none here: the chat needs one, `outrider ask` does not")
        return
    name = environment.get("TERM", "")
    if name in ("", "dumb", "unknown"):
        yield Finding("broken", "terminal", f"TERM is {name or 'not set'}, so it cannot draw a screen; use another one")
    elif environment.get("NO_COLOR"):
        text = "NO_COLOR is set, so drafted and checked text differ in brightness only; unset it for colours"
        yield Finding("warning", "terminal", text)
    elif environment.get("COLORTERM") not in ("truecolor", "24bit") and "256color" not in name and "direct" not in name:
        text = f"{name} does not announce 256 colours; if it supports them: export TERM=xterm-256color"
        yield Finding("warning", "terminal", text)
    else:
        size = os.get_terminal_size()
        yield Finding("ok", "terminal", f"{name}, {size.columns} × {size.lines}, {encoding}")


def local_models(folders: Folders, settings: Settings) -> Iterator[Finding]:
    """Whether the file of the models on this device can be read, whether their own files exist, and what they do."""
    try:
        models = LocalModels(folders)
        for name, path in models:
            why = why_absent(path)
            yield Finding("warning" if why else "ok", "local", f"{name}: {absent(name, path, why) if why else path}")
        if (duty := models.duty(settings)) is not None:
            does = "answers while a server is away" if duty.answers else "drafts if the tokenizers agree"
            yield Finding("ok", "local", f"{duty.name} {does}, unless a server's own settings say otherwise")
    except ConfigError as error:
        yield Finding("broken", "local", str(error))


def remotes(
    folders: Folders,
    trouble: Mapping[str, str] | None,
    duty_of: Callable[[Unanswered | None, str | None, str], Duty | None],
) -> Iterator[Finding]:
    """Whether the file of remotes can be read, and whether its tokens exist and are private.

    `trouble`: why servers do not answer, by name, or None if none was asked because the mode is offline. `duty_of`:
    what a model on this device does for a server that has these settings itself; may raise `ConfigError`.
    """
    try:
        known = Remotes(folders)
    except ConfigError as error:
        yield Finding("broken", "servers", str(error))
        return
    if known.tokens.exposed:
        text = f"others on this device can read {known.tokens.file}; repair it with: chmod 600 {known.tokens.file}"
        yield Finding("warning", "servers", text)
    for name, remote in known:
        try:
            token, duty = known.token(name), duty_of(remote.offline, remote.local, remote.kind)
        except ConfigError as error:
            yield Finding("warning", "servers", f"{name}: {error}")
        else:
            used = ", the default" if known.used == name else ""
            if token is None and remote.token_variable is not None:
                text = f"{name}: {remote.token_variable}, which holds its token, is not set; export it{used}"
                yield Finding("warning", "servers", text)
                continue
            where = "no token" if token is None else f"token from {known.token_place(remote)}"
            text = f"{name}: {remote.shown_url}, {where}{used}{'' if duty is None else f'; {duty}'}"
            why = "not asked in mode offline" if trouble is None else trouble.get(name)
            said = f"{text}; {why}" if why else text
            lacks = duty is not None and why_absent(duty.path) is not None
            yield Finding("warning" if lacks or (why and trouble is not None) else "ok", "servers", said)


def proxies(remote: str | None) -> Iterator[Finding]:
    """Which of the environment's proxy settings cannot be used, and which proxy is used for the address `remote`."""
    for problem in environment_problems():
        yield Finding("warning", "proxy", problem)
    if remote is None:
        return
    try:
        proxy = environment_proxy(remote)
    except (Misconfigured, ValueError, InvalidURL):
        return  # The finding about the server reports it.
    if proxy is not None:
        parts = urlsplit(remote)
        host, through = parts.netloc.rpartition("@")[2], proxy.copy_with(userinfo=b"")
        advice = f"set NO_PROXY={parts.hostname} to avoid the proxy"
        yield Finding("ok", "proxy", f"{host} is reached through {through}, as set in the environment; {advice}")


def port() -> Iterator[Finding]:
    """A finding if the default port of `outrider serve` is in use."""
    with socket.socket() as probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", SERVE_PORT))
        except OSError as error:
            text = f"port {SERVE_PORT}, the default of `outrider serve`, cannot be used now ({error.strerror})"
            yield Finding("ok", "port", f"{text}; choose another with --port")


def _unwritable(path: Path) -> str | None:
    """Why nothing can be written below a folder, or None if writing works."""
    try:
        with tempfile.TemporaryFile(dir=_nearest(path)):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _nearest(path: Path) -> Path:
    """The folder, or its nearest existing parent, which may be a file in its place."""
    return next((one for one in (path, *path.parents) if os.path.lexists(one)), path)


def _backups(path: Path) -> str:
    try:
        found = sorted((one for one in path.parent.glob(f"{path.name}.before-*")), key=lambda one: one.stat().st_mtime)
    except OSError:
        return ""
    return f" There is a backup: {found[-1]}" if found else ""


# ---- what ONNX Runtime left before Outrider switched its reports off -------------------------------------------------

REPORTS = Path("Microsoft", "DeveloperTools", ".onnxruntime")
REPORT_QUEUE = "onnxruntime.db"
DRAFTER_GRAPH = b"drafter.onnx"
"""File name of every drafter's graph, which a report of a loaded model contains."""


def reports(environment: Mapping[str, str], home: Path) -> Iterator[Finding]:
    """A finding for each folder of ONNX Runtime's reports; a warning if a report names a drafter.

    The folder is shared by all programs that use ONNX Runtime, and nothing in it shows reliably which one wrote what.
    So Outrider deletes none of it, and only reports its location.
    """
    caches = [home / ".cache", home / "Library/Caches", home / "Library/Application Support"]
    if moved := environment.get("XDG_CACHE_HOME"):
        caches.insert(0, Path(moved))
    for folder in dict.fromkeys(cache / REPORTS for cache in caches):
        if os.path.isdir(folder):  # Also False if it may not be read.
            queued, ours = _unsent(folder / REPORT_QUEUE)
            left = "left by an older Outrider" if ours else "left by a program that uses it, perhaps an older Outrider"
            text = f"{folder} has a device id and {queued} unsent reports of ONNX Runtime, {left}; Outrider sends none"
            advice = f"to remove them: rm -r {shlex.quote(str(folder))}"
            yield Finding("warning" if ours else "ok", "reports", f"{text}; {advice}")


def _unsent(path: Path) -> tuple[int, bool]:
    """Number of unsent reports, 0 if they cannot be read; and whether one of them names a drafter's graph."""
    if not os.path.isfile(path):
        return 0, False
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            payloads = [bytes(row[0] or b"") for row in database.execute("SELECT payload FROM events")]
    except sqlite3.Error:
        return 0, False
    return len(payloads), any(DRAFTER_GRAPH in payload for payload in payloads)
