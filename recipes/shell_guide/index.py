"""Write the pages that Shell Guide reads: tldr pages and everyday needs as one SQLite file with a full-text index.

    python -m recipes.shell_guide.index --pages PAGES --out drafter/pretrained/shell-guide/pages.db

It has every page of every platform, including the pages held out of training: these are kept out of the weights, not
out of the index. The questions that the pair is measured on are not in it. The same input gives the same bytes (with
the same version of SQLite).
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from models.guide.outline import Slot, unfilled
from models.guide.pages import FORMAT, OWN, SCHEMA, pack_ids
from models.guide.synonyms import NUMBERS, STOP_WORDS
from models.guide.words import endings, name_terms, terms, typed
from recipes.shell_guide.conversations import EVERYDAY, evaluation_questions
from recipes.shell_guide.everyday import Need, normalise, read_everyday
from recipes.shell_guide.grammar.intents import Intent, read_intents
from recipes.shell_guide.grammar.searching import searched_examples
from recipes.shell_guide.pages import first_sentence, resolve_choices
from recipes.shell_guide.slots import COUNTED, MEANINGFUL, PLACEHOLDERS, SLOT, TYPED

LICENCE = (
    "Pages: tldr pages (https://github.com/tldr-pages/tldr), Copyright (c) 2014-present the tldr-pages team and "
    "contributors, licensed under the Creative Commons Attribution 4.0 International License "
    "(https://creativecommons.org/licenses/by/4.0/). Placeholders and tasks were simplified; the tldr-pages team does "
    "not endorse Outrider. Own examples: Copyright 2026 The Outrider authors, Apache License, Version 2.0."
)
PREFERRED = (
    "common",
    "linux",
    "osx",
    "windows",
    "freebsd",
    "openbsd",
    "netbsd",
    "sunos",
    "android",
    "dos",
    "cisco-ios",
)
"""Platforms in the order in which a need's page is searched for."""

LEAST_DISTINCT = 0.3
"""Share from which on a word counts as a program without a page of its own."""
DOUBT, LEAST_SHARE, MOST_LINKS = 6, 0.03, 8
"""Added to the count of a term, so that rare ones count little; the least share that is kept; most pages of a term."""

_RUN = re.compile(r"^|\s\|{1,2}&?\s|\s&&\s|;\s|\$\(|(?<!\S)(?:do|then|else|xargs|-exec)\s|^\(")
"""What precedes a program's name."""
_PROGRAM = re.compile(r"[A-Za-z0-9_][\w.+-]*\Z|\[{1,2}\Z|[.:]\Z")
_PLACEHOLDER = re.compile(r"\w*(?:command|name|number|argument|expression|binary|path)\w*")
"""Placeholders of pages for any program."""
_PAGE_WORD = re.compile(
    r"path/to/[\w./-]*\w/?|https?://example\.com[\w./-]*|(?<![\w./$%<-])[a-z]\w*(?:\.com)?(?![\w./(=-])"
)
"""Pattern of a page's placeholders."""
_PAGE_FILE = re.compile(
    r"(?<![\w./⟦:-])(archive|input|output|file|image|script)\d?(?:\.[a-z][a-z0-9]{1,3}){1,2}(?![\w./⟧-])"
)
"""How needs and pages name files of certain kinds."""
_FILE_TYPES = {"archive": "archive", "input": "input", "output": "output", "script": "script"}
_PAGE_SLOTS = tuple((re.compile(pattern), kind) for pattern, kind in (
    (r"path/to/\S*(?:directory|folder)\w*/?", "folder"),
    (r"path/to/\S+", "file"),
    (r"https?://.*", "url"),
    (r"username|user_name", "user"),
    (r"example\.com|hostname|host|remote_host|ip_address|server_ip", "host"),
    (r"package|package_name", "package"),
    (r"branch|branch_name", "branch"),
    (r"service|service_name|unit", "service"),
    (r"container|container_name", "container"),
    (r"image|image_name", "image"),
    (r"pattern|search_pattern|regex|regular_expression", "pattern"),
    (r"port|pid|commit|database|group|tag", ""),
    (r"process_name", "process"),
))  # fmt: skip
"""Placeholders of pages, and the types of their slots; empty: the placeholder itself."""
_BEFORE = re.compile(r"sudo|doas|time|nohup|env|command|exec|\w+=\S*|-\S+")


@dataclass(frozen=True)
class Row:
    """One example, with the ways to ask for it."""

    platform: str
    name: str
    task: str
    command: str
    """Both with slots (`models/guide/outline.py`)."""
    wordings: tuple[str, ...]
    about: str
    """More text that may name it: the page's description."""
    own: bool


def programs_of(command: str) -> Iterator[str]:
    """The programs that a command line runs: `sudo du -h | sort` -> `du`, `sort`."""
    for part in _RUN.split(command):
        for word in part.split():
            if not _BEFORE.fullmatch(word):
                word = word.rstrip(")};")
                if _PROGRAM.match(word) and not _PLACEHOLDER.fullmatch(word):
                    yield word
                break


def command_terms(command: str) -> list[str]:
    """The parts of a command that a question might name: programs, long options, file endings."""
    found = [program.lower() for program in programs_of(command)]
    found += [
        term for option in re.findall(r"(?<=--)[a-z][a-z-]+", command) for term in terms(option.replace("-", " "))
    ]
    for ending in re.findall(r"(?<=[\w*])((?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,2})(?![\w.(])", command):
        found += endings(ending)
    return [term for term in dict.fromkeys(found) if term.isalnum() and term.isascii()]


def read_raw(path: Path) -> list[dict[str, Any]]:
    """The pages of a JSON-lines file, aliases too. Raises `ValueError` that names the invalid line."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            raw = json.loads(line)
            found.append(
                {key: raw[key] for key in ("platform", "name", "alias", "translations", "description", "examples")}
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}:{number} is not a tldr page ({error!r})") from None
    return found


def points_elsewhere(page: dict[str, Any]) -> bool:
    """Whether a page only names other pages: an alias, or a name that several programs share."""
    return page["alias"] or "can refer to multiple" in page["description"]


def _key(page: dict[str, Any]) -> tuple[str, str]:
    return page["name"], page["platform"]


def page_rows(raw: list[dict[str, Any]]) -> Iterator[Row]:
    """The examples of the pages that are about a program of their own."""
    for page in raw:
        if points_elsewhere(page):
            continue
        about = first_sentence(page["description"])
        for one in page["examples"]:
            for example in resolve_choices(one["task"], one["command"]):
                if example.task:
                    command = page_outline(page["name"], example.command)
                    yield Row(page["platform"], page["name"], example.task, command, (example.task,), about, False)


def page_outline(name: str, command: str) -> str:
    """A command of a page, with slots where it has one of the placeholders that pages use."""

    def slot(found: re.Match[str]) -> str:
        word = found.group()
        if found.start() < len(name):
            return word
        kind = next((kind for pattern, kind in _PAGE_SLOTS if pattern.fullmatch(word)), None)
        return word if kind is None else str(Slot(word.replace(":", "_"), kind or word, _form(found), False, word))

    return _PAGE_FILE.sub(page_file, _PAGE_WORD.sub(slot, command))


def page_file(found: re.Match[str]) -> str:
    """The slot for a file that is named as examples name files."""
    return str(Slot(found.group(), _FILE_TYPES.get(found[1], "file"), _form(found), False, found.group()))


def need_outline(text: str, *, typed: bool) -> str:
    """The intent or command (`typed`) of a need, with slots."""

    def slot(found: re.Match[str]) -> str:
        placeholder = PLACEHOLDERS.get(found[1], found[1])
        return str(Slot(found[1], found[1].partition(".")[0], _form(found) if typed else "", False, placeholder))

    text = SLOT.sub(slot, text).replace("{{", "{").replace("}}", "}")
    return _PAGE_FILE.sub(page_file, text) if typed else text


def _form(found: re.Match[str]) -> str:
    """The form of a slot in a command: unquoted if it is part of a word."""
    around = found.string[: found.start()][-1:] + found.string[found.end() :][:1]
    return "" if not around.strip() or around.strip() in ")};|&" else "raw"


def filled(text: str) -> str:
    """A text with placeholders in its slots."""
    return unfilled(need_outline(text, typed=False))


def need_rows(needs: Iterable[Need], platforms: dict[str, str]) -> Iterator[Row]:
    """The everyday needs, with the platform of the page that each belongs to; `OWN` if there is none."""
    for need in needs:
        for one, before in ((need, ""), *((after, need.intent + " ") for after in need.followups)):
            intent, command = need_outline(one.intent, typed=False), need_outline(one.command, typed=True)
            for number in counts(one):
                slot = str(Slot(f"count{number}", "count", "raw", True, number))
                intent, command = (re.sub(rf"(?<![\w.:]){number}(?![\w.:⟧])", slot, text) for text in (intent, command))
            name = filled(one.name)
            platform = platforms.get(name, OWN)
            wordings = (one.intent, *(before + question for question in one.questions))
            yield Row(platform, name, intent, command, wordings, "", True)


def counts(need: Need) -> list[str]:
    """The numbers in a need's command that a question may replace."""
    if MEANINGFUL.search(f"{need.intent} {need.command} {' '.join(need.questions)}"):
        return []
    typed = TYPED.findall(need.command)
    asked = {number for question in need.questions for number in COUNTED.findall(question)}
    return [number for number in typed if number in asked and typed.count(number) == 1 and int(number) > 1]


def intent_rows(intents: Iterable[Intent], platforms: dict[str, str], mac: Collection[str]) -> Iterator[Row]:
    """The intents of the grammar. `mac`: names of pages of macOS, where a command of its own can be shown.

    Like the needs, they exclude the questions that the pair is measured on.
    """
    excluded = evaluation_questions()
    for one in searched_examples(intents):
        texts = (one.task, *(text for text in one.wordings if normalise(text) not in excluded))
        yield Row(platforms.get(one.program, OWN), one.program, one.task, one.command, texts, "", True)
        if one.macos and one.program in mac:
            yield Row("osx", one.program, one.task, one.macos, texts, "", True)


def all_rows(raw: list[dict[str, Any]], needs: Iterable[Need], intents: Iterable[Intent]) -> list[Row]:
    """The examples in the order of their ids, of which the first is 1."""
    platforms = {
        page["name"]: page["platform"] for page in sorted(raw, key=lambda page: -PREFERRED.index(page["platform"]))
    }
    mac = {page["name"] for page in raw if page["platform"] == "osx"}
    return [*page_rows(raw), *need_rows(needs, platforms), *intent_rows(intents, platforms, mac)]


def write(path: Path, raw: list[dict[str, Any]], needs: Iterable[Need], intents: Iterable[Intent] = ()) -> None:
    """Write the index, replacing an existing file."""
    rows = all_rows(raw, needs, intents)
    wordings = [list(dict.fromkeys(tuple(dict.fromkeys(terms(one))) for one in row.wordings)) for row in rows]
    names = {row.name: name_terms(row.name) for row in rows}
    runs = [command_terms(unfilled(row.command)) for row in rows]
    about = {(row.platform, row.name): list(dict.fromkeys(terms(row.about))) for row in rows}
    columns = [
        ([term for one in asked for term in one], names[row.name], [*run, *about[row.platform, row.name]])
        for row, asked, run in zip(rows, wordings, runs)
    ]
    counts = Counter(term for row in columns for term in {term for column in row for term in column})
    ids = {
        term: number for number, (term, _) in enumerate(sorted(counts.items(), key=lambda one: (-one[1], one[0])), 1)
    }

    def pack(words: Iterable[str]) -> bytes:
        return pack_ids(ids[word] for word in words)

    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA page_size = 4096; PRAGMA journal_mode = off; PRAGMA synchronous = off;" + SCHEMA)
    connection.executemany("INSERT INTO facts VALUES (?, ?)", {"format": FORMAT, "licence": LICENCE}.items())
    pages: dict[tuple[str, str], int] = {}
    for (name, platform), same in groupby(sorted(raw, key=_key), key=_key):
        parts = list(same)
        said = " ".join(page["description"] for page in parts if not points_elsewhere(page) or len(parts) == 1)
        languages = max(0 if points_elsewhere(page) else page["translations"] for page in parts)
        pages[name, platform] = len(pages) + 1
        values = (len(pages), platform, name, said, languages, pack(about.get((platform, name), [])))
        connection.execute("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?)", values)
    for name in sorted({row.name for row in rows if row.platform == OWN}):
        pages[name, OWN] = len(pages) + 1
        connection.execute("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?)", (len(pages), OWN, name, "", 20, b""))
    for number, (row, asked, run, texts) in enumerate(zip(rows, wordings, runs, columns), 1):
        packed = pack_ids([0]).join(pack(one) for one in asked)
        page = pages[row.name, row.platform]
        values = (number, page, row.task, row.command, int(row.own), packed, pack(run))
        connection.execute("INSERT INTO examples VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        searched = (number, *(" ".join(words) for words in texts))
        connection.execute("INSERT INTO asked (rowid, wordings, name, terms) VALUES (?, ?, ?, ?)", searched)
    linked = links((pages[row.name, row.platform], one) for row, asked in zip(rows, wordings) for one in asked)
    values = [(ids[term], term, counts[term], linked.get(term, b"")) for term in ids]
    connection.executemany("INSERT INTO terms VALUES (?, ?, ?, ?)", values)
    named = {page["name"].split()[0] for page in raw}
    named |= {program for row in rows if row.own for program in programs_of(unfilled(row.command))}
    shares = distinct_shares(named | {program for row in rows for program in programs_of(unfilled(row.command))}, rows)
    # The first word of an example is not always a program: the page of `ftp` has `get file`.
    programs = {name: share for name, share in shares.items() if name in named or share >= LEAST_DISTINCT}
    connection.executemany("INSERT INTO programs VALUES (?, ?)", sorted(programs.items()))
    connection.execute("INSERT INTO asked (asked) VALUES ('optimize')")
    connection.commit()
    connection.execute("VACUUM")
    connection.close()


def distinct_shares(names: Iterable[str], rows: Iterable[Row]) -> dict[str, float]:
    """How often each program's name in a wording means that program: near 1 for `tar`, near 0 for `file`."""
    meant: Counter[str] = Counter()
    said: Counter[str] = Counter()
    for row in rows:
        of_row = {*row.name.lower().split(), *(program.lower() for program in programs_of(unfilled(row.command)))}
        for wording in row.wordings:
            for word in set(typed(wording)):
                said[word] += 1
                meant[word] += word in of_row
    plain = {name: name.lower() in STOP_WORDS or name.lower() in NUMBERS for name in names}
    return {
        name: 0.0 if plain[name] else round((meant[name.lower()] + 1) / (said[name.lower()] + 1), 3) for name in names
    }


def links(found: Iterable[tuple[int, Iterable[str]]]) -> dict[str, bytes]:
    """Term -> the pages that wordings with it are about, and how often: pairs of two bytes each, the share in 1/65535.

    `found`: the page and the terms of each wording.
    """
    counts: Counter[str] = Counter()
    together: dict[str, Counter[int]] = {}
    for page, asked in found:
        for term in asked:
            counts[term] += 1
            together.setdefault(term, Counter())[page] += 1
    out = {}
    for term, pages in together.items():
        shares = [(count / (counts[term] + DOUBT), page) for page, count in pages.items() if count > 1]
        kept = sorted((share, -page) for share, page in shares if share >= LEAST_SHARE)[::-1][:MOST_LINKS]
        out[term] = pack_ids(value for share, page in kept for value in (-page, round(65535 * share)))
    return out


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=Path, required=True, help="tldr pages as JSON lines")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    options = parser.parse_args(arguments)
    write(options.out, read_raw(options.pages), read_everyday(EVERYDAY, evaluation_questions()), read_intents())
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
