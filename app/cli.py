"""The commands. Each imports what it needs when it runs, so that `outrider --version` need not wait for any of it.

stdout is data, stderr is talk, exit codes are an interface: 0 ok, 1 failed, 2 usage, 3 could not connect,
130 interrupted. `app/start.py` has a shorter way to the version and to the chat.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.archive_commands import export, import_
from app.command import FAILED, USAGE, Remote, Token
from app.command import fail as _fail
from app.command import run as _run
from app.command import settings_with as _settings
from app.completing import completion, conversations
from app.ending import guarded
from app.key_commands import keys
from app.log_commands import log
from app.queue_commands import queue_commands, verify
from app.remote_commands import remote_commands

BITS: dict[str, Literal[4, 8]] = {"4": 4, "8": 8}

cli = typer.Typer(
    help="A terminal assistant whose small drafter rides ahead of the model that verifies it.",
    no_args_is_help=False,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
history_commands = typer.Typer(help="List conversations, or search everything that was said.", rich_markup_mode=None)
cli.add_typer(history_commands, name="history", invoke_without_command=True)
drafter_commands = typer.Typer(help="Make drafters and look at them.", rich_markup_mode=None, no_args_is_help=True)
cli.add_typer(drafter_commands, name="drafter")
cli.add_typer(queue_commands, name="queue", invoke_without_command=True)
cli.add_typer(remote_commands, name="remote", invoke_without_command=True)

Mode = Annotated[
    Literal["auto", "edge", "hosted", "offline"] | None,
    typer.Option("--mode", help="auto: verified while the line holds, drafted where it is faster."),
]

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
def start(context: typer.Context, version: Annotated[bool, typer.Option("--version", is_eager=True)] = False) -> None:
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
    from app.chat import chat as run

    raise typer.Exit(run(conversation=conversation, last=last, remote=remote, token=token, mode=mode))


@cli.command()
def ask(
    question: Annotated[
        str | None, typer.Argument(help="stdin, where there is any, is appended to it. -: stdin alone.")
    ] = None,
    last: Last = False,
    conversation: Conversation = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    remote: Remote = None,
    token: Token = None,
    mode: Mode = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="0: the likeliest token.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Fixes a sampled answer.")] = None,
    tree: Annotated[
        Literal["deterministic", "sampled"] | None,
        typer.Option("--tree", help="How drafts are chosen above temperature 0; a seed fixes only deterministic ones."),
    ] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Longest answer.")] = None,
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
        from app.ask import ask_all

        raise typer.Exit(_run(ask_all(conversations, settings, folders, draft=not no_draft)))
    typed = "" if question in (None, "-") else question
    question = "\n\n".join(part for part in (typed, _piped(wanted=question == "-")) if part and part.strip())
    if not question:
        _fail('There is no question. For example: outrider ask "how do I unpack a tar archive"', USAGE)
    if queue:
        from app.later import keep

        raise typer.Exit(keep(question, folders, conversation, last=last))
    from app.ask import ask as answer

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
    model: Annotated[str | None, typer.Option("--model", help="Folder, or name on the hub. Default: bundled.")] = None,
    drafter: Annotated[Path | None, typer.Option("--drafter", help="Its drafter's folder, for memory.")] = None,
    host: Annotated[str, typer.Option("--host")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8000,
    quantize: Annotated[Literal["int8", "int4"] | None, typer.Option("--quantize", help="Of the weights.")] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="Clients must show this token.")] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key")] = None,
    watch_stdin: Annotated[bool, typer.Option("--watch-stdin", help="End when stdin does.")] = False,
) -> None:
    """Run the verifier."""
    settings, _ = _settings()
    if (tls_cert is None) != (tls_key is None):
        _fail("--tls-cert and --tls-key belong together.", USAGE)
    try:
        from remote.verifier.security import read_token
        from remote.verifier.serve import START_ERRORS
        from remote.verifier.serve import serve as run
    except ImportError as error:
        _fail(f"The verifier needs PyTorch and more ({error.name} is missing): pip install 'outrider[server]'", FAILED)
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
            watch_stdin=watch_stdin,
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
    from app.doctor import examine

    raise typer.Exit(_run(examine({"remote": remote, "token": token}, as_json=json)))


@history_commands.callback(invoke_without_command=True)
def history(context: typer.Context) -> None:
    """List conversations, newest first: id, date, title."""
    if context.invoked_subcommand is None:
        from app.sanitise import sanitise
        from storage import Store

        _, folders = _settings()
        store = Store.open(folders.database)
        try:
            for conversation in store.conversations():
                print(
                    conversation.id, conversation.updated[:16].replace("T", " "), sanitise(conversation.title), sep="  "
                )
        finally:
            store.close()


@history_commands.command("search")
def search(words: Annotated[list[str], typer.Argument(help="All of them must occur.")]) -> None:
    """Find messages: conversation id, date, who, text around the words."""
    from app.sanitise import sanitise
    from storage import Store

    _, folders = _settings()
    store = Store.open(folders.database)
    try:
        for hit in store.search(" ".join(words)):
            message, snippet = hit.message, " ".join(sanitise(hit.snippet).split())
            print(message.conversation_id, message.created[:16].replace("T", " "), message.role, snippet, sep="  ")
    finally:
        store.close()


@drafter_commands.command("train")
def train_drafter(
    target: Annotated[str, typer.Option("--target", help="Folder, or name on the hub.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the drafter goes.")],
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="Questions. Default: those you asked."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Training steps.")] = None,
    inference_layers: Annotated[
        int | None, typer.Option("--inference-layers", min=0, help="Of the target's last layers, run on the device.")
    ] = None,
    first_layers: Annotated[
        int | None, typer.Option("--first-layers", min=0, help="Of the target's first layers, run on the device.")
    ] = None,
    layer_self_attention: Annotated[
        bool | None,
        typer.Option(
            "--layer-self-attention/--no-layer-self-attention",
            help="Memory of the target's layers mixed by attention. Default: where the drafter's weights begin random.",
        ),
    ] = None,
    memory_bits: Annotated[
        Literal["4", "8"] | None, typer.Option("--memory-bits", help="Of a number of memory on the wire. Default: 4.")
    ] = None,
    init: Annotated[Path | None, typer.Option("--init", metavar="DIR", help="An older drafter to begin with.")] = None,
    work: Annotated[
        Path | None, typer.Option("--work", metavar="DIR", help="Answers and checkpoints. Default: OUT.work")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=2, help="Longest answer that is learnt from.")
    ] = None,
    datastore: Annotated[
        int | None,
        typer.Option("--datastore", metavar="TOKENS", min=0, help="Answers kept in it, to guess from; 0: none."),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option("--device", help="auto: CUDA, else MPS, else the CPU.")
    ] = "auto",
) -> None:
    """Train a drafter on the target's own answers; run again after an interruption, it goes on.

    For several GPUs: accelerate launch -m app.cli drafter train ...
    """
    from app.drafters import train

    questions = _asked(prompts)
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


Artefact = Annotated[Path | None, typer.Argument(metavar="DIR", help="Default: the one that is used.")]


@drafter_commands.command("eval")
def evaluate_drafter(
    target: Annotated[
        str | None, typer.Option("--target", help="Folder, or name on the hub. Default: bundled.")
    ] = None,
    drafter: Annotated[
        Path | None, typer.Option("--drafter", metavar="DIR", help="Default: the one that is used.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="First questions are asked. Default: those you asked."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most questions, evenly spread over the file.")] = 200,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=2, help="Longest answer. Default: 160")] = None,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="0: the likeliest token.")] = 0.0,
    json: Annotated[Path | None, typer.Option("--json", metavar="OUT", help="Write the figures there too.")] = None,
) -> None:
    """How many tokens a drafter gains per round on a target, and how often its guesses are accepted."""
    from app.drafters import evaluate

    settings, _ = _settings()
    evaluate(
        target or settings.target,
        drafter or Path(settings.drafter),
        [turns[0] for turns in _asked(prompts)],
        limit=limit,
        max_tokens=max_tokens,
        temperature=temperature,
        out=json,
    )


@drafter_commands.command("info")
def drafter_info(folder: Artefact = None) -> None:
    """What a drafter is, for which target, and whether its files are whole."""
    from app.drafters import info

    settings, _ = _settings()
    info(folder or Path(settings.drafter))


@drafter_commands.command("quantise")
def quantise_drafter(
    folder: Artefact = None,
    scheme: Annotated[
        Literal["int8", "nbits8", "nbits4", "auto"] | None,
        typer.Option("--scheme", help="Default: as it was quantised before."),
    ] = None,
) -> None:
    """Make the quantised graph again from the float weights, and say how far the two differ."""
    from app.drafters import quantise

    settings, _ = _settings()
    quantise(folder or Path(settings.drafter), scheme)


def main() -> None:
    """The command line, with every argument that it takes."""
    guarded(lambda: cli(prog_name="outrider"))  # However it was started: shells ask it by that name, too.


def _asked(prompts: Path | None) -> list[list[str]]:
    """The questions of each conversation of a prompt file, or of all stored ones. Raises `PromptsError`."""
    from app.drafters import stored_questions
    from app.prompts import read_prompts
    from storage import Store

    if prompts is not None:
        return [list(prompt.turns) for prompt in read_prompts(prompts)]
    _, folders = _settings()
    store = Store.open(folders.database)
    try:
        return stored_questions(store)
    finally:
        store.close()


def _piped(*, wanted: bool) -> str:
    """What was piped into the command; what is typed at a terminal only where it is `wanted`."""
    if sys.stdin is None or (sys.stdin.isatty() and not wanted):
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip()


if __name__ == "__main__":
    main()
