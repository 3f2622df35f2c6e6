"""`outrider serve`: its options are the fields of `ServeOptions`."""

from __future__ import annotations

from dataclasses import fields, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from app.cli.options import BUDGET, AllowOrigin, Budget
from app.cli.own_server import run_server
from app.cli.settings import settings_with
from app.exits import USAGE, fail
from remote.verifier.options import ServeOptions

ELSEWHERE: dict[str, tuple[Any, Any]] = {"budget": (Budget, BUDGET), "allow_origin": (AllowOrigin, None)}
"""Options that other commands have too, with their types and defaults for typer."""


def serve(context: typer.Context, **given: Any) -> None:
    """Run a server that answers questions and checks drafts. Prints its address when it is ready."""
    if given["model"] == "":  # As from an unset variable: the bundled model is not meant.
        fail("--model is empty: give a folder, a GGUF file or a name, or leave it out.", USAGE)
    settings, folders = settings_with()
    several = {name: tuple(given[name] or ()) for name in ("allow_host", "allow_origin")}
    options = replace(
        ServeOptions(**given | several | {"model": given["model"] or settings.target}),
        made=folders.made,
        texts=folders.texts,
        replicas=given["replicas"] or (1 if given["max_replicas"] else None),
    )
    refuse_what_excludes_itself(context, options)
    if given["model"] is None and options.drafter is None and not options.no_drafter:
        options = replace(options, drafter=Path(settings.drafter))
    run_server(options)


def refuse_what_excludes_itself(context: typer.Context, options: ServeOptions) -> None:
    """Fail with a usage error if two options exclude each other, or one needs another."""
    if (options.tls_cert is None) != (options.tls_key is None):
        fail("--tls-cert and --tls-key belong together.", USAGE)
    if options.no_drafter and options.drafter is not None:
        fail("--drafter and --no-drafter exclude each other.", USAGE)
    if options.replicas is None:
        return
    if options.max_replicas is not None and options.max_replicas < options.replicas:
        fail("--max-replicas must not be less than --replicas.", USAGE)
    if options.learn is not None:
        fail("--learn needs one process that sees all answers: leave out --replicas or --learn.", USAGE)
    for option in fields(options):
        source = context.get_parameter_source(option.name)
        if "shown" in option.metadata and option.metadata["shown"].alone and source and source.name == "COMMANDLINE":
            name = _flag(option.name)
            fail(f"{name} needs a single process, not several behind Ray's proxy: leave out one of the two.", USAGE)


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _parameters() -> list[Parameter]:
    """The command's parameters for typer: its context, and one for each option."""
    types: dict[str, Any] = get_type_hints(ServeOptions) | {"model": str | None, "allow_host": list[str] | None}
    found = [Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for option in fields(ServeOptions):
        if (shown := option.metadata.get("shown")) is None:
            continue
        flag = _flag(option.name)
        about = typer.Option(flag, help=shown.help, metavar=shown.metavar, min=shown.least, max=shown.most)
        default = None if option.default in ("", ()) else option.default
        kind, default = ELSEWHERE.get(option.name, (Annotated[types[option.name], about], default))
        found.append(Parameter(option.name, Parameter.KEYWORD_ONLY, annotation=kind, default=default))
    return found


serve.__signature__ = Signature(_parameters())  # type: ignore[attr-defined]
