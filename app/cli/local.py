"""`outrider local`: the models on this device that answer while a server is away.

stdout is data; exit codes: 0 ok, 1 the model does not run or was not fetched, 2 usage, 3 nothing found or no network.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.completion import catalogue_models, local_models
from app.cli.options import Json
from app.cli.output import print_json
from app.cli.settings import settings_with
from app.exits import FAILED, INTERRUPTED, UNREACHABLE, USAGE, complain, fail
from app.files import size_text
from models.files import why_absent

if TYPE_CHECKING:
    from app.local.hub import Hub, HubModel
    from app.local.registry import LocalModels

local_commands = typer.Typer(
    help="Find, fetch, choose and remove models that answer while a server is away. Without a command, list them.",
    rich_markup_mode=None,
)
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name, as in `outrider local list`.", autocompletion=local_models),
]
NewName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the model. Default: the file's name.")
]
TRIED = "Name three things that float, in one sentence."
TRIED_TOKENS = 48


@local_commands.callback(invoke_without_command=True)
def local(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show_list(json=False)


@local_commands.command("find")
def find_models(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="More folders to look in.")
    ] = None,
    json: Json = False,
) -> None:
    """Find models that Ollama, LM Studio, llama.cpp or Hugging Face keep here: name, size, program, file."""
    from app.local.find import find
    from app.sanitise import sanitise

    for folder in folders or []:
        if (why := why_absent(folder)) is not None or not folder.is_dir():
            fail(f"{folder} is {why or 'not a folder'}.", USAGE)
    found = find(folders or [])
    for one in found:
        if json:
            print_json({"name": one.name, "size": one.size, "program": one.program, "file": str(one.path)})
        else:
            print(sanitise(f"{one.name}  {size_text(one.size)}  {one.program}  {one.path}"))
    if not found:
        fail(
            "No model was found. To search a folder: outrider local find FOLDER. "
            "To fetch one: outrider local catalogue",
            UNREACHABLE,
        )
    complain("To use one: outrider local add FILE --name NAME")


@local_commands.command("add")
def add(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file, or the folder of a model.")],
    name: NewName = None,
) -> None:
    """Add a model. Its file is used where it is, not copied."""
    from app.local.registry import LocalModels
    from app.remotes.own_server import why_not
    from models.gguf.file import gguf_name

    _, folders = settings_with()
    if (why := why_absent(path)) is not None:
        fail(f"{path} is {why}.", USAGE)
    _check(path)
    if (reason := why_not(str(path.absolute()))) is not None:
        fail(f"This model cannot run here: {reason}.", FAILED)
    name = name or (gguf_name(path) if path.is_file() else path.name)
    _add(LocalModels(folders), name, path)


def _check(path: Path) -> None:
    """End the command if the model cannot answer."""
    from app.local.suitability import check
    from models.errors import ModelError

    try:
        check(path)
    except ModelError as error:
        fail(str(error), FAILED)


def _add(models: LocalModels, name: str, path: Path) -> None:
    """Add a model, and say what it replaces and how to use it."""
    before = dict(models).get(name)
    models.add(name, path)
    if before is not None and before != path.expanduser().absolute():
        complain(f"{name} was {before} before; that file is kept.")
    complain(f"Added {name}. To let it answer while a server is away: outrider local use {name}")


@local_commands.command("catalogue")
def show_catalogue(json: Json = False) -> None:
    """List small models with free licences: name, size, memory, licence, purpose."""
    import msgspec

    from app.local.catalogue import catalogue

    known = catalogue()
    for one in known.models:
        if json:
            print_json(msgspec.structs.asdict(one))
        else:
            sizes = f"{size_text(one.size):>6}, about {size_text(one.memory):>6} of memory"
            print(f"{one.name:20}{sizes}  {one.licence}  {one.good_for}")
    complain(f"As of {known.date}. To fetch one: outrider local get NAME")


@local_commands.command("get")
def get(
    model: Annotated[
        str,
        typer.Argument(
            metavar="NAME|REPOSITORY[:FILE]",
            help="Name in the catalogue, or a Hugging Face repository, optionally with one of its GGUF files.",
            autocompletion=catalogue_models,
        ),
    ],
    name: NewName = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Fetch without asking.")] = False,
) -> None:
    """Fetch a model from the Hugging Face hub, and add it. Resumes an interrupted download."""
    from app.cli import remote_dialogue
    from app.local.catalogue import catalogue
    from app.local.hub import Hub
    from app.local.registry import LocalModels, check_name
    from app.local.suitability import check_memory
    from app.remotes.own_server import why_not
    from drafter.progress import transfer

    settings, folders = settings_with()
    if settings.mode == "offline":
        fail('Nothing is fetched while the settings say `mode = "offline"`.', FAILED)
    if not yes and not remote_dialogue.has_terminal():
        fail("There is no terminal to confirm in. To fetch without confirmation: --yes", USAGE)
    entry = catalogue().get(model)
    if entry is None and "/" not in model:
        fail(f"There is no {model} in the catalogue: outrider local catalogue. Or give OWNER/REPOSITORY.", USAGE)
    hub, models = Hub(), LocalModels(folders)
    with _ending():
        found = hub.find(model if entry is None else entry.source)
        name = name or (found.name[:63] if entry is None else entry.name)
        check_name(name)
        if (reason := why_not(found.path.name)) is not None:
            fail(f"This model cannot run here: {reason}.", FAILED)
        check_memory(found.name, found.size)
        _say_plan(found, hub)
        if found.missing and not yes and not remote_dialogue.yes("Fetch it?"):
            complain("Nothing was fetched.")
            return
        here = found.size - found.missing
        with transfer(found.missing) as tell:
            path = hub.fetch(found, lambda done: tell(done - here))
    print(path)
    _check(path)
    _add(models, name, path)


@contextmanager
def _ending() -> Iterator[None]:
    """End the command with a sentence about what keeps a model from being fetched."""
    from app.local.hub import HubAway, NoSuchModel, NotFetched
    from models.errors import ModelError

    try:
        yield
    except ModelError as error:
        fail(str(error), FAILED)
    except NotFetched as error:
        fail(
            str(error),
            UNREACHABLE if isinstance(error, HubAway) else USAGE if isinstance(error, NoSuchModel) else FAILED,
        )
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        fail("Interrupted. What has arrived is kept; the same command resumes there.", INTERRUPTED)


def _say_plan(model: HubModel, hub: Hub) -> None:
    """Say what would be fetched, from where and to where. Raises `NotFetched` if there is no room for it."""
    free = hub.room(model)
    complain(f"{model.repository}, revision {model.revision}, licence: {model.licence or 'none named'}")
    for file in model.files:
        kind = "sha256" if len(file.digest) == 64 else "git"
        complain(f"  {file.name}  {size_text(file.size)}  {kind} {file.digest}")
    complain(f"{size_text(model.missing)} to fetch into {model.folder}; {size_text(free)} are free")
    complain(
        f"Requests go only to {hub.host} and the storage it redirects to; both see your address and the model's name."
    )


@local_commands.command("list")
def show_list(json: Json = False) -> None:
    """List the models: * if chosen to answer, name, size, file."""
    from app.local.registry import LocalModels
    from models.gguf.file import weight_bytes

    _, folders = settings_with()
    count = 0
    models = LocalModels(folders)
    for name, path in models:
        count += 1
        size = weight_bytes(path)
        if json:
            print_json({"name": name, "size": size, "file": str(path), "used": name == models.used})
        else:
            print(
                "*" if name == models.used else " ",
                name,
                why_absent(path) or (size_text(size) if size else "folder"),
                path,
                sep="  ",
            )
    if not count:
        complain("No model was added. Look for some: outrider local find. To fetch one: outrider local catalogue")


@local_commands.command("use")
def use(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name, as in `outrider local list`.", autocompletion=local_models),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Let no model answer.")] = False,
) -> None:
    """Choose the model that answers while a server is away, and continues answers that break off."""
    from app.local.registry import LocalModels, why_no_effect

    if (name is None) == (not none):
        fail("Give a name, or --none to let no model answer.", USAGE)
    settings, folders = settings_with()
    LocalModels(folders).use(name)
    if why := why_no_effect(settings, name):
        complain(why)


@local_commands.command("rm")
def remove(name: Name) -> None:
    """Forget a model. Its file stays."""
    from app.local.registry import LocalModels

    _, folders = settings_with()
    models = LocalModels(folders)
    path = models.get(name)
    models.remove(name)
    complain(f"Forgot {name}. Its file {'stays' if (why := why_absent(path)) is None else f'was {why}'}: {path}")


@local_commands.command("try")
def try_model(name: Name) -> None:
    """Load a model and ask it a question. Prints the load time, the time to the first word, tokens/s and memory."""
    from app.local.registry import LocalModels

    _, folders = settings_with()
    path = LocalModels(folders).get(name)
    if (why := why_absent(path)) is not None:
        fail(f"{path} is {why}. Add the model again from where it is now, or: outrider local rm {name}", FAILED)
    _check(path)
    asyncio.run(_tried(name, path))


async def _tried(name: str, path: Path) -> None:
    from app.own_process import memory_used
    from app.remotes.loopback import LocalModel
    from app.remotes.source import SourceFailed
    from remote import RemoteError
    from remote.protocol import Sampling

    source, begun = LocalModel(name, path), time.monotonic()
    try:
        await source.client()
        assert source.chat is not None
        (model, *_) = await source.chat.models(10.0)
        print(f"loaded in {time.monotonic() - begun:.1f} s")
        asked, first, pieces = time.monotonic(), None, 0
        stream = await source.chat.chat(
            [("user", TRIED)], Sampling(), model=model.id, most=TRIED_TOKENS, deadline=120.0, silence=60.0
        )
        while await anext(stream, None) is not None:
            first = first or time.monotonic()
            pieces += 1
        ended = time.monotonic()
        await stream.aclose()
        if first is None or pieces < 2:
            fail(f"{name} gave an empty answer.", FAILED)
        tokens = pieces if stream.usage is None else stream.usage.completion_tokens
        print(f"first word after {first - asked:.2f} s, then {(tokens - 1) / (ended - first):.0f} tokens/s")
        if source.process_id is not None and (memory := memory_used(source.process_id)) is not None:
            print(f"{size_text(memory)} of memory")
    except (SourceFailed, RemoteError) as error:
        fail(f"{name} does not run here: {error}", FAILED)
    finally:
        await source.close()
