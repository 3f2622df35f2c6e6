"""`outrider remote`: find, add, list, choose, test and remove servers.

stdout is data; exit codes: 0 ok, 1 something does not fit, 2 usage, 3 no server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion
from app.cli.nearby import find
from app.cli.options import Json
from app.cli.output import print_json
from app.cli.piped import PIPE_SECONDS, WAITING, told_after
from app.cli.settings import settings_with
from app.exits import FAILED, INTERRUPTED, OK, UNREACHABLE, USAGE, complain, fail, run
from app.files import NotText, text_of
from remote.credentials import without_credentials

if TYPE_CHECKING:
    from app.config import Settings
    from app.remotes.providers import Provider
    from app.remotes.registry import Remote, Remotes
    from app.remotes.source import Source

SILENT_SECONDS = 2.0
"""Seconds after which a message says that the command waits for the keyring."""

remote_commands = typer.Typer(help="Find, add, list, use, test and remove servers.", rich_markup_mode=None)
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the server, as in --remote NAME.", autocompletion=completion.known_remotes
    ),
]
NewName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="A provider, such as openai, ollama or anthropic; or, with a URL, a name of your choice. If omitted, "
        "lists the providers and asks.",
        autocompletion=completion.providers,
    ),
]
TokenStdin = Annotated[bool, typer.Option("--token-stdin", help="Read the token from stdin.")]


@remote_commands.callback(invoke_without_command=True)
def remote(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show(json=False)


@remote_commands.command("add")
def add(
    name: NewName = None,
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="http:// or https://. If omitted, asks step by step.")
    ] = None,
    kind: Annotated[
        Literal["auto", "verifier", "openai", "anthropic"],
        typer.Option(
            help="verifier: an Outrider server, which checks drafts. openai: any OpenAI-compatible server. "
            "anthropic: Anthropic's own API. auto: detect which of the first two it is."
        ),
    ] = "auto",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model to request from an OpenAI-compatible server.")
    ] = None,
    token_stdin: TokenStdin = False,
    token_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Environment variable that holds the token.")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="System prompt for new conversations with this server: a name from `outrider system list`, or none.",
            autocompletion=completion.system_prompts,
        ),
    ] = None,
    offline: Annotated[
        Literal["queue", "fail", "drafter", "local"] | None,
        typer.Option(help="What happens to a question while this server is away. Default: as in the settings."),
    ] = None,
    local: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --offline local, the model on this device that answers: a name from `outrider local list`.",
            autocompletion=completion.local_models,
        ),
    ] = None,
    ca: Annotated[str | None, typer.Option(metavar="FILE", help="Trust only this certificate authority.")] = None,
    cert: Annotated[str | None, typer.Option(metavar="FILE", help="Client certificate.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="FILE", help="Key of that certificate, if in another file.")
    ] = None,
    proxy: Annotated[str | None, typer.Option(metavar="URL", help="Proxy, with http:// or socks5://")] = None,
    connect_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Maximum time to connect, including TLS.")
    ] = None,
    read_timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Maximum silence within an answer.")
    ] = None,
    first_words_timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Maximum wait for the first words of an OpenAI-compatible server."),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(metavar="N", help="Maximum answers at once; further questions wait. Default: 4."),
    ] = None,
    price: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="READ WRITTEN",
            help="Price in US dollars per million tokens, for `outrider usage`. Default: from its list of models.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the server of that name.")] = False,
    own_name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name for a provider's server, if not the provider's.")
    ] = None,
) -> None:
    """Add a provider by its name, or any server by a name and its address.

    Takes the token from the provider's environment variable, or else asks for it in a terminal; press Enter for
    none.
    """
    from app.config import Folders, is_address
    from app.local.registry import LocalModels
    from app.remotes.providers import provider_at, provider_named
    from app.remotes.registry import Remote, name_problem
    from app.system_prompts import NO_PROMPT, SystemPrompts

    if token_stdin and token_env:
        fail("Give --token-stdin or --token-env, not both.", USAGE)
    remotes = _remotes()
    if url is None and name is not None and is_address(name):
        name, url = None, name
    provider = provider_named(name) if name is not None and url is None else None
    if own_name is not None:
        if name is not None and provider is None:
            fail("--name is for providers. For any other server, put the name before the address.", USAGE)
        name = own_name
    if name is not None and (problem := name_problem(name)):
        fail(problem, USAGE)
    if name is not None and name in remotes and not replace:
        fail(f"A server named {name} exists already; --replace replaces it.", USAGE)
    fields = {
        "model": model,
        "system": system,
        "offline": offline,
        "local": local,
        "ca": ca,
        "cert": cert,
        "key": key,
        "proxy": proxy,
        "connect_timeout": connect_timeout,
        "read_timeout": read_timeout,
        "first_words_timeout": first_words_timeout,
        "parallel": parallel,
        "price": price,
        "token_variable": token_env,
    }
    if local is not None:
        LocalModels(Folders.locate()).get(local)
    if provider is not None:
        assert name is not None
        fields = {**fields, "model": model or provider.model, "token_variable": token_env or provider.variable}
        url, kind = provider.url, provider.kind if kind == "auto" else kind
    elif url is not None and kind == "auto" and (known := provider_at(url)) is not None and known.kind == "anthropic":
        kind = known.kind
    if name is None or url is None:
        given = {**fields, "kind": None if kind == "auto" else kind}
        raise typer.Exit(_add_step_by_step(name, url, remotes, given, token_stdin=token_stdin))
    first, before = not len(remotes), remotes.get(name) if name in remotes else None
    if system is not None and system != NO_PROMPT:
        SystemPrompts(Folders.locate()).get(system)
    place = before.token if before is not None and token_env is None else "environment"
    given_token = None
    if provider is None:
        given_token = None if token_env else read_token(name, token_stdin)
    elif provider.has_key() or token_env is not None:
        place = "environment"
    elif provider.variable is not None or token_stdin:
        given_token = read_token(name, token_stdin, provider)
    if given_token is not None:
        fields["token_variable"] = None
    added = _checked(Remote(url=url, kind=kind, token=place, **fields))  # type: ignore[arg-type]
    _keep(name, added, given_token, remotes)
    if provider is not None:
        _say_known(provider, name, added, remotes)
    if first and settings_with()[0].remote is None:
        use(name)
        complain(f"{name} is in use now; `outrider remote use --none` returns to the bundled model")
    else:
        complain(f"`outrider remote use {name}` chooses it for all questions")
    complain(f"`outrider remote test {name}` tries it")


def _add_step_by_step(
    name: str | None, address: str | None, remotes: Remotes, fields: Mapping[str, object], *, token_stdin: bool
) -> int:
    """Ask for what is missing, add the server, test it, and say how to use it. Returns the exit code of the test."""
    from app.cli.remote_dialogue import ask_for_remote, has_terminal, yes
    from app.remotes.source import RemoteSource

    if name is None and address is None and not token_stdin:
        _print_providers()
        if not has_terminal():
            return OK
    if token_stdin or not has_terminal():
        fail(
            "Give a name and an address: outrider remote add NAME URL [--model NAME] [--token-stdin]. "
            "`outrider remote add` lists the providers that need only a name.",
            USAGE,
        )
    before = dict(remotes)
    try:
        answers = ask_for_remote(name, address, remotes, fields, token_wanted=fields["token_variable"] is None)
        name = answers.name
        _keep(name, _checked(answers.remote), answers.token, remotes)
        settings, _ = settings_with()
        code = run(_test(RemoteSource(name, remotes), settings))
        if code != INTERRUPTED and yes(f"Use {name} for all questions?", default=code == OK):
            use(name)
            complain("`outrider` opens the chat with it; `outrider remote use --none` returns to the bundled model")
            return code
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        if dict(_remotes()) == before:
            complain("nothing was added")
            return INTERRUPTED
        code = INTERRUPTED
    complain(f'for one question: outrider ask --remote {name} "…"; for all: outrider remote use {name}')
    return code


def _print_providers() -> None:
    """One line each: name, address, and where its own tools look for the token."""
    from app.remotes.providers import providers

    width = max(len(one.name) for one in providers())
    for one in providers():
        key = [] if one.variable is None else [f"{one.variable}{' (set)' if one.has_key() else ''}"]
        print(one.name.ljust(width), one.url, *key, sep="  ")
    complain("a provider needs only its name, as in: outrider remote add openai")


def _say_known(provider: Provider, name: str, added: Remote, remotes: Remotes) -> None:
    """Say which model of a provider is asked, what to know of it, and how to get a token if there is none."""
    if provider.note:
        complain(f"{provider.title}: {provider.note}")
    if added.model is not None:
        complain(f"its model is {added.model}; `outrider models --remote {name}` lists all, --model chooses one")
    if provider.keys and remotes.get(name).token == "environment" and not os.environ.get(added.token_variable or ""):
        complain(f"make a token at {provider.keys}, then: outrider remote token {name}")


def _keep(name: str, remote: Remote, token: str | None, remotes: Remotes) -> None:
    with patience_for_the_keyring():
        kept = remotes.put(name, remote, token)
    complain(f"added {name}; its token: {remotes.token_place(kept)}")


remote_commands.command("find")(find)


@remote_commands.command("list")
def show(json: Json = False) -> None:
    """List your servers.

    One line each: * if in use, name, address, kind, where the token is kept, the role of a model on this device.
    """
    import msgspec

    from app.config import ConfigError
    from app.local.registry import duties
    from app.sanitise import sanitise

    settings, folders = settings_with()
    remotes, duty_of = _remotes(), duties(folders, settings)
    for name, remote in remotes:
        place, duty, wrong = remotes.token_place(remote), None, ""
        try:
            duty = duty_of(remote.offline, remote.local, remote.kind)
        except ConfigError as error:
            wrong = str(error)
        if json:
            fields = {"name": name, "used": name == remotes.used, **msgspec.structs.asdict(remote)}
            print_json({**fields, "local_model": None if duty is None else duty.name, "token_place": place})
            continue
        mark = "*" if name == remotes.used else " "
        told = [str(duty)] if duty is not None else [wrong] if wrong else []
        print(mark, name, sanitise(remote.shown_url), remote.kind, f"token: {place}", *told, sep="  ")
    if not json and not len(remotes):
        complain("no servers; the bundled model answers. Add one: outrider remote add")


@remote_commands.command("use")
def use(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name, as in `outrider remote list`.", autocompletion=completion.known_remotes
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Go back to the bundled model.")] = False,
) -> None:
    """Choose the server to use when --remote is not given."""
    if (name is None) == (not none):
        fail("Give a name, or --none for the bundled model.", USAGE)
    settings, folders = settings_with()
    _remotes().use(name)
    if settings.remote is not None:
        where = f"OUTRIDER_REMOTE or {folders.settings}"
        named = without_credentials(settings.remote)
        complain(f"Your choice has no effect yet, because {where} names {named}. Delete it there.")


@remote_commands.command("test")
def test(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|URL", help="Server to test. Default: the one in use.", autocompletion=completion.known_remotes
        ),
    ] = None,
) -> None:
    """Test a server: connection, TLS, round trips, model, whether the small model fits, and the mode it starts in."""
    from app.config import is_address
    from app.remotes.check import Finding
    from app.remotes.registry import Remote
    from app.remotes.source import AddressSource, RemoteSource
    from remote import Misconfigured

    settings, _ = settings_with(remote=name)
    source: Source
    if settings.remote is not None and is_address(settings.remote):
        _checked(Remote(url=settings.remote, model=settings.remote_model))
        try:
            source = AddressSource(settings.remote, settings.token, settings.remote_model)
        except Misconfigured as error:
            print(Finding("broken", "set-up", str(error)))
            raise typer.Exit(FAILED) from None
    else:
        remotes = _remotes()
        chosen = remotes.meant_by(settings.remote)
        if chosen is None:
            fail("No server was chosen; `outrider doctor` looks at the bundled model.", USAGE)
        source = RemoteSource(chosen, remotes, settings.remote_model)
    raise typer.Exit(run(_test(source, settings)))


@remote_commands.command("token")
def token(
    name: Name,
    token_stdin: TokenStdin = False,
    remove: Annotated[bool, typer.Option("--remove", help="Delete the token.")] = False,
) -> None:
    """Set or delete the token of a server."""
    import msgspec

    remotes = _remotes()
    remote = remotes.get(name)
    if remove:
        with patience_for_the_keyring():
            remotes.put(name, msgspec.structs.replace(remote, token="environment"))
        return
    given = read_token(name, token_stdin)
    if given is None:
        fail(f"No token was given. Pipe it in: outrider remote token {name} --token-stdin < FILE", USAGE)
    with patience_for_the_keyring():
        kept = remotes.put(name, remote, given)
    complain(f"the token of {name}: {remotes.token_place(kept)}")


@remote_commands.command("rm")
@remote_commands.command("remove", hidden=True)  # The older name.
def remove(name: Name) -> None:
    """Remove a server and its token."""
    remotes = _remotes()
    used = remotes.used == name
    with patience_for_the_keyring():
        remotes.remove(name)
    if used:
        complain(f"{name} was in use; the bundled model answers now. To use another server: outrider remote use NAME")


async def _test(source: Source, settings: Settings) -> int:
    """Print a line for each finding; returns the exit code."""

    from app.config import Folders
    from app.remotes.check import check

    code = OK
    async for finding in check(source, settings, shelf=Folders.locate().fetched):
        print(finding, flush=True)
        if finding.state == "broken":
            code = UNREACHABLE if finding.unreachable else FAILED
    return code


def _remotes() -> Remotes:
    from app.config import Folders
    from app.remotes.registry import Remotes

    return Remotes(Folders.locate())


def _checked(remote: Remote) -> Remote:
    """A remote with checked fields. Raises `ConfigError`, also for missing files."""
    from app.config import ConfigError
    from app.remotes.registry import checked
    from app.remotes.source import options_of
    from remote import Misconfigured

    remote = checked(remote)
    try:
        options_of(remote).check()
    except Misconfigured as error:
        raise ConfigError(str(error)) from None
    return remote


def read_token(name: str, from_stdin: bool, provider: Provider | None = None) -> str | None:
    """A token from stdin, or from a terminal without echo, or None if there is none."""
    if from_stdin:
        try:
            with told_after(PIPE_SECONDS, WAITING):
                given = text_of(sys.stdin.buffer.readline()).strip() if sys.stdin is not None else ""
        except NotText as error:
            fail(f"--token-stdin, and stdin {error}.", USAGE)
        if not given:
            fail("--token-stdin, and stdin holds no token.", USAGE)
        return given
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    from app.cli.remote_dialogue import typed_token

    return typed_token(name, provider)


@contextmanager
def patience_for_the_keyring() -> Iterator[None]:
    """Report after a while that the command waits for the keyring, which may ask on a screen that nobody looks at."""

    from app.remotes.tokens import KEYRING_SECONDS

    seconds = f"{KEYRING_SECONDS:.0f} seconds"
    asks = f"waiting for the keyring, which may ask you to unlock it; continuing without it after {seconds}"
    with told_after(SILENT_SECONDS, asks):
        yield
