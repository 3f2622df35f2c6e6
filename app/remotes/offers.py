"""Small models that servers offer for this device: the question about each one, asked once, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.model_names import short_model
from app.remotes.notes import Notes
from app.sanitise import sanitise
from remote.protocol import Card

MOST = 200
"""Most answers that are kept; the oldest are dropped first."""


@dataclass(frozen=True)
class Offer:
    """The small model for a server's model, which is not on this device."""

    card: Card
    server: str
    """Its name, or its host."""

    @property
    def digest(self) -> bytes:
        assert self.card.drafter is not None
        return self.card.drafter.digest

    @property
    def size(self) -> str:
        """For people, as in `8 MB`."""
        assert self.card.drafter is not None
        return f"{max(1, round(self.card.drafter.size / 1e6)):,} MB"

    @property
    def question(self) -> str:
        """The question to the person, in a few lines."""
        assert self.card.drafter is not None
        model, licence = sanitise(short_model(self.card.target)), sanitise(self.card.drafter.licence)
        return (
            f"{sanitise(self.server)} offers a small model for {model}: {self.size}"
            f"{f', licence {licence}' if licence else ''}.\n\n"
            "With it, this device can draft answers itself, and continue them\n"
            "when the connection breaks. Download it now?"
        )

    @property
    def hint(self) -> str:
        """The hint that a command prints instead of asking."""
        model = sanitise(short_model(self.card.target))
        return (
            f"{sanitise(self.server)} offers a small model for {model} ({self.size}), with which this device can draft "
            "answers, and continue them when the connection breaks. "
            f"To fetch it: outrider drafter fetch {sanitise(self.server)}"
        )


class Told:
    """The offers that were shown to a person, by digest, in a file, so that nobody is asked twice."""

    def __init__(self, path: Path) -> None:
        self._notes = Notes(path, list[str])

    def first_time(self, offer: Offer) -> bool:
        """Whether an offer is shown for the first time. Records it as shown."""
        return self.first(offer.digest.hex())

    def knows(self, name: str) -> bool:
        """Whether something of this name was shown."""
        return name in self._notes.read()

    def first(self, name: str) -> bool:
        """As `first_time`, for anything with a name. If the file cannot be written, it is shown again the next time."""
        if self.knows(name):
            return False
        self._notes.change(lambda told: [*told, name][-MOST:])
        return True
