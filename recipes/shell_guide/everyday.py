"""Hand-written everyday questions: reading them and filling their slots.

Each line of `everyday/*.jsonl` is one need: `intent`, `command`, `questions`, `page`, and sometimes `followups`.
`{file}`, `{host}` ... are slots: a question that names the thing gets a concrete value in both question and
command; one that does not gets the placeholder. Doubled braces are literal ones.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SLOT = re.compile(r"(?<!\{)\{([a-z0-9_.]+)\}(?!\})")

_STEMS = (
    "notes report data main todo backup config index photo video song draft letter invoice list users sales test log output "
    "results summary budget thesis paper readme server client settings access error app hello demo sample old new final "
    "january march 2024 2025 project homework recipe budget2 img_001 scan contacts archive export dump temp"
).split()
_EXTENSIONS = "txt md csv json log py sh c html yml conf pdf xml".split()
_DIRECTORIES = (
    "photos src docs build backup music projects downloads /var/log /etc ~/Documents ~/Downloads /tmp data old node_modules "
    "website ~/work /opt/app tests assets public logs /srv/www ~/code movies /home/anna lib bin cache"
).split()
POOLS: dict[str, list[str]] = {
    "file": [f"{s}.{e}" for s in _STEMS for e in _EXTENSIONS],
    "file.txt": [f"{s}.txt" for s in _STEMS],
    "script.sh": [f"{s}.sh" for s in _STEMS],
    "script.py": [f"{s}.py" for s in _STEMS],
    "archive.tar.gz": [f"{s}.tar.gz" for s in _STEMS],
    "archive.zip": [f"{s}.zip" for s in _STEMS],
    "input.mp4": [f"{s}.mp4" for s in _STEMS],
    "output.mp4": [f"{s}.mp4" for s in _STEMS],
    "input.png": [f"{s}.png" for s in _STEMS],
    "output.png": [f"{s}.png" for s in _STEMS],
    "directory": _DIRECTORIES,
    "source": _DIRECTORIES,
    "destination": [d for d in reversed(_DIRECTORIES)],
    "package": "nginx vim htop git curl docker nodejs python3 ffmpeg tmux numpy requests flask redis jq tree express zsh firefox vlc".split(),
    "service": "nginx ssh docker postgresql apache2 mysql cron bluetooth redis cups sshd NetworkManager".split(),
    "process": "firefox chrome node python java nginx spotify slack code vlc".split(),
    "pid": [str(n) for n in (1234, 4321, 999, 812, 20715, 5150, 777, 31337, 2048, 6001)],
    "port": [str(n) for n in (8080, 3000, 80, 443, 22, 5432, 8000, 5000, 9090, 6379, 8888, 3306)],
    "host": "example.com google.com 192.168.1.10 myserver github.com 10.0.0.5 raspberrypi.local db1 server.lan 8.8.8.8".split(),
    "user": "anna bob alice deploy www-data john maria guest admin tom".split(),
    "group": "docker sudo developers staff www-data audio admins wheel".split(),
    "branch": "main feature develop login bugfix release hotfix master experiment new-ui".split(),
    "url": "https://example.com/file.zip https://example.com https://example.org/data.json http://localhost:8000".split(),
    "text": "hello error TODO foo warning password timeout main failed".split(),
    "word": "error hello foo TODO warning test failed needle".split(),
    "pattern": "error TODO main test foo warning".split(),
    "number": [str(n) for n in (5, 10, 20, 50, 100, 3, 2, 7, 42)],
    "image": "nginx ubuntu postgres redis python alpine node".split(),
    "container": "web db my_container redis app api".split(),
    "name": "work dev test myproject demo backup api blog".split(),
    "message": ["fix typo", "initial commit", "update readme", "add tests", "wip"],
    "commit": "abc1234 a1b2c3d HEAD~2 9f8e7d6 4be01ac".split(),
    "remote": "origin upstream backup fork".split(),
    "database": "shop blog mydb users inventory".split(),
    "table": "users orders posts items".split(),
    "module": "http.server json venv requests numpy".split(),
    "variable": "PATH EDITOR API_KEY HOME LANG DEBUG".split(),
    "value": "vim 1 production true secret".split(),
    "device": "/dev/sdb1 /dev/sda1 /dev/nvme0n1p2 /dev/sdc1".split(),
    "interface": "eth0 wlan0 enp3s0 wlp2s0".split(),
    "ip": "192.168.1.10 10.0.0.5 172.16.0.2 192.168.0.100".split(),
    "key": "ABCD1234 ~/.ssh/id_ed25519 user@example.com mykey".split(),
}
PLACEHOLDERS = {
    "file": "path/to/file",
    "directory": "path/to/directory",
    "source": "path/to/source",
    "destination": "path/to/destination",
    "script.sh": "path/to/script.sh",
    "host": "example.com",
    "url": "https://example.com",
    "user": "username",
    "device": "/dev/sdX1",
    "ip": "192.168.1.10",
    "interface": "eth0",
    "port": "8080",
    "number": "10",
    "pid": "1234",
}


@dataclass(frozen=True)
class Need:
    """One need, its command and the ways people ask for it."""

    name: str
    """The command's name, shown as "Use `name` to ..."."""
    intent: str
    command: str
    questions: tuple[str, ...]
    followups: tuple[Need, ...] = ()


def program(command: str) -> str:
    """The program a command line runs: `sudo apt install x` -> `apt`; `A=1 git log | head` -> `git`."""
    for word in command.split():
        if word not in ("sudo", "time", "nohup") and not re.fullmatch(r"\w+=\S*", word):
            return word
    return command


def display_name(page: str, command: str) -> str:
    """The page's name where the command runs it, else the program it does run."""
    return page if command.replace("sudo ", "").startswith(page) else program(command)


def normalise(question: str) -> str:
    """The form in which two questions count as the same one."""
    return re.sub(r"[^a-z0-9]+", " ", question.lower()).strip()


def read_everyday(folder: Path, exclude: set[str]) -> list[Need]:
    """All needs of `folder/*.jsonl`, without any question whose normalised form is in `exclude`."""
    needs = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)

            def need(part: dict[str, object], followups: tuple[Need, ...] = ()) -> Need:
                command = str(part["command"])
                questions = tuple(q for q in part["questions"] if normalise(q) not in exclude)  # type: ignore[attr-defined]
                return Need(display_name(raw["page"], command), str(part["intent"]).rstrip("."), command, questions, followups)

            parsed = need(raw, tuple(need(f) for f in raw.get("followups", [])))
            if parsed.questions:
                needs.append(parsed)
    return needs


def fill(question: str, command: str, rng: np.random.Generator, values: dict[str, str]) -> tuple[str, str]:
    """Fill the slots of a question and its command.

    A slot named by the question, or already in `values` (an earlier turn named it), gets a value that both share;
    the rest get placeholders. `values` is updated in place.
    """
    for slot in SLOT.findall(question):
        if slot not in values:
            pool = POOLS.get(slot)
            values[slot] = str(rng.choice(pool)) if pool else PLACEHOLDERS.get(slot, slot)
    asked = SLOT.sub(lambda m: values[m.group(1)], question)
    answer = SLOT.sub(lambda m: values.get(m.group(1)) or PLACEHOLDERS.get(m.group(1), m.group(1)), command)
    return asked.replace("{{", "{").replace("}}", "}"), answer.replace("{{", "{").replace("}}", "}")
