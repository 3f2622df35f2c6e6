"""The engine for GGUF files, on llama.cpp. It needs the `gguf` extra, and no PyTorch.

llama.cpp keeps rows in a cache, and each row knows the *sequences* that see it. The committed rows of a conversation
belong to its main sequence. A draft tree takes one more for each leaf but the likeliest one: a node belongs to the
sequences of all leaves below it, so a row sees its ancestors and the committed rows, and nothing else. `llama_rows.py`
reads the rows for memory.

The text is that of llama.cpp's own server, because attention and cache are as they are there. llama.cpp adds up in the
order of the cache and quantises what it multiplies, so one bit that differs becomes another word after a while. Three
rules keep the bits of a conversation that runs alone, whatever is drafted. The likeliest path of a tree lies first in
the cache, and accepted rows of other paths are computed again behind it, in order. A draft runs in pieces of as many
rows as give the bits of one row alone (`_rows_alike`). And a conversation that begins, or goes on after a while, gets a
lane to itself, with its rows in order (`_placed`). Conversations that run at the same time share a lane and a batch all
the same: there, rounding may decide between tokens that are almost equally likely. So it may from 512 rows on where
several threads compute, because llama.cpp gives each a part of the attention of a single row.

Layers with a sliding window may lose rows that only a rewind would see. Then a conversation is computed again. So it is
where a model has a state in place of rows, which cannot be taken back: such a model is served without drafts, and a
single node is tried on a copy of the state.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from drafter.cores import usable_cores
from drafter.tree import DraftTree
from remote.verifier.budget import free_bytes
from remote.verifier.engine import (
    BrokenTarget,
    Engine,
    EngineError,
    Floats,
    Forward,
    TargetContext,
    check_shape,
    tree_difference,
)
from remote.verifier.engines.llama_rows import ROW_BYTES, CacheRows, UnreadableRows
from remote.verifier.engines.memory_encoder import ArrayEncoder
from remote.verifier.engines.threads import Threads, spin_briefly
from remote.verifier.start_errors import CorruptWeights

CHUNK = 128
"""Tokens of a prompt in one forward."""
ROWS = 128
DECODED = 512
"""Most rows of one call of llama.cpp."""
SEQUENCES, STATES = 128, 16
"""Sequences of a lane, and where each of them holds a state, which may have 100 MB."""
LEAVES = 64
"""Sequences that no conversation takes, so that there are some for the leaves of a tree. A tree may have so many
nodes."""
STATE_TOKENS = 256
"""The bytes of a state are counted as if a conversation had so many tokens, because sessions are counted in tokens."""
IDLE = 64
"""Forwards without a conversation after which its rows leave their lane, where they cost all others time."""
RESUMED = 8
"""Forwards without a conversation after which it is worth giving it a lane to itself."""
SMALLEST, LARGEST = 1024, 16_384
"""Rows of a lane that several conversations share."""
TILE = 64
"""From so many rows on, llama.cpp computes attention in another way, tile by tile."""
PIECE = TILE // 2
"""Rows of a piece where any number gives the same bits."""
TOLERANCE = 0.02
"""Difference of logits up to which a tree is read as its paths are, as a share of the largest logit."""
ALIKE = 4
"""Most rows that are tried for the same bits as one row, if any number does not give them."""
SHORT = 8
"""Rows of a conversation that are as few are no prompt: they are cut into pieces like a draft."""


class _Row(NamedTuple):
    """A row of a batch."""

    token: int
    position: int
    sequences: list[int]
    wanted: bool
    """Its logits are wanted."""


class Lane:
    """A cache of llama.cpp with `cells` rows, for one long conversation or for several short ones.

    Each row attends to all rows of its lane that are in use, and most of them are hidden by the mask. So a lane is as
    large as attention to it costs about what the products of a row cost.
    """

    def __init__(self, lib: Any, model: Any, cells: int, threads: int, *, cuttable: bool) -> None:
        """`cuttable`: see `LlamaContext`."""
        self._lib, self.cells, self._cuttable = lib, cells, cuttable
        sequences = SEQUENCES if cuttable else STATES
        self.spare = LEAVES if cuttable else STATES // 2
        """Sequences that no conversation takes."""
        self._window = int(lib.llama_model_n_swa(model)) if cuttable else 0
        """Tokens that layers with a sliding window see; 0: all layers see all tokens."""
        parameters = lib.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = cells, DECODED, ROWS
        parameters.n_seq_max, parameters.kv_unified = sequences, True
        parameters.n_outputs_max = parameters.n_outputs_max_per_seq = 0  # As many as there are rows.
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.swa_full = True  # A rewind may need any row. `lacks_rows` tells where one is gone all the same.
        parameters.no_perf = True
        self._context = lib.llama_init_from_model(model, parameters)
        if not self._context:
            raise EngineError(f"llama.cpp has no room for {cells} rows{_last_words()}")
        self._memory, self._batch = lib.llama_get_memory(self._context), lib.llama_batch_init(DECODED, 0, sequences)
        self._scratch = sequences - 1
        """A sequence for a moment."""
        self._sequences = list(range(self._scratch))
        """Those that are free."""
        self.holders: set[LlamaContext] = set()
        """Conversations that have rows here."""
        self._last: LlamaContext | None = None
        """The one whose rows lie behind all others; None: not known."""

    def close(self) -> None:
        """Free the cache."""
        self._lib.llama_batch_free(self._batch)
        self._lib.llama_free(self._context)

    @property
    def free(self) -> int:
        """Sequences that are free."""
        return len(self._sequences)

    def has_room(self, rows: int, context: LlamaContext) -> bool:
        """Whether a conversation can have so many rows here."""
        held = sum(other.capacity for other in self.holders if other is not context)
        return held + rows <= self.cells and (context in self.holders or self.free > self.spare)

    def take(self) -> int:
        return self._sequences.pop()

    def give_back(self, sequence: int) -> None:
        self.cut(sequence)
        self._sequences.append(sequence)

    def cut(self, sequence: int, start: int = -1, end: int = -1) -> bool:
        """Take rows `start .. end` out of a sequence; -1: from the first, to the last. False: its state has no rows."""
        return bool(self._lib.llama_memory_seq_rm(self._memory, sequence, start, end))

    def use_threads(self, count: int) -> None:
        self._lib.llama_set_n_threads(self._context, count, count)

    def leave_gaps(self, context: LlamaContext, *, newest: bool = False) -> None:
        """A conversation gives up rows. Where others lie behind them, what they get next would come before those.

        `newest`: it gives up rows of its last forward alone, so none lie behind them if that was the lane's last one.
        """
        if self._last is not context or not newest:
            for other in self.holders:
                other.in_order = other.in_order and other is context

    def copy(self, source: int, sequence: int, start: int, end: int) -> None:
        """Let another sequence have the rows `start .. end` too. Nothing is computed or moved."""
        self._lib.llama_memory_seq_cp(self._memory, source, sequence, start, end)

    def lacks_rows(self, sequence: int, count: int) -> bool:
        """Whether rows are gone that the next one after the first `count` sees.

        Rows before the window of a sequence's last one give way to those of others, and only a rewind needs them.
        """
        if not (count and self._window):
            return False
        first = max(0, count - self._window + 1)
        return not 0 <= self._lib.llama_memory_seq_pos_min(self._memory, sequence) <= first

    def state(self, sequence: int, start: int, end: int) -> bytes:
        """The rows `start .. end` of a sequence, as llama.cpp writes them."""
        self.copy(sequence, self._scratch, start, end)
        try:
            size = self._lib.llama_state_seq_get_size(self._context, self._scratch)
            state = (ctypes.c_uint8 * size)()
            written = self._lib.llama_state_seq_get_data(self._context, state, size, self._scratch)
        finally:
            self.cut(self._scratch)
        return bytes(state[:written])

    def states(self, sequence: int, count: int) -> list[bytes]:
        """The first `count` rows, in parts, because llama.cpp leaves out what is before the window of the last one."""
        size = self._window or count
        return [self.state(sequence, start, min(start + size, count)) for start in range(0, count, size)]

    def put(self, sequence: int, states: Sequence[bytes]) -> bool:
        """Give a sequence the rows of `states`. False if they do not fit."""
        for state in states:
            held = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
            if not self._lib.llama_state_seq_set_data(self._context, held, len(state), self._scratch):
                return False
            self.copy(self._scratch, sequence, 0, -1)
            self.cut(self._scratch)
        return True

    def decode(self, requests: Sequence[Forward], vocabulary: int, alike: int | None) -> list[Floats]:
        """Run requests of this lane's conversations: one alone in pieces of `alike` rows, if so many give the bits of
        one row, and several as one batch.

        The logits of each request, (1 + n, V), or (0, V) without a tree. Raises `EngineError`.
        """
        if not self._cuttable and any(request.nodes for request in requests):
            plain = [replace(one, tree=DraftTree.empty()) if one.nodes else one for one in requests]
            firsts = self.decode(plain, vocabulary, alike)
            return [np.concatenate((first, *self._nodes(one, vocabulary))) for first, one in zip(firsts, requests)]
        rows, wanted = list[_Row](), list[list[int]]()
        alone = requests[0].context if len(requests) == 1 else None
        for request in requests:
            assert isinstance(request.context, LlamaContext)
            begun, sequences = len(rows), request.context.begin(request)
            tokens, positions = request.tokens, request.positions.tolist()
            order = [*range(request.pending), *(request.pending + node for node in request.context.order)]
            first = request.rows if request.tree is None else request.pending - 1
            places = {row: begun + at for at, row in enumerate(order)}
            rows += [_Row(tokens[row], positions[row], sequences[row], row >= first) for row in order]
            wanted.append([places[row] for row in range(first, request.rows)])
        self._last = alone if isinstance(alone, LlamaContext) else None
        parts, at = list[Floats](), 0
        for size in _pieces(requests, alike):
            parts.append(self._decoded(rows[at : at + size], vocabulary))
            at += size
        logits = parts[0] if len(parts) == 1 else np.concatenate(parts)
        number = np.cumsum([row.wanted for row in rows]) - 1
        return [logits[number[places]] if places else logits[:0] for places in wanted]

    def _nodes(self, request: Forward, vocabulary: int) -> Iterator[Floats]:
        """Run the nodes of a tree one after another, each on a copy of its parent's state: their logits, (1, V)."""
        if request.tree is None:
            return
        assert isinstance(request.context, LlamaContext)
        for node, position in enumerate(request.positions[request.pending :].tolist()):
            row = _Row(int(request.tree.tokens[node]), position, [request.context.branch(request.tree, node)], True)
            yield self._decoded([row], vocabulary)

    def _decoded(self, rows: Sequence[_Row], vocabulary: int) -> Floats:
        """Run rows as one batch. The logits of those whose logits are wanted, in their order."""
        batch = self._batch
        for at, row in enumerate(rows):
            batch.token[at], batch.pos[at], batch.n_seq_id[at] = row.token, row.position, len(row.sequences)
            for number, sequence in enumerate(row.sequences):
                batch.seq_id[at][number] = sequence
            batch.logits[at] = row.wanted
        batch.n_tokens = len(rows)
        if status := self._lib.llama_decode(self._context, batch):
            raise EngineError(f"llama.cpp could not compute this (status {status}){_last_words()}")
        count = sum(row.wanted for row in rows)
        if not count:
            return np.zeros((0, vocabulary), np.float32)
        return np.ctypeslib.as_array(self._lib.llama_get_logits(self._context), (count, vocabulary)).copy()


class LlamaContext(TargetContext):
    """A conversation whose rows lie in a lane."""

    def __init__(self, *, cuttable: bool = True) -> None:
        """`cuttable`: single rows can be taken back. Else there is one state, which is computed anew."""
        super().__init__()
        self._cuttable = cuttable
        self._lane: Lane | None = None
        self._main = 0
        """Its own sequence there."""
        self._held = 0
        """Rows that the main sequence has in its lane."""
        self._branches: dict[int, list[int]] = {}
        """The other sequences of the last tree, each with the nodes of its path."""
        self._path: list[int] = []
        """The nodes of the last tree that the main sequence has."""
        self.order: list[int] = []
        """The nodes of the last tree in the order in which they lie in the cache: those of the main sequence first."""
        self._rows = 0
        self._parked: list[bytes] = []
        """Its rows, outside of any lane."""
        self.parked_rows = 0
        """How many rows these are: a lane must have room for all of them, also where fewer count."""
        self.used = 0
        """Number of the last forward that it took part in."""
        self.in_order = True
        """Its rows lie one after another, and the next ones come behind them, as far as is known."""
        self._whole = 0
        """The last commit has the rows of so many tokens."""
        self._accepted = 0
        """Tokens up to the end of the last accepted draft. Those without rows are computed again, in pieces."""

    @property
    def capacity(self) -> int:
        return self._rows

    @property
    def lane(self) -> Lane | None:
        return self._lane

    def move(self, lane: Lane) -> None:
        """Take its rows to another lane. Raises `EngineError` if they are lost; then they are computed again."""
        self.park()
        self._lane, self._main = lane, lane.take()
        lane.holders.add(self)
        states, self._parked, self.parked_rows = self._parked, [], 0
        self._rows = self._held = self.computed
        self.in_order = True
        if not lane.put(self._main, states):
            self._lose()
        if states:
            lane.cut(self._main, self.computed)

    def park(self) -> None:
        """Take its rows out of its lane, and keep them beside it."""
        if self._lane is not None:
            self.forget_branches()
            self._parked = self._lane.states(self._main, self.computed)
            self._leave()
            self._path, self._rows, self.parked_rows = [], self.computed, self.computed

    def reserve(self, rows: int) -> None:
        """Count so many rows as its own, so that no other conversation is given them."""
        self._rows = rows

    def assign(self, base: int, tokens: Sequence[int]) -> None:
        super().assign(base, tokens)
        if base < self._accepted:
            self._accepted = 0
        self._anew()

    def again(self, pending: int) -> int:
        """How many of the next tokens are computed again, because they were accepted beside the likeliest path."""
        return max(0, min(pending, self._accepted - self.computed))

    def begin(self, request: Forward) -> list[list[int]]:
        """Make the lane ready for a forward, and choose the order of its nodes. The sequences of each of its rows."""
        assert self._lane is not None
        self._path = []
        self._cut_back()
        if self._held > self.computed or self._lane.lacks_rows(self._main, self.computed):
            self._lose()
        tree = DraftTree.empty() if request.tree is None else request.tree
        self._path = tree.likeliest_path()
        for leaf in leaves(tree):
            if leaf != (self._path[-1] if self._path else None):
                sequence = self._lane.take()
                if self.computed:
                    self._lane.copy(self._main, sequence, 0, self.computed)
                self._branches[sequence] = tree.path(leaf)
        self.order = [*self._path, *(node for node in range(len(tree)) if node not in set(self._path))]
        self._held = self.computed + request.pending + len(self._path)
        pending = [[self._main, *self._branches] for _ in range(request.pending)]
        nodes: list[list[int]] = [[] for _ in range(request.nodes)]
        for sequence, path in ((self._main, self._path), *self._branches.items()):
            for node in path:
                nodes[node].append(sequence)
        return pending + nodes

    def branch(self, tree: DraftTree, node: int) -> int:
        """A sequence that begins with the state after a node's parent."""
        assert self._lane is not None
        path, sequence = tree.path(node), self._lane.take()
        parent = next((other for other, known in self._branches.items() if known == path[:-1]), self._main)
        self._lane.copy(parent, sequence, 0, -1)
        self._branches[sequence] = path
        return sequence

    def forget_branches(self) -> None:
        """Give the sequences of the last tree back, except the main one."""
        if self._lane is not None:
            for sequence in self._branches:
                self._lane.give_back(sequence)
        self._branches = {}

    def rows(self, start: int, end: int) -> bytes:
        """Its rows `start .. end`, as llama.cpp writes them. It is in a lane."""
        assert self._lane is not None
        return self._lane.state(self._main, start, end)

    def commit(self, tree: DraftTree, accepted: Sequence[int], bonus: int | None) -> list[int]:
        new = super().commit(tree, accepted, bonus)
        self._accepted = self.computed
        self.computed = min(self.computed, self._whole)  # What was accepted beside the main path is computed again.
        self._anew()
        return new

    def _anew(self) -> None:
        """Take back what no longer counts, and compute everything again where the rest cannot be had."""
        self._cut_back()
        lost = self._lane is not None and self._lane.lacks_rows(self._main, self.computed)
        if lost or (not self._cuttable and max(self._held, self.parked_rows) > self.computed > 0):
            self.computed, self._parked, self.parked_rows = 0, [], 0
            self.rewinds += 1

    def _cut_back(self) -> None:
        """Take the rows of the last tree, and others that do not count, out of the lane."""
        self.forget_branches()
        if self._lane is not None and self._held > self.computed and (self._cuttable or not self.computed):
            self._lane.cut(self._main, self.computed or -1)
            self._lane.leave_gaps(self)
            self._held = self.computed

    def _lose(self) -> NoReturn:
        """Give up all rows where a forward counts on them."""
        self.computed = self._rows = 0
        self.rewinds += 1
        raise EngineError("llama.cpp did not keep the rows of a conversation. Ask again.")

    def _keep(self, start: int, rows: Sequence[int]) -> None:
        if self._lane is None:  # It was parked, without the rows of a draft.
            self._whole = min(start, self.computed)
            return
        pairs = zip(self._path, (row - start for row in rows))
        agreed = next((at for at, (node, kept) in enumerate(pairs) if node != kept), min(len(self._path), len(rows)))
        for sequence, path in self._branches.items():
            if not self._cuttable and rows and path == [row - start for row in rows]:
                self._lane.copy(sequence, self._main, 0, -1)
                self._held, agreed = start + len(rows), len(rows)
        self._whole = start + agreed
        if (self._branches or self._held > self._whole) and self._cuttable:
            self._lane.cut(self._main, self._whole)
            self._lane.leave_gaps(self, newest=True)
            self._held = self._whole
        self.forget_branches()
        self._path, self._rows = [], self._whole

    def _copy(self, other: TargetContext, count: int) -> bool:
        assert isinstance(other, LlamaContext)
        lane = other.lane
        if not self._cuttable and other._held != count:
            return False
        if lane is None and self._lane is None and other._parked:
            self._parked, self.parked_rows, self._rows = other._parked, other.parked_rows, count
            return True
        if lane is None or self._lane not in (None, lane) or not lane.has_room(len(self.tokens) + LEAVES, self):
            return False
        if self._lane is None:
            self._lane, self._main = lane, lane.take()
            lane.holders.add(self)
        lane.cut(self._main)
        lane.copy(other._main, self._main, 0, count if self._cuttable else -1)
        self._rows = self._held = count
        self.in_order = other.in_order
        if lane.lacks_rows(self._main, count):
            self._leave()
            return False
        return True

    def _leave(self) -> None:
        if self._lane is not None:
            self._lane.give_back(self._main)
            self._lane.holders.discard(self)
            self._lane.leave_gaps(self)
        self._lane, self._held = None, 0

    def _free(self) -> None:
        self.forget_branches()
        self._leave()
        self._path, self._rows, self._parked, self.parked_rows = [], 0, [], 0


class LlamaEngine(Engine):
    """A GGUF file.

    The constructor verifies a small tree in two ways, as a tree and token by token. A model that reads the two
    differently is served without drafts. Raises `CorruptWeights` for a file that llama.cpp cannot load, `UnfitDrafter`,
    `BrokenTarget`, and `ImportError` without the extra.
    """

    def __init__(
        self, path: Path, encoder: ArrayEncoder | None = None, *, threads: int | None = None, chunk: int = CHUNK
    ) -> None:
        """`threads`: for the products; None: as many as are fastest, measured."""
        spin_briefly()
        import llama_cpp as lib

        self._lib: Any = lib
        self.threads = Threads(usable_cores()) if threads is None else None
        self._fixed_threads = threads or usable_cores()
        self._lanes: list[Lane] = []
        self._forwards = 0
        _be_silent(lib)
        lib.llama_backend_init()
        self._model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
        if not self._model:
            raise CorruptWeights(f"{path} cannot be loaded by llama.cpp{_last_words()}. Fetch or convert it again.")
        self._bytes = path.stat().st_size
        self._vocabulary = lib.llama_model_get_vocab(self._model)
        self.vocabulary = int(lib.llama_vocab_n_tokens(self._vocabulary))
        layers, heads, kv_heads = (
            int(count(self._model))
            for count in (lib.llama_model_n_layer, lib.llama_model_n_head, lib.llama_model_n_head_kv)
        )
        size = self._key_length(heads)
        self.shape = layers, kv_heads, size
        self.chunk, self.row_budget, self.most_nodes = chunk, ROWS, LEAVES
        self.bytes_per_token = layers * kv_heads * size * 2 * ROW_BYTES
        shared = int(lib.llama_model_n_params(self._model)) // (4 * layers * max(1, heads * size))
        self.lane_cells = min(LARGEST, max(SMALLEST, shared // 256 * 256))
        """Rows of a lane that several conversations share."""
        self.encoder: ArrayEncoder | None = None
        self._cuttable = not (lib.llama_model_is_recurrent(self._model) or lib.llama_model_is_hybrid(self._model))
        self.why_no_drafter: str | None = None
        """Why no drafter is used for this model; None: one may be."""
        self._rows_alike: int | None = None
        """Rows of one batch that have the bits of one row alone; None: any number."""
        # Threads for products live as long as the thread that asked for them. OpenMP counts those of all threads, and
        # where there are more than cores, each waits asleep: a forward then takes several times as long.
        with ThreadPoolExecutor(1) as passing:
            if why := passing.submit(self._check_trees).result():
                self.most_nodes, self.why_no_drafter = 1, why
                if not self._cuttable:
                    self.bytes_per_token = passing.submit(self._state_bytes).result()
            elif encoder is not None:
                check_shape(encoder.config, self.shape, "file")
                self.why_no_drafter = passing.submit(self._check_rows).result()
                self.encoder = None if self.why_no_drafter else encoder
            passing.submit(self.measure_threads).result()

    def close(self) -> None:
        """Free the model and all rows. The engine cannot be used any more."""
        for lane in self._lanes:
            lane.close()
        self._lanes = []
        self._lib.llama_model_free(self._model)

    @property
    def description(self) -> str:
        count = int(self._lib.llama_model_n_params(self._model))
        about = f"llama.cpp, {count / 1e6:,.1f} million parameters, {self._bytes / 1e6:,.0f} MB"
        return about if self.takes_drafts else f"{about}, without drafts, because {self.why_no_drafter}"

    def context(self) -> LlamaContext:
        return LlamaContext(cuttable=self._cuttable)

    def next_chunk(self, context: TargetContext) -> Forward | None:
        """One chunk of the prompt, such that the last one is no shorter than a tile: else it had other bits than in a
        prompt that is read at once."""
        rest = len(context.tokens) - context.computed - self.chunk
        if 0 < rest < TILE <= self.chunk - TILE:
            return Forward(context, self.chunk - TILE, None)
        return super().next_chunk(context)

    def tokenize(self, text: bytes) -> list[int]:
        """The tokens of a text, as llama.cpp sees them: special tokens are read, and none is added."""
        tokens = (self._lib.llama_token * (len(text) + 8))()
        count = self._lib.llama_tokenize(self._vocabulary, text, len(text), tokens, len(tokens), False, True)
        return list(tokens[: max(0, count)])

    def free_bytes(self) -> int:
        return free_bytes()

    def memory(self, context: TargetContext, start: int, end: int) -> bytes:
        assert self.encoder is not None and isinstance(context, LlamaContext)
        rows = self._cached(context, start, end)
        return self.encoder.packed(rows.keys, rows.values, start)

    def _cached(self, context: LlamaContext, start: int, end: int) -> CacheRows:
        """The cached rows `start .. end`. Raises `UnreadableRows`."""
        if context.lane is None:
            self._enter(context, context.computed)
        turned = self._lib.llama_model_rope_type(self._model) == self._lib.LLAMA_ROPE_TYPE_NORM
        return CacheRows.read(context.rows(start, end), range(start, end), self.shape, interleaved=turned)

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
        """The lane of a request's conversation, which moves where its lane has no room.

        `alone`: it runs alone. If it has not for a while, it gets a lane to itself, because llama.cpp sums in blocks of
        the cache: its text would depend on who else has rows there.
        """
        context, rows = request.context, request.context.computed + request.rows
        assert isinstance(context, LlamaContext)
        if alone and (context.used == 0 or context.used < self._forwards - RESUMED):
            lane = context.lane or next(iter(self._lanes), None)
            if lane is not None and (lane.holders != {context} or not context.in_order):
                for holder in [*lane.holders]:
                    holder.park()
        context.used = self._forwards
        if context.lane is not None and context.lane.has_room(rows, context):
            context.reserve(rows)
            return context.lane
        return self._enter(context, rows)

    def _enter(self, context: LlamaContext, rows: int) -> Lane:
        """Let a conversation into a lane that has room for so many rows. Lanes that are left empty are freed."""
        needed = max(rows, context.parked_rows)
        lane = next((lane for lane in self._lanes if lane.has_room(needed, context)), None)
        if lane is None:
            alone = (needed + needed // 2) // 256 * 256 + 256
            threads = self._fixed_threads if self.threads is None else self.threads.count
            cells = max(self.lane_cells, alone)
            lane = Lane(self._lib, self._model, cells, threads, cuttable=self._cuttable)
            self._lanes.append(lane)
        context.move(lane)
        context.reserve(rows)
        for empty in [other for other in self._lanes if not other.holders]:
            self._lanes.remove(empty)
            empty.close()
        return lane

    def _key_length(self, heads: int) -> int:
        """Numbers of a key of one head."""
        said = self._metadata(f"{self._metadata('general.architecture')}.attention.key_length")
        return int(said) if said else int(self._lib.llama_model_n_embd(self._model)) // max(1, heads)

    def _metadata(self, name: str) -> str:
        """An entry of the file; empty if it has none of that name."""
        text = ctypes.create_string_buffer(256)
        found = self._lib.llama_model_meta_val_str(self._model, name.encode(), text, len(text))
        return text.value.decode(errors="replace") if found >= 0 else ""

    def _check_rows(self) -> str | None:
        """Find out whether memory can be made, of rows that are read out of the cache. Returns why it cannot."""
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
        """Bytes that are counted for a token of a conversation with a state."""
        context, sizes = self.context(), list[int]()
        context.assign(0, [7 % self.vocabulary])
        for _ in range(2):
            self.verify(context, DraftTree.empty())
            sizes.append(len(context.rows(0, context.computed)))
            context.commit(DraftTree.empty(), [], 7 % self.vocabulary)
        context.release()
        row = sizes[1] - sizes[0]
        return row + (sizes[0] - row) // STATE_TOKENS

    def _pieces_have_the_same_bits(self) -> bool:
        """Whether rows of large pieces have the bits that they have alone. Some products change from 8 rows on."""
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

    def _check_trees(self) -> str | None:
        """Find out whether a draft tree is read as its paths are, and in pieces of how many rows to the last bit.

        Returns why there can be no trees. Raises `BrokenTarget`.
        """
        if not self._cuttable:
            return "its state cannot be taken back"
        try:
            for alike in (None, *range(ALIKE, 0, -1)):
                self._rows_alike = alike
                difference = tree_difference(self)
                if difference == 0 and (alike is not None or self._pieces_have_the_same_bits()):
                    return None
        except BrokenTarget:
            raise
        except EngineError as error:
            return str(error)
        self._rows_alike = None
        return None if difference < TOLERANCE else f"it reads them differently from plain text, by {difference:.1%}"


def _pieces(requests: Sequence[Forward], alike: int | None) -> list[int]:
    """Sizes of the batches in which the rows of these requests run, in their order."""
    if len(requests) > 1:
        return [sum(request.rows for request in requests)]
    (request,) = requests
    assert isinstance(request.context, LlamaContext)
    again, size = request.context.again(request.pending), alike or PIECE
    if (prompt := request.pending - again) <= SHORT:
        return _cut(request.rows, size)
    return [*_cut(again, size), prompt, *_cut(request.nodes, size)]


def _cut(rows: int, size: int) -> list[int]:
    return [size] * (rows // size) + [rows % size] * (rows % size > 0)


def _parts(requests: Sequence[Forward], places: Sequence[int]) -> list[list[int]]:
    """Those places in groups that one call of llama.cpp has room for."""
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


def leaves(tree: DraftTree) -> list[int]:
    """The nodes without children."""
    parents = set(tree.parents.tolist())
    return [node for node in range(len(tree)) if node not in parents]


_words: list[str] = []
"""The last errors of llama.cpp."""
_callbacks: list[Any] = []
"""llama.cpp holds bare pointers to them."""


def _be_silent(lib: Any) -> None:
    """Keep what llama.cpp says for the message of an error, in place of stderr."""

    def hear(level: int, text: bytes, _: Any) -> None:
        said = text.decode(errors="replace").strip()
        if level == 4 and not said.endswith("failed to load model"):  # It has said why just before.
            _words[:] = [*_words[-4:], said]

    if not _callbacks:
        _callbacks.append(lib.llama_log_callback(hear))
    lib.llama_log_set(_callbacks[0], None)


def _last_words() -> str:
    return f" ({_words[-1]})" if _words else ""
