"""`outrider queue` and `outrider verify`: questions that wait for the target, and answers written without it.

Answers go to stdout, messages to stderr. Output and exit codes are an interface.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completion
from app.cli.options import Remote, Token
from app.cli.settings import opened_store, read_store, settings_with
from app.exits import FAILED, OK, UNREACHABLE, complain, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.attachments.reader import Gathered
    from app.cli.ask import AskResult
    from app.cli.settings import AskOptions
    from app.config import Folders, Settings
    from app.remotes.connection import Connection
    from storage import Attachment, Message

NO_SERVER = ("unavailable", "incompatible")
"""Codes of failures because no server can verify: out of reach, or of another kind."""

queue_commands = typer.Typer(
    help="List or send what waits for the server. One line each: id, conversation, ask or verify, text.",
    rich_markup_mode=None,
)
Id = Annotated[
    str, typer.Argument(metavar="ID", help="Id, as `outrider queue` lists it.", autocompletion=completion.queued)
]


@queue_commands.callback(invoke_without_command=True)
def queue(context: typer.Context) -> None:
    """List what waits, in order: id, conversation, ask or verify (check an answer), text."""
    if context.invoked_subcommand is not None:
        return
    from app.sanitise import one_line

    with read_store() as store:
        waiting = store.queue.all()
    for queued in waiting:
        print(queued.id, queued.conversation_id, queued.kind, one_line(queued.text), sep="  ")
    if not waiting:
        complain("nothing is queued")


@queue_commands.command("send")
def send(remote: Remote = None, token: Token = None) -> None:
    """Send everything now and print the answers. Exits with 3 if no server answers."""
    raise typer.Exit(run(_send_all(*settings_with(remote=remote, token=token), explicit=remote is not None)))


@queue_commands.command("edit")
def edit(queued: Id, text: Annotated[str, typer.Argument(metavar="TEXT", help="New text of the prompt.")]) -> None:
    """Replace the text of a prompt that has not been sent yet."""
    if not text.strip():
        raise typer.BadParameter(f"it is empty; to remove the prompt: outrider queue rm {queued}", param_hint="TEXT")
    with opened_store() as store:
        store.queue.edit(queued, text)


@queue_commands.command("rm")
@queue_commands.command("remove", hidden=True)  # The older name.
def remove(queued: Id) -> None:
    """Remove an entry from the queue."""
    with opened_store() as store:
        store.queue.remove(queued)


def verify(
    conversation: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Id, as `outrider history` lists it. Default: the last one.",
            autocompletion=completion.conversations,
        ),
    ] = None,
    remote: Remote = None,
    token: Token = None,
) -> None:
    """Have the server check a drafted answer. Exits with 3 if no server answers."""
    settings, folders = settings_with(remote=remote, token=token)
    raise typer.Exit(run(_verify_last(conversation, settings, folders, explicit=remote is not None)))


def enqueue(
    question: str, settings: Settings, folders: Folders, options: AskOptions, files: Gathered | None = None
) -> int:
    """Queue a question for `outrider ask --queue` and print its id in the queue; returns the exit code.

    Resources are read now, because the question keeps them. Raises `StorageError`.
    """
    from app.cli.ask import chosen_conversation
    from app.remotes.choice import choices_named
    from storage import Store

    attachments: Sequence[Attachment] = () if files is None else files.attachments
    if files is not None and files.resources:
        read = asyncio.run(_with_resources(files, folders))
        if read is None:
            return FAILED
        attachments = read
    with Store.open(folders.database) as store:
        kept = choices_named(settings, folders, options.asks)
        chosen = chosen_conversation(store, question, kept, options)
        queued = store.queue.add(chosen, question, attachments)
    print(queued.id)
    complain("queued: the chat sends it once the server is back, and so does `outrider queue send`")
    return OK


async def _with_resources(files: Gathered, folders: Folders) -> Sequence[Attachment] | None:
    """The files and resources of a question that waits; None, and a message, if a resource cannot be read."""
    from app.attachments.reader import Gathered
    from app.cli.files import with_resources
    from app.reply.bootstrap import mcp_tools
    from app.reply.errors import NoAnswer
    from app.tools.resources import read_resources

    try:
        tools = mcp_tools(folders)
    except NoAnswer as error:
        return with_resources((), Gathered(problems=[str(error)]))
    try:
        read = await read_resources(tools, files.resources)
    finally:
        await tools.aclose()
    return with_resources(files.attachments, read)


async def _send_all(settings: Settings, folders: Folders, *, explicit: bool) -> int:
    """Answer or verify all queue entries; returns the exit code. Raises what `open_assistant` does.

    `explicit`: the command line names the server, for all entries; otherwise each conversation's own server is asked.
    """
    from app.cli.ask import listen
    from app.cli.tool_consent import ToolConsent
    from app.remotes.choice import Asks
    from app.reply.bootstrap import open_assistant
    from app.sanitise import one_line

    code, told = OK, ""
    async with open_assistant(settings, folders, Asks(explicit=explicit), tools=True) as assistant:
        branches = assistant.store.branches
        waiting = assistant.outbox.queued()
        if not waiting:
            complain("nothing is queued")
            return OK
        away: set[Connection | None] = set()
        for queued in waiting:
            await assistant.settled(queued.conversation_id)
            connection = assistant.backend.routing.connection_of(queued.conversation_id)
            if connection in away:
                continue
            what = "check" if queued.kind == "verify" else queued.kind
            complain(f"{what}: {one_line(queued.text)}")
            result = await listen(assistant.send(queued), told=told, calls=ToolConsent(assistant))
            told = result.told
            answer = queued.message_id
            _print(result, branches.path(answer) if answer else branches.thread(queued.conversation_id))
            if result.failed is not None or result.broken:
                code = max(code, result.exit_code)
            if result.failed is not None and result.failed.code in NO_SERVER:
                away.add(connection)
        sent = {queued.id for queued in waiting}
        if left := sum(queued.id in sent for queued in assistant.outbox.queued()):
            complain(f"{left} of {len(waiting)} stay queued")
            return UNREACHABLE
    return code


async def _verify_last(conversation_id: str | None, settings: Settings, folders: Folders, *, explicit: bool) -> int:
    """Verify the last answer of a conversation; returns the exit code. Raises what `open_assistant` does.

    `explicit`: the command line names the server; otherwise the conversation's own server is asked.
    """
    from app.cli.ask import listen
    from app.cli.tool_consent import ToolConsent
    from app.remotes.choice import Asks
    from app.reply.bootstrap import open_assistant
    from app.reply.judgement import nothing_to_verify, unverified
    from app.sanitise import sanitise

    asks = Asks(explicit=explicit)
    async with open_assistant(settings, folders, asks, conversation=conversation_id, tools=True) as assistant:
        store = assistant.store
        if conversation_id is None:
            conversation_id = next((conversation.id for conversation in store.conversations.recent(1)), "")
        else:
            conversation_id = store.conversations.find(conversation_id).id
        thread = store.branches.thread(conversation_id) if conversation_id else []
        answer = next((message for message in reversed(thread) if message.role == "assistant"), None)
        if answer is None:
            complain("there is no answer to check")
            return FAILED
        if not unverified(answer):
            print(sanitise(answer.text))
            complain(nothing_to_verify(answer))
            return OK
        await assistant.settled(answer.conversation_id)
        result = await listen(assistant.verify(answer.id), calls=ToolConsent(assistant))
        _print(result, store.branches.path(answer.id))
        return result.exit_code


def _print(result: AskResult, thread: Sequence[Message]) -> None:
    """Print the answer on stdout, and on stderr its risks and what the target did not keep.

    `thread`: the messages up to the answer.
    """
    if result.done is not None:
        from app.cli.ask import asked_in, complain_of_answer

        print(result.text, flush=True)
        complain_of_answer(result.done, result.text, asked_in(thread))
    if result.judged is not None:
        complain(str(result.judged))
        if result.judged.dropped:
            what = "not kept by the model" if result.judged.again is None else "not in the new answer"
            complain(f"{what}: {result.judged.dropped}")
