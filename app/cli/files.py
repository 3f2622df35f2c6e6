"""Attachments for `outrider ask`: `--file`, and `@path` and `@SERVER:URI` in the typed text.

A page of the web is fetched if `--file` names it: an address in a question does not say that anything shall leave now.
Piped text and prompt files cannot name files, because they may come from anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from app.attachments.limits import size
from app.attachments.mentions import is_resource, is_web, mentions
from app.attachments.reader import Gathered, gather, gather_paths, joined, one_line
from app.attachments.renderer import described
from app.exits import USAGE, complain, fail
from app.files import current_folder
from app.tools.resources import is_secret
from storage import Attachment

LISTED = 5
"""Most files that are named one by one on stderr."""


def files_of(typed: str, paths: Sequence[str], *, stays_here: bool, servers: Collection[str] = ()) -> Gathered:
    """The attachments of a question, and the resources that are to be read; messages about them go to stderr.

    `typed`: the words of the command. `paths`: the values of `--file`. `stays_here`: the server is this device.
    `servers`: the MCP servers whose resources count. Ends the command, with nothing sent, if a file of `--file` cannot
    be attached, or if a file that may hold a secret would leave this device without being named by `--file`.
    """
    cwd = current_folder()
    resources = list(dict.fromkeys(path for path in paths if is_resource(path, servers)))
    named = gather_paths([path for path in paths if not is_web(path) and path not in resources], cwd)
    if not named.problems and (addresses := list(dict.fromkeys(filter(is_web, paths)))):
        from app.attachments.web_pages import fetch_pages  # The HTTP client takes 0.1 s to load.

        named = joined(named, asyncio.run(fetch_pages(addresses)))
    named.resources += resources
    named.secrets += [one_line(one) for one in resources if is_secret(one)]
    mentioned = gather(mentions(typed, cwd, servers), [one for one in named.attachments if is_web(one.name)])
    mentioned.secrets += [one_line(one) for one in mentioned.resources if is_secret(one)]
    for page in mentioned.pages:
        complain(f"{one_line(page)} was not fetched; to send its text: --file {one_line(page)}")
    if named.problems:
        fail(f"Nothing was sent: {'; '.join(named.problems)}.", USAGE)
    for problem in mentioned.problems:
        complain(problem)
    unasked = [name for name in mentioned.secrets if name not in named.secrets]
    if unasked and not stays_here:
        fail(
            f"Nothing was sent: {', '.join(unasked)} may hold a secret, and the server is not on this device. "
            "To send it anyway, name it with --file.",
            USAGE,
        )
    if named.secrets and not stays_here:
        complain(f"{', '.join(named.secrets)} may hold a secret, and is sent to a server that is not on this device")
    named.attachments = [one for one in named.attachments if one not in mentioned.attachments]
    both = joined(named, mentioned)
    if both.problems[len(mentioned.problems) :]:
        fail(f"Nothing was sent: {both.problems[-1]}.", USAGE)
    for told in both.told:
        complain(told)
    if both.attachments:
        complain(f"with the question: {_summary(both.attachments)}")
    both.resources = list(dict.fromkeys(both.resources))
    return both


def with_resources(attachments: Sequence[Attachment], read: Gathered) -> list[Attachment] | None:
    """The attachments, and behind them the resources that were read; None, and a message, if one is missing."""
    both = joined(Gathered([*attachments]), read)
    if both.problems:
        complain(f"Nothing was sent: {'; '.join(both.problems)}.")
        return None
    for told in read.told:
        complain(told)
    complain(f"with the question: {_summary(read.attachments)}")
    return both.attachments


def _summary(attachments: Sequence[Attachment]) -> str:
    listed = "; ".join(described(one) for one in attachments[:LISTED])
    if len(attachments) <= LISTED:
        return listed
    total = size(sum(len(one.data) for one in attachments))
    return f"{listed}; and {len(attachments) - LISTED} more, {total} in all"
