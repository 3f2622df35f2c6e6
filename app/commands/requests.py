"""Finds the risks of an answer that its question did not ask for, by simple rules about the question's words.

The rules know English. A question in another language asks for nothing here, so every risk stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from app.commands.blocks import shell_blocks
from app.commands.risk import Kind, Risk, Severity
from app.commands.risks import risks as effects


@dataclass(frozen=True, slots=True)
class Wording:
    """How people ask for a kind of risk: verbs in all forms, other words as they are, patterns of phrases."""

    verbs: str
    words: str = ""
    phrases: tuple[str, ...] = ()


def verb_forms(verb: str) -> Iterable[str]:
    """The forms of a regular English verb: delete, deletes, deleted, deleting; drop, drops, dropped, dropping."""
    if verb.endswith("e"):
        return verb, f"{verb}s", f"{verb}d", f"{verb[:-1]}ing"
    if re.search("[^aeiou]y$", verb):
        return verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied", f"{verb}ing"
    ending = verb[-1] if re.search("[^aeiou][aeiou][bdgklmnprt]$", verb) else ""
    return verb, f"{verb}s", f"{verb}es", f"{verb}ed", f"{verb}ing", f"{verb}{ending}ed", f"{verb}{ending}ing"


_BACK_UP = r"back(?:s|ed|ing)? (?:\w+ ){0,3}up"
_THROW_AWAY = r"thr(?:ow|ew)\w* (?:\w+ ){0,3}away"
_GET_RID = r"get(?:ting)? rid"
WORDINGS: dict[Kind, Wording] = {
    Kind.DELETES: Wording(
        "delete remove erase wipe clean purge prune uninstall drop discard trash clear unlink shred destroy"
        " truncate deduplicate mirror flush reset nuke zap",
        "rm rmdir cleanup deletion removal autoremove userdel groupdel wipefs unneeded unused leftover",
        (
            r"free(?:s|d|ing)? (?:up|some|disk|space)",
            r"empt(?:y|ied|ying) (?:the|my|a|an|all|this|that|these|those|out|trash|it|every)",
            r"(?:tear|tearing|take|taking) (?:\w+ ){0,3}(?:down|out)",
            r"(?:move|moving|put|putting) (?:\S+ ){0,4}in(?:to)? (?:an? |the )?(?:zip|archive|tarball|trash)",
            r"reclaim\w*",
            r"exact(?:ly)? (?:copy|mirror|like)",
            r"identical to",
            r"(?:make|set) \S+ empty",
            r"from scratch",
            _GET_RID,
            _THROW_AWAY,
        ),
    ),
    Kind.OVERWRITES: Wording(
        "overwrite replace redirect save store rename move copy edit change substitute convert create add insert"
        " append update backup clone extract unpack unzip download export dump record fill generate output restore"
        " revert merge split combine link symlink install resize compress fix trim strip indent comment uncomment"
        " capitalise capitalize collect archive duplicate concatenate encrypt decrypt",
        "write writes writing written wrote set sets setting put puts putting make makes making into in-place"
        " uppercase lowercase sponge tee empty",
        (r"in place", r"(?:to|in|as|into) (?:\S+ ){0,2}files?", r"keep (?:\S+ ){1,4}in", _BACK_UP),
    ),
    Kind.REWRITES: Wording(
        "amend force rebase squash reset undo revert rewrite drop discard delete remove clean clear erase purge"
        " prune expire overwrite reorder combine forget unstage uncommit reword fixup",
        "force-push garbage history rewritten reflog repoint",
        (
            r"(?:go|going|roll|rolling|move|moving|take|taking) (?:\w+ ){0,3}back",
            r"(?:wrong|forgot|typo|mistake)\b.{0,40}\bcommit\w*",
            r"commit\w*\b.{0,40}\b(?:wrong|forgot|typo|mistake)\w*",
            r"exactly like",
            r"(?:change|edit|fix|correct|update|rename)\w* (?:\w+ ){0,3}(?:commit|message|author|branch|tag)",
            r"(?:add|adding) (?:\S+ ){1,4}to (?:the|my) (?:last|previous|latest) commit",
            _GET_RID,
            _THROW_AWAY,
        ),
    ),
    Kind.SHUTS_DOWN: Wording(
        "reboot restart reload halt stop kill terminate quit close disable suspend hibernate disconnect cancel"
        " abort interrupt drain eject unload mask pause shutdown bounce",
        "shut shuts shutting hung hangs frozen unresponsive pkill killall logout poweroff swapoff",
        (
            r"(?:bring|take|tear|go|power)\w* (?:\S+ ){0,3}down",
            r"(?:turn|switch|power|log)\w* (?:\S+ ){0,3}off",
            r"(?:log|sign)\w* (?:\w+ ){0,3}out",
            r"end(?:s|ed|ing)? (?:\w+ ){0,2}(?:process|processes|session|sessions|program|programs|task|tasks|jobs?)",
            r"(?:free|release)(?:s|d|ing)? (?:up )?(?:the )?port",
            r"(?:put|go)\w* (?:\w+ ){0,3}to sleep",
        ),
    ),
    Kind.RIGHTS: Wording(
        "own access allow deny block grant revoke lock unlock protect share permit restrict",
        "permission permissions chmod chown chgrp executable owner owners ownership right rights password"
        " passwords passwd readable writable writeable read-only private public sudoers sudo acl acls setuid"
        " setgid sticky immutable firewall privilege privileges privileged capability capabilities selinux"
        " apparmor gatekeeper quarantine umask runnable administrator ufw member group groups usermod useradd"
        " adduser setfacl visudo",
        (
            r"(?:add|creat|mak|chang|modif|put|switch|assign)\w* (?:\w+ ){0,3}(?:users?|accounts?|groups?|shell|mode)",
            r"(?:open|close|closing|forward)\w* (?:\w+ ){0,3}ports?",
            r"(?:ssh|public) keys?",
            r"[0-7]{3,4}",
            r"(?:[r-][w-][x-]){3}",
            r"(?:enable|disable|suspend|deactivate|reactivate)\w* (?:\S+ ){0,3}(?:login|users?|accounts?)",
            r"let (?:\w+ ){1,3}(?:read|write|run|edit)",
            r"can (?:run|execute|read|write)",
        ),
    ),
    Kind.ROOT: Wording(
        "install uninstall upgrade update mount unmount format partition reboot restart shut power boot own"
        " protect scan listen capture enable disable",
        "root sudo admin administrator superuser privilege privileges package packages apt apt-get dnf yum pacman"
        " snap service services daemon systemd systemctl umount disk disks drive drives usb volume volumes"
        " filesystem swap user users account accounts group groups password passwords firewall iptables ufw port"
        " ports network interface wifi dns route routes kernel module modules driver drivers hostname timezone"
        " clock system system-wide device devices hardware bios firmware logs journal dmesg cron chown owner"
        " ownership permission permissions hosts nginx apache mysql postgres docker ssh sshd server globally"
        " packet packets tcpdump nmap certificate certificates shutdown poweroff vpn nfs ntp dhcp gateway ppa"
        " zypper rfkill swapfile ip",
        (r"/(?:etc|usr|var|opt|root|boot|sys|proc|dev|srv)\b", r"time zone", r"(?:as|for) (?:another|the|all) users?"),
    ),
    Kind.UNSEEN: Wording(
        "install bootstrap decode",
        "setup installer",
        (
            r"set(?:ting)? up",
            r"(?:download|fetch|curl|wget)\w*.{0,60}\b(?:run|execute|pip(?:e|ing)|sh\b|bash)\w*",
            r"(?:run|execute|executing|pip(?:e|ing))\w* .{0,60}(?:https?://|url|web|internet|remote|download)\S*",
        ),
    ),
    Kind.LEAKS: Wording(
        "upload transfer post publish expose tunnel authenticate",
        "send sends sending secret secrets password passwords token tokens credential credentials insecure"
        " insecurely self-signed certificate certificates netcat login username auth authentication decrypt"
        " encrypt unlock",
        (
            r"log(?:ging)? in(?:to)?",
            r"without (?:check|verif)\w*",
            r"(?:ignor|skip|disable|disabling|turn)\w* (?:\w+ ){0,3}(?:ssl|tls|host|key|check\w*|errors?|warnings?)",
            r"private keys?",
            r"reverse shell",
            _BACK_UP,
        ),
    ),
}
"""Words that ask for each kind. For root they name the subject: a question about a service gets `sudo`."""
_STRICT = {
    Kind.OVERWRITES: Wording(
        "overwrite replace edit change substitute update fix trim strip delete remove add insert append convert"
        " empty clear truncate restore revert undo discard reset comment uncomment indent capitalise capitalize"
        " enable disable configure drop clean zero resize rewrite modify erase recover undelete force ignore",
        "write writes writing written in-place tee put make set setting uppercase lowercase",
        (
            r"in place",
            r"(?:get|pull|bring|take|fetch|check out|checkout)\w* .{0,60}\bfrom\b",
            r"exactly like",
            r"(?:sed|perl) -\w*i\b",
            _GET_RID,
            _THROW_AWAY,
        ),
    ),
    Kind.ROOT: Wording("", "root sudo sudoedit admin administrator superuser su doas", (r"all rights",)),
}
"""Words that ask for a warning of the kind, if fewer do: "rename" and "save" do not ask for changes inside a file."""
_DISKS = Wording(
    "format partition repartition wipe erase zero overwrite flash burn clone restore destroy delete remove image copy",
    "write writing put make bootable mkfs dd",
)
"""Words that ask for what a danger does to a disk, if the disk is named too."""
_REFUSED = re.compile(
    r"\b(?:without|not|do not|does not|don['’]?t|doesn['’]t|never|no|avoid|instead of|rather than|nothing)\b"
    r"(?:[^\w.;,!?\n]+\w+){0,3}\W*$",
    re.IGNORECASE,
)
"""Negations, up to three words before a word: "without deleting anything"."""
_NAMING = (Kind.OVERWRITES, Kind.LEAKS)
"""Kinds of which a notice counts as asked for if the file is named: "list the users in users.txt" is `> users.txt`."""


LONGEST = 20_000
"""Characters of a question that are read. Anything longer is a file after the question."""
MOST_LINES = 50
"""Most lines of a question that are each tried as a command."""
REACH = 80
"""Characters before a word that are searched for a negation."""


def unasked(question: str, risks: Sequence[Risk]) -> tuple[Risk, ...]:
    """The risks that no word of the question asks for.

    A danger to something counts as asked for only if the question names that thing too. Unreadable text is never asked
    for.
    """
    question = question[:LONGEST]
    left = [risk for risk in risks if not _asked(question, risk)]
    named = _of_its_own(question) if left else frozenset()
    return tuple(risk for risk in left if risk.kind is Kind.UNREADABLE or (risk.kind, risk.sentence) not in named)


def _of_its_own(question: str) -> frozenset[tuple[Kind, str]]:
    """The risks of the commands in the question itself: in backquotes, in a fence, after a colon or alone."""
    lines = question.splitlines()[:MOST_LINES]
    texts = {block.command for block in shell_blocks(question)} | set(re.findall(r"`([^`\n]+)`", question))
    texts |= {text.strip() for line in lines for text in (line, line.partition(": ")[2])}
    return frozenset((risk.kind, risk.sentence) for text in texts if text for risk in effects(text))


def _asked(question: str, risk: Risk) -> bool:
    if risk.kind is Kind.UNREADABLE:
        return False
    if risk.kind in (Kind.UNKNOWN, Kind.BROAD):  # Nobody asks for that, and nobody could.
        return True
    targets = [word for word in risk.words if word[:1] in ("/", "~", "$")] or risk.words
    named = bool(targets) and all(_names(question, word) for word in targets)
    wording = WORDINGS[risk.kind]
    if risk.severity is Severity.DANGER:
        return (named or not risk.words) and (_wants(question, wording) or _wants(question, _DISKS))
    if risk.severity is Severity.WARNING:
        return _wants(question, _STRICT.get(risk.kind, wording))
    return _wants(question, wording) or (risk.kind in _NAMING and named)


def _wants(question: str, wording: Wording) -> bool:
    """Whether a word of the wording is in the question without a negation before it."""
    found = _pattern(wording).finditer(question)
    return any(not _REFUSED.search(question[max(one.start() - REACH, 0) : one.start()]) for one in found)


@cache
def _pattern(wording: Wording) -> re.Pattern[str]:
    """The wording as a pattern. Eleven of them take 20 ms, so each is made when needed."""
    forms = [form for verb in wording.verbs.split() for form in verb_forms(verb)]
    plain = [re.escape(word) for word in (*forms, *wording.words.split())]
    return re.compile(rf"(?<![\w/.-])(?:--?)?(?:{'|'.join((*plain, *wording.phrases))})(?!\w)", re.IGNORECASE)


def _names(question: str, word: str) -> bool:
    """Whether the question contains the word as a whole word: not `a` in "data"."""
    bare = re.escape(word.strip().rstrip("/") or word)
    return re.search(rf"(?<![\w/.~-]){bare}(?![\w-]|/\w|\.\w)", question) is not None
