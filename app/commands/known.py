"""Finds unknown programs in a command: those that neither this device nor the bundled pages know.

Small models invent program names, and large ones do too.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache

from app.commands.risk import Kind, Risk, Severity
from app.commands.rules.registry import BY_PROGRAM
from app.commands.script import Script, SimpleCommand, name_set
from app.commands.syntax import PLACEHOLDER
from app.config import BUNDLED_DRAFTER
from models.config import DrafterError
from models.guide.pages import FILE, Pages

BUILTINS = name_set(
    """
    . : [ [[ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare
    dirs disown echo enable eval exec exit export false fc fg getopts hash help history if jobs kill let local
    logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test
    time times trap true type typeset ulimit umask unalias unset until wait while autoload bindkey chdir compdef
    emulate functions noglob rehash repeat setopt unsetopt vared where whence zle zmodload zstyle abbr and argparse
    begin contains count emit end fish_config funced funcsave function not or set_color status string switch
    """
)
"""Commands of the shells themselves, from the manual of Bash; then those of zsh and fish."""
COREUTILS = name_set(
    """
    arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown chroot cksum comm cp csplit cut date dd df
    dir dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join kill link
    ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv
    printf ptx pwd readlink realpath rm rmdir runcon seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf
    sleep sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname
    unexpand uniq unlink uptime users vdir wc who whoami yes
    """
)
"""Programs of GNU coreutils. Some devices have them with a `g` prefix, or as a single program."""
UNKNOWN = "runs `{}`, which is neither installed here nor in Outrider's pages; it may not exist"
_NAME = re.compile(r"[\w.+@\[:-]+$")


@cache
def bundled_pages() -> Pages:
    """The bundled index, opened when first needed. Raises `DrafterMissing` or `DrafterCorrupt`."""
    return Pages.open(BUNDLED_DRAFTER / FILE)


def page_programs() -> Callable[[str], bool] | None:
    """Make a function that says whether a page of the bundled index is about a program or runs it.

    Returns None if the index cannot be read.
    """
    try:
        return bundled_pages().knows
    except DrafterError:
        return None


def unknown_programs(text: str, script: Script, known: Callable[[str], bool], path: str | None = None) -> list[Risk]:
    """The unknown programs, each once, in the order of `text`, from which `script` was parsed.

    `known` says whether a name is in an index of pages. Programs with a rule are known too. `path`: the search path for
    programs, by default `PATH`. A program with a path (`./build.sh`), a placeholder, a variable, a function that the
    text defines and anything that runs on another machine are not judged. A text that does not parse has no programs.
    """
    if script.unreadable:
        return []
    own = set(re.findall(r"(?:^|[;\s&])(?:function\s+)?([\w.-]+)\s*\(\s*\)", text))
    own |= set(re.findall(r"\bfunction\s+([\w.-]+)", text))
    own |= {word.value.partition("=")[0] for one in script.commands if one.program == "alias" for word in one.words[1:]}
    found: dict[str, Risk] = {}
    for command in script.commands:
        if _judged(command) and (name := command.words[0].value) not in own and not _known(name, known, path):
            found.setdefault(name, Risk(Kind.UNKNOWN, Severity.WARNING, (name,), UNKNOWN.format(name), command.span))
    return list(found.values())


def _judged(command: SimpleCommand) -> bool:
    if not command.words or command.far:
        return False
    word = command.words[0]
    return (
        word.plain and not word.pattern and not PLACEHOLDER.search(word.value) and _NAME.match(word.value) is not None
    )


def _known(name: str, known: Callable[[str], bool], path: str | None) -> bool:
    if name in BUILTINS or name in COREUTILS or name in BY_PROGRAM or (name[:1] == "g" and name[1:] in COREUTILS):
        return True
    return known(name) or shutil.which(name, path=path) is not None
