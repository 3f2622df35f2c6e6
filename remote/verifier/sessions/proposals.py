"""Proposals: the model as a drafter for another server. It says what may follow, and decides nothing.

The session is one of its own, so its tokens are those of the other server's conversation. A tree grows after the last
of them, a few nodes at a time, and each node is computed once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.engines.engine import EngineError, Floats, Forward
from models.tree import DraftTree
from remote.protocol import Propose, Proposed, ProtocolError, unpack_tokens
from remote.protocol.proposals import grown
from remote.verifier.holders import EVERYONE
from remote.verifier.learning.likeliest import log_softmax
from remote.verifier.observability.record import Record
from remote.verifier.refusals import BadRound, Dropped, Superseded, TooLong, UnknownPrefix
from remote.verifier.sessions.sessions import Sessions
from remote.verifier.sessions.table import Session
from remote.verifier.sessions.verification import Answer

BEHIND = 12.0
"""How far the log-probability of a proposal may be below the best one's. So a whole vocabulary is never sorted."""


def propose(sessions: Sessions, message: Propose, holder: str = EVERYONE, record: Record | None = None) -> Answer:
    """Yields one `Proposed`. Raises `RoundRefused`, or `EngineError` if the model itself fails.

    `record`: counts the tokens that are computed.
    """
    engine = sessions.engine
    session = sessions.table.get(message.session) or Session(engine.context())
    context = session.context
    path, append, tokens, tree = _added(sessions, session, message)
    moves = bool(path or append) or message.base < len(context.tokens)
    length = message.base + len(path) + len(append)
    sessions.table.admit(message.session, session, length + len(tree))
    if record is not None:
        record.read(len(append) + len(tokens))
    with session.held():
        new = context.commit(session.tree, path, None) if path else []
        if moves:
            context.assign(message.base + len(path), append)
            session.digest.truncate(message.base)
            session.digest.extend([*new, *append])
            session.holder = holder
            sessions.share(session)
            context = session.context
        session.tree = tree if message.since else DraftTree.empty()
        session.epoch = epoch = session.epoch + 1
        while (chunk := engine.next_chunk(context)) is not None:
            yield chunk
            yield None
            if sessions.table.get(message.session) is not session:
                raise Dropped("the session was dropped while its tokens were read")
            if session.epoch != epoch:
                raise Superseded("a newer request of this session has taken the place of this one")
        rows: Floats = np.zeros((0, engine.vocabulary), np.float32)
        if append or tokens:
            session.tree = DraftTree.empty()  # Nothing can be relied on if the forward fails.
            computed = yield Forward(context, len(context.tokens) - context.computed, tree, message.since)
            assert computed is not None
            session.tree = tree
            rows = computed.logits[len(computed.logits) - len(tokens) - bool(append) :]
    yield Proposed.pack(*likeliest(rows[:, : message.vocabulary], message.top))


def _added(sessions: Sessions, session: Session, message: Propose) -> tuple[list[int], list[int], list[int], DraftTree]:
    """What a message adds to a session: accepted nodes, tokens after them, new nodes; and the tree with these.

    Raises `RoundRefused`.
    """
    engine, limits, held = sessions.engine, sessions.limits, session.context.tokens
    try:
        path, tokens, parents = message.numbers()
        append = unpack_tokens(message.append)
        moves = bool(path or append) or message.base < len(held)
        if message.base > len(held) or message.since > len(session.tree) or (moves and message.since):
            raise UnknownPrefix(session.conflict())
        if any(not 0 <= node < len(session.tree) for node in path) or (path and message.base < len(held)):
            raise UnknownPrefix(session.conflict())
        if path and path != session.tree.path(path[-1]):  # Their rows would be those of other tokens.
            raise ProtocolError("the nodes of the path do not follow one another from the root")
        engine.check([*append, *tokens])
        tree = grown(DraftTree.empty() if moves else session.tree, message.since, tokens, parents)
    except (ProtocolError, EngineError) as error:
        raise BadRound(str(error)) from error
    length = message.base + len(path) + len(append)
    if length == 0:
        raise BadRound("there is no token to continue from")
    if length >= limits.max_tokens or len(tree) > limits.max_nodes:
        raise TooLong(f"{length} tokens and {len(tree)} nodes; {limits.max_tokens} and {limits.max_nodes} are held")
    return path, append, tokens, tree


def likeliest(logits: Floats, top: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The likeliest tokens, best first: logits (N, V) -> log-probabilities and ids, (N, top), filled up with -inf."""
    log_probs = np.full((len(logits), top), -np.inf, np.float32)
    ids = np.zeros((len(logits), top), np.int64)
    for row, found in enumerate(logits):
        scores = log_softmax(found)
        listed = np.flatnonzero(scores >= scores.max() - BEHIND)
        if len(listed) > top:
            listed = np.sort(listed[np.argpartition(scores[listed], -top)[-top:]])
        best = listed[np.argsort(-scores[listed], kind="stable")][:top]
        log_probs[row, : len(best)], ids[row, : len(best)] = scores[best], best
    return log_probs, ids
