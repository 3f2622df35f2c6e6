"""What `outrider ask` does before it loads what answers: what its options mean together, and the question itself.

It needs no command line, which takes 0.3 s to build, so `outrider ask` followed by words alone comes straight here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from app.cli.piped import read_piped
from app.cli.settings import settings_with, unsaved
from app.exits import USAGE, fail, run

if TYPE_CHECKING:
    from app.config import ChosenMode, Folders, Settings
    from app.remotes.choice import Asks
    from app.system_prompts import SystemPrompt
    from storage import Attachment

MOST_PIPED_BYTES = 4 << 20
"""Most input from a pipe, about a million tokens. A pipe may be endless, and all of it would be split into tokens."""


def answer(
    words: Sequence[str],
    *,
    last: bool = False,
    conversation: str | None = None,
    json: bool = False,
    remote: str | None = None,
    model: str | None = None,
    token: str | None = None,
    mode: ChosenMode | None = None,
    system: SystemPrompt | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    tree: Literal["deterministic", "sampled"] | None = None,
    max_tokens: int | None = None,
    draft: bool = True,
    prompts: Path | None = None,
    files: Sequence[str] = (),
    save: bool = True,
    queue: bool = False,
) -> int:
    """Answer a question, or each one of a file; returns the exit code. The arguments are the options of `outrider ask`.

    `words`: of the question; `system`: the prompt that `--system` means. Raises what `code_of` knows.
    """
    settings, folders = settings_with(
        remote=remote,
        token=token,
        mode=mode,
        temperature=temperature,
        seed=seed,
        max_tokens=max_tokens,
        tree=tree,
    )
    if not draft and settings.mode == "offline":
        fail("--no-draft is the large model alone, and --mode offline the small one: choose one.", USAGE)
    if prompts is not None and (last or conversation is not None):
        fail("--prompts begins conversations of its own: leave out -c and --conversation.", USAGE)
    if queue and (prompts is not None or json or not draft):
        fail("--queue keeps one question and answers none: leave out --prompts, --json and --no-draft.", USAGE)
    if model is not None and settings.mode == "offline":
        fail("--model names a model of a server, and --mode offline asks no server: choose one.", USAGE)
    if not save and (last or conversation is not None):
        fail("--no-save keeps nothing, and -c and --conversation add to what is kept: choose one.", USAGE)
    if not save and queue:
        fail("--no-save keeps nothing, and --queue keeps the question: choose one.", USAGE)
    question = " ".join(words)
    if prompts is not None and (question or files):
        fail("Give a question, with files or without, or --prompts; not both.", USAGE)
    if not save:
        settings, folders = unsaved(settings, folders)
    if prompts is not None:
        from app.prompts import read_prompts

        conversations = read_prompts(prompts)
        if model is None:
            _start_ahead(settings, folders)
        from app.cli.ask import ask_all

        asks = _asks(remote, model)
        return run(ask_all(conversations, settings, folders, asks, draft=draft, system=system))
    typed = "" if question == "-" else question
    piped = _piped(wanted=question == "-")
    if len(piped) > MOST_PIPED_BYTES:
        most = f"more than {MOST_PIPED_BYTES >> 20} MB were piped in"
        fail(f"{most}, which is more than any model reads; choose a part, with grep, head or tail.", USAGE)
    question = "\n\n".join(part for part in (typed, piped.decode("utf-8", "replace").strip()) if part.strip())
    if not question:
        fail("There is no question. For example: outrider ask how do I unpack photos.tar.gz", USAGE)
    attachments: list[Attachment] = []
    if files or "@" in typed:
        from app.cli.files import files_of
        from app.remotes.choice import usable_source
        from app.remotes.source import stays_here

        # A conversation that goes on may have a server of its own.
        nobody = settings.mode == "offline"
        here = nobody or (conversation is None and not last and stays_here(usable_source(settings, folders, model)))
        attachments = files_of(typed, files, stays_here=here)
    if queue:
        from app.cli.queue import enqueue

        asks = _asks(remote, model)
        return enqueue(
            question, settings, folders, asks, conversation, last=last, system=system, attachments=attachments
        )
    if model is None and conversation is None and not last:
        _start_ahead(settings, folders)
    from app.cli.ask import ask

    sampling = {"temperature": temperature, "seed": seed, "max_tokens": max_tokens}
    return run(
        ask(
            question,
            settings,
            folders,
            _asks(remote, model),
            as_json=json,
            draft=draft,
            conversation=conversation,
            last=last,
            system=system,
            attachments=attachments,
            fixed=[name for name, value in sampling.items() if value is not None],
        )
    )


def _start_ahead(settings: Settings, folders: Folders) -> None:
    """Start the bundled server, if it will be asked: it loads while this process loads what it needs itself."""
    from app.remotes.own_server import start_ahead

    start_ahead(settings, folders)


def _asks(remote: str | None, model: str | None) -> Asks:
    """Whom the options name."""
    from app.remotes.choice import Asks

    return Asks(model, explicit=remote is not None or model is not None)


def _piped(*, wanted: bool) -> bytes:
    """What comes from stdin, and no more than a byte too much. From a terminal it is read only where it is `wanted`."""
    if sys.stdin is None or (sys.stdin.isatty() and not wanted):
        return b""
    return read_piped(MOST_PIPED_BYTES + 1)
