"""`outrider drafter`: train, evaluate, show and quantise drafters; `drafter_tools.py` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import completion
from app.cli.learn import history, rollback
from app.cli.options import BUDGET, Budget, Token
from app.cli.settings import settings_with
from app.exits import run

BITS: dict[str, Literal[4, 8]] = {"4": 4, "8": 8}

drafter_commands = typer.Typer(help="Make drafters and look at them.", rich_markup_mode=None, no_args_is_help=True)


@drafter_commands.command("make")
def make_drafter(
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="NAME|DIR|FILE", help="The model: a folder, a GGUF file, or a name on the hub."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the drafter goes.")],
    budget: Budget = BUDGET,  # type: ignore[assignment] # typer parses it.
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="What people ask the model. Default: questions of many kinds."),
    ] = None,
) -> None:
    """Make a drafter without training, from the model's own layers, in some minutes.

    `outrider serve` makes one by itself. `drafter train` makes a better one, and takes hours.
    """
    from app.cli.drafter_tools import make

    make(target, out, budget=budget, questions=None if prompts is None else _questions(prompts))


@drafter_commands.command("train")
def train_drafter(
    target: Annotated[
        str, typer.Option("--target", metavar="NAME|DIR", help="The model: a folder, or a name on the hub.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the drafter goes.")],
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="Questions. Default: those you asked."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", metavar="N", min=1, help="Training steps.")] = None,
    inference_layers: Annotated[
        int | None,
        typer.Option(
            "--inference-layers", metavar="N", min=0, help="How many of the model's last layers run on the device."
        ),
    ] = None,
    first_layers: Annotated[
        int | None,
        typer.Option(
            "--first-layers", metavar="N", min=0, help="How many of the model's first layers run on the device."
        ),
    ] = None,
    layer_self_attention: Annotated[
        bool | None,
        typer.Option(
            "--layer-self-attention/--no-layer-self-attention",
            help="Mix the layers' memory by attention. Default: where training starts from random weights.",
        ),
    ] = None,
    memory_bits: Annotated[
        Literal["4", "8"] | None,
        typer.Option("--memory-bits", help="Bits of each memory value on the wire. Default: 4."),
    ] = None,
    init: Annotated[Path | None, typer.Option("--init", metavar="DIR", help="An older drafter to start from.")] = None,
    work: Annotated[
        Path | None, typer.Option("--work", metavar="DIR", help="Answers and checkpoints. Default: OUT.work")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", min=2, help="Longest answer to learn from.")
    ] = None,
    datastore: Annotated[
        int | None,
        typer.Option(
            "--datastore", metavar="TOKENS", min=0, help="Tokens of answers that it keeps to guess from; 0: none."
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option("--device", help="auto: CUDA, else MPS, else the CPU.")
    ] = "auto",
) -> None:
    """Train a drafter on the model's own answers. After an interruption, run it again to continue.

    For several GPUs: accelerate launch -m app.cli drafter train ...
    """
    from app.cli.drafter_tools import train

    questions = _questions(prompts)
    train(
        target,
        questions,
        out,
        work=work or out.with_name(f"{out.name}.work"),
        steps=steps,
        inference_layers=inference_layers,
        first_layers=first_layers,
        layer_self_attention=layer_self_attention,
        memory_bits=BITS.get(memory_bits or ""),
        init=init,
        max_tokens=max_tokens,
        datastore=datastore,
        device=device,
    )


drafter_commands.command("history")(history)
drafter_commands.command("rollback")(rollback)

Artefact = Annotated[Path | None, typer.Argument(metavar="DIR", help="Default: the drafter of the settings.")]


@drafter_commands.command("eval")
def evaluate_drafter(
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME|DIR|FILE",
            help="The model: a folder, a GGUF file, or a name on the hub. Default: the bundled one.",
        ),
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option("--drafter", metavar="DIR", help="Default: the drafter of the settings.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="The first question of each line. Default: those you asked."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option("--limit", metavar="N", min=1, help="Maximum number of questions, evenly spread over the file."),
    ] = 200,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", min=2, help="Longest answer. Default: 160")
    ] = None,
    temperature: Annotated[
        float, typer.Option("--temperature", metavar="NUMBER", min=0.0, help="0: the likeliest token.")
    ] = 0.0,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Also write the figures to this file.")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Write what decides about its use into the drafter's folder.")
    ] = False,
) -> None:
    """Measure how good a drafter is. Tokens that it gains per round, and how often its guesses are accepted."""
    from app.cli.drafter_tools import evaluate

    settings, _ = settings_with()
    evaluate(
        target or settings.target,
        drafter or Path(settings.drafter),
        [turns[0] for turns in _questions(prompts)],
        limit=limit,
        max_tokens=max_tokens,
        temperature=temperature,
        out=json,
        record=record,
    )


@drafter_commands.command("info")
def drafter_info(folder: Artefact = None) -> None:
    """Show what a drafter is made of. For which model it is, and whether its files are whole."""
    from app.cli.drafter_tools import info

    settings, _ = settings_with()
    info(folder or Path(settings.drafter))


@drafter_commands.command("quantise")
def quantise_drafter(
    folder: Artefact = None,
    scheme: Annotated[
        Literal["int8", "nbits8", "nbits4", "auto"] | None,
        typer.Option("--scheme", help="Default: as before."),
    ] = None,
) -> None:
    """Quantise a drafter again from its float weights. It prints how far the two differ."""
    from app.cli.drafter_tools import quantise

    settings, _ = settings_with()
    quantise(folder or Path(settings.drafter), scheme)


@drafter_commands.command("fetch")
def fetch_drafter(
    server: Annotated[
        str | None,
        typer.Argument(metavar="NAME|URL", help="Default: the server in use.", autocompletion=completion.known_remotes),
    ] = None,
    token: Token = None,
) -> None:
    """Fetch the small model that a server offers for its model. What was fetched in part is gone on with.

    A newer version of one that is here is used if it guesses better on the checked answers of this device.
    """
    from app.cli.fetch import fetch
    from app.remotes.choice import source_of

    settings, folders = settings_with(remote=server, token=token)
    raise typer.Exit(run(fetch(source_of(settings, folders), settings, folders)))


@drafter_commands.command("list")
def list_drafters() -> None:
    """List the drafters on this device: their model, size, and how they came here."""
    from app.cli.fetched import show

    settings, folders = settings_with()
    show(settings, folders)


@drafter_commands.command("rm")
def remove_drafter(
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="How it begins in `outrider drafter list`.")],
) -> None:
    """Delete a small model that was fetched."""
    from app.cli.fetched import remove

    _, folders = settings_with()
    remove(digest, folders)


def _questions(prompts: Path | None) -> list[list[str]]:
    """The questions of each conversation, from a prompt file or the database. Raises `PromptsError`."""
    from app.cli.drafter_tools import stored_questions
    from app.prompts import read_prompts
    from storage import Store

    if prompts is not None:
        return [list(prompt.turns) for prompt in read_prompts(prompts)]
    _, folders = settings_with()
    with Store.open(folders.database) as store:
        return stored_questions(store)
