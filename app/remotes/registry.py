"""The registry of remotes: named servers, how each is reached, and where its token is.

They are kept in `remotes.toml`, which the program rewrites. People's own file, `config.toml`, is never rewritten. A
file that cannot be read is never overwritten.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from app.config import (
    CHOICES,
    ConfigError,
    Folders,
    PromptName,
    Unanswered,
    Url,
    reading,
    same_server,
    toml_value,
    writing,
)
from app.files import expanded, one_at_a_time, read_text, write_private
from app.remotes.tokens import Tokens
from remote.credentials import bearer_token, without_credentials

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
BUNDLED = "bundled"
"""Name of the verifier on this device, which no remote may have."""
FILES = ("ca", "cert", "key")
"""Fields that are paths of files."""
HEADER = "# Written by Outrider: `outrider remote`, or the screen of servers. Comments are not kept.\n"

Kind = Literal["auto", "verifier", "openai", "anthropic"]
TokenPlace = Literal["keyring", "file", "environment"]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=3600)]
Parallel = Annotated[int, msgspec.Meta(ge=1, le=64)]
Dollars = Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Proxy = Annotated[str, msgspec.Meta(pattern="^(https?|socks(5h?)?)://[^/@]+/?$")]
Variable = Annotated[str, msgspec.Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


class Remote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server. Each field is a key of its table in the file."""

    url: Url
    kind: Kind = "auto"
    """The kind of server; auto: find out by asking it."""
    model: Text | None = None
    """Model to ask an OpenAI-compatible server for, or None for the first that it lists."""
    system: PromptName | None = None
    """Name of the system prompt that new conversations with this server begin with, or `none`.
    Without one, the settings decide."""
    offline: Unanswered | None = None
    """What happens to a question while this server is away, or None if the settings decide."""
    local: Text | None = None
    """Name of the model on this device that answers then, or None for that of the settings."""
    ca: Text | None = None
    """File of the only certificate authorities that are trusted, or None for those that this device trusts."""
    cert: Text | None = None
    key: Text | None = None
    """File of the certificate's key, or None if it is in the certificate's file."""
    proxy: Proxy | None = None
    """Address of the proxy, or None for that of the environment."""
    connect_timeout: Seconds | None = None
    """Longest time to connect, in seconds, or None for 3 seconds including the first reply."""
    read_timeout: Seconds | None = None
    """Longest silence within an answer, in seconds, or None to estimate it from the line's round trips."""
    first_words_timeout: Seconds | None = None
    """Longest wait for the first words of an OpenAI-compatible server, in seconds, or None for that of the settings."""
    parallel: Parallel | None = None
    """How many answers it writes at once, or None for 4. Further questions wait."""
    price: tuple[Dollars, Dollars] | None = None
    """US dollars for a million tokens, read and written, or None for what its list of models says, if anything."""
    token: TokenPlace = "environment"
    """Place of its token."""
    token_variable: Variable | None = None
    """Environment variable that holds the token, if `token` is `environment`, or None if there is no token."""

    @property
    def shown_url(self) -> str:
        """The address without credentials, which a person may have written into the file."""
        return without_credentials(self.url)


_Content = tuple[dict[str, Remote], str | None]
"""All remotes by name, and the name of the one in use."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    use: str | None = None
    remotes: dict[str, Remote] = {}


class Remotes:
    """All remotes of one config folder, and which one is in use. Each change is written at once."""

    def __init__(self, folders: Folders) -> None:
        """Read the file. Raises `ConfigError`, which names the file and the mistake."""
        self.path = folders.config / "remotes.toml"
        self.tokens = Tokens(folders)
        file = _read(self.path)
        self._remotes = dict(file.remotes)
        self.used = file.use
        """Name of the remote that `outrider remote use` chose, or None for the bundled verifier."""

    def __iter__(self) -> Iterator[tuple[str, Remote]]:
        return iter(self._remotes.items())

    def __len__(self) -> int:
        return len(self._remotes)

    def __contains__(self, name: str) -> bool:
        return name in self._remotes

    def get(self, name: str) -> Remote:
        """The remote with this name. Raises `ConfigError`, which lists all names."""
        if name not in self._remotes:
            known = f"; yours: {', '.join(self._remotes)}" if self._remotes else ""
            raise ConfigError(
                f"there is no server {name!r}{known}. Add it: outrider remote add {name} https://… "
                "(or give an address with http:// or https://)"
            )
        return self._remotes[name]

    def meant_by(self, setting: str | None) -> str | None:
        """The remote's name for a setting `remote` that is not an address, or None for the bundled verifier.

        Raises `ConfigError` if there is no such remote.
        """
        name = None if setting == BUNDLED else setting or self.used
        if name is not None:
            self.get(name)
        return name

    def put(self, name: str, remote: Remote, token: str | None = None, *, was: str | None = None) -> Remote:
        """Add or replace a remote; return it as stored. `was`: its earlier name.

        Without `token`, the earlier token stays if the server is the same. Raises `ConfigError`.
        """
        was = was or name
        if problem := name_problem(name):
            raise ConfigError(problem)
        if name != was and name in self._remotes:
            raise ConfigError(f"a server named {name} exists already")
        remote, before = checked(remote), self._remotes.get(was)
        same = before is not None and before.token == remote.token and same_server(before.url, remote.url)
        if token is None and name != was and same:
            token = self.token(was, {})
        if token is not None:
            try:
                token = bearer_token(token)
            except ValueError as error:
                raise ConfigError(f"{error}; nothing was changed") from None
            remote = msgspec.structs.replace(remote, token=self.tokens.keep(name, remote.url, token))
        elif not same:
            remote = msgspec.structs.replace(remote, token="environment")

        def change(remotes: dict[str, Remote], use: str | None) -> _Content:
            renamed = {name if other == was else other: value for other, value in remotes.items()}
            return {**renamed, name: remote}, name if use == was else use

        try:
            self._change(change)
        except BaseException:  # Also on Ctrl+C: a token without its remote would stay for ever.
            if before is None and remote.token != "environment":
                self.tokens.drop(name, remote.url, remote.token)
            raise
        if before is not None and before.token != "environment":
            kept = same_server(before.url, remote.url) and (name, remote.token) == (was, before.token)
            if not kept:
                self.tokens.drop(was, before.url, before.token)
        return remote

    def remove(self, name: str) -> None:
        """Delete a remote and its token. Raises `ConfigError`; `TokenError` if only the token could not be deleted."""
        remote = self.get(name)

        def change(remotes: dict[str, Remote], use: str | None) -> _Content:
            return {other: value for other, value in remotes.items() if other != name}, None if use == name else use

        self._change(change)
        if remote.token != "environment":
            self.tokens.drop(name, remote.url, remote.token)

    def use(self, name: str | None) -> None:
        """Choose the remote to use; None or `BUNDLED` means the bundled verifier. Raises `ConfigError`."""
        name = None if name == BUNDLED else name

        def change(remotes: dict[str, Remote], _: str | None) -> _Content:
            self.meant_by(name or BUNDLED)
            return remotes, name

        self.meant_by(name or BUNDLED)
        self._change(change)

    def token(self, name: str, environment: Mapping[str, str] = os.environ) -> str | None:
        """The token of a remote, or None if it has none. May wait until a keyring is unlocked. Raises `ConfigError`."""
        remote = self.get(name)
        if remote.token == "environment":
            return environment.get(remote.token_variable or "") or None
        return self.tokens.find(name, remote.url, remote.token)

    def token_place(self, remote: Remote) -> str:
        """The place of a remote's token, in words."""
        if remote.token == "keyring":
            return "keyring"
        if remote.token == "file":
            return f"{self.tokens.file}" + (" (others can read it: chmod 600)" if self.tokens.exposed else "")
        if remote.token_variable is None:
            return "none"
        return f"{remote.token_variable} ({'set' if os.environ.get(remote.token_variable) else 'not set'})"

    def _change(self, change: Callable[[dict[str, Remote], str | None], _Content]) -> None:
        """Reread the file, apply `change` to its content, and write it.

        Another window may have written since this one read it: a person takes a while to type a token.
        """
        with writing(self.path), one_at_a_time(self.path):
            file = _read(self.path)
            self._remotes, self.used = dict(file.remotes), file.use
            remotes, use = change(dict(file.remotes), file.use)
            write_private(self.path, _toml(remotes, use))
        self._remotes, self.used = remotes, use


def name_problem(name: str) -> str | None:
    """What is wrong with a remote's name, or None."""
    if name == BUNDLED:
        return f"{BUNDLED} is the model that came with Outrider; choose another name"
    if not NAME.fullmatch(name):
        return "a name consists of letters, digits, dots, dashes and underscores, and begins with a letter or digit"
    return None


def field_problem(field: str, text: str) -> str | None:
    """What is wrong with the text of one form field, or None. Empty text omits the field."""
    if field == "name":
        return name_problem(text)
    if not text:
        return "the address is missing" if field == "url" else None
    try:
        remote = typed({"url": "http://localhost", field: text})
        checked(msgspec.structs.replace(remote, cert="/") if field == "key" else remote)
    except ConfigError as error:
        return str(error)
    if field in FILES and not os.path.isfile(expanded(text)):
        return "there is no such file"
    return None


def typed(fields: Mapping[str, str]) -> Remote:
    """A remote from the fields of a form; empty ones are left out. Raises `ConfigError`."""
    try:
        return msgspec.convert({field: text for field, text in fields.items() if text}, Remote, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(explain(error)) from None


def checked(remote: Remote) -> Remote:
    """A copy with every value checked and absolute paths. Raises `ConfigError`."""
    try:
        parts = urlsplit(remote.url)
        _, held = parts.port, "@" in parts.netloc
    except ValueError as error:
        held = "@" in remote.url  # Some passwords end the part of an address that contains them.
        if not held:
            raise ConfigError(f"this cannot be saved: {error}") from None
    if held:
        raise ConfigError(f"the address {remote.shown_url} contains credentials; give the token separately")
    _check_address(remote.url)
    if remote.key is not None and remote.cert is None:
        raise ConfigError("a key belongs to a client certificate; give both")
    paths = {field: str(expanded(path).absolute()) for field in FILES if (path := getattr(remote, field)) is not None}
    try:
        "".join(paths.values()).encode()
    except ValueError as error:
        raise ConfigError(f"this cannot be saved: {error}") from None
    try:
        return msgspec.convert(msgspec.to_builtins(msgspec.structs.replace(remote, **paths)), Remote)
    except msgspec.ValidationError as error:
        raise ConfigError(explain(error)) from None


def _check_address(url: str) -> None:
    """Raise `ConfigError` for an address that no question could be sent to."""
    if not url.startswith(("http://", "https://")):
        return  # Said below, in other words.
    from remote.errors import Misconfigured
    from remote.wire import server_address  # It loads httpx.

    try:
        server_address(url)
    except Misconfigured as error:
        raise ConfigError(str(error)) from None


# ---- the file --------------------------------------------------------------------------------------------------------


def _read(path: Path) -> _File:
    file = _File()
    try:
        with reading(path), suppress(FileNotFoundError, NotADirectoryError):
            file = msgspec.convert(tomllib.loads(read_text(path)), _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {explain(error)}. Correct it, or delete it to start afresh.") from None
    for name in file.remotes:
        if problem := name_problem(name):
            raise ConfigError(f"{path}: the server {name!r}: {problem}.")
    if file.use is not None and file.use not in file.remotes:
        raise ConfigError(f"{path}: use is {file.use!r}, and there is no such server. Correct it, or delete that line.")
    return file


def _toml(remotes: Mapping[str, Remote], use: str | None) -> str:
    lines = [HEADER] + ([f"use = {toml_value(use)}\n"] if use is not None else [])
    for name, remote in remotes.items():
        lines.append(f"\n[remotes.{toml_value(name)}]\n")
        lines += [f"{field} = {toml_value(value)}\n" for field, value in msgspec.to_builtins(remote).items()]
    return "".join(lines)


def explain(error: msgspec.ValidationError) -> str:
    """msgspec's message in plain words, with the names of the file's keys."""
    sentence, _, place = str(error).replace("`", "'").partition(" - at '$")
    field = place.rstrip("'").rpartition(".")[2]
    if "^https?://" in sentence:
        return "the address starts with http:// or https://"
    if "{0,62}" in sentence:
        return "system is the name of a system prompt; `outrider system list` lists them"
    if "socks" in sentence:
        return (
            "a proxy is written as http://host:port or socks5://host:port, without credentials: "
            "those belong in the variable HTTPS_PROXY"
        )
    if "unknown field" in sentence:
        wrong = sentence.rpartition("unknown field ")[2]
        return f"there is no {wrong}; a server has {', '.join(Remote.__struct_fields__)}"
    if "missing required field" in sentence:
        return f"a server lacks its {sentence.rpartition('field ')[2]}"
    if field in CHOICES and "enum" in sentence:
        return f"{field} is {' or '.join(get_args(CHOICES[field]))}"
    plain = sentence.replace("'object'", "a table").replace("'int'", "a number").replace("'float'", "a number")
    plain = plain.replace("'str'", "text").replace("| null", "or nothing")
    return f"{field}: {plain[:1].lower()}{plain[1:]}" if field else plain
