"""`outrider models`: every model that can be chosen, of every server.

stdout is data; exit codes: 0 ok, 1 no server gave a list, 2 usage, 3 the named server gave none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli import completion
from app.cli.options import Json
from app.cli.output import print_json
from app.cli.settings import settings_with
from app.exits import FAILED, OK, UNREACHABLE, complain, run

if TYPE_CHECKING:
    from app.config import Folders, Settings
    from app.remotes.models import ServerModels


def models(
    remote: Annotated[
        str | None,
        typer.Option(metavar="NAME|URL", help="List only this server's models.", autocompletion=completion.remotes),
    ] = None,
    json: Json = False,
) -> None:
    """List the models of all servers. One line each: server, model, capabilities.

    Exits with 3 if the server in --remote returns no list.
    """
    settings, folders = settings_with(remote=remote)
    raise typer.Exit(run(_list(settings, folders, remote, as_json=json)))


async def _list(settings: Settings, folders: Folders, remote: str | None, *, as_json: bool) -> int:
    """Print each server's models as soon as it has answered, and on stderr why others give none."""
    from app.config import is_address
    from app.remotes.models import list_models, servers
    from app.remotes.registry import BUNDLED, Remotes

    if remote is None:
        names = servers(settings, folders)
    elif is_address(remote):
        names = [remote]
    else:
        names = [Remotes(folders).meant_by(remote) or BUNDLED]
    found = 0
    async for listed in list_models(names, settings, folders):
        found += len(listed.models)
        if listed.trouble:
            complain(f"{listed.server}: {listed.trouble}")
        _print(listed, as_json=as_json)
    if found:
        return OK
    return FAILED if remote is None else UNREACHABLE


def _print(listed: ServerModels, *, as_json: bool) -> None:
    from app.sanitise import sanitise

    for model in listed.models:
        if as_json:
            about = {"checks_drafts": model.checks, "context": model.context, "images": model.images}
            cost = None if model.price is None else {"input": model.price.prompt, "output": model.price.completion}
            print_json({"server": model.server, "model": model.name, **about, "dollars_per_million": cost})
        else:
            print(sanitise(model.server), model.shown, model.about, sep="  ", flush=True)
