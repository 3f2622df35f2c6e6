"""Typed text that is not sent yet: one small private file per conversation, so that a kill loses none of it.

It is not in the database, because it changes with every pause in typing. Text without a conversation belongs to the
window in which it is typed. If that window dies, the next one that opens takes it over.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from app.files import replace_file
from storage.bin import KEPT
from storage.owner import Owner

NAME = re.compile(r"[0-9a-z_-]{1,64}")
"""An id that is safe as a file name. An imported id may hold anything."""
NEW = "new-"


class UnsentTexts:
    """The folder of the texts, next to the file `database`. Every method raises `OSError` if it fails."""

    def __init__(self, database: Path) -> None:
        self._folder = database.absolute().with_name("unsent")
        self._owner = Owner(self._folder / "unsent")
        self._known: dict[Path, str] = {}
        """The last text that this window has read from a file or written to it."""

    def read(self, conversation_id: str | None) -> str:
        """The unsent text of a conversation, or of this window; empty if there is none."""
        path = self._path(conversation_id)
        if conversation_id is None and not path.exists():
            self._inherit(path)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            text = ""
        self._known[path] = text
        return text

    def write(self, conversation_id: str | None, text: str) -> None:
        """Replace the unsent text; an empty text removes the file.

        An unchanged text is not written: another window may have put its own into the same conversation.
        """
        path = self._path(conversation_id)
        if text == self._known.get(path, ""):
            return
        self._put(path, text, claim=conversation_id is None)
        self._known[path] = text

    def sweep(self, conversations: Callable[[], Iterable[str]]) -> None:
        """Remove the texts of conversations that are gone for good.

        `conversations` gives the ids of all conversations, in the bin or not. It is called only if some text is old
        enough for its conversation to have left the bin: a fresh text may be of a conversation younger than that list.
        """
        oldest = time.time() - KEPT.total_seconds()
        old = {path for path in self._folder.glob("in-*") if path.stat().st_mtime < oldest}
        for path in old.difference(map(self._path, conversations())) if old else ():
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the text without a conversation to the next window."""
        self._owner.release()

    def _path(self, conversation_id: str | None) -> Path:
        if conversation_id is None:
            return self._folder / f"{NEW}{self._owner.name}"
        if NAME.fullmatch(conversation_id) is None:
            conversation_id = hashlib.sha256(conversation_id.encode("utf-8", "replace")).hexdigest()
        return self._folder / f"in-{conversation_id}"

    def _put(self, path: Path, text: str, *, claim: bool) -> None:
        if not text:
            path.unlink(missing_ok=True)
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if claim:
            self._owner.claim()
        replace_file(path, [text], errors="replace", sync=False)

    def _inherit(self, path: Path) -> None:
        """Take over the last text of a window that is gone."""
        if not self._folder.is_dir():
            return
        self._owner.claim()
        living = self._owner.living()
        left = [old for old in self._folder.glob(f"{NEW}*") if old.name.removeprefix(NEW) not in living]
        for old in sorted(left, key=lambda old: old.stat().st_mtime)[-1:]:
            os.replace(old, path)
