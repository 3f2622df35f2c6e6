"""`outrider drafter`: the commands; `drafter_tools.py` does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import completion
from app.cli.learn import history, rollback
from app.cli.options import BUDGET, Budget, Token
from app.cli.settings import opened_store, settings_with
from app.exits import run

BITS: dict[str, Literal[4, 8]] = {"4": 4, "8": 8}

drafter_commands = typer.Typer(
    help="Make, train, fetch and inspect drafters.", rich_markup_mode=None, no_args_is_help=True
)


@drafter_commands.command("make")
def make_drafter(
    target: Annotated[
        str,
        typer.Option(metavar="NAME|DIR|FILE", help="Model to draft for: a folder, a GGUF file, or a name on the hub."),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the drafter.")],
    budget: Budget = BUDGET,  # type: ignore[assignment] # typer parses it.
    minutes: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Minutes of processor time to train the drafter if it guesses poorly."),
    ] = 0,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Questions that people ask. Default: questions of many kinds.")
    ] = None,
) -> None:
    """Make a drafter from the model's own layers. For most pretrained models, it guesses poorly until it is trained.

    `outrider serve` makes one automatically. `drafter train` takes hours and makes a better one.
    """
    from app.cli.drafter_tools import make

    make(target, out, budget=budget, minutes=minutes, questions=None if prompts is None else _questions(prompts))


@drafter_commands.command("train")
def train_drafter(
    target: Annotated[
        str, typer.Option(metavar="NAME|DIR", help="Model to draft for: a folder, or a name on the hub.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the drafter.")],
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Questions to train on. Default: those you asked.")
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of training steps.")] = None,
    inference_layers: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Number of the model's last layers to run on the device.")
    ] = None,
    first_layers: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Number of the model's first layers to run on the device.")
    ] = None,
    layer_self_attention: Annotated[
        bool | None,
        typer.Option(
            "--layer-self-attention/--no-layer-self-attention",
            help="Add self-attention over the layers' memory. Default: only when training from random weights.",
        ),
    ] = None,
    memory_bits: Annotated[
        Literal["4", "8"] | None, typer.Option(help="Bits per memory value on the wire. Default: 4.")
    ] = None,
    init: Annotated[Path | None, typer.Option(metavar="DIR", help="Drafter to start from.")] = None,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for answers and checkpoints. Default: OUT.work")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Maximum length of an answer to learn from, in tokens.")
    ] = None,
    datastore: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", min=0, help="Number of answer tokens to store as a source of guesses. 0: none."),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to train. auto: CUDA, else MPS, else the CPU.")
    ] = "auto",
) -> None:
    """Train a drafter on the model's own answers. After an interruption, run it again to continue.

    For several GPUs: accelerate launch -m app.cli drafter train ...
    """
    from app.cli.drafter_tools import TrainOptions, train

    options = TrainOptions(
        inference_layers=inference_layers,
        first_layers=first_layers,
        layer_self_attention=layer_self_attention,
        memory_bits=BITS.get(memory_bits or ""),
        init=init,
        answer_tokens=max_tokens,
        datastore=datastore,
    )
    work = work or out.with_name(f"{out.name}.work")
    train(target, _questions(prompts), out, options, work=work, steps=steps, device=device)


drafter_commands.command("history")(history)
drafter_commands.command("rollback")(rollback)

Artefact = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="Folder of the drafter. Default: that of the settings.")
]


@drafter_commands.command("eval")
def evaluate_drafter(
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|DIR|FILE",
            help="The drafter's model: a folder, a GGUF file, or a name on the hub. Default: the bundled one.",
        ),
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the drafter. Default: that of the settings.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Questions to ask: the first of each line. Default: those you asked."),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of questions, taken evenly from the file.")
    ] = 200,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Maximum tokens of an answer. Default: 160")
    ] = None,
    temperature: Annotated[float, typer.Option(metavar="NUMBER", min=0.0, help="0: the most likely token.")] = 0.0,
    json: Annotated[Path | None, typer.Option(metavar="OUT", help="Also write the figures to this file.")] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Save the figures in its folder; they decide whether it is used.")
    ] = False,
) -> None:
    """Measure a drafter. Prints the tokens gained per round, and how often its guesses are accepted."""
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
    """Show a drafter's parts, its model, and whether its files are intact."""
    from app.cli.drafter_tools import info

    settings, _ = settings_with()
    info(folder or Path(settings.drafter))


@drafter_commands.command("quantise")
def quantise_drafter(
    folder: Artefact = None,
    scheme: Annotated[
        Literal["int8", "nbits8", "nbits4", "auto"] | None, typer.Option(help="Default: the current one.")
    ] = None,
) -> None:
    """Quantise a drafter again from its float weights. Prints how much the results differ."""
    from app.cli.drafter_tools import quantise

    settings, _ = settings_with()
    quantise(folder or Path(settings.drafter), scheme)


@drafter_commands.command("fetch")
def fetch_drafter(
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|URL",
            help="Server to fetch from. Default: the one in use.",
            autocompletion=completion.known_remotes,
        ),
    ] = None,
    token: Token = None,
) -> None:
    """Fetch the small model that a server offers for its model. An interrupted download is resumed.

    A newer version of a model that is already here is used if it guesses better on this device's checked answers.
    """
    from app.cli.fetch import fetch
    from app.remotes.choice import source_of

    settings, folders = settings_with(remote=server, token=token)
    raise typer.Exit(run(fetch(source_of(settings, folders), settings, folders)))


@drafter_commands.command("list")
def list_drafters() -> None:
    """List the drafters on this device: model, size and origin."""
    from app.cli.fetched import show

    settings, folders = settings_with()
    show(settings, folders)


@drafter_commands.command("rm")
def remove_drafter(
    digest: Annotated[
        str,
        typer.Argument(metavar="DIGEST", help="First characters of its digest, as `outrider drafter list` shows it."),
    ],
) -> None:
    """Delete a fetched small model."""
    from app.cli.fetched import remove

    _, folders = settings_with()
    remove(digest, folders)


def _questions(prompts: Path | None) -> list[list[str]]:
    """The questions of each conversation, from a prompt file or the database. Raises `PromptsError`."""
    from app.cli.drafter_tools import stored_questions
    from app.prompts import read_prompts

    if prompts is not None:
        return [list(prompt.turns) for prompt in read_prompts(prompts)]
    with opened_store() as store:
        return stored_questions(store)
