"""Programs that run another program: which of their words are that program and its words.

`sudo -u root rm x` runs `rm x`; `sh -c 'rm x'` runs a script of its own. Sources: the manual pages of sudo, doas, GNU
coreutils, findutils, util-linux, OpenSSH and Docker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.commands.script import SimpleCommand, Word

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish"})
ROOT_PROGRAMS = frozenset({"sudo", "doas", "pkexec", "run0", "su", "sudo-rs", "gsudo"})
"""Programs that run another one with the rights of another user, root unless they are told."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How a program's own words end: options with a value, then operands, then the command that it runs."""

    valued: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    script: bool = False
    """The words are joined and read by a shell."""
    far: bool = False
    not_with: frozenset[str] = frozenset()
    """With one of these options it runs nothing."""


@dataclass(frozen=True, slots=True)
class Inner:
    """What a wrapper runs: words, or one word that a shell reads as a script."""

    words: tuple[Word, ...] = ()
    script: Word | None = None
    far: bool = False


class HasValue(Protocol):
    """A word of a command line."""

    @property
    def value(self) -> str: ...


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DOCKER_VALUED = _options(
    "-e --env --env-file -u --user -w --workdir -v --volume -p --publish --name --network --net -h --hostname"
    " --entrypoint -m --memory --mount -l --label --restart --platform --cpus --gpus --add-host --device --ulimit"
    " --shm-size --ip --dns --cap-add --cap-drop --pid --ipc --tmpfs --security-opt --runtime --log-driver --index"
)
_KUBECTL_VALUED = _options("-n --namespace -c --container --context --kubeconfig -f --filename --cluster --user")
WRAPPERS: dict[str, Wrapper] = {
    "sudo": Wrapper(
        _options(
            "-u --user -g --group -p --prompt -h --host -C --close-from -D --chdir -R --chroot -r --role -t --type"
            " -T --command-timeout -U --other-user"
        ),
        assignments=True,
        not_with=_options("-l --list -v --validate -k -K --remove-timestamp -V --version -e --edit"),
    ),
    "doas": Wrapper(_options("-u -C"), not_with=_options("-C -L")),
    "pkexec": Wrapper(_options("--user")),
    "run0": Wrapper(_options("-u --user -g --group -D --chdir --nice --unit --property --setenv")),
    "env": Wrapper(_options("-u --unset -C --chdir -S --split-string"), assignments=True),
    # Words of the shell itself, which the grammar takes for programs in a wrong place.
    **dict.fromkeys(("then", "else", "do", "if", "elif", "while", "until"), Wrapper()),
    "nohup": Wrapper(),
    "time": Wrapper(_options("-f --format -o --output")),
    "command": Wrapper(not_with=_options("-v -V")),
    "builtin": Wrapper(),
    "exec": Wrapper(_options("-a")),
    "noglob": Wrapper(),
    "nocorrect": Wrapper(),
    "nice": Wrapper(_options("-n --adjustment")),
    "ionice": Wrapper(_options("-c --class -n --classdata -p --pid -P --pgid")),
    "chrt": Wrapper(_options("-p --pid -T -P -D"), operands=1),
    "taskset": Wrapper(operands=1, not_with=_options("-p --pid")),
    "timeout": Wrapper(_options("-k --kill-after -s --signal"), operands=1),
    "gtimeout": Wrapper(_options("-k --kill-after -s --signal"), operands=1),
    "stdbuf": Wrapper(_options("-i --input -o --output -e --error")),
    "setsid": Wrapper(),
    "unbuffer": Wrapper(),
    "caffeinate": Wrapper(_options("-t -w")),
    "chronic": Wrapper(),
    "fakeroot": Wrapper(_options("-l -s -i -b")),
    "proxychains": Wrapper(_options("-f")),
    "proxychains4": Wrapper(_options("-f")),
    "torsocks": Wrapper(),
    "strace": Wrapper(_options("-e -o -p -s -u -E -I -a -b -O -S -P -X")),
    "ltrace": Wrapper(_options("-e -o -p -s -u -a -n -l -x")),
    "systemd-run": Wrapper(_options("--unit -p --property --slice -E --setenv --uid --gid --on-active --on-calendar")),
    "systemd-inhibit": Wrapper(_options("--what --who --why --mode")),
    "unshare": Wrapper(_options("-S --setuid -G --setgid -R --root -w --wd")),
    "nsenter": Wrapper(_options("-t --target -S --setuid -G --setgid")),
    "chroot": Wrapper(_options("--userspec --groups"), operands=1),
    "arch-chroot": Wrapper(_options("-u"), operands=1),
    "flock": Wrapper(_options("-w --timeout -E --conflict-exit-code"), operands=1),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "xargs": Wrapper(
        _options(
            "-I -i -n --max-args -P --max-procs -L --max-lines -d --delimiter -a --arg-file -E -s --max-chars"
            " --process-slot-var -J -R -S"
        )
    ),
    "parallel": Wrapper(
        _options(
            "-j --jobs -a --arg-file -I -n --max-args -N -S --sshlogin -C --colsep -d --delimiter --joblog --delay"
        ),
        script=True,
    ),
    "entr": Wrapper(),
    "watch": Wrapper(_options("-n --interval -q --equexit"), script=True),
    "eval": Wrapper(script=True),
    "ssh": Wrapper(
        _options("-b -B -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"), operands=1, script=True, far=True
    ),
    "mosh": Wrapper(_options("-p --port --ssh --server --predict"), operands=1, far=True),
}
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose", "lxc", "kubectl", "oc", "incus"})
_PREFIXES = frozenset({"compose", "container"})


def inner_commands(words: Sequence[Word]) -> Iterator[Inner]:
    """Yield what the command that these words are would run, one level down."""
    program = words[0].value.rpartition("/")[2]
    if program in SHELLS:
        yield from _scripts(words, short="c")
    elif program in ("su", "script", "runuser"):
        yield from _scripts(words, short="c", long="--command")
    elif program in ("find", "gfind"):
        yield from _each_found(words, ("-exec", "-execdir", "-ok", "-okdir"))
    elif program in ("fd", "fdfind"):
        yield from _each_found(words, ("-x", "--exec", "-X", "--exec-batch"))
    elif program == "trap":
        if len(words) > 2 and not words[1].value.startswith("-"):
            yield Inner(script=words[1])
    elif program in _CONTAINERS:
        yield from _in_container(program, words)
    elif (wrapper := WRAPPERS.get(program)) is not None:
        yield from _wrapped(wrapper, words)


def own_words(command: SimpleCommand) -> tuple[Word, ...]:
    """A wrapper's words before the command that it runs: `sudo -u root` of `sudo -u root rm x`."""
    for inner in inner_commands(command.words) if command.words else ():
        first = inner.words[0] if inner.words else inner.script
        if first is not None and first in command.words:
            return command.words[: command.words.index(first)]
    return command.words


def _wrapped(wrapper: Wrapper, words: Sequence[Word]) -> Iterator[Inner]:
    if any(word.value in wrapper.not_with for word in _leading_options(words)):
        return
    at = after_options(words, 1, wrapper.valued)
    if wrapper.assignments:
        if words[0].value.endswith("env") and (split := _value(words, "-S", "--split-string")) is not None:
            yield Inner(script=split)
        while at < len(words) and "=" in words[at].value and not words[at].value.startswith("="):
            at += 1
    if wrapper.operands:  # Options may stand after the host, or the file, too.
        at = after_options(words, at + wrapper.operands, wrapper.valued)
    rest = tuple(words[at:])
    if not rest:
        return
    if wrapper.script and len(rest) == 1:
        yield Inner(script=rest[0], far=wrapper.far)
    else:
        yield Inner(rest, far=wrapper.far)


def _leading_options(words: Sequence[Word]) -> Iterator[Word]:
    for word in words[1:]:
        if not word.value.startswith("-"):
            return
        yield word


def after_options(words: Sequence[HasValue], at: int, valued: Collection[str]) -> int:
    """The index of the first word from `at` that is neither an option nor an option's value."""
    while at < len(words):
        word = words[at].value
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        bundle = not word.startswith("--") and len(word) > 2
        takes_next = (
            f"-{word[-1]}" in valued and not any(f"-{c}" in valued for c in word[1:-1]) if bundle else word in valued
        )
        at += 2 if takes_next else 1
    return at


def _value(words: Sequence[Word], *names: str) -> Word | None:
    for number, word in enumerate(words[:-1]):
        if word.value in names:
            return words[number + 1]
    return None


def _scripts(words: Sequence[Word], short: str, long: str = "") -> Iterator[Inner]:
    """The script after `-c`; the letter may be one of several: `bash -lc '…'`."""
    for number, word in enumerate(words[1:-1], start=1):
        option = word.value
        if option == "--":
            return
        if option == long or (option.startswith("-") and not option.startswith("--") and short in option[1:]):
            script = next((one for one in words[number + 1 :] if not one.value.startswith("-")), None)
            if script is not None:
                yield Inner(script=script)
            return
        if option.startswith(f"{long}=") and long:
            yield Inner(script=Word(option.partition("=")[2], word.span, word.plain))


def _each_found(words: Sequence[Word], options: Collection[str]) -> Iterator[Inner]:
    at = 1
    while at < len(words):
        if words[at].value not in options:
            at += 1
            continue
        end = at + 1
        while end < len(words) and words[end].value != ";":
            # `+` ends it only after `{}`; elsewhere it is a word of the command.
            if words[end].value == "+" and words[end - 1].value == "{}":
                break
            end += 1
        if end > at + 1:
            yield Inner(tuple(words[at + 1 : end]))
        at = end + 1


def _in_container(program: str, words: Sequence[Word]) -> Iterator[Inner]:
    """`docker exec NAME command`, `docker run IMAGE command`, `kubectl exec POD -- command`."""
    at = 1
    while at < len(words) and (words[at].value in _PREFIXES or words[at].value.startswith("-")):
        at += 1
    if at >= len(words) or words[at].value not in ("exec", "run"):
        return
    if program in ("kubectl", "oc", "lxc", "incus"):
        after = next((number + 1 for number, word in enumerate(words) if word.value == "--"), None)
    else:
        after = after_options(words, at + 1, _DOCKER_VALUED) + 1
    if after is not None and words[after:]:
        yield Inner(tuple(words[after:]), far=True)
