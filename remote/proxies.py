"""Which of the environment's proxies a server is reached through. The variables are read as curl reads them.

A variable that cannot be used stops only the servers that would be reached through it. An entry of NO_PROXY that
cannot be read is skipped. No message holds a user name or a password.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from urllib.request import getproxies

import httpx

from remote.credentials import without_credentials
from remote.errors import Misconfigured, quoted

SCHEMES = {name: name for name in ("http", "https", "socks5", "socks5h")} | {"socks": "socks5"}
"""Kinds of proxies, and what httpx calls them. GNOME writes `socks`."""
RESERVED = re.compile(r"[#/?@\[\]\\\s]")
"""Characters that end a user name or a password in an address, unless escaped."""
ENTRY = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<name>[^\s:/@\[\]]+))(?::(?P<port>\d{1,5}))?")
ADVICE = "write it as http://host:port or socks5://host:port"


def is_loopback(host: str) -> bool:
    """Whether the host of an address is this device itself."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    if (address := _ip_address(name)) is None:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def to_check(host: str) -> str:
    """Advice on what to check if a server falls silent or closes the connection.

    `host`: its name, maybe with its port.
    """
    if is_loopback(host) or is_loopback(host.rpartition(":")[0]):
        return "check whether it still runs"
    return "check the network"


def environment_proxy(address: httpx.URL | str) -> httpx.URL | None:
    """The proxy that the environment names for a server, or None to reach it directly, as loopback always is.

    Raises `Misconfigured` if that proxy cannot be used.
    """
    server, named = httpx.URL(address), getproxies()
    used = next((scheme for scheme in (server.scheme, "all") if named.get(scheme)), None)
    if used is None or is_loopback(server.host) or any(_is_for(entry, server) for entry in _entries(named)):
        return None
    try:
        return proxy_address(named[used], _variable(used))
    except Misconfigured as error:
        raise Misconfigured(f"{error}; to reach {server.host} without a proxy: NO_PROXY={server.host}") from None


def proxy_address(text: str, what: str) -> httpx.URL:
    """The address of a proxy, its credentials included. `what`: where the text came from, for messages.

    Raises `Misconfigured`.
    """
    before, mark, behind = text.strip().partition("://")
    scheme, rest = (before.lower(), behind) if mark else ("http", before)
    if not (httpx_scheme := SCHEMES.get(scheme)):
        raise Misconfigured(f"{what} is not a proxy that Outrider can use; {ADVICE}")
    credentials = rest.rpartition("@")[0]
    if reserved := RESERVED.search(credentials):
        sign = reserved.group()
        raise Misconfigured(
            f"{what} cannot be read: write {quoted(sign)!r} in its user name or password as %{ord(sign[0]):02X}"
        )
    try:
        address = httpx.URL(f"{httpx_scheme}://{rest}")
        usable = bool(address.host) and 0 < (address.port or 80) < 1 << 16
    except (httpx.InvalidURL, UnicodeError):
        usable = False
    if not usable:
        raise Misconfigured(f"{what} is not the address of a proxy; {ADVICE}")
    return address


def environment_problems() -> Iterator[str]:
    """A sentence for each proxy variable, and each entry of NO_PROXY, that cannot be used."""
    named = getproxies()
    for scheme in ("http", "https", "all"):
        if value := named.get(scheme):
            try:
                proxy_address(value, _variable(scheme))
            except Misconfigured as error:
                yield f"{error}, or unset it"
    for entry in _entries(named):
        try:
            _covers(entry, httpx.URL("http://localhost"))
        except ValueError:
            advice = "write a name, an address such as 10.0.0.1 or [::1], or a network such as 10.0.0.0/8"
            yield f"NO_PROXY has {quoted(without_credentials(entry))!r}, which cannot be read and is skipped; {advice}"


def _variable(scheme: str) -> str:
    return f"{scheme.upper()}_PROXY"


def _entries(named: dict[str, str]) -> list[str]:
    return [entry for entry in re.split(r"[\s,]+", named.get("no", "")) if entry]


def _is_for(entry: str, server: httpx.URL) -> bool:
    """Whether an entry of NO_PROXY exempts a server. False if it cannot be read."""
    try:
        return _covers(entry, server)
    except ValueError:
        return False


def _covers(entry: str, server: httpx.URL) -> bool:
    """Whether an entry of NO_PROXY matches a server. Raises `ValueError` if it cannot be read."""
    scheme, mark, rest = entry.lower().rpartition("://")
    if mark and scheme not in ("all", server.scheme):
        return False
    rest, host = rest.rstrip("/"), server.host.lower().rstrip(".")
    address = _ip_address(host)
    if "/" in rest:
        network = ipaddress.ip_network(re.sub(r"[\[\]]", "", rest), strict=False)
        return address is not None and address in network
    if rest.count(":") > 1 and not rest.startswith("["):
        rest = f"[{rest}]"
    if (parts := ENTRY.fullmatch(rest)) is None:
        raise ValueError(entry)
    port = server.port or (443 if server.scheme == "https" else 80)
    if parts["port"] is not None and int(parts["port"]) != port:
        return False
    if parts["bracketed"] is not None:
        return ipaddress.ip_address(parts["bracketed"]) == address
    name = parts["name"].strip(".")
    hosts = (host, server.raw_host.decode("ascii").lower().rstrip("."))
    if "*" in name:
        return any(fnmatchcase(one, name) for one in hosts)
    return any(one == name or one.endswith(f".{name}") for one in hosts)


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
