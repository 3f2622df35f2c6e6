"""In `auto`, a device whose drafter guesses nothing never drafts a round, and remembers that."""

from __future__ import annotations

from pathlib import Path

from app.config import Settings
from app.events import RoundEnded
from app.remotes.last_seen import LastSeen
from app.remotes.mode_meter import MODES, WATCHED
from app.remotes.mode_record import FILE
from drafter.runtime import Drafter
from tests.support.conversing import Heard, ask, assistant
from tests.support.serving import VerifierProcess

QUESTIONS = ("list files", "and hidden ones", "unpack a tar archive", "find large files", "who am I?")
AUTO = Settings(max_tokens=60)


def edge_rounds(heard: Heard) -> int:
    reports = [event.report for event in heard.events if isinstance(event, RoundEnded) and event.report is not None]
    return sum(report.mode == "edge" for report in reports)


async def test_a_drafter_that_guesses_nothing_is_compared_with_the_stream_and_drafts_no_round(
    guessing_nothing: Path, tmp_path: Path
) -> None:
    drafter, seen = Drafter.load(guessing_nothing / "drafter"), LastSeen(tmp_path / "seen.json")
    with VerifierProcess(guessing_nothing) as verifier:
        for start in range(2):
            async with assistant(
                drafter, tmp_path / "a.db", verifier.url, settings=AUTO, modes=MODES, seen=seen
            ) as opened:
                for question in QUESTIONS:
                    heard = await ask(opened, question)
                    assert heard.done is not None and len(heard.done.token_ids) == 60
                    assert edge_rounds(heard) == 0 and heard.modes[-1] == "hosted"
                assert opened._connection is not None
                learnt = opened._connection.modes.learnt
                assert learnt.drafts <= WATCHED and learnt.draft_tokens <= 1.2 * learnt.drafts
                assert start == 0 or learnt.hosted.long_count > 80, "what was learnt before is still known"
    assert (tmp_path / FILE).exists()
