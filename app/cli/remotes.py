"""`outrider remote`: add, list, choose, test and remove the servers that answer from elsewhere.

stdout is data; exit codes: 0 fine, 1 something does not fit, 2 usage, 3 nobody there.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion as completing
from app.cli.options import FAILED, USAGE, fail, run, settings_with

if TYPE_CHECKING:
    from app.config import Settings
    from app.remotes.check import Subject
    from app.remotes.registry import Remote, Remotes

UNREACHABLE = 3
SILENT_SECONDS = 2.0
"""After which it is said that a keyring is waited for."""

remote_commands = typer.Typer(
    help="Servers that answer from elsewhere: add, list, use, test, remove.", rich_markup_mode=None
)
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="What it is called here, as in --remote NAME.", autocompletion=completing.known_remotes
    ),
]
TokenStdin = Annotated[bool, typer.Option("--token-stdin", help="Read its token from stdin.")]


@remote_commands.callback(invoke_without_command=True)
def remote(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show(json=False)


@remote_commands.command("add")
def add(
    name: Name,
    url: Annotated[str, typer.Argument(metavar="URL", help="http:// or https://")],
    kind: Annotated[
        Literal["auto", "verifier", "openai"], typer.Option("--kind", help="auto: found out by asking.")
    ] = "auto",
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Of an OpenAI-compatible server.")
    ] = None,
    token_stdin: TokenStdin = False,
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="VARIABLE", help="Its token is in this variable.")
    ] = None,
    ca: Annotated[str | None, typer.Option("--ca", metavar="FILE", help="Trust this authority only.")] = None,
    cert: Annotated[str | None, typer.Option("--cert", metavar="FILE", help="Client certificate.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Its key, if it is not there too.")] = None,
    proxy: Annotated[str | None, typer.Option("--proxy", metavar="URL", help="http:// or socks5://")] = None,
    connect_timeout: Annotated[
        float | None, typer.Option("--connect-timeout", metavar="SECONDS", help="Longest time to connect, with TLS.")
    ] = None,
    read_timeout: Annotated[
        float | None, typer.Option("--read-timeout", metavar="SECONDS", help="Silence that ends an answer.")
    ] = None,
    first_words_timeout: Annotated[
        float | None,
        typer.Option(
            "--first-words-timeout",
            metavar="SECONDS",
            help="Longest wait for an OpenAI-compatible server's first words.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="In place of the one of that name.")] = False,
) -> None:
    """Add one. Its token is asked for, if there is a terminal to ask on; no token: just enter."""
    from app.remotes.registry import Remote, name_problem

    if token_stdin and token_env:
        fail("Give --token-stdin or --token-env, not both.", USAGE)
    remotes = _remotes()
    if problem := name_problem(name):
        fail(problem, USAGE)
    if name in remotes and not replace:
        fail(f"There is a remote {name} already; --replace puts this one in its place.", USAGE)
    before = remotes.get(name) if name in remotes else None
    added = _checked(
        Remote(
            url=url,
            kind=kind,
            model=model,
            ca=ca,
            cert=cert,
            key=key,
            proxy=proxy,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            first_words_timeout=first_words_timeout,
            token=before.token if before is not None and token_env is None else "environment",
            token_variable=token_env,
        )
    )
    token = None if token_env else _token(name, token_stdin)
    with _patience_for_the_keyring():
        added = remotes.put(name, added, token)
    _say(f"added {name}; its token: {remotes.token_place(added)}")
    _say(f"`outrider remote test {name}` tries it, `outrider remote use {name}` chooses it for all that is asked")


@remote_commands.command("list")
def show(json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False) -> None:
    """List them: whether it is the one in use, name, address, kind, where its token is."""
    from app.sanitise import sanitise

    remotes = _remotes()
    for name, remote in remotes:
        place = remotes.token_place(remote)
        if json:
            _print_json(name, remote, remotes)
        else:
            mark = "*" if name == remotes.used else " "
            print(mark, name, sanitise(remote.url), remote.kind, f"token: {place}", sep="  ")
    if not json and not len(remotes):
        _say("no remotes; the bundled verifier answers. Add one: outrider remote add NAME URL")


@remote_commands.command("use")
def use(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="As `outrider remote list` names it.", autocompletion=completing.known_remotes
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Back to the bundled verifier.")] = False,
) -> None:
    """Choose the one that answers where no --remote is given."""
    if (name is None) == (not none):
        fail("Give a name, or --none for the bundled verifier.", USAGE)
    settings, folders = settings_with()
    _remotes().use(name)
    if settings.remote is not None:
        _say(f"OUTRIDER_REMOTE or {folders.settings} says {settings.remote}, which goes before; take it out there")


@remote_commands.command("test")
def test(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME|URL", help="Default: the one in use.", autocompletion=completing.known_remotes),
    ] = None,
) -> None:
    """Try one: connection, TLS, round trips, what is there, whether the drafter fits it, and what mode that gives."""
    from app.config import is_address
    from app.remotes.check import Subject
    from app.remotes.registry import Remote

    settings, _ = settings_with(remote=name)
    if settings.remote is not None and is_address(settings.remote):
        found = _checked(Remote(url=settings.remote, model=settings.remote_model))
        raise typer.Exit(run(_test(Subject(found, lambda: settings.token), settings)))
    remotes = _remotes()
    chosen = remotes.meant_by(settings.remote)
    if chosen is None:
        fail("No remote is in use; the bundled verifier is looked at by `outrider doctor`.", USAGE)
    raise typer.Exit(run(_test(Subject.named(chosen, remotes), settings)))


@remote_commands.command("token")
def token(
    name: Name,
    token_stdin: TokenStdin = False,
    remove: Annotated[bool, typer.Option("--remove", help="Forget it.")] = False,
) -> None:
    """Give one a new token, or take it away."""
    import msgspec

    remotes = _remotes()
    remote = remotes.get(name)
    if remove:
        with _patience_for_the_keyring():
            remotes.put(name, msgspec.structs.replace(remote, token="environment"))
        return
    given = _token(name, token_stdin)
    if given is None:
        fail(f"No token was given. Pipe it in: outrider remote token {name} --token-stdin < FILE", USAGE)
    with _patience_for_the_keyring():
        kept = remotes.put(name, remote, given)
    _say(f"the token of {name}: {remotes.token_place(kept)}")


@remote_commands.command("remove")
def remove(name: Name) -> None:
    """Forget one, and its token."""
    with _patience_for_the_keyring():
        _remotes().remove(name)


async def _test(subject: Subject, settings: Settings) -> int:
    """Print a line for each finding; the exit code."""
    import os

    from app.remotes.check import check

    code = 0
    async for found in check(subject, settings, os.environ):
        print(found, flush=True)
        if found.state == "broken":
            code = UNREACHABLE if found.unreachable else FAILED
    return code


def _remotes() -> Remotes:
    from app.config import Folders
    from app.remotes.registry import Remotes

    return Remotes(Folders.locate())


def _checked(remote: Remote) -> Remote:
    """Raises `ConfigError`, also for files that are not there: better now than at the first question."""
    from app.config import ConfigError
    from app.remotes.named import options_of
    from app.remotes.registry import checked
    from remote import Misconfigured

    remote = checked(remote)
    try:
        options_of(remote).check()
    except Misconfigured as error:
        raise ConfigError(str(error)) from None
    return remote


def _token(name: str, from_stdin: bool) -> str | None:
    """From stdin, or from a terminal without echo; None where neither gives one."""
    if from_stdin:
        given = sys.stdin.readline().strip() if sys.stdin is not None else ""
        if not given:
            fail("--token-stdin, and stdin holds no token.", USAGE)
        return given
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    from getpass import getpass

    return getpass(f"Token of {name} (enter: none): ", stream=sys.stderr).strip() or None


@contextmanager
def _patience_for_the_keyring() -> Iterator[None]:
    """Says after a while what is waited for: a keyring may ask on a screen that nobody looks at."""

    def say() -> None:
        _say(f"waiting for the keyring, which may ask you to unlock it; without it after {KEYRING_SECONDS:.0f} seconds")

    from app.remotes.tokens import KEYRING_SECONDS

    timer = threading.Timer(SILENT_SECONDS, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _print_json(name: str, remote: Remote, remotes: Remotes) -> None:
    import json

    import msgspec

    fields = {"name": name, "used": name == remotes.used, **msgspec.structs.asdict(remote)}
    print(json.dumps({**fields, "token_place": remotes.token_place(remote)}, ensure_ascii=False))


def _say(sentence: str) -> None:
    print(f"outrider: {sentence}", file=sys.stderr)
