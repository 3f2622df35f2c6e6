"""Reads an image from the desktop's clipboard, and keeps it as a file that a question can name.

A terminal passes on text only. So a program of the desktop is asked: `pngpaste`, `wl-paste`, `xclip`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from app.attachments.images import image_kind
from app.attachments.limits import MOST_IMAGE_BYTES, size
from app.ssh import over_ssh

TIMEOUT_SECONDS = 5.0
"""Time for the program: the owner of the clipboard may have to convert a large image first."""
KEPT_SECONDS = 30 * 24 * 3600
"""How long a pasted image is kept as a file. A question that was sent has its own copy."""
INSTEAD = "Save the image as a file and write @ and its path."


class NoImage(Exception):
    """There is no image to paste. The text says why, and what to do."""


def image_command(environment: Mapping[str, str], platform: str = sys.platform) -> list[str]:
    """The command that prints the clipboard's image as PNG. Raises `NoImage`."""
    if over_ssh(environment):
        raise NoImage(f"Over SSH, the clipboard of your desktop cannot be read. {INSTEAD}")
    if platform == "darwin":
        command, package = ["pngpaste", "-"], "pngpaste"
    elif environment.get("WAYLAND_DISPLAY"):
        command, package = ["wl-paste", "--type", "image/png"], "wl-clipboard"
    elif environment.get("DISPLAY"):
        command, package = ["xclip", "-selection", "clipboard", "-t", "image/png", "-o"], "xclip"
    else:
        raise NoImage(f"There is no desktop here whose clipboard could have an image. {INSTEAD}")
    path = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if path is None:
        raise NoImage(f"{command[0]} is missing, which reads images from the clipboard. Install {package}.")
    return [path, *command[1:]]


async def clipboard_image(environment: Mapping[str, str] = os.environ) -> bytes:
    """The image in the clipboard. Raises `NoImage`."""
    command = image_command(environment)
    quiet, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=quiet, stdout=pipe, stderr=quiet, env=environment
        )
    except OSError as error:
        raise NoImage(f"{command[0]} cannot be started ({error.strerror}). {INSTEAD}") from None
    data = b""
    try:
        assert process.stdout is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(data) <= MOST_IMAGE_BYTES and (piece := await process.stdout.read(1 << 16)):
                data += piece
    except TimeoutError:
        raise NoImage(f"The clipboard did not answer within {TIMEOUT_SECONDS:.0f} s. {INSTEAD}") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if len(data) > MOST_IMAGE_BYTES:
        raise NoImage(f"The image in the clipboard has more than {size(MOST_IMAGE_BYTES)}. Copy a smaller part of it.")
    if image_kind(data) is None:
        raise NoImage("There is no image in the clipboard.")
    return data


def kept_image(data: bytes, database: Path) -> Path:
    """Write an image to a new private file next to the database, and remove old ones. Raises `OSError`."""
    folder = database.absolute().with_name("pasted")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > KEPT_SECONDS:
                old.unlink()
    ending = (image_kind(data) or "image/png").partition("/")[2]
    number = 1
    while True:
        path = folder / f"image-{number}.{ending}"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            number += 1
            continue
        with open(handle, "wb") as file:
            file.write(data)
        return path
