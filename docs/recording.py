"""Record an answer that survives a cut of the line, as an animated SVG: the real screen, drafter, verifier and line.

    python docs/recording.py [OUT.svg]

The line has a round trip of 250 ms, and falls silent early in an answer; the drafter writes on alone, dimmed, and
answers another question. When the line is back, the model reads what was written without it, and keeps what it agrees
with. The mode is `auto`, as it is by default. The pictures are those that the screen showed, in their order and at
their times, but that waiting is cut to a second and that four pictures, where there is something to see, stand
longer. How long it took to notice the silence is told on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
QUESTION = "examples of git commit"
CUT_AFTER = 20
"""Characters."""
OFFLINE = "How much disk space is left?"
PATIENCE_SECONDS = 60.0
EVERY_SECONDS = 0.1
LONGEST_SECONDS = 1.0
"""That a picture stands, where nothing happens."""
DIMMED_SECONDS, READING_SECONDS = 1.5, 3.0
"""That pictures stand where there is something to see: dimmed text, and whole answers."""
SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Recording:
    """Pictures of a screen, and when each was taken."""

    pictures: list[tuple[float, str]] = field(default_factory=list)
    held: dict[int, float] = field(default_factory=dict)
    """Seconds for which some of them stand, by their numbers."""

    def hold(self, seconds: float = READING_SECONDS) -> None:
        """Leave time to read what was shown last."""
        self.held[len(self.pictures) - 1] = seconds

    def add(self, picture: str) -> None:
        if not self.pictures or _without_ids(self.pictures[-1][1]) != _without_ids(picture):
            self.pictures.append((time.monotonic(), picture))

    def animated(self) -> str:
        """One SVG that shows them in turn, again and again. A line of text that stays is in it once."""
        times = [at for at, _ in self.pictures]
        shown = [min(LONGEST_SECONDS, after - at) for at, after in zip(times, times[1:])] + [READING_SECONDS]
        shown = [self.held.get(number, seconds) for number, seconds in enumerate(shown)]
        starts = [sum(shown[:index]) for index in range(len(shown))]
        whole = sum(shown)
        pieces: dict[str, list[tuple[float, float]]] = {}
        for (_, picture), start, seconds in zip(self.pictures, starts, shown):
            for piece in _lines(picture):
                spans = pieces.setdefault(piece, [])
                if spans and abs(spans[-1][1] - start) < 1e-9:
                    spans[-1] = (spans[-1][0], start + seconds)
                else:
                    spans.append((start, start + seconds))
        body = "\n".join(_timed(piece, spans, whole) for piece, spans in pieces.items())
        return _frame(self.pictures[0][1], body)


def _without_ids(picture: str) -> str:
    return re.sub(r"terminal-\d+", "", picture)


def _lines(picture: str) -> Iterable[str]:
    """Each line of the terminal: its backgrounds and texts, with their styles inside."""
    root = ElementTree.fromstring(_without_ids(picture))
    css = "".join(style.text or "" for style in root.iter(f"{SVG}style"))
    styles = dict(re.findall(r"\.-(r\d+) \{ ([^}]*) \}", css))
    lines: dict[int, list[str]] = {}
    for element in root.iter():
        at = element.get("clip-path", "")
        if element.tag == f"{SVG}text" and "-line-" in at:
            name = element.get("class", "").removeprefix("-")
            text = (element.text or "").replace("&", "&amp;").replace("<", "&lt;")
            place = f'x="{element.get("x")}" y="{element.get("y")}" textLength="{element.get("textLength")}"'
            number = int(re.findall(r"\d+", at)[-1])
            lines.setdefault(number, []).append(f'<text {place} style="{styles.get(name, "")}">{text}</text>')
        elif element.tag == f"{SVG}rect" and element.get("shape-rendering"):
            y = float(element.get("y", 0))
            names = ("x", "y", "width", "height", "fill")
            place = " ".join(f'{name}="{element.get(name)}"' for name in names)
            lines.setdefault(round((y - 1.5) / 24.4), []).insert(0, f"<rect {place}/>")
    return ["".join(parts) for parts in lines.values()]


def _timed(piece: str, spans: list[tuple[float, float]], whole: float) -> str:
    """The piece, visible in these spans of seconds."""
    if len(spans) == 1 and spans[0][0] == 0 and abs(spans[0][1] - whole) < 1e-6:
        return f"<g>{piece}</g>"
    changes = [(0.0, "hidden")]
    for start, end in spans:
        changes += [(start / whole, "visible"), (end / whole, "hidden")]
    kept = {at: state for at, state in changes if at < 1 - 1e-9}
    values, at = ";".join(kept.values()), ";".join(f"{moment:.4f}" for moment in kept)
    last = "visible" if spans[-1][1] > whole - 1e-6 else "hidden"
    return (
        f'<g visibility="{last}"><animate attributeName="visibility" calcMode="discrete" repeatCount="indefinite" '
        f'dur="{whole:.2f}s" values="{values}" keyTimes="{at}"/>{piece}</g>'
    )


def _frame(picture: str, body: str) -> str:
    """The window around the lines, as Textual draws it."""
    plain = _without_ids(picture)
    head = plain[: plain.index("<g transform", plain.index("<circle"))]
    head = re.sub(r"@font-face \{.*?\}\s*", "", head, flags=re.DOTALL)
    head = re.sub(r"\.-r\d+ \{[^}]*\}\s*|<clipPath id=\"-line-.*?</clipPath>\s*", "", head, flags=re.DOTALL)
    groups = re.findall(r"<g transform=\"[^\"]*\"[^>]*>", plain)
    matrix = re.search(r'<g class="-matrix">', plain)
    assert matrix is not None
    return f"{head}{groups[-1]}{matrix[0]}\n{body}\n</g></g></svg>\n"


async def record() -> Recording:
    """Ask, cut the line in the middle of the answer, let it come back, and have the rest verified."""
    from app.config import Folders, Settings
    from app.reply.bootstrap import open_assistant
    from app.tui.app import OutriderApp
    from app.tui.screens.chat.screen import ChatScreen
    from app.tui.turn import Turn
    from app.tui.widgets.message import AnswerView
    from app.tui.widgets.prompt import Prompt
    from docs.screenshot import verifier
    from tests.support.emulator import Emulator, LinkProfile
    from tests.support.fault_proxy import FaultProxy
    from tests.support.faults import silence

    recording = Recording()
    profile = LinkProfile(name="slow", rtt_ms=250, jitter_ms=10, up_mbps=4, down_mbps=8)
    with tempfile.TemporaryDirectory() as home:
        folders = Folders.locate({"OUTRIDER_HOME": home})
        async with (
            verifier() as port,
            FaultProxy([port]) as faults,
            Emulator(profile, "127.0.0.1", faults.port) as line,
            open_assistant(Settings(remote=line.url, mode="auto"), folders) as assistant,
        ):
            app = OutriderApp(assistant)
            async with app.run_test(size=(112, 30)) as pilot:

                def picture() -> None:
                    recording.add(app.export_screenshot(title="outrider"))

                async def until(done: Callable[[], bool]) -> None:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        while not done():
                            picture()
                            await pilot.pause(EVERY_SECONDS)

                screen = app.screen
                assert isinstance(screen, ChatScreen)

                async def ask(question: str) -> Turn:
                    """Type it, send it, and return its answer as it begins."""
                    before, prompt = len(screen.query(AnswerView)), screen.query_one(Prompt)
                    prompt.focus()
                    for end in range(len(question)):
                        prompt.write(question[: end + 1])
                        await pilot.pause()
                        picture()
                    await pilot.press("enter")
                    await until(lambda: len(screen.query(AnswerView)) > before)
                    return screen.query(AnswerView).last().turn

                async def shade(turn: Turn) -> None:
                    """Choose the last answer, have the words shaded that nobody checked, and leave time to read."""
                    await pilot.press("alt+up", "p")
                    await until(lambda: bool(turn.shaded))
                    await pilot.pause(2 * EVERY_SECONDS)
                    picture()
                    recording.hold()
                    await pilot.press("p", "escape")

                await until(lambda: assistant.status().mode in ("edge", "hosted"))
                turn = await ask(QUESTION)
                await until(lambda: bool(turn.reply.ghost or turn.reply.solid))
                await screen.query(AnswerView).last().flush()
                await pilot.pause(EVERY_SECONDS / 2)
                picture()
                recording.hold(DIMMED_SECONDS)
                await until(lambda: len(turn.reply.solid) > CUT_AFTER)
                faults.line = silence
                faults.hush()
                silent = time.monotonic()
                await until(lambda: assistant.status().mode == "offline")
                print(f"noticed after {time.monotonic() - silent:.1f} s", file=sys.stderr)
                await until(lambda: not turn.running)
                await shade(turn)
                turn = await ask(OFFLINE)
                await until(lambda: not turn.running)
                await shade(turn)
                await faults.heal()
                await until(lambda: assistant.status().mode != "offline")
                await pilot.press("ctrl+t")
                await until(lambda: screen.query(AnswerView).last().turn is not turn)
                turn = screen.query(AnswerView).last().turn
                await until(lambda: not turn.running)
                await pilot.pause(5 * EVERY_SECONDS)
                picture()
    return recording


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", metavar="OUT.svg", default=ROOT / "docs/recording.svg")
    out: Path = parser.parse_args().out
    out.write_text(asyncio.run(record()).animated(), encoding="utf-8")
