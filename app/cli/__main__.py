"""The commands. Each imports what it needs when it runs, so that `outrider --version` need not wait for any of it.

stdout is data, stderr is talk, exit codes are an interface: 0 ok, 1 failed, 2 usage, 3 could not connect,
130 interrupted. `app/start.py` has a shorter way to the version and to the chat.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import completion as completing
from app.cli.archive import export, import_
from app.cli.completion import completion, conversations
from app.cli.drafter import drafter_commands
from app.cli.keys import keys
from app.cli.log import log
from app.cli.options import FAILED, USAGE, Remote, Token, complain
from app.cli.options import fail as _fail
from app.cli.options import run as _run
from app.cli.options import settings_with as _settings
from app.cli.queue import queue_commands, verify
from app.cli.remotes import remote_commands
from app.exits import guarded
from drafter.extras import how_to_install
from drafter.telemetry import switch_off

MOST_PIPED_BYTES = 4 << 20
"""About a million tokens. A pipe need not end, and what was read would all be split into tokens before any limit."""

cli = typer.Typer(
    help="A terminal assistant whose small drafter rides ahead of the model that verifies it.",
    no_args_is_help=False,
    add_completion=False,  # `outrider completion` prints it, and edits nobody's files.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
history_commands = typer.Typer(
    help="List conversations, the one last written to first: id, date, title; or search in everything that was said.",
    rich_markup_mode=None,
)
cli.add_typer(history_commands, name="history", invoke_without_command=True)
cli.add_typer(drafter_commands, name="drafter")
cli.add_typer(queue_commands, name="queue", invoke_without_command=True)
cli.add_typer(remote_commands, name="remote", invoke_without_command=True)

Mode = Annotated[
    Literal["auto", "edge", "hosted", "offline"] | None,
    typer.Option("--mode", help="auto: verified while the line holds, drafted where it is faster."),
]

Version = Annotated[bool, typer.Option("--version", is_eager=True, help="Print which version this is.")]
Last = Annotated[bool, typer.Option("--continue", "-c", help="Go on with the last conversation.")]
Conversation = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        metavar="ID",
        help="Go on with that one, as `outrider history` lists it.",
        autocompletion=conversations,
    ),
]


@cli.callback(invoke_without_command=True)
def start(context: typer.Context, version: Version = False) -> None:
    if version:
        from app.version import version_line

        print(version_line())
        raise typer.Exit
    if context.invoked_subcommand is None:
        chat()


@cli.command()
def chat(
    last: Last = False,
    conversation: Conversation = None,
    remote: Remote = None,
    token: Token = None,
    mode: Mode = None,
) -> None:
    """The chat screen."""
    from app.cli.chat import chat as run

    raise typer.Exit(run(conversation=conversation, last=last, remote=remote, token=token, mode=mode))


@cli.command()
def ask(
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="stdin, where there is any, is appended to it. -: stdin alone."),
    ] = None,
    last: Last = False,
    conversation: Conversation = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, when the answer is whole.")] = False,
    remote: Remote = None,
    token: Token = None,
    mode: Mode = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="NUMBER", help="0 to 2. 0: the likeliest token.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Fixes a sampled answer.")] = None,
    tree: Annotated[
        Literal["deterministic", "sampled"] | None,
        typer.Option("--tree", help="How drafts are chosen above temperature 0; a seed fixes only deterministic ones."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", metavar="N", help="Longest answer. Default: 512, or the server's own limit."),
    ] = None,
    no_draft: Annotated[bool, typer.Option("--no-draft", help="The target alone, token by token.")] = False,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", metavar="FILE", help="Answer each line; JSON lines out.")
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Keep it for the verifier instead; it is sent with the settings of then.")
    ] = False,
) -> None:
    """One answer on stdout."""
    from app.prompts import read_prompts

    settings, folders = _settings(
        remote=remote,
        token=token,
        mode=mode,
        temperature=temperature,
        seed=seed,
        max_tokens=max_tokens,
        tree=tree,
    )
    if no_draft and settings.mode == "offline":
        _fail("--no-draft is the target alone, and --mode offline the drafter alone: choose one.", USAGE)
    if prompts is not None and (last or conversation is not None):
        _fail("--prompts begins conversations of its own: leave out -c and --conversation.", USAGE)
    if queue and (prompts is not None or json or no_draft):
        _fail("--queue keeps one question and answers none: leave out --prompts, --json and --no-draft.", USAGE)
    if prompts is not None:
        if question is not None:
            _fail("Give a question or --prompts, not both.", USAGE)
        conversations = read_prompts(prompts)
        from app.cli.ask import ask_all

        raise typer.Exit(_run(ask_all(conversations, settings, folders, draft=not no_draft)))
    typed = "" if question in (None, "-") else question
    question = "\n\n".join(part for part in (typed, _piped(wanted=question == "-")) if part and part.strip())
    if not question:
        _fail('There is no question. For example: outrider ask "how do I unpack a tar archive"', USAGE)
    if queue:
        from app.cli.queued import keep

        raise typer.Exit(keep(question, folders, conversation, last=last))
    from app.cli.ask import ask as answer

    work = answer(question, settings, folders, as_json=json, draft=not no_draft, conversation=conversation, last=last)
    raise typer.Exit(_run(work))


cli.command()(verify)
cli.command()(keys)
cli.command()(export)
cli.command("import")(import_)
cli.command()(log)
cli.command()(completion)


@cli.command()
def serve(
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME|DIR", help="Folder, or name on the hub. Default: bundled.")
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option("--drafter", metavar="DIR", help="Folder of the drafter made for it.")
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on. Others than this device need a token."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: any free one.")] = 8000,
    quantize: Annotated[Literal["int8", "int4"] | None, typer.Option("--quantize", help="Smaller weights.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token that clients must send.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="TLS certificate, for https.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Key of that certificate.")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Without a token: a name it answers to beside localhost."),
    ] = None,
    max_sessions: Annotated[
        int, typer.Option("--max-sessions", metavar="N", min=1, help="Most conversations kept at once.")
    ] = 256,
    cache_mb: Annotated[
        int | None,
        typer.Option("--cache-mb", metavar="N", min=1, help="Memory for them. Default: a quarter of what is free."),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=1, help="Longest conversation, answer included.")
    ] = 32_768,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", metavar="N", min=1, help="Most requests that wait; others are told 503.")
    ] = 256,
    max_connections: Annotated[
        int, typer.Option("--max-connections", metavar="N", min=1, help="Most open connections.")
    ] = 512,
    watch_stdin: Annotated[bool, typer.Option("--watch-stdin", help="End when stdin does.")] = False,
) -> None:
    """Run the verifier. Says on stderr what it loads, and on stdout its address when it is ready."""
    settings, _ = _settings()
    if (tls_cert is None) != (tls_key is None):
        _fail("--tls-cert and --tls-key belong together.", USAGE)
    complain("loading PyTorch ...")  # Seconds, in which nothing else could be said.
    try:
        from remote.verifier.security import read_token
        from remote.verifier.serve import START_ERRORS
        from remote.verifier.serve import serve as run
    except ImportError as error:
        _fail(f"The verifier needs PyTorch and more ({error.name} is missing): {how_to_install('server')}", FAILED)
    if model is None and drafter is None:
        drafter = Path(settings.drafter)
    try:
        run(
            settings.target if model is None else model,
            drafter=drafter,
            host=host,
            port=port,
            quantize=quantize,
            token=None if token_file is None else read_token(token_file),
            tls_cert=tls_cert,
            tls_key=tls_key,
            hosts=allow_host or (),
            watch_stdin=watch_stdin,
            max_sessions=max_sessions,
            max_tokens=max_tokens,
            max_waiting=max_waiting,
            max_connections=max_connections,
            max_cached_bytes=None if cache_mb is None else cache_mb << 20,
        )
    except START_ERRORS as error:
        _fail(str(error), FAILED)


@cli.command()
def doctor(
    remote: Remote = None,
    token: Token = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check every part, and say how to mend what is broken. Exit 1 where something is."""
    from app.cli.doctor import examine

    raise typer.Exit(_run(examine({"remote": remote, "token": token}, as_json=json)))


@history_commands.callback(invoke_without_command=True)
def history(context: typer.Context) -> None:
    """List conversations, the one last written to first: id, date, title."""
    if context.invoked_subcommand is None:
        from app.sanitise import sanitise
        from storage import Store

        _, folders = _settings()
        with Store.open(folders.database) as store:
            for conversation in store.conversations.recent(most=sys.maxsize):
                print(conversation.id, _local(conversation.updated), sanitise(conversation.title), sep="  ")


@history_commands.command("search")
def search(words: Annotated[list[str], typer.Argument(metavar="WORD", help="All of them must occur.")]) -> None:
    """Find messages: conversation id, date, who, text around the words."""
    from app.sanitise import sanitise
    from storage import Store

    _, folders = _settings()
    with Store.open(folders.database) as store:
        hits = store.search.messages(" ".join(words))
        if not hits:
            complain("Nothing was found.")
        for hit in hits:
            message, snippet = hit.message, " ".join(sanitise(hit.snippet).split())
            print(message.conversation_id, _local(message.created), message.role, snippet, sep="  ")


def main() -> None:
    """The command line, with every argument that it takes."""
    switch_off()
    completing.answer_shells()
    guarded(lambda: cli(prog_name="outrider"))  # However it was started: shells ask it by that name, too.


def _local(moment: str) -> str:
    """A stored time as the clock on the wall shows it here."""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def _piped(*, wanted: bool) -> str:
    """What was piped into the command; what is typed at a terminal only where it is `wanted`."""
    if sys.stdin is None or (sys.stdin.isatty() and not wanted):
        return ""
    piped = sys.stdin.buffer.read(MOST_PIPED_BYTES + 1)
    if len(piped) > MOST_PIPED_BYTES:
        most = f"more than {MOST_PIPED_BYTES >> 20} MB were piped in"
        _fail(f"{most}, which is more than any model reads; choose a part, with grep, head or tail.", USAGE)
    return piped.decode("utf-8", "replace").strip()


if __name__ == "__main__":
    main()
