"""`outrider gateway`: other programs on this device ask the assistant through OpenAI's API or Anthropic's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.options import AllowOrigin, Model, Remote
from app.cli.settings import settings_with, unsaved
from app.exits import FAILED, USAGE, fail


def gateway(
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on. 0: any free one.")
    ] = 8788,
    remote: Remote = None,
    model: Model = None,
    mode: Annotated[
        Literal["auto", "edge", "hosted", "offline"] | None,
        typer.Option(help="As for `outrider ask`. auto also answers while the server is offline."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the accepted tokens, one line each: TOKEN or NAME TOKEN. Default: no token is required.",
        ),
    ] = None,
    allow_origin: AllowOrigin = None,
    max_answers: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Maximum answers at once.")] = 4,
    max_waiting: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum waiting requests; further ones get 429.")
    ] = 32,
) -> None:
    """Serve OpenAI's and Anthropic's APIs to other programs on this device. Prints its address when it is ready."""
    settings, folders = settings_with(remote=remote, mode=mode)
    settings, folders = unsaved(settings, folders)
    if model is not None and settings.mode == "offline":
        fail("--model names a model of a server, and --mode offline asks none of yours: choose one.", USAGE)
    from app.gateway.serve import GatewayOptions, serve
    from remote.verifier.holders import SecurityError, read_tokens
    from remote.verifier.security import web_origins
    from remote.verifier.start_errors import CannotBind

    try:
        tokens = None if token_file is None else read_tokens(token_file)
        origins = web_origins(allow_origin or (), tokens)
    except SecurityError as error:
        fail(str(error), USAGE)
    try:
        serve(settings, folders, GatewayOptions(model, port, tokens, origins, max_answers, max_waiting))
    except CannotBind as error:
        fail(str(error), FAILED)
