"""`outrider serve`: load a target, bind, and answer until told to stop.

Stdout carries one line, `outrider verifier ready at URL`, once requests are answered; everything else goes to stderr.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import uvicorn
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import cached_file

from drafter.config import GRAPH, DrafterError
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.text import ChatText
from remote.protocol import DIGEST_BYTES, VERSION, Card, Limits, MemoryFormat
from remote.verifier.engine import Engine, EngineError
from remote.verifier.hosted import OwnDrafter
from remote.verifier.http import create_app
from remote.verifier.security import SecurityError, check_binding

log = logging.getLogger(__name__)

MAX_NODES = 256
KEEP_ALIVE_SECONDS = 90
"""More than a device keeps an idle connection, so that it never sends into one that is just closed."""
MAX_TOKENS = 32_768
BODY_SLACK = 64 << 10
CACHE_SHARE = 0.25
"""Of the free memory after loading, for all sessions' keys and values."""


class ServeError(Exception):
    """The verifier cannot start; the message says why and what to do.

    ServeError
    ├── UnknownModel        neither a folder nor a model that can be fetched, or of an unknown architecture
    ├── CorruptWeights      weights that are damaged or incomplete
    ├── MissingTokenizer    a model without `tokenizer.json`, which devices need
    ├── CannotBind          the address is taken or not ours
    └── BadCertificate      a TLS certificate or key that cannot be used
    Besides, `serve` raises `EngineError`, `SecurityError` and `DrafterError`.
    """


class UnknownModel(ServeError):
    """Neither a folder nor a model that can be fetched, or of an unknown architecture."""


class CorruptWeights(ServeError):
    """Weights that are damaged or incomplete."""


class MissingTokenizer(ServeError):
    """A model without `tokenizer.json`, which devices need."""


class CannotBind(ServeError):
    """The address is taken or not ours."""


class BadCertificate(ServeError):
    """A TLS certificate or key that cannot be used."""


START_ERRORS = (ServeError, EngineError, SecurityError, DrafterError)
"""Everything that `serve` raises for a person to read."""


@dataclass(frozen=True)
class Target:
    """A loaded model with what a device must know of its text side."""

    name: str
    model: PreTrainedModel
    tokenizer: bytes
    """Digest of `tokenizer.json`."""
    chat_template: str
    stop_tokens: tuple[int, ...]
    text: ChatText | None
    """None where the chat template cannot be rendered here."""


def load_target(model: str, *, quantize: Literal["int8", "int4"] | None = None, device: str | None = None) -> Target:
    """Load a folder or a hub model. float32 on a CPU, so that greedy output equals `generate`; bfloat16 on a GPU.

    Raises `UnknownModel`, `CorruptWeights`, `MissingTokenizer`.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not Path(model).is_dir() and (Path(model).is_absolute() or model.startswith(("./", "../", "~"))):
        raise UnknownModel(f"There is no folder {model}. Give a model's folder, or its name on the Hugging Face hub.")
    try:
        local = Path(model).is_dir()  # Then nobody is asked, on no network.
        config = AutoConfig.from_pretrained(model, local_files_only=local, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise UnknownModel(f"{model} is no model this verifier can load: {_first_line(error)}") from error
    tokenizer, template, end, special_tokens = _text_side(model)
    try:
        loaded, report = AutoModelForCausalLM.from_pretrained(
            model,
            config=config,
            local_files_only=local,
            trust_remote_code=False,
            dtype=torch.float32 if device == "cpu" else torch.bfloat16,
            use_safetensors=True,  # The other format is pickle, which runs code while it loads.
            output_loading_info=True,
        )
    except (SafetensorError, RuntimeError, EOFError) as error:
        raise CorruptWeights(f"The weights of {model} are damaged ({_first_line(error)}). Fetch them again.") from error
    except (OSError, ValueError) as error:
        raise UnknownModel(f"{model} cannot be loaded as a causal language model: {_first_line(error)}") from error
    if missing := sorted(report["missing_keys"]):
        raise CorruptWeights(
            f"The weights of {model} lack {', '.join(missing[:3])} ({len(missing)} in all). Fetch them again."
        )
    if quantize is not None:
        _quantize(loaded, quantize)
    stop = loaded.generation_config.eos_token_id if loaded.generation_config is not None else None
    stop = end if stop is None else stop
    stops = tuple(stop) if isinstance(stop, list) else () if stop is None else (int(stop),)
    name = Path(model).resolve().name if Path(model).is_dir() else model
    digest = hashlib.blake2b(tokenizer, digest_size=DIGEST_BYTES).digest()
    text = None
    try:
        text = ChatText(tokenizer, template, stops, special_tokens)
    except DrafterError as error:
        log.warning("No chat completions, only rounds and streams: the chat template of %s fails. %s", name, error)
    return Target(name, loaded.to(device).eval(), digest, template, stops, text)


def _text_side(model: str) -> tuple[bytes, str, int | None, dict[str, str]]:
    """The bytes of `tokenizer.json`, the chat template (empty: none), the end-of-sequence token, the special tokens'
    texts by name."""
    local = Path(model).is_dir()
    path = cached_file(model, "tokenizer.json", local_files_only=local, _raise_exceptions_for_missing_entries=False)
    if path is None:
        raise MissingTokenizer(
            f"{model} has no tokenizer.json, which devices need. Save a fast tokenizer beside its weights."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=local, trust_remote_code=False)
    except Exception as error:  # The tokenizers library raises bare Exception for a damaged file.
        raise MissingTokenizer(f"The tokenizer of {model} cannot be read: {_first_line(error)}") from error
    template = tokenizer.chat_template or ""
    if isinstance(template, dict):
        template = template.get("default", "")
    return Path(path).read_bytes(), template, tokenizer.eos_token_id, tokenizer.special_tokens_map


def _quantize(model: PreTrainedModel, kind: Literal["int8", "int4"]) -> None:
    """Weights of the linear layers to int8 or int4, in place; the head stays as it is, for it chooses the tokens."""
    from optimum.quanto import freeze, qint4, qint8, quantize  # Slow to import, and rarely wanted.

    from drafter.quanto import need_no_compiler

    need_no_compiler()
    quantize(model, weights=qint8 if kind == "int8" else qint4, exclude="lm_head")
    freeze(model)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def card(target: Target, engine: Engine, *, max_tokens: int = MAX_TOKENS) -> Card:
    """What `GET /v1/card` tells of this target."""
    positions = getattr(target.model.config.get_text_config(), "max_position_embeddings", None) or max_tokens
    tokens = min(max_tokens, positions)
    body = 4 * tokens + 6 * MAX_NODES + BODY_SLACK
    encoder = engine.encoder
    return Card(
        version=VERSION,
        target=target.name,
        vocabulary=engine.vocabulary,
        tokenizer=target.tokenizer,
        chat_template=target.chat_template,
        stop_tokens=target.stop_tokens,
        limits=Limits(max_nodes=MAX_NODES, max_depth=MAX_NODES, max_tokens=tokens, max_body_bytes=body),
        memory=None if encoder is None else MemoryFormat(digest=encoder.digest, layers=encoder.layers),
    )


def serve(
    model: str,
    *,
    drafter: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    quantize: Literal["int8", "int4"] | None = None,
    token: str | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    watch_stdin: bool = False,
) -> None:
    """Serve a target until SIGINT or SIGTERM. Port 0 takes a free one.

    With `watch_stdin` the process also ends when its stdin does: an app that started it and is killed leaves no orphan.
    Raises what `START_ERRORS` names.
    """
    if watch_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    check_binding(host, token)
    _check_certificate(tls_cert, tls_key)
    with contextlib.closing(_bind(host, port)) as listener:
        target = load_target(model, quantize=quantize)
        engine = Engine(target.model, None if drafter is None else MemoryEncoder.load(drafter))
        own = None
        if drafter is not None and (drafter / GRAPH).is_file():  # For devices that draft the encoder is enough.
            own = OwnDrafter(Drafter.load(drafter), engine)
        cached = _free_bytes(engine) // (engine.bytes_per_token + (0 if own is None else own.bytes_per_token))
        served = card(target, engine)
        app = create_app(engine, served, token=token, max_cached_tokens=cached, own=own, text=target.text)
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="warning",
            lifespan="off",
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        config.load()
        name = f"[{host}]" if ":" in host else host
        url = f"{'https' if config.is_ssl else 'http'}://{name}:{listener.getsockname()[1]}"
        with contextlib.suppress(KeyboardInterrupt):
            _Server(config, lambda: print(f"outrider verifier ready at {url}", flush=True)).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server, which tells when it accepts requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()


def _bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet, so that a taken port is told before minutes of loading."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as undo:
            # asyncio sets TCP_NODELAY only on sockets that say they are TCP. Without it each round waits 40 ms.
            listener = undo.enter_context(socket.socket(family, kind, protocol))
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            undo.pop_all()
    except OSError as error:
        raise CannotBind(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --host or --port."
        ) from error
    return listener


def _check_certificate(cert: Path | None, key: Path | None) -> None:
    if cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one.
        raise BadCertificate(f"The TLS certificate {cert} with the key {key} cannot be used: {error}.") from error


def _free_bytes(engine: Engine) -> int:
    if engine.device.type == "cuda":
        return int(torch.cuda.mem_get_info(engine.device)[0] * CACHE_SHARE)
    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        return int(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * CACHE_SHARE)
    return 2 << 30


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    # At once, whatever the other threads do: the only client is gone, and nothing here is on a disk.
    os._exit(0)
