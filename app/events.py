"""The events of one answer, from the question to its end. The screen, `ask` and the benchmarks read the same stream.

The text of an answer is a verified part, then a dimmed part that is only drafted. Each event says how the two change,
and `ReplyText` accumulates the events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from app.model_names import short_model
from app.sanitise import sanitise

if TYPE_CHECKING:
    from drafter.cost import Cost
    from remote.link import State
    from storage import Call

Mode = Literal["edge", "hosted", "offline", "warming"]
"""Who drafts and who verifies now. edge: the device drafts, the verifier verifies. hosted: the verifier does both.
offline: the device drafts and nobody verifies. warming: a verifier is starting."""
MODE_WORDS: dict[Mode, str] = {"edge": "online", "hosted": "online", "offline": "offline", "warming": "connecting"}
"""The name of each mode for a person, unless this program runs the server itself; see `ModeChanged.word`."""
EndReason = Literal["end", "length", "stopped"]
"""Why an answer has ended: the model ended it, a limit was reached, or the person stopped it."""
Cut = Literal["length", "context", "filter", "broken", "other"]
"""What ended an answer before the model did: a limit of tokens, a full context, the server's content filter, a server
that could not continue, or something else."""
FailureCode = Literal["unavailable", "incompatible", "too_long", "refused", "broken", "internal"]
"""refused: the server refused, and would again. broken: the server may have begun, so the question is not resent."""


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

    If the dimmed part begins with `text`, that beginning is removed from it. Otherwise the whole dimmed part is
    removed.
    """

    text: str
    tokens: int
    from_draft: int
    """How many of the tokens the drafter had guessed; the others are the target's own."""


@dataclass(frozen=True)
class Retracted:
    """The whole dimmed part is removed; the verified part stays."""

    tokens: int


@dataclass(frozen=True)
class Reasoned:
    """A model thinks before it answers. This text is stored with the answer, but is not part of it."""

    text: str
    seconds: float = 0.0
    """How long it has been thinking."""


@dataclass(frozen=True)
class SystemUnread:
    """The conversation has a system prompt that the current model does not read. Emitted once per conversation."""

    def __str__(self) -> str:
        return "This model does not read system prompts. Yours is kept for other models."


@dataclass(frozen=True)
class Redrawn:
    """Another answer is sampled at a temperature that nobody chose, because the likeliest one already exists."""

    temperature: float

    def __str__(self) -> str:
        return f"Sampled at temperature {self.temperature:g}, because the likeliest answer exists already."


@dataclass(frozen=True)
class ToolCalled:
    """A tool call of the answer is new, or its state has changed."""

    call: Call
    asks: bool = False
    """Whether it waits for the person's yes (`Assistant.decide`)."""
    said: tuple[str, ...] = ()
    """What the tool's server declares about the tool; shown, but not trusted."""
    again: bool = False
    """Whether it, or the same call before it, may have been carried out already."""


@dataclass(frozen=True)
class ToolsLeftOut:
    """The conversation has tools, and who answers now takes none."""

    writer: str

    def __str__(self) -> str:
        return f"{self.writer} does not support tools, and answers without them."


@dataclass(frozen=True)
class ModeChanged:
    """A change in who drafts or verifies, or in the reason for the mode."""

    mode: Mode
    why: str
    """One short sentence for the status bar."""
    alone: bool = True
    """In mode offline: whether the drafter, or another model on this device, answers."""
    model: str = field(default="", compare=False)
    """Name of the model that answers; empty if none does."""
    checks: bool = field(default=True, compare=False)
    """Whether the server checks drafts. If not, it only streams its answers."""
    own: bool = field(default=False, compare=False)
    """Whether this program runs the server, on this device, so that no question leaves it."""

    @property
    def word(self) -> str:
        """The name of the mode for a person."""
        word = MODE_WORDS[self.mode]
        return "local" if self.own and word == "online" else word

    def __str__(self) -> str:
        """The mode and its reason in words; only the reason if it already names the mode."""
        return self.why if self.why.startswith(self.word) else f"{self.word}: {self.why}"


@dataclass(frozen=True)
class StandIn:
    """The model on this device that answers while a server is away."""

    name: str
    state: Literal["asleep", "loading", "ready", "failed"] = "asleep"
    """asleep: nothing of it runs until it is needed."""
    why: str = ""
    """Why it has failed, and what to do."""
    memory: int | None = None
    """Bytes of memory that it uses, if known."""


@dataclass(frozen=True)
class Stretch:
    """Another model takes over writing the answer."""

    at: int
    """Characters of the answer before it."""
    writer: str
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
    """True if the server counted `streamed` itself, reasoning included; False if it is the number of received
    pieces."""
    read: int = 0
    """Tokens of the conversation before the answer, as its last writer reads them; 0 if its server does not say."""
    drafted_nodes: int = 0
    second_stage: int = 0
    """Tokens that n-grams of earlier text guessed, that the drafter kept, and that came true."""
    ahead_tries: int = 0
    """Verdicts that were drafted ahead of."""
    ahead_hits: int = 0
    """Verdicts with an outcome that had been drafted for."""
    ahead_adopted: int = 0
    """Drafts that were used although they were made before the verdict."""
    seconds: float = 0.0
    first_token_seconds: float | None = None
    rtt_ms: float | None = None
    """The round trip to the current server, or None if there is none."""
    line: State | None = None
    """The state of the line to the verifier, or None if there is no line."""
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
    """One successful round: the draft, its expected gain and cost, and its actual gain.

    A hosted round is drafted at the verifier, so the device only knows its gain and its time.
    """

    levels: int
    """Drafter calls on the device, except one that read a prompt; 0 if nothing was drafted, or only by that call."""
    nodes: int
    expected: float | None
    """Tokens that the drafter expected, bonus included, or None if unknown."""
    gained: int
    cost: Cost | None
    """Measured costs, in seconds, from which the tree's size was chosen, or None if only the settings decided."""
    draft_seconds: float
    server_seconds: float
    rtt_seconds: float
    """Time of the verdict on the line. Hosted: how much later the round came than the one before, less the verifier's
    own time."""
    mode: Mode = "edge"
    ahead: bool = False
    """Whether the draft was made while the previous round was in flight."""


@dataclass(frozen=True)
class RoundEnded:
    """A round has brought its text. The answer so far is stored before anybody sees this event.

    Text without rounds, from the drafter offline or from an OpenAI-compatible server, is divided too, so that a crash
    loses little of it. `report` is then None.
    """

    stats: Stats
    report: RoundReport | None = None


@dataclass(frozen=True)
class AnsweredAgain:
    """A server that checks no drafts has answered anew a question that had been answered offline."""

    model: str
    predicted: bool
    """Whether the offline answer was sent as a prediction; otherwise the server saw only the question."""
    tokens: tuple[int, int] | None = None
    """Tokens of the prediction that the server used and rejected, or None if it does not report them."""


class Dropped(NamedTuple):
    """A text that the target did not keep, and its offset in the newer text."""

    at: int
    text: str


@dataclass(frozen=True)
class Withdrawn:
    """What models on this device had written in an answer, and the target did not keep. Comes before `Done`."""

    texts: tuple[Dropped, ...]


@dataclass(frozen=True)
class Judged:
    """How much of an answer that was drafted offline the target kept. Comes before `Done`.

    `again`: a server that checks no drafts gave its own answer. Then `kept` and `of` count words, and `dropped` has
    those that are not in the new answer.
    """

    message: str
    """Id of the drafted answer, which stays unchanged next to the verified one."""
    kept: int
    of: int
    """Its unverified tokens; the first `kept` of them are the target's own too."""
    dropped: str
    """Its text from the first word that the target replaced; empty if the target only added text."""
    at: int = 0
    """Offset in the newer text at which `dropped` was removed."""
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
    """Who answered again, and how the prediction was used."""
    if again.tokens is not None:
        kept, dropped = again.tokens
        model = short_model(again.model)
        return f"{model} got the offline answer as a suggestion and kept {kept} of {kept + dropped} tokens"
    return f"answered again by {short_model(again.model)}" + (
        ", with the offline answer as a suggestion" if again.predicted else ""
    )


@dataclass(frozen=True)
class PageSource:
    """A page in the prompt whose program the answer's command runs."""

    page: str
    platform: str
    by: Literal["tldr", "outrider"]
    """Whose example it was. Outrider's own examples are not on the page, which is about the same program."""


@dataclass(frozen=True)
class Done:
    """The answer has ended, complete or stopped, and is stored."""

    stopped: bool
    reason: EndReason
    token_ids: tuple[int, ...]
    provenance: tuple[bool, ...]
    """Per token: True if the target verified it."""
    stats: Stats
    cut: str = ""
    """What ended the answer before the model did, in words; empty if it is complete or was stopped."""
    cut_by: Cut | None = None
    """One word for `cut`; None if that is empty."""
    sources: tuple[PageSource, ...] = ()
    """The pages that the answer came from, best first; also empty if the model is asked without pages."""
    model: str = ""
    """Name of the model that answered; empty if only the drafter wrote."""
    drafted_by: str = ""
    """Who wrote the unchecked tokens, for people; empty if all are checked."""
    stretches: tuple[Stretch, ...] = ()
    """Who wrote which part, if a model on this device stood in for the server's; else empty."""

    @property
    def full(self) -> bool:
        """Whether the conversation has reached the readable length, so that it cannot continue."""
        return self.cut_by == "context"


@dataclass(frozen=True)
class Failed:
    """No answer is possible; the text received so far is stored."""

    message: str
    """What failed, and what the person can do."""
    code: FailureCode
    queued: bool = False
    """Whether the question, or the rest of its answer, waits in the queue until the server is back."""
    wants_token: bool = False
    """Whether the server requires a token, and none or a wrong one was sent."""
    advice: str = ""
    """What the person can do in the chat or on the command line; not for other programs, nor if the question waits."""

    def __str__(self) -> str:
        return f"{self.message} {self.advice}".rstrip()


Event = (
    Started
    | Drafted
    | Verified
    | Retracted
    | Reasoned
    | SystemUnread
    | Redrawn
    | ToolCalled
    | ToolsLeftOut
    | ModeChanged
    | Stretch
    | RoundEnded
    | Withdrawn
    | Judged
    | Done
    | Failed
)


@dataclass
class ReplyText:
    """The text, mode and totals that result from the events of one answer.

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
    """Who wrote which part of a stored answer. Anything that is no such list, as in some imports, counts as none."""
    try:
        found = [Stretch(int(one["at"]), sanitise(str(one["writer"])), bool(one["here"])) for one in stats["stretches"]]
    except (KeyError, TypeError, ValueError, OverflowError):
        return ()
    return tuple(sorted(found, key=lambda one: one.at))


def ranges_here(stretches: Sequence[Stretch], length: int) -> list[tuple[int, int]]:
    """The ranges of characters that models on this device wrote, of an answer of this length."""
    starts = [min(max(0, one.at), length) for one in stretches]
    return [(at, end) for one, at, end in zip(stretches, starts, [*starts[1:], length]) if one.here]


def parts_here(stretches: Sequence[Stretch]) -> dict[str, str]:
    """Which parts of an answer each model on this device wrote, in words."""
    parts: dict[str, list[str]] = {}
    for one, after in zip_longest(stretches, stretches[1:]):
        if one.here:
            rest = f"all from character {one.at:,} on" if one.at else "all of it"
            part = rest if after is None else f"characters {one.at:,} to {after.at:,}"
            parts.setdefault(one.writer, []).append(part)
    return {writer: " and ".join(each) for writer, each in parts.items()}


def unchecked(stats: Mapping[str, Any]) -> str:
    """What nobody has checked of a stored answer, and who wrote it, in a few words; empty if there is nothing."""
    if (local := next((stretch for stretch in stretches_of(stats) if stretch.here), None)) is not None:
        return f"{'partly ' if local.at else ''}not checked, by {local.writer}"
    if not stats.get("drafted"):
        return ""
    by = stats.get("drafted_by")
    by = f"by the {sanitise(by)}" if isinstance(by, str) and by else "drafted offline"
    return f"{'partly ' if stats.get('verified') else ''}not checked, {by}"


def written_here(stats: Mapping[str, Any]) -> bool:
    """Whether a model on this device wrote a part of a stored answer that nobody has checked."""
    return any(stretch.here for stretch in stretches_of(stats))
