"""What happens during one reply, as events; screen, `ask`, exporter and benchmarks all read the same stream.

A reply's text is a solid part, verified by the target, followed by a ghost part that is only drafted. Each event says
how the two change. `ReplyText` replays them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from drafter.cost import Cost
    from remote.link import State

Mode = Literal["edge", "hosted", "offline", "warming"]
"""Where tokens come from now: drafted here and verified there, drafted and verified there, drafted here alone; or a
verifier is starting."""


@dataclass(frozen=True)
class Started:
    """The question is stored; the answer's message exists."""

    conversation: str
    message: str


@dataclass(frozen=True)
class Drafted:
    """Ghost text grows at its end."""

    text: str
    tokens: int


@dataclass(frozen=True)
class Verified:
    """Solid text grows at its end. Ghost text that began with `text` loses it; any other ghost text is gone."""

    text: str
    tokens: int
    from_draft: int
    """How many of the tokens the drafter had guessed; the others are the target's own."""


@dataclass(frozen=True)
class Retracted:
    """All ghost text goes; solid text stays."""

    tokens: int


@dataclass(frozen=True)
class Reasoned:
    """A model has reasoned before it answers. The text is no part of the answer, and is not stored."""

    text: str


@dataclass(frozen=True)
class ModeChanged:
    mode: Mode
    why: str
    """One short sentence for the status bar."""
    alone: bool = True
    """Offline, the drafter answers. False: it is not known to fit the model that is away."""


@dataclass(frozen=True)
class Stats:
    """Running totals of this reply, after each round."""

    rounds: int = 0
    verified: int = 0
    drafted: int = 0
    """Tokens of the answer that the target has not verified."""
    streamed: int | None = None
    """Tokens of an OpenAI-compatible server, which verifies nothing; None: no such server has a part in the answer."""
    counted: bool = False
    """The server itself has counted them, reasoning included; else they are the pieces that it sent, about as many."""
    drafted_nodes: int = 0
    second_stage: int = 0
    """Tokens that n-grams of earlier text guessed, the drafter kept, and that came."""
    ahead_tries: int = 0
    """Verdicts that something was drafted ahead of."""
    ahead_hits: int = 0
    """Those that brought what had been drafted for."""
    ahead_adopted: int = 0
    """Drafts that were used although they were made before the verdict."""
    seconds: float = 0.0
    first_token_seconds: float | None = None
    rtt_ms: float | None = None
    """The round trip to whoever is there now; None while nobody is."""
    line: State | None = None
    """How the line to the verifier is; None where there is none."""
    up_bytes_per_second: float | None = None
    down_bytes_per_second: float | None = None
    """What it carries, as far as it is known."""
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def tau(self) -> float:
        """Tokens gained per round, bonus included; 0 before the first round."""
        return self.verified / self.rounds if self.rounds else 0.0

    @property
    def tokens_per_second(self) -> float:
        return (self.verified + self.drafted + (self.streamed or 0)) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Paced:
    """A round that worked: what was drafted for it and why so much, what was expected of it, and what came.

    Of a hosted one the device knows what came, and when.
    """

    levels: int
    """Drafter calls here, without one that read a prompt; 0: nothing was drafted, or only by that one."""
    nodes: int
    expected: float | None
    """Tokens that the drafter expected of it, bonus included; None where it says nothing."""
    gained: int
    cost: Cost | None
    """By which the tree was as large as it is, in seconds; None: by the settings alone."""
    draft_seconds: float
    server_seconds: float
    rtt_seconds: float
    """The verdict's time on the line; of a hosted round what it came later than the one before, beside the verifier's
    own time."""
    mode: Mode = "edge"
    ahead: bool = False
    """The draft was made while the round before was in flight."""


@dataclass(frozen=True)
class Judged:
    """An answer that was drafted alone is verified: how much of it the target kept. Comes before `Done`."""

    message: str
    """Id of the drafted answer, which stays as it was, beside the verified one."""
    kept: int
    of: int
    """Its tokens that nobody had verified; the first `kept` of them are the target's own too."""
    dropped: str
    """Its text from the word on where the target went another way; empty where it only went on."""
    midway: bool = False
    """That text begins within a sentence."""

    def __str__(self) -> str:
        share = f"all {self.of}" if self.kept == self.of else f"{self.kept} of {self.of}"
        return f"the target kept {share} drafted tokens"


@dataclass(frozen=True)
class Done:
    """The answer is complete and stored, or was stopped and its text is stored."""

    stopped: bool
    reason: Literal["end", "length", "stopped"]
    token_ids: tuple[int, ...]
    provenance: tuple[bool, ...]
    """Per token: True where the target verified it."""
    stats: Stats
    cut: str = ""
    """What ended the answer before the model did; empty where it is whole, or was stopped."""
    full: bool = False
    """No more of this conversation can be read, so nobody can go on with it."""


@dataclass(frozen=True)
class Failed:
    """No answer is possible; what there was is stored. `message` says what to do."""

    message: str
    code: Literal["unavailable", "incompatible", "too_long", "refused", "broken", "internal"]
    """refused: the server said no, and would again. broken: it may have begun, so the question is not sent again."""
    queued: bool = False
    """The question, or the rest of its answer, waits in the queue and is asked when the server is back."""


Event = Started | Drafted | Verified | Retracted | Reasoned | ModeChanged | Stats | Paced | Judged | Done | Failed


@dataclass
class ReplyText:
    """Replays events into text.

    >>> reply = ReplyText()
    >>> for event in (Drafted("ls -l", 3), Verified("ls ", 2, 2), Drafted(" *", 1)): reply.apply(event)
    >>> reply.solid, reply.ghost
    ('ls ', '-l *')
    """

    solid: str = ""
    ghost: str = ""
    mode: Mode = "edge"
    why: str = ""
    stats: Stats = field(default_factory=Stats)

    def apply(self, event: Event) -> None:
        if isinstance(event, Drafted):
            self.ghost += event.text
        elif isinstance(event, Verified):
            self.solid += event.text
            self.ghost = self.ghost[len(event.text) :] if self.ghost.startswith(event.text) else ""
        elif isinstance(event, Retracted):
            self.ghost = ""
        elif isinstance(event, ModeChanged):
            self.mode, self.why = event.mode, event.why
        elif isinstance(event, Stats):
            self.stats = event
        elif isinstance(event, Done):
            self.stats = event.stats
