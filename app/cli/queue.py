"""`outrider queue` and `outrider verify`: what waits for the target, and what was answered without it."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli import completion as completing
from app.cli.options import Remote, Token, run, settings_with

queue_commands = typer.Typer(
    help="List what waits for the verifier: id, conversation, ask or verify, text; or send, edit, remove.",
    rich_markup_mode=None,
)
Id = Annotated[
    str, typer.Argument(metavar="ID", help="As `outrider queue` lists it.", autocompletion=completing.queued)
]


@queue_commands.callback(invoke_without_command=True)
def queue(context: typer.Context) -> None:
    """List what waits, in its order: id, conversation, ask or verify, text."""
    if context.invoked_subcommand is None:
        from app.cli.queued import show

        _, folders = settings_with()
        raise typer.Exit(show(folders))


@queue_commands.command("send")
def send(remote: Remote = None, token: Token = None) -> None:
    """Send everything now; answers on stdout. Exit 3 without a verifier."""
    from app.cli.queued import send_all

    raise typer.Exit(run(send_all(*settings_with(remote=remote, token=token))))


@queue_commands.command("edit")
def edit(queued: Id, text: Annotated[str, typer.Argument(metavar="TEXT", help="What to ask instead.")]) -> None:
    """Replace the text of a prompt that was not sent yet."""
    from app.cli.queued import replace

    _, folders = settings_with()
    raise typer.Exit(replace(queued, text, folders))


@queue_commands.command("remove")
def remove(queued: Id) -> None:
    """Take one out."""
    from app.cli.queued import drop

    _, folders = settings_with()
    raise typer.Exit(drop(queued, folders))


def verify(
    conversation: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="As `outrider history` lists it. Default: the last.",
            autocompletion=completing.conversations,
        ),
    ] = None,
    remote: Remote = None,
    token: Token = None,
) -> None:
    """Have the last answer of a conversation verified. Exit 3 without a verifier."""
    from app.cli.queued import verify_last

    raise typer.Exit(run(verify_last(conversation, *settings_with(remote=remote, token=token))))
