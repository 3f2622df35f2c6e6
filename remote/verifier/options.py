"""The options of `outrider serve`, each defined once: its default, its limits and its help.

The command line is built from these fields (`app/cli/serve.py`) and fills them in; the server reads them where they
matter. Every command of the program waits for this module, so it imports little.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from models.files import EngineKind
from models.free_memory import CACHE_SHARE
from remote.verifier.holders import Tokens, read_tokens

Weights = Literal["int8", "int4"]
LogFormat = Literal["text", "json", "off"]


class Shown(NamedTuple):
    """How an option looks on the command line. `alone`: it is not for replicas, because one process counts it."""

    help: str
    metavar: str | None
    least: float | None
    most: float | None
    alone: bool


def _option(
    default: Any,
    help: str,
    metavar: str | None = None,
    *,
    least: float | None = None,
    most: float | None = None,
    alone: bool = False,
) -> Any:
    return field(default=default, metadata={"shown": Shown(help, metavar, least, most, alone)})


@dataclass(frozen=True)
class ServeOptions:
    """How a model is served. Fields without help are no options of the command line."""

    model: str = _option(
        "", "Folder, GGUF file, or name on the Hugging Face hub. Default: the bundled model.", "NAME|DIR|FILE"
    )
    drafter: Path | None = _option(
        None, "Folder of the model's drafter. Default: make one while the server is idle.", "DIR"
    )
    no_drafter: bool = _option(False, "Neither make nor use a drafter.")
    budget: int = _option(300_000_000, "Maximum size of a new drafter on a device, such as 300MB.", "SIZE")
    host: str = _option(
        "127.0.0.1", "Address to listen on. Any other than this device's own requires a token.", "ADDRESS"
    )
    port: int = _option(8000, "Port to listen on. 0: any free one.", "N", least=0, most=65535)
    quantize: Weights | None = _option(None, "Load the weights in 8 or 4 bits to save memory.")
    engine: EngineKind = _option(
        "auto",
        "What runs the model. auto: llama.cpp for a GGUF file, ONNX Runtime if its folder has a graph, or PyTorch.",
    )
    no_batch_invariance: bool = _option(
        False,
        "With llama.cpp: check a whole draft at once, for speed. Rounding then differs, which may decide between "
        "two almost equally likely tokens.",
    )
    threads: int | None = _option(
        None, "Number of processor cores for the model. Default: the fastest number.", "N", least=1
    )
    chat_template: Path | None = _option(
        None, "Jinja file to use as the chat template. Default: the model's own.", "FILE"
    )
    token_file: Path | None = _option(
        None, "File with the accepted tokens, one line each: TOKEN or NAME TOKEN.", "FILE"
    )
    tls_cert: Path | None = _option(None, "TLS certificate, for https.", "FILE")
    tls_key: Path | None = _option(None, "Private key of --tls-cert.", "FILE")
    allow_host: tuple[str, ...] = _option((), "Host name to accept in the Host header if there is no token.", "NAME")
    allow_origin: tuple[str, ...] = _option((), "Origin of a web page that may send requests.", "ORIGIN")
    max_sessions: int = _option(256, "Maximum number of conversations kept at once.", "N", least=1)
    cache_mb: int | None = _option(
        None, "Memory for sessions, in MB. Default: a quarter of the free memory.", "N", least=1
    )
    max_tokens: int = _option(32_768, "Longest conversation, answer included.", "N", least=1)
    max_waiting: int = _option(
        256, "Maximum number of waiting requests; further ones get 503, or 429 in OpenAI's API.", "N", least=1
    )
    max_wait: float = _option(
        30, "Maximum expected wait for a completion to begin; others get 429.", "SECONDS", least=1
    )
    while_away: int = _option(
        512, "Maximum number of tokens to generate after a device disconnects. 0: stop at once.", "TOKENS", least=0
    )
    max_connections: int = _option(512, "Maximum number of open connections.", "N", least=1)
    max_per_address: int = _option(
        128,
        "Maximum number of open connections from one address. Loopback is not counted.",
        "N",
        least=1,
        alone=True,
    )
    max_per_token: int | None = _option(
        None,
        "Maximum number of answers at once for each token holder; others get 429. Default: no limit.",
        "N",
        least=1,
        alone=True,
    )
    requests_per_minute: int | None = _option(
        None,
        "Maximum number of answers that a token holder may begin in a minute. Default: no limit.",
        "N",
        least=1,
        alone=True,
    )
    tokens_per_minute: int | None = _option(
        None,
        "Maximum number of tokens read and written for a token holder in a minute. Default: no limit.",
        "N",
        least=1,
        alone=True,
    )
    drain_seconds: float = _option(
        30.0,
        "Seconds for running answers to finish after the signal to stop. A second signal stops at once.",
        "N",
        least=0,
        alone=True,
    )
    log_format: LogFormat = _option(
        "text",
        "Log each request on stderr in one line of text or JSON, never its content. off: no log.",
        alone=True,
    )
    metrics_by_holder: bool = _option(False, "Count requests and tokens of each token holder, by name.", alone=True)
    replicas: int | None = _option(
        None, "Number of copies of the model, each in its own process, on Ray Serve.", "N", least=1
    )
    max_replicas: int | None = _option(None, "Maximum number of copies, added while many requests wait.", "N", least=1)
    learn: Literal["own", "shared"] | None = _option(
        None,
        "Let drafters learn from answers. own: one drafter per token holder. shared: one for all. "
        "Default: nothing is learnt or kept.",
    )
    learn_holders: int = _option(5, "Minimum number of token holders for --learn shared.", "N", least=2)
    watch_stdin: bool = _option(False, "Exit when stdin is closed.")

    made: Path | None = None
    """The folder of all drafters that were made or have learnt on this device, or None to make none."""
    texts: Path | None = None
    """The folder that keeps the text sides made of GGUF files, or None to make them each time."""
    tokens: Tokens | None = None
    """The tokens of `token_file`, once it has been read."""
    template: str | None = None
    """The text of `chat_template`, once it has been read."""
    cache_share: float = CACHE_SHARE
    """The share of the free memory that all sessions may take together, unless `cache_mb` is given."""

    def read(self) -> ServeOptions:
        """These options with the files that they name. Raises `BadToken`, `BadTemplate`."""
        from models.text.text_side import read_template

        return replace(
            self,
            tokens=self.tokens if self.token_file is None else read_tokens(self.token_file),
            template=self.template if self.chat_template is None else read_template(self.chat_template),
        )

    @property
    def learnt(self) -> Path:
        """The folder of what was learnt. There is one wherever `learn` is set."""
        assert self.made is not None
        return self.made / "learnt"
