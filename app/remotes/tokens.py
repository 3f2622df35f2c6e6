"""Stores tokens: in the keyring if one works, else in a file that only this account can read.

A token belongs to a remote's name and to the server at its address, so it is never sent anywhere else. After a change
of the address in `remotes.toml`, the token has to be given again. No token is printed, or put into an error.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from app.config import ConfigError, Folders, origin
from app.files import is_private, one_at_a_time, read_text, write_private

T = TypeVar("T")
Place = Literal["keyring", "file"]

SERVICE = "outrider"
FILE = "tokens.json"
KEYRING_SECONDS = 60.0
"""Longest wait for the keyring, which may ask the person to unlock it and may never answer without a screen."""


class TokenError(ConfigError):
    """A token that cannot be read or stored; the message says where and what to do."""


class Tokens:
    """The tokens of one config folder."""

    def __init__(self, folders: Folders) -> None:
        self.file = folders.config / FILE

    def keep(self, name: str, url: str, token: str) -> Place:
        """Store a token; returns where it is stored. Raises `TokenError`."""
        account = _account(name, url)
        if _keeps(account, token):
            self._change(account, None)
            return "keyring"
        self._change(account, token)
        return "file"

    def find(self, name: str, url: str, place: Place) -> str:
        """The token of a remote. Raises `TokenError` if it is gone or the keyring does not return it."""
        account = _account(name, url)
        if place == "file":
            token = self._read().get(account)
        else:
            try:
                token = _ask(lambda: _keyring().get_password(SERVICE, account))
            except Exception as error:  # Each system's keyring raises its own errors.
                raise TokenError(
                    f"the keyring did not return the token of {name} ({type(error).__name__}); unlock it, "
                    f"or give the token again: outrider remote token {name}"
                ) from None
        if token is None:
            where = "the keyring" if place == "keyring" else str(self.file)
            raise TokenError(
                f"{where} holds no token of {name} for {origin(url)}; give it again: outrider remote token {name}"
            )
        return token

    def drop(self, name: str, url: str, place: Place) -> None:
        """Delete a token. Raises `TokenError` if that fails."""
        account = _account(name, url)
        if place == "file":
            self._change(account, None)
            return
        try:
            _ask(lambda: _forget(account))
        except Exception as error:
            raise TokenError(
                f"the token of {name} is still in the keyring ({type(error).__name__}); "
                f"delete it there: service {SERVICE}, account {account}"
            ) from None

    @property
    def exposed(self) -> bool:
        """Whether other accounts of this device can read the file."""
        return self.file.exists() and not is_private(self.file)

    def _change(self, account: str, token: str | None) -> None:
        """Put one token into the file, or remove it (None), and preserve the changes of other windows."""
        if token is None and account not in self._read():
            return
        try:
            with one_at_a_time(self.file):
                tokens = {other: kept for other, kept in self._read().items() if other != account}
                if token is not None:
                    tokens[account] = token
                write_private(self.file, json.dumps(tokens, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            what = "still there" if token is None else "not kept"
            raise TokenError(f"{self.file} cannot be written: {error.strerror}. The token is {what}.") from None

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(read_text(self.file))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TokenError(f"{self.file} cannot be read: {error.strerror}. Check its permissions.") from None
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise TokenError(f"{self.file} is damaged. Delete it, and give the tokens again.")
        return found


def _account(name: str, url: str) -> str:
    try:
        return f"{name} {origin(url)}"
    except ValueError:
        raise TokenError(
            f"the address of {name} cannot be read; give it again: outrider remote add {name} https://…"
        ) from None


# ---- the keyring -----------------------------------------------------------------------------------------------------


def _keyring() -> Any:
    """The system's keyring. Raises the keyring's own errors if there is none that is safe to use."""
    import keyring  # 50 ms, and D-Bus or a dynamic library behind it.
    from keyring.errors import NoKeyringError

    found = keyring.get_keyring()
    if found.priority < 1:  # No keyring, or one that stores tokens unencrypted.
        raise NoKeyringError(type(found).__name__)
    return found


def _forget(account: str) -> None:
    ring = _keyring()
    if ring.get_password(SERVICE, account) is not None:
        ring.delete_password(SERVICE, account)


def _keeps(account: str, token: str) -> bool:
    """Whether the keyring stored a token and returns it."""

    given_up = threading.Event()

    def kept() -> bool:
        ring = _keyring()
        ring.set_password(SERVICE, account, token)
        if given_up.is_set():  # Unlocked too late: the file has the token by now, and this copy would never be deleted.
            _forget(account)
        return bool(ring.get_password(SERVICE, account) == token)

    try:
        return _ask(kept)
    except Exception:  # No keyring, or a locked one: the file works too.
        given_up.set()
        return False


def _ask(call: Callable[[], T], seconds: float = KEYRING_SECONDS) -> T:
    """The result of a call to the keyring. Raises `TimeoutError` after this many seconds, and what the call raises."""
    answers: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception as error:
            errors.append(error)

    # Not a pool thread, for which the interpreter would wait at its end.
    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError("the keyring did not answer")
    return answers[0]
