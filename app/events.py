"""The events of one answer, from the question to its end. The screen, `ask` and the benchmarks read the same stream.

The text of an answer is a verified part, then a dimmed part that is only drafted. Each event says how the two change,
and `ReplyText` adds the events up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from app.model_names import short_model
from app.sanitise import sanitise

if TYPE_CHECKING:
    from drafter.cost import Cost
    from remote.link import State

Mode = Literal["edge", "hosted", "offline", "warming"]
"""Who drafts and who verifies now. edge: the device drafts, the verifier verifies. hosted: the verifier does both.
offline: the device drafts and nobody verifies. warming: a verifier is starting."""
MODE_WORDS: dict[Mode, str] = {"edge": "online", "hosted": "online", "offline": "offline", "warming": "connecting"}
"""What a person reads of each mode."""
EndReason = Literal["end", "length", "stopped"]
"""Why an answer is over: the model ended it, a limit was reached, or the person stopped it."""
Cut = Literal["length", "context", "filter", "broken", "other"]
"""What ended an answer before the model did: a limit of tokens, a full context, the server's content filter, a server
that could not go on, or something else."""
FailureCode = Literal["unavailable", "incompatible", "too_long", "refused", "broken", "internal"]
"""refused: the server said no, and would say it again. broken: the server may have begun, so the question is not sent
again."""


@dataclass(frozen=True)
class Started:
    """The question is stored, and so is an empty message for the answer."""

    conversation: str
    message: str


@dataclass(frozen=True)
class Drafted:
    """Text is added to the end of the dimmed part."""

    text: str
    tokens: int


@dataclass(frozen=True)
class Verified:
    """Text is added to the end of the verified part.

    If the dimmed part begins with `text`, it loses that beginning. Otherwise the whole dimmed part is gone.
    """

    text: str
    tokens: int
    from_draft: int
    """How many of the tokens the drafter had guessed; the others are the target's own."""


@dataclass(frozen=True)
class Retracted:
    """The whole dimmed part is gone; the verified part stays."""

    tokens: int


@dataclass(frozen=True)
class Reasoned:
    """A model thinks before it answers. This text is stored with the answer, and is no part of it."""

    text: str
    seconds: float = 0.0
    """How long it has been thinking."""


@dataclass(frozen=True)
class SystemUnread:
    """The conversation has a system prompt, and whoever answers now does not read it. Said once a conversation."""

    def __str__(self) -> str:
        return "This model does not read system prompts. Yours is kept for other models."


@dataclass(frozen=True)
class Redrawn:
    """Another answer is drawn at a temperature that nobody chose, because the likeliest one is there already."""

    temperature: float

    def __str__(self) -> str:
        return f"Drawn at temperature {self.temperature:g}, because the likeliest answer is there already."


@dataclass(frozen=True)
class ModeChanged:
    """Somebody else drafts or verifies from now on, or the reason for the mode is another one."""

    mode: Mode
    why: str
    """One short sentence for the status bar."""
    alone: bool = True
    """In mode offline: the drafter answers. False: it was made for another model, or is not good enough."""
    model: str = field(default="", compare=False)
    """Name of the model that answers; empty if nobody does."""
    checks: bool = field(default=True, compare=False)
    """The server checks drafts. False: it streams its answers and checks nothing."""

    def __str__(self) -> str:
        """The mode and its reason in words. A reason that names the mode needs nothing before it."""
        word = MODE_WORDS[self.mode]
        return self.why if self.why.startswith(word) else f"{word}: {self.why}"


@dataclass(frozen=True)
class Stretch:
    """Another model writes the answer from here on."""

    at: int
    """Characters of the answer before it."""
    writer: str
    """Name of the model."""
    here: bool = False
    """It runs on this device in place of the server's model, and nobody has checked what it writes."""


@dataclass(frozen=True)
class Stats:
    """Running totals of one answer."""

    rounds: int = 0
    verified: int = 0
    drafted: int = 0
    """Tokens of the answer that the target has not verified."""
    streamed: int | None = None
    """Tokens of an OpenAI-compatible server, which verifies nothing, or None if no such server took part."""
    counted: bool = False
    """True: the server counted `streamed` itself, reasoning included. False: it is the number of pieces that came."""
    read: int = 0
    """Tokens of the conversation before the answer, as its last writer reads them. 0: its server does not say."""
    drafted_nodes: int = 0
    second_stage: int = 0
    """Tokens that n-grams of earlier text guessed, that the drafter kept, and that came."""
    ahead_tries: int = 0
    """Verdicts that something was drafted ahead of."""
    ahead_hits: int = 0
    """Verdicts that brought what had been drafted for."""
    ahead_adopted: int = 0
    """Drafts that were used although they were made before the verdict."""
    seconds: float = 0.0
    first_token_seconds: float | None = None
    rtt_ms: float | None = None
    """The round trip to the server that is there now; None while there is none."""
    line: State | None = None
    """The state of the line to the verifier; None if there is no line."""
    up_bytes_per_second: float | None = None
    down_bytes_per_second: float | None = None
    """Bandwidth of the line, if it was measured."""
    bytes_up: int = 0
    bytes_down: int = 0

    @property
    def tau(self) -> float:
        """Tokens gained per round, bonus included; 0 before the first round."""
        return self.verified / self.rounds if self.rounds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens of the answer, whoever wrote them, per second since it began; 0 at the start."""
        return (self.verified + self.drafted + (self.streamed or 0)) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class RoundReport:
    """One round that worked: what was drafted, what it was expected to bring and to cost, and what it brought.

    A hosted round is drafted at the verifier, so the device only knows what it brought, and when.
    """

    levels: int
    """Drafter calls on the device, without one that read a prompt. 0: nothing was drafted, or only by that one call."""
    nodes: int
    expected: float | None
    """Tokens that the drafter expected, bonus included; None: it said nothing."""
    gained: int
    cost: Cost | None
    """Measured costs, in seconds, by which the tree's size was chosen, or None if the settings alone decided."""
    draft_seconds: float
    server_seconds: float
    rtt_seconds: float
    """Time of the verdict on the line. Hosted: how much later the round came than the one before, less the verifier's
    own time."""
    mode: Mode = "edge"
    ahead: bool = False
    """The draft was made while the round before was in flight."""


@dataclass(frozen=True)
class RoundEnded:
    """A round has brought its text, and the answer so far is stored before anybody sees this event.

    Text that comes without rounds is divided too, so that a crash loses little of it: what the drafter writes offline,
    and what an OpenAI-compatible server sends. There `report` is None.
    """

    stats: Stats
    report: RoundReport | None = None


@dataclass(frozen=True)
class AnsweredAgain:
    """Which server answered a question anew that had been answered offline. It checks no drafts."""

    model: str
    predicted: bool
    """The offline answer went up as a prediction. False: the server saw the question alone."""
    tokens: tuple[int, int] | None = None
    """Tokens of the prediction that the server kept and dropped, or None if it does not report them."""


@dataclass(frozen=True)
class Judged:
    """What became of an answer that was drafted offline: how much of it the target kept. Comes before `Done`.

    `again`: a server that checks no drafts gave an answer of its own. Then `kept` and `of` count words, and `dropped`
    has those that are not in the new answer.
    """

    message: str
    """Id of the drafted answer, which stays unchanged beside the verified one."""
    kept: int
    of: int
    """Its tokens that nobody had verified; the first `kept` of them are the target's own too."""
    dropped: str
    """Its text from the first word that the target replaced; empty if the target only added text."""
    at: int = 0
    """How many characters of the newer text stand before the place of `dropped`."""
    again: AnsweredAgain | None = None

    def __str__(self) -> str:
        if self.again is not None:
            return f"{_answered(self.again)}; {self._agreement}"
        share = f"all {self.of}" if self.kept == self.of else f"{self.kept} of {self.of}"
        return f"the model kept {share} drafted tokens"

    @property
    def _agreement(self) -> str:
        if self.kept in (0, self.of):
            return "all words are the same" if self.kept else "no word is the same"
        return f"{max(1, 100 * self.kept // self.of)} % of the words are the same"


def _answered(again: AnsweredAgain) -> str:
    """Who answered again, and what was made of the prediction."""
    if again.tokens is not None:
        kept, dropped = again.tokens
        model = short_model(again.model)
        return f"{model} got the offline answer as a suggestion and kept {kept} of {kept + dropped} tokens"
    return f"answered again by {short_model(again.model)}" + (
        ", with the offline answer as a suggestion" if again.predicted else ""
    )


@dataclass(frozen=True)
class PageSource:
    """A page that stood in the prompt, and whose program the answer's command runs."""

    page: str
    platform: str
    by: Literal["tldr", "outrider"]
    """Whose example it was. One of Outrider's does not stand on the page, which is about the same program."""


@dataclass(frozen=True)
class Done:
    """The answer is over, complete or stopped, and it is stored."""

    stopped: bool
    reason: EndReason
    token_ids: tuple[int, ...]
    provenance: tuple[bool, ...]
    """Per token: True if the target verified it."""
    stats: Stats
    cut: str = ""
    """What ended the answer before the model did, in words; empty if it is whole, or was stopped."""
    cut_by: Cut | None = None
    """One word for `cut`; None if that is empty."""
    sources: tuple[PageSource, ...] = ()
    """The pages that the answer came from, best first; empty also if the model is asked without pages."""
    model: str = ""
    """Name of the model that answered; empty if only the drafter wrote."""
    drafted_by: str = ""
    """Who wrote the tokens that nobody has checked, for people; empty: all are checked."""
    stretches: tuple[Stretch, ...] = ()
    """Who wrote which part, if a model on this device stood in for the server's; else empty."""

    @property
    def full(self) -> bool:
        """The conversation is as long as can be read, so it cannot go on."""
        return self.cut_by == "context"


@dataclass(frozen=True)
class Failed:
    """No answer is possible; the text that had come is stored."""

    message: str
    """What failed, and what the person can do."""
    code: FailureCode
    queued: bool = False
    """The question, or the rest of its answer, waits in the queue until the server is back."""
    wants_token: bool = False
    """The server wants a token, and none or a wrong one was sent."""


Event = (
    Started
    | Drafted
    | Verified
    | Retracted
    | Reasoned
    | SystemUnread
    | Redrawn
    | ModeChanged
    | Stretch
    | RoundEnded
    | Judged
    | Done
    | Failed
)


@dataclass
class ReplyText:
    """The text, mode and totals that the events of one answer add up to.

    >>> reply = ReplyText()
    >>> for event in (Drafted("ls -l", 3), Verified("ls ", 2, 2), Drafted(" *", 1)): reply.apply(event)
    >>> reply.solid, reply.ghost
    ('ls ', '-l *')
    """

    solid: str = ""
    """The verified part."""
    ghost: str = ""
    """The dimmed part."""
    mode: Mode = "edge"
    why: str = ""
    stats: Stats = field(default_factory=Stats)

    def apply(self, event: Event) -> None:
        """Take the next event."""
        if isinstance(event, Drafted):
            self.ghost += event.text
        elif isinstance(event, Verified):
            self.solid += event.text
            self.ghost = self.ghost[len(event.text) :] if self.ghost.startswith(event.text) else ""
        elif isinstance(event, Retracted):
            self.ghost = ""
        elif isinstance(event, ModeChanged):
            self.mode, self.why = event.mode, event.why
        elif isinstance(event, RoundEnded | Done):
            self.stats = event.stats


def stretches_of(stats: Mapping[str, Any]) -> tuple[Stretch, ...]:
    """Who wrote which part of a stored answer. What is no such list, as an import may have it, counts as none."""
    try:
        found = [Stretch(int(one["at"]), sanitise(str(one["writer"])), bool(one["here"])) for one in stats["stretches"]]
    except (KeyError, TypeError, ValueError):
        return ()
    return tuple(sorted(found, key=lambda one: one.at))
