"""The kind and size of images, read from their first bytes. Nothing is decoded."""

from __future__ import annotations

import struct

from storage import Attachment

KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Kinds that servers accept."""


def image_kind(data: bytes) -> str | None:
    """The media type of an image that can be sent, or None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def is_image(attachment: Attachment) -> bool:
    """Whether it can be sent as an image, and its bytes match its kind."""
    return attachment.media_type in KINDS and image_kind(attachment.data) == attachment.media_type


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height in pixels from the header, or None if they are not there."""
    try:
        match image_kind(data):
            case "image/png":
                return struct.unpack(">II", data[16:24]) if data[12:16] == b"IHDR" else None
            case "image/gif":
                return struct.unpack("<HH", data[6:10])
            case "image/jpeg":
                return _of_jpeg(data)
            case "image/webp":
                return _of_webp(data)
    except struct.error:
        return None
    return None


def _of_jpeg(data: bytes) -> tuple[int, int] | None:
    """Walks from marker to marker to the one that begins a frame."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        at += 2 + max(2, length)
    return None


def _of_webp(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            wide, high = data[24:27], data[27:30]
            if len(high) == 3:
                return int.from_bytes(wide, "little") + 1, int.from_bytes(high, "little") + 1
    return None
