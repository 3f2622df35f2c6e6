"""The engine for GGUF files, on llama.cpp. It needs the `gguf` extra, and no PyTorch.

llama.cpp keeps rows in a cache, and each row knows the *sequences* that see it. The committed rows of a conversation
belong to its main sequence. A draft tree takes one more sequence for each leaf except the likeliest: a node belongs to
the sequences of all leaves below it, so a row sees its ancestors and the committed rows, and nothing else.
`llama_lane.py` manages that cache and explains how a conversation's bits stay the same; `llama_rows.py` reads the rows
for memory.
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from models.cores import usable_cores
from models.engines.engine import (
    STATE_TOKENS,
    BrokenTarget,
    Engine,
    EngineError,
    Floats,
    Forward,
    TargetContext,
    tree_difference,
)
from models.engines.kept_check import TreeCheck, checked
from models.engines.llama_lane import (
    DECODED,
    LEAVES,
    PIECE,
    ROWS,
    TILE,
    Lane,
    LlamaContext,
    be_silent,
    last_words,
    leaves,
    model_parameters,
)
from models.engines.llama_rows import ROW_BYTES, CacheRows, UnreadableRows
from models.engines.llama_text import LlamaText
from models.engines.memory_encoder import ArrayEncoder
from models.engines.threads import Threads, spin_briefly
from models.errors import CorruptWeights, UnknownModel
from models.gguf.file import gguf_files
from models.text.text_side import TextSide
from models.tree import DraftTree

log = logging.getLogger(__name__)

CHUNK = 128
"""Tokens of a prompt in one forward."""
IDLE = 64
"""Forwards without a conversation after which its rows are moved out of the lane, where they slow down all others."""
RESUMED = 8
"""Forwards without a conversation after which it is worth its own lane."""
SMALLEST, LARGEST = 1024, 16_384
"""Rows of a lane that several conversations share."""
ROUNDED = 256
"""llama.cpp rounds the rows of a lane up to a multiple of this."""
TOLERANCE = 0.02
"""Difference of logits, as a share of the largest, up to which a tree counts as read like its paths."""
NEWER = re.compile("unknown (?:model architecture|pre-tokenizer|tokenizer)")
"""What llama.cpp says about a file that another version of it may support."""
ALIKE = 4
"""Most rows that are tested for the same bits as one row, if not every number gives them."""


class LlamaEngine(Engine):
    """A GGUF file.

    The constructor verifies a small tree in two ways, as a tree and token by token. A model that reads the two
    differently is served without drafts. Raises `UnknownModel` and `CorruptWeights` for a file that llama.cpp cannot
    load, `UnfitDrafter`, `BrokenTarget`, and `ImportError` without the extra.
    """

    def __init__(
        self,
        path: Path,
        encoder: ArrayEncoder | None = None,
        *,
        threads: int | None = None,
        chunk: int = CHUNK,
        kept: Path | None = None,
        batch_invariant: bool = True,
    ) -> None:
        """`threads`: for the products; by default the best number is measured. `kept`: see `checked`.

        `batch_invariant`: a draft may run in small pieces so that each row has the same bits as alone.
        """
        spin_briefly()
        import llama_cpp as lib

        self._lib: Any = lib
        self.threads = Threads(usable_cores()) if threads is None else None
        self._fixed_threads = threads or usable_cores()
        self._lanes: list[Lane] = []
        self._forwards = 0
        self._model = _loaded(lib, path)
        self._bytes = sum(file.stat().st_size for file in gguf_files(path))
        self._vocabulary = lib.llama_model_get_vocab(self._model)
        self.vocabulary = int(lib.llama_vocab_n_tokens(self._vocabulary))
        layers, heads, kv_heads = (
            int(count(self._model))
            for count in (lib.llama_model_n_layer, lib.llama_model_n_head, lib.llama_model_n_head_kv)
        )
        size = self._key_length(heads)
        self.key_shape = layers, kv_heads, size
        self.chunk, self.row_budget, self.most_nodes = chunk, ROWS, LEAVES
        self.bytes_per_token = layers * kv_heads * size * 2 * ROW_BYTES
        shared = int(lib.llama_model_n_params(self._model)) // (4 * layers * max(1, heads * size))
        self.lane_cells = SMALLEST
        """Rows of a lane that several conversations share, if memory allows."""
        self.encoder: ArrayEncoder | None = None
        self._cuttable = not (lib.llama_model_is_recurrent(self._model) or lib.llama_model_is_hybrid(self._model))
        self._rows_alike: int | None = None
        """Largest piece of a draft, so that its rows have the same bits as alone, or None for any size."""
        # Threads for products live as long as the thread that requested them. OpenMP counts those of all threads; if
        # there are more than cores, they sleep while waiting, and a forward takes several times as long.
        with ThreadPoolExecutor(1) as passing:
            passing.submit(self._try_out, path, encoder, kept, batch_invariant).result()
        self._close_lanes()
        self.lane_cells = min(LARGEST, max(SMALLEST, shared // ROUNDED * ROUNDED))

    def _try_out(self, path: Path, encoder: ArrayEncoder | None, kept: Path | None, batch_invariant: bool) -> None:
        """Find out how the model takes drafts, whether the encoder reads its memory, and how many threads are fastest.

        Raises `BrokenTarget`, `UnfitDrafter`.
        """
        lib = self._lib
        system = lib.llama_print_system_info().decode()
        about = f"{lib.__version__} {system} {self._fixed_threads} {batch_invariant}"
        try:
            trees = checked(gguf_files(path), about, kept, partial(self._check_trees, batch_invariant))
        except BrokenTarget:
            raise
        except EngineError as error:  # Not kept: it may be for lack of memory.
            trees = TreeCheck(str(error), None)
        self._rows_alike = trees.alike
        if why := trees.why_none:
            self.most_nodes, self.why_no_drafter = 1, why
            if not self._cuttable:
                self.bytes_per_token = self._state_bytes()
        else:
            if encoder is not None:
                self.remember_with(encoder)
            if (why := self._check_rows()) is not None:
                self.why_no_drafter, self.encoder = why, None
        self.measure_threads()

    def close(self) -> None:
        """Free the model and all rows. The engine cannot be used any more."""
        self._close_lanes()
        self._lib.llama_model_free(self._model)

    @property
    def description(self) -> str:
        count = int(self._lib.llama_model_n_params(self._model))
        about = f"llama.cpp, {count / 1e6:,.1f} million parameters, {self._bytes / 1e6:,.0f} MB"
        if not self.takes_drafts:
            return f"{about}, without drafts, because {self.why_no_drafter}"
        if self._rows_alike is None:
            return about
        return f"{about}, drafts checked {self._rows_alike} tokens at a time (--no-batch-invariance: all at once)"

    def context(self) -> LlamaContext:
        return LlamaContext(cuttable=self._cuttable)

    def next_chunk(self, context: TargetContext) -> Forward | None:
        """The next chunk of the prompt, chosen so that the last one is no shorter than a tile.

        Otherwise its bits would differ from those of a prompt that is read at once.
        """
        rest = len(context.tokens) - context.computed - self.chunk
        if 0 < rest < TILE <= self.chunk - TILE:
            return Forward(context, self.chunk - TILE, None)
        return super().next_chunk(context)

    def tokenize(self, text: bytes) -> list[int]:
        """The tokens of a text, as llama.cpp sees them: special tokens are read, and none is added."""
        tokens = (self._lib.llama_token * (len(text) + 8))()
        count = self._lib.llama_tokenize(self._vocabulary, text, len(text), tokens, len(tokens), False, True)
        return list(tokens[: max(0, count)])

    def text_side(self, name: str, template: str | None = None) -> TextSide | None:
        """llama.cpp's own text side, under a name, or None if the file has no tokenizer.

        `template` replaces its chat template.
        """
        lib = self._lib
        if lib.llama_vocab_type(self._vocabulary) == lib.LLAMA_VOCAB_TYPE_NONE:
            return None
        own: bytes | None = lib.llama_model_chat_template(self._model, None)
        chosen = (own or b"").decode(errors="replace") if template is None else template
        text = LlamaText(lib, self._vocabulary, chosen)
        stops = tuple(sorted(text.stop_tokens))
        positions = int(lib.llama_model_n_ctx_train(self._model))
        return TextSide(name, text.digest, None, {}, chosen, stops, text, positions)

    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        assert self.encoder is not None and isinstance(context, LlamaContext)
        rows = self._cached(context, start, end)
        return self.encoder.packed(rows.keys, rows.values, start)

    def _cached(self, context: LlamaContext, start: int, end: int) -> CacheRows:
        """The cached rows `start .. end`. Raises `UnreadableRows`."""
        if context.lane is None:
            self._enter(context, context.computed)
        turned = self._lib.llama_model_rope_type(self._model) == self._lib.LLAMA_ROPE_TYPE_NORM
        return CacheRows.read(context.rows(start, end), range(start, end), self.key_shape, interleaved=turned)

    def _run(self, requests: Sequence[Forward]) -> list[Floats]:
        by_lane: dict[Lane, list[int]] = {}
        self._forwards += 1
        for at, request in enumerate(requests):
            by_lane.setdefault(self._placed(request, alone=len(requests) == 1), []).append(at)
        found: dict[int, Floats] = {}
        for lane, places in by_lane.items():
            for part in _parts(requests, places):
                logits = lane.decode([requests[at] for at in part], self.vocabulary, self._rows_alike)
                found |= zip(part, logits)
                for at in part:
                    if lane.free >= lane.spare:
                        break
                    context = requests[at].context
                    assert isinstance(context, LlamaContext)
                    context.forget_branches()
        if self._forwards % (IDLE // 4) == 0:
            idle = [context for lane in self._lanes for context in lane.holders if context.used < self._forwards - IDLE]
            for context in idle:
                context.park()
        return [found[at] for at in range(len(requests))]

    def _use_threads(self, count: int) -> None:
        for lane in self._lanes:
            lane.use_threads(count)

    def _placed(self, request: Forward, *, alone: bool) -> Lane:
        """The lane of a request's conversation, which is moved if its lane has no room.

        `alone`: it runs alone. If it did not run for a while, it gets its own lane, because llama.cpp sums in blocks of
        the cache: otherwise its text would depend on which other rows are there. If it outgrows that, it gets another.
        """
        context, rows = request.context, request.start + request.rows
        assert isinstance(context, LlamaContext)
        own = alone and context.lane is not None and context.lane.holders == {context}
        if alone and not request.since and (context.used == 0 or context.used < self._forwards - RESUMED):
            own, lane = True, context.lane or next(iter(self._lanes), None)
            if lane is not None and (lane.holders != {context} or not context.in_order):
                for holder in [*lane.holders]:
                    holder.park()
        context.used = self._forwards
        if context.lane is not None and context.lane.has_room(rows, context):
            context.reserve(rows)
            return context.lane
        return self._enter(context, rows, own=own)

    def _enter(self, context: LlamaContext, rows: int, *, own: bool = False) -> Lane:
        """Move a conversation to a lane with room for this many rows. Lanes that become empty are freed.

        `own`: to one where no other is.
        """
        context.park()
        needed = max(rows, context.parked_rows)
        with_room = (lane for lane in self._lanes if lane.has_room(needed, context))
        lane = next((lane for lane in with_room if not (own and lane.holders)), None)
        for empty in [other for other in self._lanes if not other.holders and other is not lane]:
            self._lanes.remove(empty)
            empty.close()
        if lane is None:
            threads = self._fixed_threads if self.threads is None else self.threads.count
            lane = Lane(self._lib, self._model, self._cells(needed), threads, cuttable=self._cuttable)
            self._lanes.append(lane)
        context.move(lane)
        context.reserve(rows)
        return lane

    def _cells(self, needed: int) -> int:
        """Rows of a new lane for a conversation that needs this many: room for others too, as far as memory allows."""
        alone, shared = (needed + needed // 2) // ROUNDED * ROUNDED + ROUNDED, self.lane_cells
        if self.most_bytes is not None:
            left = self.most_bytes // self.bytes_per_token - sum(lane.cells for lane in self._lanes)
            shared = min(shared, left // ROUNDED * ROUNDED)
        return max(alone, shared)

    def _close_lanes(self) -> None:
        for lane in self._lanes:
            lane.close()
        self._lanes = []

    def _key_length(self, heads: int) -> int:
        """Numbers of a key of one head."""
        said = self._metadata(f"{self._metadata('general.architecture')}.attention.key_length")
        return int(said) if said else int(self._lib.llama_model_n_embd(self._model)) // max(1, heads)

    def _metadata(self, name: str) -> str:
        """An entry of the file's metadata; empty if there is none."""
        text = ctypes.create_string_buffer(256)
        found = self._lib.llama_model_meta_val_str(self._model, name.encode(), text, len(text))
        return text.value.decode(errors="replace") if found >= 0 else ""

    def _check_rows(self) -> str | None:
        """Check whether memory can be made from rows that are read out of the cache. Returns why not, or None."""
        context = self.context()
        try:
            context.assign(0, [token % self.vocabulary for token in (7, 3, 5)])
            self.verify(context, DraftTree.empty())
            self._cached(context, 0, 3)
        except UnreadableRows as error:
            return f"its memory cannot be read: {error}"
        finally:
            context.release()
        return None

    def _state_bytes(self) -> int:
        """Bytes that count per token for a conversation with a state."""
        context, sizes = self.context(), list[int]()
        context.assign(0, [7 % self.vocabulary])
        for _ in range(2):
            self.verify(context, DraftTree.empty())
            sizes.append(len(context.rows(0, context.computed)))
            context.commit(DraftTree.empty(), [], 7 % self.vocabulary)
        context.release()
        row = sizes[1] - sizes[0]
        return max(1, row + (sizes[0] - row) // STATE_TOKENS)

    def _pieces_have_the_same_bits(self) -> bool:
        """Whether rows in large pieces have the same bits as alone. Some products change from 8 rows on."""
        context, same = self.context(), True
        for size in (8, PIECE):
            tokens = [(5 * at + 3) % self.vocabulary for at in range(size)]
            chain = DraftTree.chain(tokens[1:])
            context.assign(0, tokens[:1])
            together = self.verify(context, chain)
            context.commit(chain, range(size - 1), tokens[0])
            for row in (size - 1, size // 2):
                context.assign(0, tokens[: row + 1])
                same = same and np.array_equal(self.verify(context, DraftTree.empty())[0], together[row])
            context.release()
        return same

    def _check_trees(self, batch_invariant: bool) -> TreeCheck:
        """Check whether a draft tree is read like its paths, and with what size of pieces to the last bit.

        Without `batch_invariant`, rounding does not matter. Raises `EngineError`.
        """
        if not self._cuttable:
            return TreeCheck("its state cannot be taken back", None)
        for alike in (None, *range(ALIKE, 0, -1)):
            self._rows_alike = alike
            difference = tree_difference(self)
            if not batch_invariant and difference < TOLERANCE:
                return TreeCheck(None, None)
            if difference == 0 and (alike is not None or self._pieces_have_the_same_bits()):
                return TreeCheck(None, alike)
        differs = f"it reads them differently from plain text, by {difference:.1%}"
        return TreeCheck(None if difference < TOLERANCE else differs, None)


def _parts(requests: Sequence[Forward], places: Sequence[int]) -> list[list[int]]:
    """The places, in groups that fit into one call of llama.cpp."""
    parts, rows, branches = [list[int]()], 0, 0
    for at in places:
        request = requests[at]
        more = 0 if request.tree is None else max(0, len(leaves(request.tree)) - 1)
        if parts[-1] and (rows + request.rows > DECODED or branches + more > LEAVES):
            parts.append([])
            rows = branches = 0
        parts[-1].append(at)
        rows, branches = rows + request.rows, branches + more
    return parts


def _loaded(lib: Any, path: Path) -> Any:
    """The model in a file. Raises `UnknownModel`, `CorruptWeights`."""
    be_silent(lib)
    lib.llama_backend_init()
    if model := lib.llama_model_load_from_file(str(path).encode(), model_parameters(lib)):
        return model
    said = f"llama.cpp cannot load {path}{last_words()}."
    if NEWER.search(last_words()):
        raise UnknownModel(f"{said} A newer one may: pip install --upgrade llama-cpp-python.")
    raise CorruptWeights(f"{said} Fetch or convert it again.")
