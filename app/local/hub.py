"""Fetches models from the Hugging Face hub into the hub's own cache, where other programs find them too.

Only formats without code are fetched: GGUF, or safetensors with the text files next to them. A download resumes where
it broke off. A file gets its name only if it has the digest that the hub announced.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, constants, get_session, get_token, hf_hub_url, hf_raise_for_status
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from app.files import size_text
from app.local.find import NO_CHAT
from models.gguf.file import PART, gguf_files, gguf_name
from storage.owner import try_lock

WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")
TEXTS = re.compile(r"[^/]+\.(json|jinja|txt)|README\.md|LICENSE")
"""Files that a folder of safetensors needs, and its licence."""
USUAL = "q4_k_m"
"""The quantisation that is chosen where none is named: about half a byte per weight, at little loss."""
ADDRESS = re.compile(r"^(https?://)?(huggingface\.co|hf\.co)/")
PAGE = re.compile(r"/(blob|resolve|tree)/main/?")
"""Parts of the addresses that people copy from a browser."""
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
SILENCE = 30.0
"""Seconds without a byte after which a connection counts as lost."""
TRIES, PAUSE_SECONDS = 5, 1.0
"""Most connections in a row that bring nothing, and the pause between them."""
SPARE = 256 << 20
"""Bytes of disk space to leave free."""
KEPT = "What has arrived is kept."


class NotFetched(Exception):
    """The model is not here, or not whole; the message says why and what to do. What has arrived is kept."""


class NoSuchModel(NotFetched):
    """Nothing on the hub has this name, or more than one file may be meant."""


class HubAway(NotFetched):
    """The hub cannot be reached, or must not be asked."""


@dataclass(frozen=True)
class HubFile:
    name: str
    size: int
    digest: str
    """The SHA-256 of a large file, git's SHA-1 of a small one; hex."""


@dataclass(frozen=True)
class HubModel:
    repository: str
    revision: str
    licence: str
    """Empty if the repository names none."""
    files: tuple[HubFile, ...]
    folder: Path
    """The folder of this revision in the hub's cache."""

    @property
    def path(self) -> Path:
        """The first GGUF file, or the folder of safetensors."""
        first = self.folder / self.files[0].name
        return first if first.suffix.lower() == ".gguf" else self.folder

    @property
    def name(self) -> str:
        return gguf_name(self.path) if self.path != self.folder else self.repository.rpartition("/")[2]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def missing(self) -> int:
        """Bytes that are still to be fetched."""
        return self.size - sum(self.here(file) for file in self.files)

    def here(self, file: HubFile) -> int:
        """Bytes of a file that are on this device."""
        if _is_whole(self.folder / file.name, file) or _is_whole(self.blob(file), file):
            return file.size
        part = self.part(file)
        return min(file.size, part.stat().st_size) if part.is_file() else 0

    def blob(self, file: HubFile) -> Path:
        """Where the cache keeps a file's content, under its digest."""
        return self.folder.parents[1] / "blobs" / file.digest

    def part(self, file: HubFile) -> Path:
        return self.blob(file).with_name(f"{file.digest}.outrider.part")


class Hub:
    """The hub that `HF_ENDPOINT`, `HF_TOKEN` and `HF_HOME` describe, unless the arguments say otherwise."""

    def __init__(self, endpoint: str | None = None, cache: Path | None = None, token: str | None = None) -> None:
        self.endpoint = endpoint or constants.ENDPOINT
        self.host = urlsplit(self.endpoint).netloc
        self._cache = cache or Path(constants.HF_HUB_CACHE)
        self._token = token

    def find(self, wanted: str) -> HubModel:
        """The model `REPOSITORY` or `REPOSITORY:FILE`, or their address; part of a file's name is enough.

        Raises `NotFetched`.
        """
        named = ADDRESS.sub("", wanted.partition("?")[0]).rstrip("/")
        repository, _, part = PAGE.sub(":", named, count=1).partition(":")
        with self._explained(repository):
            try:
                info = HfApi(self.endpoint, token=self._token).model_info(
                    repository, files_metadata=True, timeout=SILENCE
                )
                listed = [
                    HubFile(one.rfilename, one.size or 0, one.lfs.sha256 if one.lfs else one.blob_id or "")
                    for one in info.siblings or []
                ]
            except HFValidationError:
                raise NoSuchModel(f"{repository} is not a name on the hub. Give one such as OWNER/NAME.") from None
            except (KeyError, TypeError, ValueError) as error:
                if isinstance(error, OSError):
                    raise
                raise NotFetched(f"{self.host} does not answer like the Hugging Face hub. Check HF_ENDPOINT.") from None
        files = _chosen(repository, part, [file for file in listed if _is_safe(file.name)])
        if not DIGEST.fullmatch(info.sha or "") or any(not DIGEST.fullmatch(file.digest) for file in files):
            raise NotFetched(f"{self.host} names no digests, so its files cannot be checked. Use another HF_ENDPOINT.")
        licences = [tag.removeprefix("license:") for tag in info.tags or [] if tag.startswith("license:")]
        folder = self._cache / f"models--{repository.replace('/', '--')}" / "snapshots" / str(info.sha)
        return HubModel(repository, str(info.sha), ", ".join(licences), tuple(files), folder)

    def room(self, model: HubModel) -> int:
        """Free bytes where the model would be kept. Raises `NotFetched` if there are too few."""
        free = shutil.disk_usage(next(folder for folder in model.folder.parents if folder.is_dir())).free
        if model.missing and free < model.missing + SPARE:
            raise NotFetched(
                f"{size_text(model.missing)} are to be fetched, and {size_text(free)} are free in {self._cache}. "
                "Free some space, or set HF_HOME to a folder on another disk."
            )
        return free

    def fetch(self, model: HubModel, told: Callable[[int], None] = lambda done: None) -> Path:
        """Fetch what is missing; returns the file or folder. `told`: called with the bytes that are here.

        Raises `NotFetched`, and whatever `told` raises; the next call resumes from there.
        """
        with self._explained(model.repository):
            model.blob(model.files[0]).parent.mkdir(parents=True, exist_ok=True)
            self.room(model)
            before = 0

            def tell(here: int) -> None:
                told(before + here)

            for file in model.files:
                if not _is_whole(model.folder / file.name, file):
                    self._fetch_file(model, file, tell)
                tell(file.size)
                before += file.size
            main = model.folder.parents[1] / "refs" / "main"
            main.parent.mkdir(exist_ok=True)
            main.write_text(model.revision, encoding="ascii")
        return model.path

    def _fetch_file(self, model: HubModel, file: HubFile, told: Callable[[int], None]) -> None:
        blob, part = model.blob(file), model.part(file)
        if not _is_whole(blob, file):
            with part.open("ab") as out:
                if not try_lock(out):
                    raise NotFetched(f"Another program is fetching {file.name}. Wait until it is done.")
                self._receive(model, file, out, told)
                os.fsync(out)
            if _digest(part, file) != file.digest:
                part.unlink()
                raise NotFetched(
                    f"{file.name} does not have the digest that {self.host} names, and was deleted. Try again."
                )
            os.replace(part, blob)
        pointer = model.folder / file.name
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.unlink(missing_ok=True)  # A link to content that somebody has deleted.
        try:
            pointer.symlink_to(os.path.relpath(blob, pointer.parent))
        except OSError:  # This file system has no links.
            os.replace(blob, pointer)

    def _receive(self, model: HubModel, file: HubFile, out: io.BufferedWriter, told: Callable[[int], None]) -> None:
        """Append what is missing. A broken connection is reopened as long as each one delivers something."""
        address = hf_hub_url(model.repository, file.name, revision=model.revision, endpoint=self.endpoint)
        tries = TRIES
        while (before := out.tell()) < file.size:
            try:
                self._append(address, file, out, told)
            except httpx2.TransportError:
                if tries == 1:
                    raise
            tries = TRIES if out.tell() > before else tries - 1
            if not tries:
                raise NotFetched(f"{self.host} sends only {out.tell():,} bytes of {file.name}. Try again later.")
            if out.tell() < file.size:
                time.sleep(PAUSE_SECONDS)

    def _append(self, address: str, file: HubFile, out: io.BufferedWriter, told: Callable[[int], None]) -> None:
        headers = {"Range": f"bytes={out.tell()}-", "Accept-Encoding": "identity"}
        if token := self._token or get_token():
            headers["Authorization"] = f"Bearer {token}"
        with get_session().stream("GET", address, headers=headers, timeout=SILENCE) as response:
            if response.is_error:
                response.read()
            hf_raise_for_status(response)
            if response.status_code != 206:  # The server sends the file from its beginning.
                out.seek(0)
                out.truncate()
            for piece in response.iter_bytes():
                if out.tell() + len(piece) > file.size:
                    out.seek(0)
                    out.truncate()
                    raise NotFetched(f"{file.name} is longer than {self.host} says, and was deleted. Try again.")
                out.write(piece)
                out.flush()  # So that a kill loses nothing that has arrived.
                told(out.tell())

    @contextlib.contextmanager
    def _explained(self, repository: str) -> Iterator[None]:
        """Turn what goes wrong into `NotFetched` with advice."""
        tokens = f"set HF_TOKEN to a token from {self.endpoint}/settings/tokens"
        try:
            yield
        except GatedRepoError:
            page = f"{self.endpoint}/{repository}"
            raise NotFetched(f"{repository} has terms to accept first: do so at {page}, and {tokens}.") from None
        except RepositoryNotFoundError:
            raise NoSuchModel(
                f"There is no model {repository} at {self.host}, or it is private. Check the name; "
                f"for a private one, {tokens}."
            ) from None
        except OfflineModeIsEnabled:
            raise HubAway("Nothing is fetched while HF_HUB_OFFLINE is set. Unset it, and try again.") from None
        except HfHubHTTPError as error:
            code = error.response.status_code
            advice = f"{tokens[0].upper()}{tokens[1:]}." if code in (401, 403) else "Try again later."
            raise NotFetched(f"{self.host} refuses {repository} with status {code}. {advice}") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise HubAway(f"{self.host} cannot be reached ({why}). {KEPT} Try again later.") from None
        except OSError as error:
            raise NotFetched(
                f"{error.filename or self._cache} cannot be written: {error.strerror or error}. "
                f"{KEPT} Free some space, or set HF_HOME to a folder on another disk."
            ) from None


def _is_whole(path: Path, file: HubFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size


def _is_safe(name: str) -> bool:
    return "\\" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def _digest(path: Path, file: HubFile) -> str:
    with path.open("rb") as content:
        if len(file.digest) == 64:
            return hashlib.file_digest(content, "sha256").hexdigest()
        of_git = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
        return hashlib.file_digest(content, lambda: of_git).hexdigest()


def _chosen(repository: str, part: str, listed: list[HubFile]) -> list[HubFile]:
    """The files to fetch, the one that is opened first. Raises `NoSuchModel`."""
    files = {file.name: file for file in listed}
    models = {
        file.name: file
        for file in listed
        if file.name.lower().endswith(".gguf")
        and not any(word in file.name.lower() for word in NO_CHAT)
        and (PART.fullmatch(file.name) is None or "-00001-of-" in file.name)
    }
    if not models:
        if part:
            raise NoSuchModel(f"There is no GGUF file in {repository}. Leave :{part} out to fetch its safetensors.")
        return _folder(repository, listed)
    meant = [name for name in models if part in (name, Path(name).name)] if part else list(models)
    meant = meant or [name for name in models if part.lower() in name.lower()]
    if len(meant) > 1:
        meant = [name for name in meant if USUAL in name.lower()] if not part else meant
    if len(meant) != 1:
        known = ", ".join(f"{Path(name).name} ({size_text(_whole(files, name))})" for name in models)
        raise NoSuchModel(f"Choose a file of {repository}, as {repository}:FILE. It has {known}.")
    names = [str(path) for path in gguf_files(Path(meant[0]))]
    if absent := [name for name in names if name not in files]:
        raise NoSuchModel(f"{repository} has only some of the files of {meant[0]}: {absent[0]} is not there.")
    return [files[name] for name in names]


def _whole(files: dict[str, HubFile], name: str) -> int:
    """Bytes of all files of a model."""
    return sum(files[str(path)].size for path in gguf_files(Path(name)) if str(path) in files)


def _folder(repository: str, listed: list[HubFile]) -> list[HubFile]:
    weights = [file for file in listed if WEIGHTS.fullmatch(file.name)]
    texts = [file for file in listed if TEXTS.fullmatch(file.name)]
    if weights and any(file.name == "config.json" for file in texts):
        return [*weights, *texts]
    raise NoSuchModel(
        f"{repository} has no chat model in GGUF or safetensors; other formats may contain code. "
        "Look for another repository of this model."
    )
