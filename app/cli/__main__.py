"""The commands. Each imports what it needs when it runs, so that help, version and completion stay quick.

stdout is for data, stderr for messages, and exit codes are an interface: 0 ok, 1 failed, 2 usage, 3 could not connect,
130 interrupted. `app/start.py` has shortcuts to the version and the chat.
"""

from __future__ import annotations

import sys
from copy import copy
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.models import CommandInfo

from app.cli.archive import export, import_
from app.cli.completion import answer_shells, completion, conversations
from app.cli.drafter import drafter_commands
from app.cli.fix import fix
from app.cli.gateway import gateway
from app.cli.history import history_commands
from app.cli.keys import keys
from app.cli.learn import learn
from app.cli.local import local_commands
from app.cli.log import log
from app.cli.mcp import mcp_commands
from app.cli.models import models
from app.cli.options import Local, Model, Remote, System, TemplateName, Token
from app.cli.queue import queue_commands, verify
from app.cli.remotes import remote_commands
from app.cli.serve import serve
from app.cli.settings import stands_in
from app.cli.shell import shell
from app.cli.system import meant, system_commands
from app.cli.usage import usage
from app.exits import guarded, run
from models.cores import keep_cores_free
from models.telemetry import switch_off

cli = typer.Typer(
    help="A chat in your terminal that keeps working when the network does not.",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,  # `outrider completion` prints the script, and edits no files.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
cli.add_typer(history_commands, name="history", invoke_without_command=True)
cli.add_typer(drafter_commands, name="drafter")
cli.add_typer(queue_commands, name="queue", invoke_without_command=True)
cli.add_typer(remote_commands, name="remote", invoke_without_command=True)
cli.add_typer(system_commands, name="system", invoke_without_command=True)
cli.add_typer(local_commands, name="local", invoke_without_command=True)
cli.add_typer(mcp_commands, name="mcp", invoke_without_command=True)

Mode = Annotated[
    Literal["auto", "edge", "hosted", "offline"] | None,
    typer.Option(
        "--mode",
        help="Who drafts: edge (this device), hosted (the server), or auto (whichever is faster). "
        "offline: no question leaves this device; the bundled model answers, or the small model of the chosen server.",
    ),
]

Version = Annotated[bool, typer.Option("--version", "-V", is_eager=True, help="Print the version.")]
Last = Annotated[bool, typer.Option("--continue", "-c", help="Continue the last conversation.")]
Conversation = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        metavar="ID",
        help="Continue this conversation. `outrider history` lists the ids.",
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
    model: Model = None,
    token: Token = None,
    mode: Mode = None,
    local: Local = None,
    system: System = None,
) -> None:
    """Open the chat screen."""
    from app.cli.chat import chat as open_chat

    prompt = meant(system)
    raise typer.Exit(
        open_chat(
            conversation=conversation,
            last=last,
            model=model,
            prompt=prompt,
            remote=remote,
            token=token,
            mode=mode,
            **stands_in(local),
        )
    )


@cli.command()
def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION",
            help="The question. @path attaches a file. Piped input is appended; - reads only stdin.",
        ),
    ] = None,
    last: Last = False,
    conversation: Conversation = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object when the answer is complete.")] = False,
    remote: Remote = None,
    model: Model = None,
    token: Token = None,
    mode: Mode = None,
    local: Local = None,
    system: System = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature", metavar="NUMBER", help="Sampling temperature, 0 to 2. 0: always the most likely token."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Random seed, for reproducible answers.")
    ] = None,
    tree: Annotated[
        Literal["deterministic", "sampled"] | None,
        typer.Option(
            "--tree", help="How to draft at temperatures above 0. With sampled, answers are not reproducible."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="N",
            help="Maximum length of the answer, in tokens. Default: no limit but the model's context.",
        ),
    ] = None,
    no_draft: Annotated[
        bool, typer.Option("--no-draft", help="Do not draft: the large model writes alone, token by token.")
    ] = False,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help='Answer every line of the file, as {"prompt": "list files"}, and print JSON lines. - reads stdin.',
        ),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="PATH",
            help="Attach a file, a folder, or a web page (https://…), which is fetched. May be repeated.",
        ),
    ] = None,
    template: TemplateName = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", metavar="NAME=TEXT", help="Fill in $NAME of the template. May be repeated."),
    ] = None,
    extract: Annotated[
        bool, typer.Option("--extract", "-x", help="Print only the last code block. Exits with 1 if there is none.")
    ] = False,
    extract_all: Annotated[
        bool, typer.Option("--extract-all", help="Print all code blocks, and nothing else.")
    ] = False,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tools",
            metavar="NAME",
            help="Offer the model the tools of this MCP server (`outrider mcp list`), and read its resources that the "
            "question names (@NAME:URI). May be repeated. The conversation keeps them.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="TOOL",
            help="Allow calls of this tool without asking. May be repeated. Calls of all other tools are refused.",
        ),
    ] = None,
    no_save: Annotated[
        bool, typer.Option("--no-save", help="Store nothing: keep question and answer in memory only.")
    ] = False,
    queue: Annotated[
        bool,
        typer.Option("--queue", help="Queue the question instead. `outrider queue send` or the chat sends it."),
    ] = False,
) -> None:
    """Ask a question and print the answer."""
    from app.cli.question import answer
    from app.cli.settings import AskOptions

    options = AskOptions(
        conversation=conversation,
        last=last,
        json=json,
        remote=remote,
        model=model,
        token=token,
        mode=mode,
        local=local,
        system=meant(system),
        temperature=temperature,
        seed=seed,
        tree=tree,
        max_tokens=max_tokens,
        draft=not no_draft,
        prompts=prompts,
        files=file or (),
        template=template,
        variables=param or (),
        extract="all" if extract_all else "last" if extract else None,
        tools=tools or (),
        allow=allow or (),
        save=not no_save,
        queue=queue,
    )
    raise typer.Exit(answer(words or (), options))


cli.command()(verify)
cli.command()(learn)
cli.command()(models)
cli.command()(usage)
cli.command()(keys)
cli.command()(export)
cli.command("import")(import_)
cli.command()(log)
cli.command()(completion)
cli.command()(shell)
cli.command()(fix)
cli.command()(gateway)
cli.command()(serve)


@cli.command()
def doctor(
    remote: Remote = None,
    token: Token = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check every part and say how to fix what is broken. Exits with 1 if anything is broken."""
    from app.cli.doctor import examine

    raise typer.Exit(run(examine({"remote": remote, "token": token}, as_json=json)))


def main() -> None:
    """Run the command line."""
    switch_off()
    keep_cores_free()
    answer_shells()
    guarded(lambda: _with_command(sys.argv[1:2])(prog_name="outrider"))  # The name that shells complete.


def _with_command(first: list[str]) -> typer.Typer:
    """The command line with only the command that the first argument names, or with all if it names none.

    Typer reads the signatures of all that it is given, which takes 80 ms.
    """
    chosen = copy(cli)
    chosen.registered_commands = [one for one in cli.registered_commands if [_name(one)] == first]
    chosen.registered_groups = [one for one in cli.registered_groups if [one.name] == first]
    return chosen if chosen.registered_commands or chosen.registered_groups else cli


def _name(command: CommandInfo) -> str:
    return command.name or (command.callback.__name__ if command.callback else "")


if __name__ == "__main__":
    main()
