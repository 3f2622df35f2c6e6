"""The commands. Each imports what it needs when it runs, so that help, version and completion stay quick.

stdout is data, stderr is talk, exit codes are an interface: 0 ok, 1 failed, 2 usage, 3 could not connect,
130 interrupted. `app/start.py` has a short way to the version and to the chat.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.archive import export, import_
from app.cli.completion import answer_shells, completion, conversations
from app.cli.drafter import drafter_commands
from app.cli.fix import fix
from app.cli.gateway import gateway
from app.cli.history import history_commands
from app.cli.keys import keys
from app.cli.learn import learn
from app.cli.log import log
from app.cli.models import models
from app.cli.options import BUDGET, AllowOrigin, Budget, Model, Remote, System, Token
from app.cli.queue import queue_commands, verify
from app.cli.remotes import remote_commands
from app.cli.settings import settings_with
from app.cli.shell import shell
from app.cli.system import meant, system_commands
from app.exits import FAILED, USAGE, fail, guarded, run
from drafter.questions import usual_questions
from models.cores import keep_cores_free
from models.extras import how_to_install
from models.telemetry import switch_off

cli = typer.Typer(
    help="A chat in the terminal: a small model on this device drafts the answer, a larger one on a server checks it.",
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

Mode = Annotated[
    Literal["auto", "edge", "hosted", "offline"] | None,
    typer.Option(
        "--mode",
        help="Who drafts: edge (this device), hosted (the server), or auto (whichever is faster). "
        "offline: only the small model writes, unchecked.",
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
    system: System = None,
) -> None:
    """Open the chat screen."""
    from app.cli.chat import chat as open_chat

    prompt = meant(system)
    raise typer.Exit(
        open_chat(
            conversation=conversation, last=last, model=model, prompt=prompt, remote=remote, token=token, mode=mode
        )
    )


@cli.command()
def ask(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUESTION",
            help="The question. @path attaches a file. Piped input is appended; - reads only the input.",
        ),
    ] = None,
    last: Last = False,
    conversation: Conversation = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object when the answer is complete.")] = False,
    remote: Remote = None,
    model: Model = None,
    token: Token = None,
    mode: Mode = None,
    system: System = None,
    temperature: Annotated[
        float | None,
        typer.Option("--temperature", metavar="NUMBER", help="Sampling temperature, 0 to 2. 0: the most likely word."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Random seed: the same one gives the same answer.")
    ] = None,
    tree: Annotated[
        Literal["deterministic", "sampled"] | None,
        typer.Option(
            "--tree", help="How to draft at temperatures above 0. With sampled, a seed does not fix the answer."
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens",
            metavar="N",
            help="Maximum tokens of the answer. Default: limited only by the model's context.",
        ),
    ] = None,
    no_draft: Annotated[
        bool, typer.Option("--no-draft", help="Do not draft: the large model writes alone, token by token.")
    ] = False,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="Answer every line of the file and print JSON lines."),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option("--file", "-f", metavar="PATH", help="Attach a text file, a folder or an image. May be repeated."),
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
        system=meant(system),
        temperature=temperature,
        seed=seed,
        tree=tree,
        max_tokens=max_tokens,
        draft=not no_draft,
        prompts=prompts,
        files=file or (),
        save=not no_save,
        queue=queue,
    )
    raise typer.Exit(answer(words or (), options))


cli.command()(verify)
cli.command()(learn)
cli.command()(models)
cli.command()(keys)
cli.command()(export)
cli.command("import")(import_)
cli.command()(log)
cli.command()(completion)
cli.command()(shell)
cli.command()(fix)
cli.command()(gateway)


OF_ONE_PROCESS = (
    "max_per_address",
    "max_per_token",
    "requests_per_minute",
    "tokens_per_minute",
    "drain_seconds",
    "log_format",
    "metrics_by_holder",
)
"""Options of `serve` that one process keeps count of, or that Ray's proxy would have to know."""


@cli.command()
def serve(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME|DIR|FILE",
            help="Folder, GGUF file, or name on the Hugging Face hub. Default: the bundled model.",
        ),
    ] = None,
    drafter: Annotated[
        Path | None,
        typer.Option(
            "--drafter", metavar="DIR", help="Folder of its drafter. Default: one is made, while nobody asks."
        ),
    ] = None,
    no_drafter: Annotated[bool, typer.Option("--no-drafter", help="Without a drafter: plain streaming.")] = False,
    budget: Budget = BUDGET,  # type: ignore[assignment] # typer parses it.
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Address to listen on. Any but this device's own needs a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: any free one.")] = 8000,
    quantize: Annotated[
        Literal["int8", "int4"] | None, typer.Option("--quantize", help="Weights in 8 or 4 bits: less memory.")
    ] = None,
    engine: Annotated[
        Literal["auto", "onnx", "llama", "torch"],
        typer.Option(
            "--engine",
            help="What runs the model. auto: llama.cpp for a GGUF file, ONNX Runtime if its folder has a graph, "
            "or PyTorch.",
        ),
    ] = "auto",
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            min=1,
            help="Processor cores for the model. Default: as many as are fastest.",
        ),
    ] = None,
    chat_template: Annotated[
        Path | None,
        typer.Option(
            "--chat-template",
            metavar="FILE",
            help="Jinja file that writes a conversation as the model reads it. Default: the model's own.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File with the tokens that clients may send: one a line, or NAME TOKEN.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="TLS certificate, for https.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Key of that certificate.")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A host name to answer to, if there is no token."),
    ] = None,
    allow_origin: AllowOrigin = None,
    max_sessions: Annotated[
        int, typer.Option("--max-sessions", metavar="N", min=1, help="Maximum number of conversations kept at once.")
    ] = 256,
    cache_mb: Annotated[
        int | None,
        typer.Option(
            "--cache-mb", metavar="N", min=1, help="Memory for them, in MB. Default: a quarter of what is free."
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", min=1, help="Longest conversation, answer included.")
    ] = 32_768,
    max_waiting: Annotated[
        int,
        typer.Option(
            "--max-waiting", metavar="N", min=1, help="Maximum number of waiting requests; further ones get 503."
        ),
    ] = 256,
    max_wait: Annotated[
        float,
        typer.Option(
            "--max-wait",
            metavar="SECONDS",
            min=1,
            help="Longest wait that a completion may have to expect; others get 429.",
        ),
    ] = 30,
    max_connections: Annotated[
        int, typer.Option("--max-connections", metavar="N", min=1, help="Maximum number of open connections.")
    ] = 512,
    max_per_address: Annotated[
        int,
        typer.Option(
            "--max-per-address",
            metavar="N",
            min=1,
            help="Maximum number of open connections from one address. Loopback is not counted.",
        ),
    ] = 128,
    max_per_token: Annotated[
        int | None,
        typer.Option(
            "--max-per-token",
            metavar="N",
            min=1,
            help="Maximum number of answers at once for each token holder; others get 429. Default: no limit.",
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            "--requests-per-minute",
            metavar="N",
            min=1,
            help="Maximum number of answers that a token holder may begin in a minute. Default: no limit.",
        ),
    ] = None,
    tokens_per_minute: Annotated[
        int | None,
        typer.Option(
            "--tokens-per-minute",
            metavar="N",
            min=1,
            help="Tokens that a token holder may use in a minute, read and written. Default: no limit.",
        ),
    ] = None,
    drain_seconds: Annotated[
        float,
        typer.Option(
            "--drain-seconds",
            metavar="N",
            min=0,
            help="Time that running answers have after the signal to stop. A second signal stops at once.",
        ),
    ] = 30.0,
    log_format: Annotated[
        Literal["text", "json", "off"],
        typer.Option(
            "--log-format", help="One line for each request, on stderr: words or JSON, never what was asked. off: none."
        ),
    ] = "text",
    metrics_by_holder: Annotated[
        bool, typer.Option("--metrics-by-holder", help="Count requests and tokens of each token holder, by name.")
    ] = False,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", metavar="N", min=1, help="Copies of the model, each in a process of its own, on Ray Serve."
        ),
    ] = None,
    max_replicas: Annotated[
        int | None,
        typer.Option("--max-replicas", metavar="N", min=1, help="More copies while many requests wait, up to N."),
    ] = None,
    learn: Annotated[
        Literal["own", "shared"] | None,
        typer.Option(
            "--learn",
            help="Let the drafter learn from what is answered: for each token holder alone, or one for all. "
            "Default: nothing is kept.",
        ),
    ] = None,
    learn_holders: Annotated[
        int,
        typer.Option("--learn-holders", metavar="N", min=2, help="Fewest token holders who share what is learnt."),
    ] = 5,
    watch_stdin: Annotated[bool, typer.Option("--watch-stdin", help="End when stdin ends.")] = False,
) -> None:
    """Run a server that answers, and checks drafts. It prints its address when it is ready."""
    settings, folders = settings_with()
    if (tls_cert is None) != (tls_key is None):
        fail("--tls-cert and --tls-key belong together.", USAGE)
    if no_drafter and drafter is not None:
        fail("--drafter and --no-drafter exclude each other.", USAGE)
    if max_replicas is not None and max_replicas < (replicas or 1):
        fail("--max-replicas must not be less than --replicas.", USAGE)
    replicas = replicas or (1 if max_replicas else None)
    if replicas and learn is not None:
        fail("--learn needs one process that sees all answers: leave out --replicas or --learn.", USAGE)
    sources = {name: context.get_parameter_source(name) for name in OF_ONE_PROCESS}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if replicas and given:
        option = f"--{given[0].replace('_', '-')}"
        fail(f"{option} is for one process, and Ray's proxy stands before several: leave out one of the two.", USAGE)
    try:
        from remote.verifier.holders import read_tokens
        from remote.verifier.learning.learning import Teaching
        from remote.verifier.maker import Making
        from remote.verifier.rate_limits import RateLimits
        from remote.verifier.serve import serve as serve_alone
        from remote.verifier.start_errors import START_ERRORS
    except ImportError as error:
        fail(f"The server needs {error.name}, which is missing: {how_to_install('server')}", FAILED)
    if model is None and drafter is None and not no_drafter:
        drafter = Path(settings.drafter)
    if replicas:
        from remote.verifier.replicas import Replicas, serve_replicas

        listen = partial(serve_replicas, replicas=Replicas(replicas, max_replicas or replicas))
    else:
        listen = partial(
            serve_alone,
            teaching=None if learn is None else Teaching(folders.made / "learnt", learn == "shared", learn_holders),
            rate_limits=RateLimits(max_per_token, requests_per_minute, tokens_per_minute),
            max_per_address=max_per_address,
            drain_seconds=drain_seconds,
            log_format=log_format,
            metrics_by_holder=metrics_by_holder,
        )
    try:
        listen(
            settings.target if model is None else model,
            drafter=drafter,
            making=None if no_drafter else Making(folders.made, budget, usual_questions()),
            host=host,
            port=port,
            engine=engine,
            threads=threads,
            quantize=quantize,
            kept_texts=folders.texts,
            chat_template=chat_template,
            tokens=None if token_file is None else read_tokens(token_file),
            tls_cert=tls_cert,
            tls_key=tls_key,
            hosts=allow_host or (),
            origins=allow_origin or (),
            watch_stdin=watch_stdin,
            max_sessions=max_sessions,
            max_tokens=max_tokens,
            max_waiting=max_waiting,
            max_wait=max_wait,
            max_connections=max_connections,
            max_cached_bytes=None if cache_mb is None else cache_mb << 20,
        )
    except START_ERRORS as error:
        fail(str(error), FAILED)


@cli.command()
def doctor(
    remote: Remote = None,
    token: Token = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check every part and say how to fix what is broken. The exit code is 1 if anything is."""
    from app.cli.doctor import examine

    raise typer.Exit(run(examine({"remote": remote, "token": token}, as_json=json)))


def main() -> None:
    """Run the command line."""
    switch_off()
    keep_cores_free()
    answer_shells()
    guarded(lambda: cli(prog_name="outrider"))  # Shells ask by this name, however the program was started.


if __name__ == "__main__":
    main()
