"""A whole model as a drafter, in another process: which tokens of a conversation it has read, and what it proposed.

The model has read some tokens, the trunk, for good. After the last of them grows a tree: the nodes of drafts, tokens
that were committed along them, and what may follow these. A node runs once, and its proposals are kept here. So a draft
that was made ahead costs nothing when its tokens are committed. When a draft begins whose tokens have no nodes yet, the
committed path joins the trunk, and a new tree begins. Not thread-safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from drafter.ahead import NOTHING, DraftedNodes, Halted
from drafter.search import Proposals
from drafter.step import Rows
from models.memory import MalformedMemory
from models.tree import NEVER, ROOT

CHUNK = 64
"""Tokens of a prompt that the model reads in one call. A draft that nobody needs any more ends after such a call."""
TOP = 32
"""Tokens that are proposed after one."""
MOST_NODES = 128
"""Most nodes of a tree, whatever the model would hold: each sees all rows, also those that are hidden from it."""


class ModelAway(Halted):
    """The model does not run, or has lost what it had read. The next draft begins anew."""


class TooLong(ModelAway):
    """The conversation is longer than the model reads, so it was not asked."""


class Growth(NamedTuple):
    """What a call adds to the model's tokens and tree; see `remote.protocol.Propose`."""

    base: int
    path: Sequence[int] = ()
    append: Sequence[int] = ()
    since: int = 0
    tokens: Sequence[int] = ()
    parents: Sequence[int] = ()


class Ask(Protocol):
    """One conversation with a model."""

    most_nodes: int
    """Most nodes of a tree."""
    most_tokens: int
    """Most tokens that the model reads."""

    def __call__(self, growth: Growth, vocabulary: int) -> Proposals:
        """What may follow the last token, if any were appended, then each new node: `TOP` tokens below `vocabulary`.

        Raises `ModelAway`.
        """
        ...


class WholeModel:
    """A model that runs in another process, for several conversations."""

    independent_rows = False
    """A token's result may depend, in its last bits, on what runs with it."""

    def __init__(self, runtime: str, begin: Callable[[], Ask], runs: Callable[[], bool] = lambda: True) -> None:
        """`begin`: begins a conversation with the model, or raises `ModelAway`. `runs`: whether it can."""
        self.runtime, self.begin, self.runs = runtime, begin, runs
        self.most_tokens = math.inf
        """Most tokens of a conversation that it reads, as far as known."""


def _away() -> Ask:
    raise ModelAway("no model drafts")


NOBODY = WholeModel("nobody", _away, lambda: False)
"""Never drafts: for a target of which only the text side is here."""


class ModelCache:
    """What a model has read of one conversation, and proposed. It stands in for a `DraftCache`."""

    memory_length = 0
    ends_with_target_rows = False

    def __init__(self, model: WholeModel, vocabulary: int) -> None:
        self.tokens: list[int] = []
        self.drafted = NOTHING
        self.calls = self.rows = 0
        self.halted: Callable[[], bool] | None = None
        self.independent_rows = model.independent_rows
        self._model, self._vocabulary = model, vocabulary
        self._ask: Ask | None = None
        self._supposes = False
        """Whether tokens are only supposed, so that nothing may join the trunk."""
        self._forget()

    def _forget(self) -> None:
        self._ask, self._trunk = None, 0
        self._joining: list[int] = []
        """The nodes of the last tree that are tokens of the trunk, which the model has not received yet."""
        self._begin_tree(None)

    def _begin_tree(self, root: Proposals | None) -> None:
        """Begin a tree after the trunk. `root`: what may follow its last token, (1, K), or None if there is none."""
        self._root = root
        self._nodes: list[Proposals] = []
        """What may follow each node of the tree, (1, K)."""
        self._children: dict[tuple[int, int], int] = {}
        """(parent, token) -> node."""
        self._path: list[int] = []
        """The nodes of the committed tokens after the trunk, as far as there are any."""
        self._begin_draft()

    def _begin_draft(self) -> None:
        self.drafted = NOTHING
        self._places: list[int] = []
        """The node of each drafted one."""

    # ---- tokens ------------------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        return len(self.tokens) - self._read

    @property
    def _read(self) -> int:
        """Tokens, from the first one on, that the model has read."""
        return self._trunk + len(self._path)

    @property
    def _end(self) -> int:
        """The node of the last token that was read, or `ROOT`."""
        return self._path[-1] if self._path else ROOT

    def append(self, tokens: Sequence[int]) -> None:
        if not self.waiting:
            for token in tokens:
                if (node := self._children.get((self._end, token))) is None:
                    break
                self._path.append(node)
        self.tokens += tokens
        self._begin_draft()

    def truncate(self, length: int) -> None:
        del self.tokens[length:]
        del self._path[max(0, length - self._trunk) :]
        if length < self._trunk:
            # The last token is read again, because what may follow it is not known any more.
            self._trunk, self._joining = min(max(0, length - 1), self._trunk - len(self._joining)), []
            self._begin_tree(None)
        self._begin_draft()

    def remember(self, start: int, rows: object) -> None:
        raise MalformedMemory("this drafter takes no memory")

    def nbytes(self, rows: int = 0) -> int:
        return 0

    def read_chunk(self) -> bool:
        if self.waiting <= CHUNK:
            return False
        self._append(CHUNK)
        return True

    def read_ahead(self, most: int, *, known: bool) -> bool:
        count = min(self.waiting - 1, most)
        if count > 0:
            self._append(count)
        return count > 0

    # ---- running the model -------------------------------------------------------------------------------------------

    def run_tokens(self, guess: Sequence[int] = ()) -> Proposals:
        if not self.tokens:
            raise ValueError("nothing to continue: no token is committed")
        if self._supposes:
            self._run_below(self._end, self.tokens[self._read :])
        while self.waiting:
            self._append(CHUNK)
        first = self._nodes[self._end] if self._path else self._root
        assert first is not None
        if not self._supposes and self._room < self._most / 2:
            self._trunk, self._joining = self._read, list(self._path)
            self._begin_tree(first)
        self._begin_draft()
        if not len(guess):
            return first
        return _together([first, self.run_nodes(np.array(guess, np.int64), np.arange(-1, len(guess) - 1))])

    def run_nodes(self, tokens: NDArray[np.int64], parents: NDArray[np.int64]) -> Proposals:
        before, first = len(self.drafted), len(self._nodes)
        new, places = dict[tuple[int, int], int](), list(self._places)
        for token, parent in zip(tokens.tolist(), parents.tolist()):
            key = self._end if parent == ROOT else places[parent], token
            if key not in self._children:
                new.setdefault(key, first + len(new))
            places.append(self._children[key] if key in self._children else new[key])
        if len(new) > self._room and not self._supposes:
            unknown = np.full((len(tokens), TOP), NEVER), np.tile(np.arange(TOP), (len(tokens), 1))
            self._places, self.drafted = places, self.drafted.grown(tokens, parents)
            return unknown
        self._run([(token, above) for above, token in new])
        self._children |= new
        self._places, self.drafted = places, self.drafted.grown(tokens, parents)
        return _together([self._nodes[node] for node in places[before:]])

    def _run_below(self, end: int, tokens: Sequence[int]) -> None:
        """Run a chain of nodes below the end of the path, and lengthen the path by it."""
        first = len(self._nodes)
        self._run([(token, first + at - 1 if at else end) for at, token in enumerate(tokens)])
        for at, token in enumerate(tokens):
            self._children[first + at - 1 if at else end, token] = first + at
            self._path.append(first + at)

    def _run(self, nodes: Sequence[tuple[int, int]]) -> None:
        """Run new nodes, each a token and its parent, and keep their proposals. Raises `Halted`."""
        if not nodes:
            return
        if len(nodes) > self._room:
            raise Halted
        tokens, parents = zip(*nodes)
        log_probs, ids = self._call(self._joining, (), tokens, parents)
        self._nodes += [(log_probs[at : at + 1], ids[at : at + 1]) for at in range(len(nodes))]

    def _append(self, most: int) -> None:
        """Read at most this many of the waiting tokens for good: they join the trunk, after the path."""
        append = self.tokens[self._read : self._read + most]
        root = self._call(self._joining or self._path, append)
        self._trunk = self._read + len(append)
        self._begin_tree(root)

    def _call(
        self, path: Sequence[int], append: Sequence[int], tokens: Sequence[int] = (), parents: Sequence[int] = ()
    ) -> Proposals:
        """Ask the model. Raises `Halted` and `TooLong` before it is asked, and `ModelAway`."""
        if self.halted is not None and self.halted():
            raise Halted
        self.calls, self.rows = self.calls + 1, self.rows + max(0, len(append) + len(tokens) - 1)
        base, since = self._trunk - len(self._joining), len(self._nodes) if tokens else 0
        try:
            if self._ask is None:
                self._ask = self._model.begin()
                self._model.most_tokens = self._ask.most_tokens
            if len(self.tokens) > self._model.most_tokens:
                raise TooLong("the conversation is longer than the model reads")
            proposals = self._ask(Growth(base, path, append, since, tokens, parents), self._vocabulary)
        except TooLong:
            raise
        except ModelAway:
            self._forget()
            raise
        self._joining = []
        return proposals

    @property
    def _most(self) -> int:
        """Most nodes of a tree."""
        return MOST_NODES if self._ask is None else min(MOST_NODES, self._ask.most_nodes)

    @property
    def _room(self) -> int:
        """Nodes for which the tree has room."""
        return self._most - len(self._nodes)

    # ---- drafting ahead ----------------------------------------------------------------------------------------------

    @contextmanager
    def supposing(self, tokens: Sequence[int]) -> Iterator[int]:
        length, nodes = len(self.tokens), self._nodes
        before = self.drafted, self._places, list(self._path)
        self._supposes = True
        try:
            self.append(tokens)
            yield length
        finally:
            self._supposes = False
            del self.tokens[length:]
            if self._nodes is nodes:  # Otherwise the model has lost them.
                self.drafted, self._places, self._path = before

    def rows_from(self, start: int) -> list[Rows]:
        return []

    def put_rows(self, start: int, rows: Sequence[Rows], drafted: DraftedNodes) -> None:
        places = list[int]()
        for token, parent in zip(drafted.tokens.tolist(), drafted.parents.tolist()):
            places.append(self._children[self._end if parent == ROOT else places[parent], token])
        self._places, self.drafted = places, drafted


def _together(proposals: Sequence[Proposals]) -> Proposals:
    """The proposals of several tokens, one after another."""
    return np.concatenate([log_probs for log_probs, _ in proposals]), np.concatenate([ids for _, ids in proposals])
