"""A cache of llama.cpp, and the conversations that have rows in it.

The text is that of llama.cpp's own server, because attention and cache are the same. llama.cpp sums in the order of the
cache and quantises its operands, so one different bit becomes a different word after a while. Three rules keep the bits
of a conversation that runs alone, whatever is drafted. The likeliest path of a tree is first in the cache, and accepted
rows of other paths are computed again after it, in order. A draft runs in pieces of as many rows as give the same bits
as one row (`_rows_alike`). And a conversation that begins, or continues after a while, gets its own lane, with its rows
in order (`_placed`). Conversations that run at the same time still share a lane and a batch: there, rounding may decide
between tokens that are almost equally likely. The same is true from 512 rows on with several threads, because llama.cpp
then splits the attention of a single row among them.

Layers with a sliding window may lose rows that only a rewind would see. Then the conversation is computed again. The
same happens if a model has a state instead of rows, because a state cannot be rewound: such a model is served without
drafts, and a single node is tried on a copy of the state.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from models.engines.engine import EngineError, Floats, Forward, TargetContext
from models.tree import DraftTree

ROWS = 128
DECODED = 512
"""Most rows of one call of llama.cpp."""
SEQUENCES, STATES = 128, 16
"""Sequences of a lane, and the number if each of them holds a state, which may take 100 MB."""
LEAVES = 64
"""Sequences that no conversation takes, so that some are left for the leaves of a tree; also the most nodes of a
tree."""
TILE = 64
"""Number of rows from which on llama.cpp computes attention differently, tile by tile."""
PIECE = TILE - 1
"""Rows of a piece if any number gives the same bits, or if they need not be the same."""
BLOCK, LEAST = 4, 8
"""llama.cpp's kernels compute this many rows together, and a chunk of a prompt with at least as many is computed in
such blocks: if it begins on a block boundary, its rows have the same bits as in a longer chunk, below a tile."""


class _Row(NamedTuple):
    token: int
    position: int
    sequences: list[int]
    wanted: bool
    """Whether its logits are wanted."""


class Lane:
    """A cache of llama.cpp with `cells` rows, for one long conversation or for several short ones.

    Each row attends to all rows of its lane that are in use, most of which the mask hides. So the size of a lane is
    chosen so that attention to it costs about as much as the products of a row.
    """

    def __init__(self, lib: Any, model: Any, cells: int, threads: int, *, cuttable: bool) -> None:
        """`cuttable`: see `LlamaContext`."""
        self._lib, self.cells, self._cuttable = lib, cells, cuttable
        sequences = SEQUENCES if cuttable else STATES
        self.spare = LEAVES if cuttable else STATES // 2
        """Sequences that no conversation takes."""
        self._window = int(lib.llama_model_n_swa(model)) if cuttable else 0
        """Tokens that layers with a sliding window see, or 0 if all layers see all tokens."""
        parameters = lib.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = cells, DECODED, ROWS
        parameters.n_seq_max, parameters.kv_unified = sequences, True
        parameters.n_outputs_max = parameters.n_outputs_max_per_seq = 0  # As many as there are rows.
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.swa_full = True  # A rewind may need any row. `lacks_rows` detects if one is missing all the same.
        parameters.no_perf = True
        self._context = lib.llama_init_from_model(model, parameters)
        if not self._context:
            raise EngineError(f"llama.cpp has no room for {cells} rows{last_words()}")
        self._memory, self._batch = lib.llama_get_memory(self._context), lib.llama_batch_init(DECODED, 0, sequences)
        self._scratch = sequences - 1
        """A sequence for temporary use."""
        self._sequences = list(range(self._scratch))
        """The free sequences."""
        self.holders: set[LlamaContext] = set()
        """Conversations that have rows here."""
        self._last: LlamaContext | None = None
        """The conversation with the last rows, if known."""

    def close(self) -> None:
        """Free the cache."""
        self._lib.llama_batch_free(self._batch)
        self._lib.llama_free(self._context)

    @property
    def free(self) -> int:
        return len(self._sequences)

    def has_room(self, rows: int, context: LlamaContext) -> bool:
        """Whether a conversation can have this many rows here."""
        held = sum(other.capacity for other in self.holders if other is not context)
        return held + rows <= self.cells and (context in self.holders or self.free > self.spare)

    def take(self) -> int:
        return self._sequences.pop()

    def give_back(self, sequence: int) -> None:
        self.cut(sequence)
        self._sequences.append(sequence)

    def cut(self, sequence: int, start: int = -1, end: int = -1) -> bool:
        """Remove rows `start .. end` from a sequence, by default all. Returns False if its state has no rows."""
        return bool(self._lib.llama_memory_seq_rm(self._memory, sequence, start, end))

    def use_threads(self, count: int) -> None:
        self._lib.llama_set_n_threads(self._context, count, count)

    def leave_gaps(self, context: LlamaContext, *, newest: bool = False) -> None:
        """Note that a conversation discards rows. If others lie after them, its next rows would come before those.

        `newest`: it discards only rows of its last forward, so none lie after them if that was the lane's last one.
        """
        if self._last is not context or not newest:
            for other in self.holders:
                other.in_order = other.in_order and other is context

    def copy(self, source: int, sequence: int, start: int, end: int) -> None:
        """Share the rows `start .. end` with another sequence. Nothing is computed or moved."""
        self._lib.llama_memory_seq_cp(self._memory, source, sequence, start, end)

    def lacks_rows(self, sequence: int, count: int) -> bool:
        """Whether rows are missing that the next one after the first `count` sees.

        Rows before the window of a sequence's last row are reused for others; only a rewind needs them.
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
        return bytes(memoryview(state)[:written])

    def states(self, sequence: int, count: int) -> list[bytes]:
        """The first `count` rows, in parts, because llama.cpp leaves out what is before the window of the last one."""
        size = self._window or max(1, count)
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
        """Run requests of this lane's conversations: a single one in pieces of `alike` rows, several as one batch.

        `alike`: the number of rows that gives the same bits as one row, or None if any may run together. Returns the
        logits of each request, (1 + n, V), or (0, V) without a tree. Raises `EngineError`.
        """
        if not self._cuttable and any(request.nodes for request in requests):
            plain = [replace(one, tree=DraftTree.empty()) if one.nodes else one for one in requests]
            firsts = self.decode(plain, vocabulary, alike)
            return [np.concatenate((first, *self._nodes(one, vocabulary))) for first, one in zip(firsts, requests)]
        rows, wanted, count = list[_Row](), list[list[int]](), 0
        alone = requests[0].context if len(requests) == 1 else None
        for request in requests:
            assert isinstance(request.context, LlamaContext)
            sequences, places = request.context.begin(request), dict[int, int]()
            tokens, positions = request.tokens, request.positions.tolist()
            order = [*range(request.pending), *(request.pending + node for node in request.context.order)]
            first = request.rows - request.wanted
            for row in order:
                rows.append(_Row(tokens[row], positions[row], sequences[row], row >= first))
                if row >= first:
                    places[row] = count
                    count += 1
            wanted.append([places[row] for row in range(first, request.rows)])
        self._last = alone if isinstance(alone, LlamaContext) else None
        parts, at = list[Floats](), 0
        for size in _pieces(requests, alike):
            parts.append(self._decoded(rows[at : at + size], vocabulary))
            at += size
        logits = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return [_rows(logits, places) for places in wanted]

    def _nodes(self, request: Forward, vocabulary: int) -> Iterator[Floats]:
        """Run the nodes of a tree one after another, each on a copy of its parent's state: their logits, (1, V)."""
        if request.tree is None:
            return
        assert isinstance(request.context, LlamaContext)
        for node, position in enumerate(request.positions[request.pending :].tolist()):
            row = _Row(int(request.tree.tokens[node]), position, [request.context.branch(request.tree, node)], True)
            yield self._decoded([row], vocabulary)

    def _decoded(self, rows: Sequence[_Row], vocabulary: int) -> Floats:
        """Run rows as one batch. Returns the wanted logits, in order."""
        batch = self._batch
        tokens, positions, counts = batch.token, batch.pos, batch.n_seq_id
        sequences, wanted = batch.seq_id, batch.logits
        for at, row in enumerate(rows):
            tokens[at], positions[at], counts[at], wanted[at] = row.token, row.position, len(row.sequences), row.wanted
            for number, sequence in enumerate(row.sequences):
                sequences[at][number] = sequence
        batch.n_tokens = len(rows)
        if status := self._lib.llama_decode(self._context, batch):
            raise EngineError(f"llama.cpp could not compute this (status {status}){last_words()}")
        count = sum(row.wanted for row in rows)
        if not count:
            return np.zeros((0, vocabulary), np.float32)
        return np.ctypeslib.as_array(self._lib.llama_get_logits(self._context), (count, vocabulary)).copy()


class LlamaContext(TargetContext):
    """A conversation that has its rows in a lane."""

    def __init__(self, *, cuttable: bool = True) -> None:
        """`cuttable`: single rows can be removed. Otherwise there is one state, which has to be recomputed."""
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
        """The new nodes of the last tree in cache order, counted from the first: those of the main sequence first."""
        self._rows = 0
        self._parked: list[bytes] = []
        """Its rows while it has no lane."""
        self.parked_rows = 0
        """The number of these rows: a lane must have room for all of them, even if fewer count."""
        self.used = 0
        """Number of the last forward that it took part in."""
        self.in_order = True
        """Whether its rows are contiguous and the next ones follow directly, as far as is known."""
        self._whole = 0
        """How many tokens have rows since the last commit."""
        self._accepted = 0
        """Tokens up to the end of the last accepted draft. Those without rows are computed again, in pieces."""

    @property
    def capacity(self) -> int:
        return self._rows

    @property
    def lane(self) -> Lane | None:
        return self._lane

    def move(self, lane: Lane) -> None:
        """Move its rows to another lane. Raises `EngineError` if they are lost; they are then computed again."""
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
        """Remove its rows from its lane, and keep a copy of them."""
        if self._lane is not None:
            self.forget_branches()
            self._parked = self._lane.states(self._main, self.computed)
            self._leave()
            self._path, self._rows, self.parked_rows = [], self.computed, self.computed

    def reserve(self, rows: int) -> None:
        """Reserve this many rows for it, so that no other conversation gets them."""
        self._rows = rows

    def assign(self, base: int, tokens: Sequence[int]) -> None:
        before = self.computed
        super().assign(base, tokens)
        if self.computed < before:
            self.computed = self._shared(self.computed)
        if base < self._accepted:
            self._accepted = 0
        self._anew()

    def again(self, pending: int) -> int:
        """How many of the next tokens are computed again, because they were accepted off the likeliest path."""
        return max(0, min(pending, self._accepted - self.computed))

    def begin(self, request: Forward) -> list[list[int]]:
        """Prepare the lane for a forward, and choose the order of its nodes.

        Returns the sequences of each of its rows. Raises `EngineError` if rows that it needs are lost.
        """
        assert self._lane is not None
        if request.since:
            return self._grow(request)
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

    def _grow(self, request: Forward) -> list[list[int]]:
        """The sequences of the new nodes of a tree that has grown. Each new leaf continues a sequence or gets one."""
        assert self._lane is not None and request.tree is not None
        held = {self._main: self._path, **self._branches}
        nodes: list[list[int]] = [[] for _ in range(request.nodes)]
        taken = list[int]()
        for leaf in leaves(request.tree):
            if leaf < request.since:
                continue
            path = request.tree.path(leaf)
            old = [node for node in path if node < request.since]
            source = next((one for one, known in held.items() if known[: len(old)] == old), None)
            sequence = next((one for one, known in held.items() if known == old), None)
            if source is None or (sequence is None and not self._lane.free):
                for one in taken:
                    self._lane.give_back(one)
                raise EngineError("llama.cpp did not keep the rows of a draft. Begin it again.")
            if sequence is None:
                sequence = self._lane.take()
                taken.append(sequence)
                self._lane.copy(source, sequence, 0, self.computed + len(old))
            held[sequence] = path
            for node in path[len(old) :]:
                nodes[node - request.since].append(sequence)
        self._path = held.pop(self._main)
        self._branches = held
        self._held = self.computed + len(self._path)
        self.order = list(range(request.nodes))
        return nodes

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
        self.computed = min(self.computed, self._whole)  # Tokens accepted off the main path are computed again.
        self._anew()
        return new

    def _anew(self) -> None:
        """Remove rows that no longer count, and have everything computed again if the rest is not available."""
        self._cut_back()
        lost = self._lane is not None and self._lane.lacks_rows(self._main, self.computed)
        if lost or (not self._cuttable and max(self._held, self.parked_rows) > self.computed > 0):
            self.computed, self._parked, self.parked_rows = 0, [], 0
            self.rewinds += 1

    def _cut_back(self) -> None:
        """Remove the rows of the last tree, and others that do not count, from the lane."""
        self.forget_branches()
        if self._lane is not None and self._held > self.computed and (self._cuttable or not self.computed):
            self._lane.cut(self._main, self.computed or -1)
            self._lane.leave_gaps(self)
            self._held = self.computed

    def _lose(self) -> NoReturn:
        """Discard all rows although a forward relies on them."""
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

    def adopt(self, other: TargetContext, count: int) -> None:
        super().adopt(other, self._shared(min(count, other.computed)))

    def _shared(self, count: int) -> int:
        """How many of `count` rows are taken over such that the rows after them get the same bits as otherwise."""
        if not self._cuttable:
            return count
        return max(0, min(count, len(self.tokens) - LEAST)) // BLOCK * BLOCK

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


def _pieces(requests: Sequence[Forward], alike: int | None) -> list[int]:
    """Sizes of the batches in which the rows of these requests run, in order."""
    if len(requests) > 1:
        return [sum(request.rows for request in requests)]
    (request,) = requests
    assert isinstance(request.context, LlamaContext)
    again, size = request.context.again(request.pending), alike or PIECE
    if (prompt := request.pending - again) == 1:
        return _cut(request.rows, size)
    return [piece for piece in (*_cut(again, size), prompt, *_cut(request.nodes, size)) if piece]


def _rows(logits: Floats, places: Sequence[int]) -> Floats:
    """These rows of the logits, without a copy if they follow one another."""
    first = places[0] if places else 0
    inside = range(first, first + len(places))
    return logits[first : inside.stop] if places == list(inside) else logits[places]


def _cut(rows: int, size: int) -> list[int]:
    return [size] * (rows // size) + [rows % size] * (rows % size > 0)


def leaves(tree: DraftTree) -> list[int]:
    """The nodes without children."""
    parents = set(tree.parents.tolist())
    return [node for node in range(len(tree)) if node not in parents]


_words: list[str] = []
"""The last errors of llama.cpp."""
_PLACE = re.compile(r"\w+: (?:error loading model(?: \w+)*: )*")
_callbacks: list[Any] = []
"""Keeps the callback alive, because llama.cpp holds a bare pointer to it."""


def model_parameters(lib: Any) -> Any:
    """llama.cpp's defaults for loading a model, without AMX.

    Its products with AMX crash on some machines (ggml-org/llama.cpp#20824), and no smaller switch turns them off.
    """
    parameters = lib.llama_model_default_params()
    parameters.use_extra_bufts = b"AMX_INT8 = 1" not in lib.llama_print_system_info()
    return parameters


def be_silent(lib: Any) -> None:
    """Keep llama.cpp's log for error messages instead of printing it to stderr."""

    def hear(level: int, text: bytes, _: Any) -> None:
        said = text.decode(errors="replace").strip()
        if level == 4 and "failed to load model" not in said:  # The reason was logged just before.
            _words[:] = [*_words[-4:], said]

    _words.clear()
    if not _callbacks:
        _callbacks.append(lib.llama_log_callback(hear))
    lib.llama_log_set(_callbacks[0], None)


def last_words() -> str:
    """Its last error in brackets, without function names; empty if there was none."""
    return f" ({_PLACE.sub('', _words[-1], 1)})" if _words else ""
