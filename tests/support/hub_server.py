"""A server that speaks the protocol of the Hugging Face hub as far as downloads need it, on loopback."""

from __future__ import annotations

import contextlib
import hashlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

REVISION = "5" * 40


@dataclass
class HubServer:
    """The repository `owner/tiny` with these files. Weights are kept in LFS, other files in git."""

    files: dict[str, bytes]
    tags: list[str] = field(default_factory=lambda: ["gguf", "license:apache-2.0"])
    refuses: tuple[int, str] | None = None
    """Status and X-Error-Code with which every request for the repository is refused."""
    storage: str | None = None
    """Address of another server that has the weights; requests for them are redirected there."""
    cut: list[int] = field(default_factory=list)
    """After how many bytes each of the next replies with weights breaks off."""
    hold: int | None = None
    """After how many bytes a reply with weights stands still."""
    damaged: int = 0
    """How many replies with weights have a wrong byte."""
    ranges: bool = True
    """Whether it sends files from the middle."""
    more: bytes = b""
    """Sent after the end of weights."""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    """Method, path and headers of each request."""
    held: threading.Event = field(default_factory=threading.Event)
    """Set when a reply stands still."""
    ended: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
        """Serve while the block runs, over TLS with a certificate and its key; yields the address."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                hub.answer(self)

            do_HEAD = do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
        finally:
            self.ended.set()
            server.shutdown()
            thread.join()
            server.server_close()

    @property
    def begins(self) -> list[int]:
        """Where each reply with weights began."""
        ranges = [headers["range"] for _, path, headers in self.asked if weights(path)]
        return [int(one.removeprefix("bytes=").rstrip("-")) for one in ranges]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path)
        self.asked.append((request.command, path, {name.lower(): value for name, value in request.headers.items()}))
        name = path.removeprefix(f"/owner/tiny/resolve/{REVISION}/")
        if self.refuses is not None:
            status, code = self.refuses
            _reply(request, status, b"{}", {"X-Error-Code": code})
        elif path == "/api/models/owner/tiny":
            _reply(request, 200, json.dumps(self.listing()).encode(), {"Content-Type": "application/json"})
        elif name not in self.files:
            _reply(request, 404, b"", {"X-Error-Code": "EntryNotFound" if name != path else "RepoNotFound"})
        elif self.storage is not None and weights(name):
            _reply(request, 302, b"", {"Location": f"{self.storage}{path}"})
        else:
            self._send(request, name)

    def listing(self) -> dict[str, object]:
        siblings = [
            {"rfilename": name, "size": len(content), "blobId": git_digest(content)}
            | ({"lfs": {"size": len(content), "sha256": sha256(content), "pointerSize": 135}} if weights(name) else {})
            for name, content in self.files.items()
        ]
        return {"id": "owner/tiny", "sha": REVISION, "siblings": siblings, "tags": self.tags}

    def _send(self, request: BaseHTTPRequestHandler, name: str) -> None:
        content = self.files[name]
        begin = 0
        if self.ranges and (wanted := request.headers["Range"]):
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
        if weights(name):
            if self.damaged:
                self.damaged -= 1
                content = content[:-1] + bytes([content[-1] ^ 1])
            content += self.more
        end = len(content)
        stop = end
        if weights(name) and self.cut:
            stop = min(end, begin + self.cut.pop(0))
        if weights(name) and self.hold is not None:
            stop = min(end, begin + self.hold)
        request.send_response(206 if begin or (self.ranges and request.headers["Range"]) else 200)
        request.send_header("Content-Length", str(end - begin))
        request.send_header("Content-Range", f"bytes {begin}-{end - 1}/{end}")
        request.send_header("ETag", f'"{sha256(content)}"')
        request.end_headers()
        with contextlib.suppress(OSError):
            request.wfile.write(content[begin:stop])
            request.wfile.flush()
        if stop < end:
            request.close_connection = True
            if self.hold is not None:
                self.held.set()
                self.ended.wait()


def weights(name: str) -> bool:
    return name.endswith((".gguf", ".safetensors"))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_digest(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _reply(request: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str]) -> None:
    request.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)
