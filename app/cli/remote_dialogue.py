"""`outrider remote add` without an address: asks for everything in the terminal.

Nothing is saved before the last answer. The questions go to stderr.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from app.cli.nearby import places, say_unusable
from app.exits import complain

if TYPE_CHECKING:
    from app.remotes.nearby import NearbyServer
    from app.remotes.providers import Provider
    from app.remotes.registry import Remote, Remotes
    from remote.openai.schema import Model

SHOWN_MODELS = 20
"""Most models that are listed to choose from. Others can be typed."""
GREETING_SECONDS = 10.0
"""Longest wait for a server's first reply, for which a person waits."""


@dataclass(frozen=True)
class Answers:
    name: str
    remote: Remote
    token: str | None


def has_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask_for_remote(
    name: str | None, address: str | None, remotes: Remotes, fields: Mapping[str, Any], *, token_wanted: bool
) -> Answers:
    """Ask for what is missing. `fields`: those of the remote that the command line sets.

    `token_wanted`: False if the command line says where the token is. Raises `ConfigError`; `EOFError` and
    `KeyboardInterrupt` if the person leaves.
    """
    complain("Add a server. Ctrl+C cancels, and nothing is changed.")
    server = _nearby_server() if address is None else address
    if isinstance(server, str) or server is None or server.locked:
        proposed = server if isinstance(server, str) else None if server is None else server.remote(None).url
        remote, token, models = _typed_server(proposed, fields, token_wanted)
    else:
        remote, token, models = _with(fields, server.remote(None)), None, server.models
    if remote.kind != "verifier" and remote.model is None:
        remote = _with({"model": _model(models)}, remote)
    return Answers(name or _name(server, remote, remotes), remote, token)


def yes(question: str, *, default: bool = True) -> bool:
    """Whether the person says yes; Enter chooses the default. Raises `EOFError`."""
    while True:
        given = _line(f"{question} [{'Y/n' if default else 'y/N'}] ").lower()
        if given in ("", "y", "yes", "n", "no"):
            return default if not given else given.startswith("y")


# ---- the server ------------------------------------------------------------------------------------------------------


def _nearby_server() -> NearbyServer | str | None:
    """The server that the person chose from those on this device, or the address that was typed instead."""
    from app.remotes.nearby import PORTS, look

    if not yes("Look for model servers on this device? Only 127.0.0.1 is asked."):
        return None
    found = asyncio.run(look(PORTS))
    say_unusable(found)
    if not found.servers:
        complain(f"no model server answers at {places(PORTS)}")
        return None
    for number, server in enumerate(found.servers, 1):
        _say(f"  {number}  {server.program.title} at {server.host}: {server.offer}")
    while True:
        given = _line("Number, or the address of another server [1]: ") or "1"
        if given.isdecimal() and 0 < int(given) <= len(found.servers):
            return found.servers[int(given) - 1]
        if (address := _address(given)) is not None:
            return address


def _typed_server(
    address: str | None, fields: Mapping[str, Any], token_wanted: bool
) -> tuple[Remote, str | None, Sequence[Model]]:
    """A server at an address, its token, and its models. Without an address, ask for it."""
    from app.remotes.registry import Remote, checked
    from remote import Misconfigured, RemoteError
    from remote.protocol import Card

    while True:
        while address is None:
            address = _address(_line("Address of the server: "))
        provider, token = _service(address), None
        kind, variable = ("auto", None) if provider is None else (provider.kind, provider.variable)
        if token_wanted and provider is not None and provider.has_key():
            complain(f"its token: {variable}, which is set")
        elif token_wanted:
            token = typed_token(urlsplit(address).netloc, provider)
        variable = variable if token is None else None
        remote = checked(_with(fields, Remote(url=address, kind=kind, token_variable=variable)))
        try:
            found = asyncio.run(_greet(remote, token))
        except RemoteError as error:
            complain(str(error))
            if not isinstance(error, Misconfigured) and yes("Add it anyway?", default=False):
                return remote, token, ()
            address = None
            continue
        if isinstance(found, Card):
            return _with({"kind": "verifier"}, remote), token, ()
        models = found
        if provider is not None:
            models = tuple(sorted(provider.chatting(found), key=lambda model: model.id != provider.model))
        return _with({"kind": "anthropic" if kind == "anthropic" else "openai"}, remote), token, models


def _service(address: str) -> Provider | None:
    """The hosted service at an address, or None."""
    from app.remotes.providers import provider_at

    provider = provider_at(address)
    return None if provider is None or provider.variable is None else provider


async def _greet(remote: Remote, token: str | None) -> Any:
    """The card of a server that checks drafts, or the models of another server. Raises `RemoteError`."""
    import os

    from app.remotes.source import chat_client, options_of
    from remote import VerifierClient
    from remote.detect import detect

    options = options_of(remote)
    if token is None and remote.token_variable is not None:
        token = os.environ.get(remote.token_variable) or None
    async with (
        VerifierClient(remote.url, token, options=options) as verifier,
        chat_client(remote.kind, remote.url)(remote.url, token, options=options) as endpoint,
    ):
        patience = (remote.connect_timeout or 0.0) + GREETING_SECONDS
        return await detect(verifier, endpoint, patience, kind=remote.kind, model=remote.model)


def _address(given: str) -> str | None:
    """The address that was typed; prints what is wrong with it and returns None if it is invalid."""
    from app.remotes.providers import provider_named
    from app.remotes.registry import field_problem

    if (provider := provider_named(given)) is not None:
        return provider.url
    if given.isdecimal():
        given = f"127.0.0.1:{given}"
    if re.match(r"(localhost|127\.0\.0\.1)(:|/|$)", given):
        given = f"http://{given}"
    if (problem := field_problem("url", given)) is not None:
        complain(problem)
        return None
    return given


def typed_token(of: str, provider: Provider | None = None) -> str | None:
    """The token that the person types, which is not shown, or None for none."""
    from getpass import getpass

    made = f"made at {provider.keys}; " if provider is not None and provider.keys else ""
    return getpass(f"Token of {of} ({made}enter: none): ", stream=sys.stderr).strip() or None


# ---- its model and its name ------------------------------------------------------------------------------------------


def _model(models: Sequence[Model]) -> str | None:
    """The model to ask for, or None for the first that the server lists."""
    from remote.openai.model_list import find_model

    if not models:
        return _line("Model (enter: the first that the server lists): ") or None
    if len(models) == 1:
        return models[0].id
    for number, model in enumerate(models[:SHOWN_MODELS], 1):
        _say(f"  {number}  {model.id}")
    if len(models) > SHOWN_MODELS:
        _say(f"  and {len(models) - SHOWN_MODELS} more, by name")
    while True:
        given = _line("Number or name of the model [1]: ") or "1"
        if given.isdecimal() and 0 < int(given) <= min(len(models), SHOWN_MODELS):
            return models[int(given) - 1].id
        if (listed := find_model(models, given)) is not None:
            return listed.id
        if yes(f"The server does not list {given}. Request it anyway?", default=False):
            return given


def _name(server: NearbyServer | str | None, remote: Remote, remotes: Remotes) -> str:
    from app.remotes.nearby import Program, free_name
    from app.remotes.registry import name_problem

    if isinstance(server, str) or server is None:
        provider = _service(remote.url)
        program = Program("", _host_name(remote.url) if provider is None else provider.name)
    else:
        program = server.program
    taken = [name for name, _ in remotes]
    proposed = free_name(program, taken)
    while True:
        name = _line(f"Your name for it [{proposed}]: ") or proposed
        problem = f"a server named {name} exists already; choose another name" if name in taken else name_problem(name)
        if problem is None:
            return name
        complain(problem)


def _host_name(url: str) -> str:
    """A short name from an address: `example` for `https://api.example.com`."""
    from app.remotes.registry import name_problem

    parts = (urlsplit(url).hostname or "").split(".")
    name = parts[-2] if len(parts) > 1 else parts[0]
    return "server" if name_problem(name) or name.isdecimal() else name


# ---- the terminal ----------------------------------------------------------------------------------------------------


def _line(question: str) -> str:
    """One line from the person, without surrounding white space. Raises `EOFError` at the end of the input."""
    from app.sanitise import sanitise

    print(sanitise(question), end="", file=sys.stderr, flush=True)
    given = sys.stdin.readline()
    if not given:
        raise EOFError
    return given.strip()


def _say(line: str) -> None:
    from app.sanitise import sanitise

    print(sanitise(line), file=sys.stderr, flush=True)


def _with(fields: Mapping[str, Any], remote: Remote) -> Remote:
    import msgspec

    return msgspec.structs.replace(remote, **{field: value for field, value in fields.items() if value is not None})
