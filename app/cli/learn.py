"""`outrider learn` teaches the small models from checked answers; `drafter history` and `rollback` show and undo it.

Data goes to stdout, messages to stderr. Exit codes: 0 ok, also if nothing better was found; 1 it cannot learn, or
another process does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.battery import on_battery
from app.cli.settings import settings_with
from app.exits import FAILED, complain, fail

if TYPE_CHECKING:
    from app.config import Folders, Settings
    from app.drafting.learning import Learner
    from drafter.learning.versions import Version
    from storage import Store

LOOK_SECONDS = 60.0
"""Pause between two checks for new answers."""
ASK_SECONDS = 3600.0
"""Pause between two checks for newer versions."""
ENOUGH = 20
"""Number of new answers after which another try is worthwhile."""
NICENESS = 10
"""Its niceness: how much it yields to other programs."""


def learn(
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Keep running, and learn whenever there are enough new answers. Ctrl+C stops."),
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also train the small model's own layers. Needs PyTorch and a few minutes.")
    ] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Erase what the small models have learnt here, and their training data. Conversations are kept.",
        ),
    ] = False,
) -> None:
    """Teach the small models from checked answers.

    The result is used only if it is significantly better, and never leaves the device. Also looks for newer versions on
    the servers that small models were fetched from.
    """
    from app.cli.fetch import alone
    from app.drafting.learning import missing_for_deep
    from storage import Store

    settings, folders = settings_with()
    with Store.open(folders.database) as store:
        if forget:
            _forget(store, folders)
            return
        if not settings.learn:
            fail("learning is switched off: `learn = false` in the settings", FAILED)
        if deep and (missing := missing_for_deep()):
            fail(missing, FAILED)
        if hasattr(os, "nice"):
            os.nice(NICENESS)
        with alone(folders):
            fine = _learn_all(store, settings, folders, fewest=ENOUGH if watch else 0, deep=deep, ask=True)
            asked = time.monotonic()
            while watch:
                time.sleep(LOOK_SECONDS)
                if not on_battery():
                    ask = time.monotonic() - asked >= ASK_SECONDS
                    asked = time.monotonic() if ask else asked
                    _learn_all(store, settings, folders, fewest=ENOUGH, deep=deep, ask=ask)
    if not fine:
        raise typer.Exit(FAILED)


def history() -> None:
    """List what the small models learnt. One line each: model, version, day, answers, tokens per round, gain, state."""
    from app.sanitise import sanitise

    for name, one in _versions():
        for version in one:
            gain = f"{version.tau_before:.2f} -> {version.tau_after:.2f}"
            spread = f"{version.low:+.1%} to {version.high:+.1%}"
            if version.server and not version.answers:
                gain, spread = "not measured", "-"
            state = f"{version.state}, from {sanitise(version.server)}" if version.server else version.state
            print(name, version.number, version.created[:10], version.answers, gain, spread, state, sep="  ")


def rollback() -> None:
    """Discard the newest learnt version of a small model, and draft with the previous one."""
    from drafter.learning.versions import Versions

    _, folders = settings_with()
    for folder in _folders(folders):
        if (done := Versions(folder).roll_back()) is not None:
            gone, now = done
            said = "in its original version" if now is None else f"with version {now.number}"
            print(f"version {gone.number} is rolled back; the small model drafts {said}", file=sys.stderr)
            return
    fail("no version is in use", FAILED)


def _learn_all(store: Store, settings: Settings, folders: Folders, *, fewest: int, deep: bool, ask: bool) -> bool:
    """Teach each drafter on this device that has at least `fewest` new answers; False if the files of one are broken.

    `fewest` 0: a person requested it, so it prints why a drafter cannot learn, and continues on battery power. `ask`:
    first ask the servers for newer versions.
    """
    from app.cli.fetch import look_for_newer
    from app.cli.fetched import places
    from app.drafting.learning import Learner, NothingLearnt
    from models.config import DrafterError

    fine = True
    for place in places(settings, folders):
        try:
            learner = Learner(store, place, folders.learnt)
            if (back := learner.check_live()) is not None:
                complain(f"{learner.target}: version {back.number} gained less than before and is rolled back")
            if ask:
                look_for_newer(learner, settings, folders, on_battery if fewest else lambda: False)
            if learner.waiting(deep=deep) >= max(1, fewest):
                _tell(learner.target, _learn(learner, on_battery if fewest else lambda: False, deep=deep))
        except NothingLearnt as error:
            if not fewest:
                complain(f"{place.name}: {error}")
        except (DrafterError, OSError) as error:
            complain(f"{place.name}: {error}")
            fine = False
    return fine


def _learn(learner: Learner, halted: Callable[[], bool], *, deep: bool) -> Version:
    from drafter.progress import stage

    with contextlib.ExitStack() as stages:

        def shown(name: str) -> Callable[[int, int], None]:
            """A function that shows the progress, from its first call on."""
            known, now = 0, None

            def progress(done: int, of: int) -> None:
                nonlocal known, now
                if now is None:
                    stages.close()  # One stage at a time.
                    now = stages.enter_context(stage(name, max(1, of)))
                now.advance(done - known)
                known = done

            return progress

        return learner.learn(shown("reading answers"), halted, deep=deep, steps=shown("learning"))


def _tell(target: str, version: Version) -> None:
    spread = f"{version.low:+.1%} to {version.high:+.1%}"
    gain = f"{version.tau_before:.2f} -> {version.tau_after:.2f} tokens a round ({spread})"
    if version.state == "in use":
        print(f"{target}: {gain} after {version.answers} answers. It now drafts with version {version.number}.")
    else:
        print(
            f"{target}: {gain} after {version.answers} answers. That is not significantly better, so nothing changes."
        )


def _forget(store: Store, folders: Folders) -> None:
    import shutil

    store.replays.clear()
    try:
        if folders.learnt.is_dir():
            shutil.rmtree(folders.learnt)
    except OSError as error:
        fail(f"{error.filename or folders.learnt} cannot be deleted: {error.strerror}", FAILED)
    print("Everything that the small models learnt here is erased.", file=sys.stderr)


def _versions() -> Iterator[tuple[str, list[Version]]]:
    from drafter.learning.versions import Versions

    _, folders = settings_with()
    for folder in _folders(folders):
        yield folder.parent.name[:12], Versions(folder).all()


def _folders(folders: Folders) -> list[Path]:
    """The version folders of the drafters that learnt something, the most recent first."""
    from drafter.learning.versions import INDEX

    found = folders.learnt.glob(f"*/*/{INDEX}") if folders.learnt.is_dir() else ()
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]
