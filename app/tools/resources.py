"""Resources of MCP servers that a question names: read once, bounded, cleaned, and kept with the question."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from urllib.parse import unquote

from app.attachments.documents import Unreadable
from app.attachments.reader import Gathered, Unsuitable, attachment_of, joined, one_line
from app.attachments.secret_names import looks_secret
from app.log import log
from app.sanitise import sanitise
from app.tools.tool import ToolGone, Tools
from storage import Attachment


async def read_resources(tools: Tools, names: Sequence[str]) -> Gathered:
    """The resources of these names, `SERVER:URI`, as attachments; those that cannot be read are problems."""
    return joined(*[await _read(tools, name) for name in names])


def is_secret(name: str) -> bool:
    """Whether the URI of a resource looks as if it held a secret."""
    uri = name.partition(":")[2]
    return looks_secret(PurePath(unquote(re.split("[?#]", uri)[0].partition(":")[2])))


async def _read(tools: Tools, name: str) -> Gathered:
    gathered = Gathered()
    server, _, uri = name.partition(":")
    try:
        data = await tools.read(server, uri)
        gathered.attachments.append(await asyncio.to_thread(_cleaned, data, name, gathered.told))
    except (Unsuitable, Unreadable) as error:
        gathered.problems.append(f"{one_line(name)} {error}")
    except (ToolGone, OSError) as error:
        gathered.problems.append(f"{one_line(name)} cannot be read: {error}")
    except Exception as error:  # Whatever a server does, the program stays.
        log.error("a resource of an MCP server could not be read: %s", type(error).__name__)
        gathered.problems.append(f"{one_line(name)} cannot be read: {one_line(str(error)[:200])}")
    return gathered


def _cleaned(data: bytes, name: str, told: list[str]) -> Attachment:
    """What is attached of a resource. Its text comes from another program, so no terminal may obey it."""
    attachment = attachment_of(data, name, told)
    return replace(attachment, data=sanitise(attachment.text).encode()) if attachment.is_text else attachment
