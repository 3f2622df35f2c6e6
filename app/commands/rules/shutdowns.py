"""Rules about what is stopped: the device, services, processes, containers, the network."""

from __future__ import annotations

import re
from collections.abc import Iterator

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule, fed, named
from app.commands.script import SimpleCommand

NOTICE, WARNING, DANGER = Severity.NOTICE, Severity.WARNING, Severity.DANGER
_S = Kind.SHUTS_DOWN
_SIGNAL = re.compile(r"^-(?:SIG)?(?P<signal>[A-Z]+[0-9]*|\d+)$")
_HARMLESS_SIGNALS = {"0", "CONT", "USR1", "USR2", "WINCH", "18", "STOP", "TSTP", "HUP", "1"}
_HARD = {"9", "KILL"}


def shutdown(command: SimpleCommand) -> Iterator[Finding]:
    """shutdown, reboot and their relatives."""
    words = [word.value for word in command.words[1:]]
    if any(word in ("-c", "--help", "-k", "--show", "-w", "--wtmp-only") for word in words):
        return
    program = command.program
    restarts = (
        program == "reboot" or "-r" in words or "--reboot" in words or (program in ("init", "telinit") and "6" in words)
    )
    if program in ("init", "telinit") and not {"0", "6", "1", "S"} & set(words):
        return
    when = next((word for word in words if re.fullmatch(r"\+\d+|\d\d?:\d\d", word)), "")
    if when.startswith("+"):
        when = f" in {when[1:]} minutes"
    elif when:
        when = f" at {when}"
    yield Finding(WARNING, f"{'restarts' if restarts else 'switches off'} this device{when}, and ends every program")


def killing(command: SimpleCommand) -> Iterator[Finding]:
    """Signals to processes: `kill 123`, `pkill -9 name`."""
    program = command.program
    words = command.words[1:]
    if not words and not fed(command):
        return
    texts = [word.value for word in words]
    if any(text in ("-l", "-L", "--list", "--help", "-V", "--version", "--table") for text in texts):
        return
    signal = next((found["signal"] for text in texts[:1] if (found := _SIGNAL.match(text))), "")
    targets = words[1:] if signal else words
    for number, text in enumerate(texts[:-1]):
        if text in ("-s", "--signal", "-n"):
            signal, targets = texts[number + 1].removeprefix("SIG"), words[number + 2 :]
    if signal in _HARMLESS_SIGNALS:
        return
    if program == "kill" and any(word.value == "-1" for word in targets):
        yield Finding(DANGER, "ends every process that you may end, including your session", targets)
        return
    hard = ", without a chance to save anything" if signal in _HARD else ""
    named_targets = tuple(word for word in targets if not word.value.startswith("-"))
    if program == "kill":
        ended = f"the process {named(named_targets)}" if named_targets else "every process that comes through the pipe"
        yield Finding(WARNING if hard else NOTICE, f"ends {ended}{hard}", named_targets)
    else:
        what = named(named_targets, command)
        yield Finding(WARNING, f"ends every process that matches {what}{hard}", named_targets)


def services(command: SimpleCommand) -> Iterator[Finding]:
    """`systemctl stop`, and what stops the whole device."""
    arguments = Arguments(command.words[1:], ("-H", "--host", "-M", "--machine", "-t", "--type", "-s", "--signal"))
    if not arguments.operands:
        return
    verb, what = arguments.operands[0].value, arguments.operands[1:]
    if verb in ("poweroff", "halt", "reboot", "kexec", "soft-reboot"):
        done = "restarts" if "reboot" in verb or verb == "kexec" else "switches off"
        yield Finding(WARNING, f"{done} this device, and ends every program")
    elif verb in ("suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate"):
        yield Finding(NOTICE, "puts this device to sleep")
    elif verb in ("rescue", "emergency", "isolate"):
        yield Finding(WARNING, "stops everything but a few services")
    elif verb in ("stop", "kill", "mask"):
        more = ", and it cannot be started again" if verb == "mask" else ""
        yield Finding(WARNING, f"stops the service {named(what)}{more}", what)
    elif verb == "disable":
        if arguments.has("--now"):
            sentence = f"stops the service {named(what)}, and no longer starts it at boot"
            yield Finding(WARNING, sentence, what)
        else:
            yield Finding(NOTICE, f"no longer starts the service {named(what)} at boot", what)
    elif verb in ("restart", "try-restart", "condrestart"):
        yield Finding(NOTICE, f"stops the service {named(what)} and starts it again", what)


def service(command: SimpleCommand) -> Iterator[Finding]:
    """`service NAME stop`, `/etc/init.d/NAME stop`, `rc-service NAME stop`."""
    operands = Arguments(command.words[1:]).operands
    if len(operands) > 1 and operands[1].value in ("stop", "restart", "force-reload"):
        name = operands[:1]
        if operands[1].value == "stop":
            yield Finding(WARNING, f"stops the service {named(name)}", name)
        else:
            yield Finding(NOTICE, f"stops the service {named(name)} and starts it again", name)


SHUTDOWNS: tuple[Rule, ...] = (
    Rule(_S, ("shutdown", "reboot", "poweroff", "halt", "init", "telinit"), shutdown),
    Rule(_S, ("kill", "pkill", "killall", "killall5", "skill"), killing),
    Rule(_S, ("systemctl",), services),
    Rule(_S, ("service", "rc-service"), service),
)
