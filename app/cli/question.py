"""Prepare a question for `outrider ask`: check its options against each other and collect its text and files.

The command line takes 0.3 s to build and is not needed here: `outrider ask` followed only by words skips it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from app.cli.piped import read_piped
from app.cli.settings import AskOptions, settings_with, stands_in, unsaved
from app.exits import USAGE, complain, fail, run
from app.prompts import trimmed

if TYPE_CHECKING:
    from app.attachments.reader import Gathered
    from app.config import Folders, Settings

MOST_PIPED_BYTES = 4 << 20
"""Most input from a pipe, about a million tokens. A pipe may be endless, and all of it would be tokenised."""


def answer(words: Sequence[str], options: AskOptions) -> int:
    """Answer the question in `words`, or every question of a prompt file; returns the exit code.

    Raises what `code_of` knows.
    """
    settings, folders = settings_with(
        remote=options.remote,
        token=options.token,
        mode=options.mode,
        temperature=options.temperature,
        seed=options.seed,
        max_tokens=options.max_tokens,
        tree=options.tree,
        **stands_in(options.local),
    )
    question = " ".join(words)
    if problem := _contradiction(options, question, settings):
        fail(problem, USAGE)
    if options.tools:
        from app.tools.mcp_file import McpFile

        known = McpFile(folders)
        for server in options.tools:
            known.get(server)
    if not options.save:
        settings, folders = unsaved(settings, folders)
    if options.prompts is not None:
        from app.prompts import read_prompts

        conversations = read_prompts(options.prompts)
        _start_ahead(settings, folders, options)
        from app.cli.ask import ask_all

        return run(ask_all(conversations, settings, folders, options))
    question, typed = _with_input(question, needed=options.template is None)
    if options.template is not None:
        question = _filled(options.template, question, options.variables, folders)
    files = _files(typed, settings, folders, options)
    if options.queue:
        from app.cli.queue import enqueue

        return enqueue(question, settings, folders, options, files)
    _start_ahead(settings, folders, options)
    from app.cli.ask import ask

    return run(ask(question, settings, folders, options, files))


def _contradiction(options: AskOptions, question: str, settings: Settings) -> str | None:
    """The first pair of options that exclude each other, in a sentence."""
    from app.config import is_address

    many, offline = options.prompts is not None, settings.mode == "offline"
    unfit_for_queue = many or options.json or not options.draft
    asks_for_queue = options.queue and options.asks.explicit
    pairs = (
        (
            not options.draft and offline,
            "--no-draft needs a server, and --mode offline asks none of yours: choose one.",
        ),
        (many and options.continues, "--prompts starts new conversations: leave out -c and --conversation."),
        (
            options.queue and unfit_for_queue,
            "--queue stores one question without answering it: leave out --prompts, --json and --no-draft.",
        ),
        (
            options.queue and options.for_this_answer,
            "--queue keeps the question, but not these options: leave out --token-file, --mode, --local, "
            "--temperature, --seed, --tree, --max-tokens and --allow.",
        ),
        (
            asks_for_queue and options.continues,
            "--queue sends the question to the server of its conversation: leave out --remote and --model, "
            "or -c and --conversation.",
        ),
        (
            asks_for_queue and is_address(settings.remote or ""),
            "--queue keeps the name of a server, not an address: name one of `outrider remote list` with --remote.",
        ),
        (
            options.model is not None and offline,
            "--model names a model of a server, and --mode offline asks none of yours: choose one.",
        ),
        (
            not options.save and options.continues,
            "--no-save keeps nothing, but -c and --conversation add to a stored conversation: choose one.",
        ),
        (not options.save and options.queue, "--no-save keeps nothing, but --queue stores the question: choose one."),
        (
            options.extract is not None and (many or options.json or options.queue),
            "--extract prints code alone: leave out --json, --prompts and --queue.",
        ),
        (
            options.template is None and bool(options.variables),
            "--param fills in a template: name it with --template.",
        ),
        (many and options.template is not None, "--prompts has whole questions: leave out --template."),
        (many and bool(question or options.files), "Give a question, with or without files, or --prompts; not both."),
    )
    return next((sentence for contradicts, sentence in pairs if contradicts), None)


def _filled(name: str, asked: str, variables: Sequence[str], folders: Folders) -> str:
    """The question that a template makes. Raises `ConfigError`."""
    from app.templates import Templates

    values = {}
    for variable in variables:
        key, mark, text = variable.partition("=")
        if not mark:
            fail(f"-p {variable} has no text. Write it as -p {key}=TEXT", USAGE)
        values[key] = text
    return Templates(folders).filled(name, asked, values)


def _with_input(question: str, *, needed: bool) -> tuple[str, str]:
    """The question including piped input, and the part of it that was typed. `needed`: it must not be empty."""
    typed = "" if question == "-" else question
    piped = _piped(wanted=question == "-")
    if len(piped) > MOST_PIPED_BYTES:
        most = f"more than {MOST_PIPED_BYTES >> 20} MB were piped in"
        fail(f"{most}, the most that is read; select a part with grep, head or tail.", USAGE)
    whole = "\n\n".join(part for part in (typed, trimmed(_text_of(piped))) if part.strip())
    if needed and not whole:
        fail("There is no question. For example: outrider ask how do I unpack photos.tar.gz", USAGE)
    return whole, typed


def _text_of(piped: bytes) -> str:
    """Piped input as text, read like a file's. Ends the command if it is none."""
    try:
        if b"\0" not in piped:
            return piped.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    # What reads other encodings takes some 20 ms to load.
    from app.attachments.documents import Unreadable
    from app.attachments.reader import Unsuitable, text_in

    told: list[str] = []
    try:
        text = text_in(piped, "what was piped in", told)
    except (Unsuitable, Unreadable) as error:
        fail(f"Nothing was sent: what was piped in {error}. To send an image or a document: --file PATH", USAGE)
    for sentence in told:
        complain(sentence)
    return text


def _files(typed: str, settings: Settings, folders: Folders, options: AskOptions) -> Gathered | None:
    """The files that the question names, and those of `--file`; None if there are none.

    Raises `ConfigError` if it names a resource of a server that is not in `mcp.json`.
    """
    if not options.files and "@" not in typed:
        return None
    from app.attachments.mentions import RESOURCE, mentions
    from app.attachments.reader import one_line
    from app.cli.files import files_of
    from app.files import current_folder
    from app.remotes.choice import usable_source
    from app.remotes.source import stays_here

    # A queued question is sent later, when the mode may be another. A continued conversation may have another server.
    here = (settings.mode == "offline" and not options.queue) or (
        not options.continues and stays_here(usable_source(settings, folders, options.model))
    )
    servers = _mcp_servers(folders, options)
    files = files_of(typed, options.files, stays_here=here, servers=servers)
    if files.resources or RESOURCE.search(typed):
        from app.config import ConfigError
        from app.tools.mcp_file import McpFile

        try:
            known = McpFile(folders)
        except ConfigError:
            if files.resources:
                raise
            return files  # The question names none for sure.
        for resource in files.resources:
            known.get(resource.partition(":")[0])
        for mention in mentions(typed, current_folder(), [name for name, _ in known if name not in servers]):
            if mention.kind == "resource":
                server = mention.raw.partition(":")[0]
                complain(f"{one_line(mention.raw)} was not read; to send it: --tools {server}")
    return files


def _mcp_servers(folders: Folders, options: AskOptions) -> Collection[str]:
    """The MCP servers of the conversation. Raises `NotFound`, `StorageError`."""
    if options.tools or not options.continues:
        return options.tools
    from storage import Store

    with Store.open(folders.database) as store:
        chosen = store.conversations.to_continue(options.conversation, last=options.last)
        return () if chosen is None else store.conversations.get(chosen).choices.tools


def _start_ahead(settings: Settings, folders: Folders, options: AskOptions) -> None:
    """Start the bundled server if it will be needed, so that it loads in parallel with this process."""
    if options.model is None and not options.continues:
        from app.remotes.own_server import start_ahead

        start_ahead(settings, folders)


def _piped(*, wanted: bool) -> bytes:
    """The piped input, at most one byte more than the limit. A terminal is read only if input is `wanted`."""
    if sys.stdin is None or (sys.stdin.isatty() and not wanted):
        return b""
    return read_piped(MOST_PIPED_BYTES + 1)
