"""What a path denotes: the whole system, somebody's home, a disk, or an ordinary file."""

from __future__ import annotations

import posixpath
import re

from app.commands.script import Word, name_set

HOMES = ("~", "$HOME", "${HOME}")
_A_HOME = re.compile(r"~[\w.-]+|\$\{?HOME\}?|/(?:home|Users)/[^/]+")
_ALL_IN = re.compile(r"/(?:\.?\*|\{,?\.\*?\}|\.\?\*|\.\[[^\]]*\]\*)$")
"""The ending of a path that means everything in a folder."""
_SYSTEM = name_set(
    "bin boot dev etc lib lib32 lib64 libx32 proc root run sbin srv sys usr var home Users System Library Applications"
    " Volumes nix opt mnt media"
)
"""Folders directly below `/` that nobody empties on purpose."""
_DEEP_SYSTEM = tuple(f"/{name}/" for name in name_set("bin boot etc lib lib64 proc sbin sys usr System dev Library"))
_MILD = ("/usr/local", "/usr/src", "/dev/shm", "/dev/null")
_DISK = re.compile(
    r"^/dev/(?:r?disk\d|[shv]d[a-zX-Z]|xvd[a-z]|nvme\d|mmcblk\d|md\d|dm-\d|mapper/|sd\b|disk/|loop\d|<|\{\{|\w*(?:device|drive|disk))"
)
_SINKS = re.compile(r"^(?:/dev/(?:null|stdout|stderr|stdin|tty|fd/\d+|full|zero|shm/.*)|-|\d+-?)$")
_UNSET = re.compile(r"^\$(?:\{(?P<braces>\w+)\}|(?P<name>\w+))/")
_ALWAYS_SET = {"HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}
SECRETS = re.compile(
    r"(?:^|/)(?:id_(?:rsa|dsa|ecdsa|ed25519)|\.env(?:\.\w+)?|\.netrc|\.pgpass|\.git-credentials|\.htpasswd|shadow|gshadow"
    r"|credentials|\.aws|\.ssh|\.gnupg|\.kube/config|\.npmrc|\.pypirc|\.docker/config\.json|wallet\.dat|[\w.-]+\.(?:pem|key"
    r"|p12|pfx|kdbx|keystore|jks))(?:$|/(?:\*|$))"
)
"""Files that hold keys, passwords or tokens."""


def whole_system(word: Word) -> bool:
    """Whether it is `/`, a home, all homes, or everything in one of them."""
    path = _folder(word.value)
    if path in (*HOMES, "/", "/home", "/Users", "/root", "//") or _A_HOME.fullmatch(path):
        return True
    return re.match(r"^/[*{]", path) is not None


def system_folder(word: Word) -> bool:
    """Whether it is a folder that the system needs, or something in one."""
    path = _folder(word.value)
    parts = path.split("/")
    if len(parts) == 2 and parts[0] == "" and parts[1] in _SYSTEM:
        return True
    return path.startswith(_DEEP_SYSTEM) and not path.startswith(_MILD)


def disk(word: Word) -> bool:
    return _DISK.match(word.value) is not None


def sink(word: Word) -> bool:
    """Whether output written there is displayed or discarded, so that no file changes."""
    return _SINKS.match(word.value) is not None


def secret(word: Word) -> bool:
    return SECRETS.search(word.value.lstrip("@<")) is not None


def empty_variable(word: Word) -> str | None:
    """The variable at the beginning of a path that would become `/…` if the variable were empty."""
    found = _UNSET.match(word.value)
    if found is None:
        return None
    name = found["braces"] or found["name"]
    rest = word.value[found.end() :]
    return None if name in _ALWAYS_SET or rest not in ("", "*") else f"${name}"


def _folder(path: str) -> str:
    """The path without a trailing `/*` or `/.`, and without redundant slashes."""
    before = None
    while before != path:
        before = path
        path = _ALL_IN.sub("/", path)
        path = path.rstrip("/") or ("/" if path.startswith("/") else path)
    return posixpath.normpath(path) if path.startswith("/") else path
