"""Rules about keys, passwords and tokens that others may see, and about connections that others can read or open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from app.commands.arguments import Arguments
from app.commands.risk import Kind, Severity
from app.commands.rules.table import Finding, Rule, named
from app.commands.script import SimpleCommand, Word, name_set
from app.commands.targets import secret

NOTICE, WARNING, DANGER = Severity.NOTICE, Severity.WARNING, Severity.DANGER
_L = Kind.LEAKS
SENDERS = name_set("curl wget nc ncat netcat socat http https xh ftp telnet mail sendmail mutt")
COPIERS = {"scp", "rsync", "sftp", "rclone"}
_UPLOADS = ("-T", "--upload-file", "--post-file", "--body-file")
_READERS = name_set("cat tac less more head tail bat base64 xxd tar zip gzip grep strings")
_SECRET_NAME = re.compile(
    r"\$\{?\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL)\w*", re.IGNORECASE
)
_PASSWORD_OPTION = re.compile(r"^--?(?:password|passwd|pass|token|api-key|secret)=(?P<value>.+)$", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"^[a-z+]+://[^/@:\s]+:(?P<value>[^/@\s]+)@", re.IGNORECASE)
_PASSWORD_VARIABLE = re.compile(
    r"^(?:PGPASSWORD|MYSQL_PWD|\w*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_KEY|ACCESS_KEY))=(?P<value>.+)$"
)
_BLANK = re.compile(r"^(?:\$.*|<.*>|\{\{.*\}\}|\*+|)$", re.DOTALL)
"""A variable or a placeholder, not a password."""


def sent(command: SimpleCommand) -> Iterator[Finding]:
    """A file with secrets, or the environment, goes to another machine."""
    far = tuple(word for word in command.words[1:] if _address(word))
    if command.program in COPIERS:
        files = tuple(word for word in command.words[1:-1] if secret(word) and not _value_of_identity(word, command))
        if files and command.words[-1].value.count(":"):
            yield Finding(WARNING, f"sends the secret in {named(files)} to `{command.words[-1].value}`", files)
        return
    where = f" to {named(far[:1])}" if far else " over the network"
    parts = (replace(word, value=word.value.rpartition("@")[2]) for word in command.words[1:] if "@" in word.value)
    files = tuple(part for part in parts if secret(part) and "://" not in part.value and ":" not in part.value)
    uploads = Arguments(command.words[1:], _UPLOADS)
    files += tuple(word for word in uploads.values(*_UPLOADS) if secret(word))
    files += tuple(
        one.target for one in command.redirections if one.operator == "<" and one.target and secret(one.target)
    )
    for feeder in command.feeders:
        if feeder.program in ("env", "printenv", "set", "history", "export") and len(feeder.words) == 1:
            yield Finding(WARNING, f"sends the output of `{feeder.program}`{where}: there may be secrets in it")
            return
        if feeder.program in _READERS:
            files += tuple(word for word in feeder.words[1:] if secret(word))
    if files:
        yield Finding(DANGER, f"sends the secret in {named(files)}{where}", files)
        return
    bodies = [word for word in command.words[1:] if _SECRET_NAME.search(word.value)]
    if command.program in ("nc", "ncat", "netcat", "telnet") and bodies:
        yield Finding(WARNING, f"sends {named(bodies)}{where}", tuple(bodies))


def _value_of_identity(word: Word, command: SimpleCommand) -> bool:
    """`scp -i ~/.ssh/id_rsa`: the key authenticates the connection, and is not sent."""
    at = command.words.index(word)
    return command.words[at - 1].value in ("-i", "-F", "-e", "-o")


def _address(word: Word) -> bool:
    return re.match(
        r"[a-z]+://|\d+\.\d+\.\d+\.\d+|[\w-]+(?:\.[\w-]+)+(?:[:/]|$)", word.value
    ) is not None and not secret(word)


def shown(command: SimpleCommand) -> Iterator[Finding]:
    """Commands that print a private key or a password file."""
    if command.program in ("cat", "less", "more", "head", "tail", "bat", "strings", "xxd"):
        files = tuple(word for word in command.words[1:] if secret(word))
        if files:
            yield Finding(NOTICE, f"shows the secret in {named(files)}", files)


def passwords(command: SimpleCommand) -> Iterator[Finding]:
    """A password in the arguments of a command, which other programs can read and the history keeps."""
    if any(_passwords(command)):
        yield Finding(NOTICE, "contains a password, which the shell history keeps and other programs can read")


def _passwords(command: SimpleCommand) -> Iterator[bool]:
    """True for each password in the command; a variable or a placeholder does not count."""
    program, words = command.program, [word.value for word in command.words[1:]]
    if program:
        for assignment in command.assignments:
            match = _PASSWORD_VARIABLE.match(assignment.value)
            yield match is not None and not _BLANK.match(match["value"])
    for word, following in zip(words, [*words[1:], ""]):
        for pattern in (_PASSWORD_OPTION, _IN_ADDRESS):
            match = pattern.match(word)
            yield match is not None and not _BLANK.match(match["value"])
        if program in ("mysql", "mysqldump", "mysqladmin", "mariadb"):
            yield re.match(r"-p.", word) is not None and not _BLANK.match(word[2:])
        if (program, word) in (("sshpass", "-p"), ("redis-cli", "-a"), ("docker", "-p")):
            yield not _BLANK.match(following) and (program != "docker" or "login" in words)
        if word in ("-u", "--user", "-a", "-U") and program in ("curl", "wget", "http", "smbclient"):
            user, _, password = following.replace("%", ":", 1).partition(":")
            yield bool(user) and not _BLANK.match(password)


def reverse_shell(command: SimpleCommand) -> Iterator[Finding]:
    """A shell whose input and output go over the network."""
    for one in command.redirections:
        if one.target is not None and one.target.value.startswith(("/dev/tcp/", "/dev/udp/")):
            shell = command.program in ("sh", "bash", "zsh")
            sentence = "opens a connection through which another machine can control this one"
            yield Finding(DANGER if shell else WARNING, sentence, (one.target,))
            return
    for word in command.words[1:]:
        given = command.program in ("nc", "ncat", "netcat") and re.match(r"-\w*[ec]$|--exec|--sh-exec", word.value)
        if given or (command.program == "socat" and re.match(r"(?:exec|system):", word.value, re.IGNORECASE)):
            yield Finding(DANGER, "gives a shell on this device to another machine", (word,))
            return


def unchecked(command: SimpleCommand) -> Iterator[Finding]:
    """Connections whose other end is not authenticated."""
    program = command.program
    words = [word.value for word in command.words[1:]]
    arguments = Arguments(command.words[1:], ("-o", "-H", "-d", "-X", "-u", "-A", "-e", "-F", "-i", "-p", "-m"))
    if (
        (program == "curl" and arguments.has("-k", "--insecure"))
        or (program == "wget" and "--no-check-certificate" in words)
        or (program in ("http", "https", "xh") and any(word in ("--verify=no", "--verify=false") for word in words))
        or (
            program in ("ssh", "scp", "sftp")
            and any(re.search(r"StrictHostKeyChecking[= ](?:no|off)", word) for word in words)
        )
        or (
            program == "git"
            and any(re.match(r"http\.sslverify(?:=false)?$", word, re.I) for word in words)
            and "false" in " ".join(words).lower()
        )
        or (program == "npm" and "strict-ssl" in words and "false" in words)
        or (program in ("pip", "pip3") and "--trusted-host" in words)
    ):
        yield Finding(
            NOTICE, "does not verify the server's identity: anyone on the network path can read and change the traffic"
        )


SECRETS: tuple[Rule, ...] = (
    Rule(_L, (*sorted(SENDERS), *sorted(COPIERS)), sent),
    Rule(_L, ("cat", "less", "more", "head", "tail", "bat", "strings", "xxd"), shown),
    Rule(_L, (), passwords),
    Rule(_L, (), reverse_shell),
    Rule(_L, ("curl", "wget", "http", "https", "xh", "ssh", "scp", "sftp", "git", "npm", "pip", "pip3"), unchecked),
)
