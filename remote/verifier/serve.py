"""`outrider serve`: load a target, bind, and answer until told to stop.

Stdout carries one line, `outrider verifier ready at URL`, once requests are answered; everything else goes to stderr:
what is loaded, how large it is, and how long it took.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import cached_file

from drafter.config import GRAPH, DrafterError
from drafter.model import MemoryEncoder
from drafter.runtime import Drafter
from drafter.text import ChatText
from remote.protocol import DIGEST_BYTES, VERSION, Card, Limits, MemoryFormat
from remote.verifier.budget import cache_bytes
from remote.verifier.connections import BURST, MAX_CONNECTIONS, Listener, Server
from remote.verifier.connections import config as connection_config
from remote.verifier.engine import Engine, EngineError
from remote.verifier.hosted import OwnDrafter
from remote.verifier.http import MAX_SESSIONS, MAX_WAITING, create_app
from remote.verifier.progress import tell, telling
from remote.verifier.security import SecurityError, check_binding, is_loopback
from remote.verifier.table import Session, Table

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

MAX_NODES = 256
KEEP_ALIVE_SECONDS = 90
"""More than a device keeps an idle connection, so that it never sends into one that is just closed."""
MAX_TOKENS = 32_768
BODY_SLACK = 64 << 10
SPARE_FILES = 64
"""Open files for all else than connections."""


class ServeError(Exception):
    """The verifier cannot start; the message says why and what to do.

    ServeError
    ├── UnknownModel        neither a folder nor a model that can be fetched, or of an unknown architecture
    ├── CorruptWeights      weights that are damaged or incomplete
    ├── MissingTokenizer    a model without `tokenizer.json`, which devices need
    ├── CannotBind          the address is taken or not ours
    ├── NoMemory            less memory than one session needs
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


class NoMemory(ServeError):
    """Less memory than one session needs."""


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

    from drafter.model.quanto import need_no_compiler

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
    hosts: Collection[str] = (),
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    watch_stdin: bool = False,
    max_sessions: int = MAX_SESSIONS,
    max_tokens: int = MAX_TOKENS,
    max_waiting: int = MAX_WAITING,
    max_connections: int = MAX_CONNECTIONS,
    max_cached_bytes: int | None = None,
) -> None:
    """Serve a target until SIGINT or SIGTERM. Port 0 takes a free one.

    `max_cached_bytes`: for all sessions together; None: a share of the free memory. `max_waiting`: answers that wait
    for their first frame; see `create_app`. With `watch_stdin` the process also ends when its stdin does: an app that
    started it and is killed leaves no orphan. `hosts`: see `BearerAuth`. Raises what `START_ERRORS` names.
    """
    if watch_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    check_binding(host, token)
    _check_certificate(tls_cert, tls_key)
    if token is not None and tls_cert is None and not is_loopback(host):
        tell(
            f"warning: on {host} the token and all text cross the network unencrypted. Add --tls-cert and --tls-key, "
            "or listen on 127.0.0.1 behind a proxy that speaks TLS."
        )
    connections = _connections(max_connections)
    with contextlib.closing(_bind(host, port, connections)) as listener:
        with telling(f"loading {model}{_stored(Path(model))}"):
            target = load_target(model, quantize=quantize)
        tell(f"{target.name}: {_size(target.model)}")
        with telling("checking that it verifies drafts"):
            engine = Engine(target.model, None if drafter is None else MemoryEncoder.load(drafter))
        own = None
        if drafter is not None and (drafter / GRAPH).is_file():  # For devices that draft the encoder is enough.
            with telling(f"loading the drafter {drafter} ({(drafter / GRAPH).stat().st_size / 1e6:.0f} MB)"):
                own = OwnDrafter(Drafter.load(drafter), engine)
        budget = cache_bytes(engine.device) if max_cached_bytes is None else max_cached_bytes
        served = _fitting(target, engine, own, max_tokens, budget)
        app = create_app(
            engine,
            served,
            token=token,
            hosts=hosts,
            max_sessions=max_sessions,
            max_cached_bytes=budget,
            max_waiting=max_waiting,
            own=own,
            text=target.text,
        )
        config = connection_config(
            app,
            connections,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        config.load()
        name = f"[{host}]" if ":" in host else host
        url = f"{'https' if config.is_ssl else 'http'}://{name}:{listener.getsockname()[1]}"
        with contextlib.suppress(KeyboardInterrupt):
            Server(config, lambda: print(f"outrider verifier ready at {url}", flush=True)).run(sockets=[listener])


def _fitting(target: Target, engine: Engine, own: OwnDrafter | None, max_tokens: int, budget: int) -> Card:
    """The card, with sessions no longer than memory allows. Raises `NoMemory`."""
    wished = card(target, engine, max_tokens=max_tokens).limits.max_tokens
    table = Table(engine.bytes_per_token, max_sessions=1, max_bytes=budget)
    alone = Session(engine.context(), drafts=None if own is None else own.drafts())
    fitting = table.largest(alone, wished + 2 * MAX_NODES) - 2 * MAX_NODES
    if fitting < 1:
        raise NoMemory(f"{budget >> 20} MB are too little for one session of {target.name}. Give more with --cache-mb.")
    if fitting < wished:
        tell(f"sessions hold {fitting} tokens, not {wished}: that is what {budget >> 20} MB take (--cache-mb)")
    else:
        tell(f"sessions hold {wished} tokens each, and {budget >> 20} MB together")
    return card(target, engine, max_tokens=min(fitting, wished))


def _size(model: PreTrainedModel) -> str:
    """For people: parameters, kind of numbers, memory, device."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    kind = str(model.dtype).removeprefix("torch.")
    return f"{parameters / 1e6:,.1f} million parameters, {kind}, {_held(model) / 1e6:,.0f} MB, on {model.device}"


def _stored(folder: Path) -> str:
    """How large the weights in a folder are, for people; nothing for a model's name."""
    files = sum(file.stat().st_size for file in folder.glob("*.safetensors")) if folder.is_dir() else 0
    return f" ({files / 1e6:,.0f} MB)" if files else ""


def _held(model: PreTrainedModel) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _connections(wished: int) -> int:
    """As many as wished for, if this process may have as many open files."""
    if resource is None:
        return wished
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wished if files == resource.RLIM_INFINITY else max(8, min(wished, files - 2 * BURST - SPARE_FILES))


def _bind(host: str, port: int, connections: int = MAX_CONNECTIONS) -> socket.socket:
    """A bound socket that does not listen yet, so that a taken port is told before minutes of loading."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with contextlib.ExitStack() as undo:
            # asyncio sets TCP_NODELAY only on sockets that say they are TCP. Without it each round waits 40 ms.
            listener = undo.enter_context(Listener(family, kind, protocol))
            listener.most = connections + 2 * BURST
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


def _end_with_stdin() -> None:
    while os.read(0, 4096):
        pass
    # At once, whatever the other threads do: the only client is gone, and nothing here is on a disk.
    os._exit(0)
