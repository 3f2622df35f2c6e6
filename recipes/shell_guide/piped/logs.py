"""Texts that grow line by line: logs of servers and of the system, and what programs tell while they run."""

from __future__ import annotations

import json

from recipes.shell_guide.grammar.names import address, domain, identifier, pick, stem
from recipes.shell_guide.piped.parts import (
    NOUNS,
    PEOPLE,
    SERVICES,
    VERBS,
    Maker,
    Rng,
    Text,
    between,
    date,
    hexadecimal,
    number,
    pick_int,
    quoted,
    run,
    short_date,
    some,
    stamps,
    unknown,
    weekday,
)


def _host(rng: Rng) -> str:
    return pick(
        rng, ("web1", "db2", "server", "pi", "laptop", "nas", "mail", "build3", "gateway", identifier(rng, "-"))
    )


def access(rng: Rng) -> Text:
    """The access log of a web server."""
    count = between(rng, 5, 16)
    clients = [address(rng) for _ in range(between(rng, 2, 4))]
    who = [pick(rng, clients) for _ in range(count)]
    paths = [
        pick(
            rng,
            (
                "/",
                "/index.html",
                "/login",
                "/api/items",
                f"/api/{pick(rng, NOUNS)}s",
                "/favicon.ico",
                "/style.css",
                "/robots.txt",
                "/wp-login.php",
                f"/{pick(rng, NOUNS)}/{between(rng, 1, 99)}",
            ),
        )
        for _ in range(count)
    ]
    codes = [pick_int(rng, (200, 200, 200, 200, 301, 304, 404, 404, 403, 500, 502)) for _ in range(count)]
    year, _, day = date(rng)
    month = pick(rng, ("Jan", "Mar", "May", "Jul", "Sep", "Nov"))
    times = stamps(rng, count)
    lines = [
        f'{who[at]} - - [{day:02}/{month}/{year}:{times[at]} +0000] "{pick(rng, ("GET", "GET", "GET", "POST"))} {paths[at]} HTTP/1.1" {codes[at]} {between(rng, 120, 9000)} "-" "{pick(rng, ("Mozilla/5.0", "curl/8.5.0", "Googlebot/2.1"))}"'
        for at in range(count)
    ]
    file = pick(rng, ("access.log", "nginx-access.log", "apache.log"))
    worst = [path for path, code in zip(paths, codes, strict=True) if code >= 500]
    missing = list(dict.fromkeys(path for path, code in zip(paths, codes, strict=True) if code == 404))
    by = {client: who.count(client) for client in clients}
    top = max(by.values())
    busiest = [client for client, many in by.items() if many == top]
    errors = sum(code >= 400 for code in codes)
    code = pick(rng, [str(one) for one in codes])
    busiest_said = (
        f"`{busiest[0]}`, with {number(top, 'request')}."
        if len(busiest) == 1
        else f"{quoted(busiest)}, each with {number(top, 'request')}."
    )
    asked = [
        ("what", f"The access log of a web server: {number(count, 'request')} from {number(len(set(who)), 'address', 'addresses')}, {errors} of them with an error (4xx or 5xx)."),
        ("summary", f"{number(count, 'request')} between {times[0]} and {times[-1]}, {errors} of them with an error." + (f" {quoted(list(dict.fromkeys(worst)))} failed on the server." if worst else "")),
        (f"how many {code}[s| errors| answers| responses]", f"{number(codes.count(int(code)), 'request')} {'has' if codes.count(int(code)) == 1 else 'have'} the status `{code}`."),
        ("how many requests[ are (there|in this)]", f"{number(count, 'request')}."),
        ("(which|what) (client|ip|address) (sends|makes|has) the most requests|who (hits|asks) us most|busiest client", busiest_said),
        ("(which|what) pages (are missing|were not found|gave 404)|which urls are broken", f"{quoted(missing)}." if missing else "None: no request has the status 404."),
        ("(count|list) the requests by (ip|client|address)|how do i count requests per ip", run("This counts the lines of each address, the most frequent first:", f"awk '{{ print $1 }}' {file} | sort | uniq -c | sort -rn")),
        ("(show|list|extract) only the errors|how do i see only the 5xx ones", run("The status is the ninth word; this prints the requests that failed on the server:", f"awk '$9 >= 500' {file}")),
        ("(what country|where) are they from|who are these people", unknown("it has addresses, but no names or places. This asks who owns one:", f"whois {who[0]}")),
    ]  # fmt: skip
    if worst:
        asked.append(
            (
                "fail",
                run(
                    f"`{worst[0]}` was answered with `{next(one for one in codes if one >= 500)}`, an error of the server; its error log says why.",
                    "sudo tail -n 50 /var/log/nginx/error.log",
                ),
            )
        )
    return Text(file, "\n".join(lines), tuple(asked))


def error_log(rng: Rng) -> Text:
    """The error log of nginx: an upstream that does not answer, or a file that is missing."""
    year, month, day = date(rng)
    count = between(rng, 2, 6)
    times, pid = stamps(rng, count), between(rng, 300, 9000)
    server, port, client = domain(rng), pick_int(rng, (3000, 5000, 8000, 8080, 9000)), address(rng)
    path = f"/{pick(rng, NOUNS)}/{pick(rng, VERBS)}"
    if rng.random() < 0.5:
        why = f'connect() failed (111: Connection refused) while connecting to upstream, client: {client}, server: {server}, request: "GET {path} HTTP/1.1", upstream: "http://127.0.0.1:{port}{path}"'
        said = f"The web server cannot reach the program behind it: nothing accepts connections on port `{port}`."
        command = f"ss -tln 'sport = :{port}'"
        advice = f"Start the program that should listen on port `{port}`. This shows whether one does:"
    else:
        missing = f"/var/www/{server}{path}.html"
        why = f'open() "{missing}" failed (2: No such file or directory), client: {client}, server: {server}, request: "GET {path}.html HTTP/1.1"'
        said = f"A file is missing: `{missing}`."
        command, advice = (
            f"ls -l /var/www/{server}",
            "See what is there, and correct the link or the root in the configuration:",
        )
    lines = [
        f"{year}/{month:02}/{day:02} {time} [error] {pid}#{pid}: *{between(rng, 10, 9999)} {why}" for time in times
    ]
    asked = (
        ("fail", run(said, command)),
        ("what", f"{number(count, 'line')} of the error log of nginx, all of the same error. {said}"),
        ("summary", f"{said} It happened {number(count, 'time')}."),
        ("fix", run(advice, command)),
        ("how (often|many times) (did it|does it) (happen|fail)|how many errors", f"{number(count, 'time')}."),
        ("since when|when did (it|this) (start|begin)", f"The first of these lines is of `{times[0]}`."),
    )  # fmt: skip
    return Text("error.log", "\n".join(lines), asked)


def system_log(rng: Rng) -> Text:
    """Syslog: ordinary lines, and failed logins."""
    host, when = _host(rng), short_date(rng)
    count = between(rng, 6, 15)
    times, attacker, user = (
        stamps(rng, count),
        address(rng),
        pick(rng, ("root", "admin", "test", "oracle", *PEOPLE[:5])),
    )
    calm = ("CRON[{n}]: (root) CMD (run-parts /etc/cron.hourly)", "systemd[1]: Started Session {n} of user {u}.", "kernel: [{n}.12] usb 1-1: new high-speed USB device number 7", "NetworkManager[{n}]: <info> dhcp4 (eth0): state changed", "sshd[{n}]: Accepted publickey for {u} from 10.0.0.5 port 52044 ssh2")  # fmt: skip
    lines, failures = [], 0
    hostile = rng.random() < 0.7
    for at, time in enumerate(times):
        n = between(rng, 300, 30_000)
        if hostile and (rng.random() < 0.5 or at == count - 1):
            failures += 1
            said = f"sshd[{n}]: Failed password for {user} from {attacker} port {between(rng, 30_000, 60_000)} ssh2"
        else:
            said = pick(rng, calm).format(n=n, u=PEOPLE[between(rng, 0, 5)])
        lines.append(f"{when} {time} {host} {said}")
    if failures:
        story = f"{number(failures, 'failed login')} as `{user}` from `{attacker}`; somebody is guessing the password."
        advice = run(f"Block `{attacker}`, and let ssh accept keys only:", f"sudo ufw deny from {attacker}")
    else:
        story = "Ordinary messages of the system; no line reports an error."
        advice = "Nothing: no line here reports an error."
    asked = (
        ("summary", story),
        ("what", f"{number(count, 'line')} of the system log of `{host}`. {story}"),
        ("fix", advice),
        ("is there anything (suspicious|strange|bad|unusual)[ in this]|was (i|someone|anyone) hacked|anything wrong", story if failures else "No: these are ordinary messages."),
        ("how many (failed logins|failed passwords|attempts|login failures)[ are there]", f"{number(failures, 'failed login')}."),
        ("how many lines", f"{number(count, 'line')}."),
        ("(which|what) (host|machine|computer) is this (from|of)", f"`{host}`."),
        ("count the failed logins by address|how do i list the attackers", run("This counts the failed logins of each address:", "grep 'Failed password' /var/log/auth.log | grep -oE '([0-9]+\\.){3}[0-9]+' | sort | uniq -c | sort -rn")),
    )  # fmt: skip
    return Text("syslog", "\n".join(lines), asked)


def journal(rng: Rng) -> Text:
    """The journal of a service that does not start."""
    host, when, service = _host(rng), short_date(rng), pick(rng, SERVICES)
    user = pick(rng, PEOPLE)
    port, path = between(rng, 1024, 9900), f"/etc/{service}/{stem(rng, spaces=0)}.conf"
    line = between(rng, 3, 240)
    message, cause, advice, command = (
        (f"bind() to 0.0.0.0:{port} failed (98: Address already in use)", f"another program already uses port `{port}`", f"Find out who uses port `{port}`, and stop it:", f"sudo ss -tlnp 'sport = :{port}'"),
        (f"{path}:{line}: unknown directive \"{pick(rng, NOUNS)}_{pick(rng, VERBS)}\"", f"line {line} of `{path}` has a directive that it does not know", f"Correct line {line} of `{path}`:", f"sudoedit +{line} {path}"),
        (f"open(\"/var/log/{service}/error.log\") failed (13: Permission denied)", f"it may not write `/var/log/{service}/error.log`", "Look whose the folder is:", f"ls -ld /var/log/{service}"),
        ("write error: No space left on device", "the disk is full", "Find out which disk is full:", "df -h"),
        (f"could not resolve host \"{domain(rng)}\"", "a name could not be resolved", "Check the name resolution:", "resolvectl status"),
        (f"cannot load certificate \"/etc/ssl/{service}.pem\": no such file", f"its certificate `/etc/ssl/{service}.pem` is missing", "See which certificates there are:", "ls -l /etc/ssl"),
    )[between(rng, 0, 5)]  # fmt: skip
    pid, tries = between(rng, 400, 40_000), between(rng, 1, 3)
    times = stamps(rng, 4 * tries)
    lines = []
    for at in range(tries):
        lines += [
            f"{when} {times[4 * at]} {host} systemd[1]: Starting {service}.service...",
            f"{when} {times[4 * at + 1]} {host} {service}[{pid + at}]: {message}",
            f"{when} {times[4 * at + 2]} {host} systemd[1]: {service}.service: Main process exited, code=exited, status=1/FAILURE",
            f"{when} {times[4 * at + 3]} {host} systemd[1]: Failed to start {service}.service.",
        ]  # fmt: skip
    if rng.random() < 0.4:
        lines.insert(
            0, f"{when} {times[0]} {host} sudo[{pid - 3}]: {user} : COMMAND=/usr/bin/systemctl restart {service}"
        )
    why = f"`{service}` does not start because {cause}."
    asked = (
        ("fail", run(why, command)),
        ("summary", f"{why} It was tried {number(tries, 'time')}."),
        ("what", f"The journal of `{service}`, which was started {number(tries, 'time')} and failed. {why}"),
        ("fix", run(advice, command)),
        ("line", f"The line that matters is:\n\n```text\n{lines[-3]}\n```"),
        ("how (often|many times) (did it fail|was it tried|was it started)", f"{number(tries, 'time')}."),
        ("(which|what) service (is it|failed|is this about)", f"`{service}`."),
    )  # fmt: skip
    return Text("journal.txt", "\n".join(lines), asked)


def kernel(rng: Rng) -> Text:
    """`dmesg`: memory ran out, a disk fails, or a device was plugged in."""
    start = between(rng, 100, 90_000)
    program, pid, size = (
        pick(rng, ("java", "node", "python3", "mysqld", "chrome", "postgres")),
        between(rng, 400, 40_000),
        between(rng, 300_000, 9_000_000),
    )
    disk, sector = f"sd{pick(rng, 'abcd')}", between(rng, 10_000, 90_000_000)
    calm = ("usb 2-1: new SuperSpeed USB device number 4 using xhci_hcd", "wlan0: associated", "EXT4-fs (sda1): re-mounted. Quota mode: none.", "audit: type=1400 apparmor=\"STATUS\" operation=\"profile_load\"", "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready", "thermal thermal_zone0: temperature is normal")  # fmt: skip
    kind = between(rng, 0, 2)
    event, story, advice, command = (
        ([f"{program} invoked oom-killer: gfp_mask=0xcc0, order=0", f"Out of memory: Killed process {pid} ({program}) total-vm:{size * 2}kB, anon-rss:{size}kB"], f"Memory ran out, and the kernel killed `{program}` with process id `{pid}`.", f"Give `{program}` less to do or the machine more memory. This shows what uses the memory now:", "ps aux --sort=-%mem | head"),
        (["ata1.00: failed command: READ DMA EXT", f"I/O error, dev {disk}, sector {sector} op 0x0:(READ)", f"Buffer I/O error on dev {disk}1, logical block {sector // 8}"], f"The disk `{disk}` cannot read sector `{sector}`; it may be failing.", f"Save your data first. This reads how healthy the disk `{disk}` says it is:", f"sudo smartctl -a /dev/{disk}"),
        ([f"usb 1-3: USB disconnect, device number {between(rng, 3, 30)}", f"{disk}: detected capacity change from {sector} to 0", f"EXT4-fs error (device {disk}1): unable to read superblock"], f"The disk `{disk}` was unplugged while it was in use.", "Plug it in again, and check its file system before you mount it:", f"sudo fsck /dev/{disk}1"),
    )[kind]  # fmt: skip
    before = [pick(rng, calm) for _ in range(between(rng, 2, 6))]
    after = [pick(rng, calm) for _ in range(between(rng, 0, 3))]
    lines, at = [], float(start)
    for said in [*before, *event, *after]:
        at += float(rng.random()) * 40
        lines.append(f"[{at:12.6f}] {said}")
    body = "\n".join(lines)
    asked = [
        ("summary", story),
        ("fail", story),
        ("what", f"{number(len(lines), 'message')} of the kernel. {story}"),
        ("fix", run(advice, command)),
        ("line", f"The line that matters is:\n\n```text\n{lines[len(before) + (1 if kind != 2 else 2)]}\n```"),
    ]  # fmt: skip
    if kind == 0:
        asked.append(
            ("(which|what) (process|program) was killed|what got killed", f"`{program}`, with process id `{pid}`.")
        )
    else:
        asked.append(("(which|what) (disk|device) is it", f"`{disk}`."))
    return Text("dmesg.txt", body, tuple(asked))


def unit_status(rng: Rng) -> Text:
    """`systemctl status`, of a service that runs or failed."""
    service, pid = pick(rng, SERVICES), between(rng, 400, 40_000)
    since = f"{date(rng)[0]}-{between(rng, 1, 12):02}-{between(rng, 1, 28):02} {stamps(rng, 1)[0]} UTC"
    enabled = rng.random() < 0.7
    loaded = f"   Loaded: loaded (/lib/systemd/system/{service}.service; {'enabled' if enabled else 'disabled'}; preset: enabled)"
    boot = (
        "Yes, it is `enabled`."
        if enabled
        else run("No, it is `disabled`. This makes it start with the machine:", f"sudo systemctl enable {service}")
    )
    if rng.random() < 0.5:
        used = between(rng, 2, 900)
        body = "\n".join([f"● {service}.service - {service} server", loaded, f"   Active: active (running) since {since}; {between(rng, 1, 20)}h ago", f" Main PID: {pid} ({service})", f"    Tasks: {between(rng, 1, 60)}", f"   Memory: {used}.{between(rng, 0, 9)}M"])  # fmt: skip
        state = f"`{service}` is running, with process id `{pid}`."
        more = [("fail", f"Nothing failed here: `{service}` is `active (running)`."), ("(how much|what) memory does it (use|take)", f"About {used} MB."), ("is it (running|up|ok|alive)", f"Yes: {state}")]  # fmt: skip
        why = state
    else:
        code, why = (("1/FAILURE", "its program ended with an error"), ("203/EXEC", "its program could not be run: the path is wrong, or it may not be executed"), ("217/USER", "the user that it should run as does not exist"), ("200/CHDIR", "its working folder does not exist"), ("9/KILL", "its program was killed"))[between(rng, 0, 4)]  # fmt: skip
        killed = code == "9/KILL"
        body = "\n".join([f"× {service}.service - {service} server", loaded, f"   Active: failed (Result: {'signal' if killed else 'exit-code'}) since {since}; {between(rng, 2, 50)}min ago", f"  Process: {pid} ExecStart=/usr/sbin/{service} (code={'killed' if killed else 'exited'}, status={code})", f" Main PID: {pid} (code={'killed' if killed else 'exited'}, status={code})"])  # fmt: skip
        state = f"`{service}` failed with status `{code}`: {why}."
        look = f"journalctl -u {service} -n 50"
        more = [("fail", run(f"{state} The journal says more:", look)), ("fix", run(f"Read what `{service}` said, mend that, and start it again:", look)), ("is it (running|up|ok|alive)", f"No: {state}")]  # fmt: skip
    asked = (
        ("summary", state),
        ("what", f"The state of the service `{service}`. {state}"),
        *more,
        ("does it start (at boot|by itself|with the machine)|is it enabled", boot),
        ("since when", f"Since `{since}`."),
        ("(which|what) port does it (use|listen on)", unknown("it says nothing of ports. This lists those of all services:", "sudo ss -tlnp")),
    )  # fmt: skip
    return Text("status.txt", body, asked)


def program_log(rng: Rng) -> Text:
    """The log of a program with levels, as text or as JSON lines."""
    year, month, day = date(rng)
    count = between(rng, 6, 16)
    times = stamps(rng, count)
    levels = [pick(rng, ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")) for _ in range(count)]
    levels[between(rng, 0, count - 1)] = "ERROR"
    noun = pick(rng, NOUNS)
    what = {
        "INFO": (f"loaded {between(rng, 2, 90)} {noun}s", "server started", f"user {pick(rng, PEOPLE)} logged in", "health check ok"),
        "DEBUG": (f"cache hit for {noun} {between(rng, 10, 900)}", "polling queue"),
        "WARN": (f"slow query: {between(rng, 900, 9000)} ms", "retrying connection", f"{noun} has no owner"),
        "ERROR": (f"connection to database {identifier(rng, '_')} timed out", f"could not save {noun} {between(rng, 100, 9999)}: disk quota exceeded", f"payment of {noun} {between(rng, 100, 9999)} was declined", f"cannot parse {noun}.json: unexpected end of file", f"timeout after {between(rng, 5, 60)} s while calling {domain(rng)}"),
    }  # fmt: skip
    said = [pick(rng, what[level]) for level in levels]
    as_json = rng.random() < 0.35
    stamps_ = [f"{year}-{month:02}-{day:02}T{time}Z" for time in times]
    lines = [
        json.dumps({"time": stamp, "level": level.lower(), "msg": text}) if as_json else f"{stamp} {level:<5} {text}"
        for stamp, level, text in zip(stamps_, levels, said, strict=True)
    ]
    file = pick(rng, ("app.log", "server.log", "worker.log", f"{noun}.log"))
    errors = [text for level, text in zip(levels, said, strict=True) if level == "ERROR"]
    first = levels.index("ERROR")
    warnings = levels.count("WARN")
    only = f"jq -c 'select(.level == \"error\")' {file}" if as_json else f"grep ' ERROR ' {file}"
    asked = (
        ("summary", f"{number(count, 'line')} with {number(len(errors), 'error')} and {number(warnings, 'warning')}. The first error: `{errors[0]}`."),
        ("what", f"The log of a program{', one JSON object a line' if as_json else ''}: {number(count, 'line')}, {number(len(errors), 'error')}, {number(warnings, 'warning')}."),
        ("fail", f"The first error says `{errors[0]}`." + (f" The last one says `{errors[-1]}`." if errors[-1] != errors[0] else "")),
        ("line", f"The first error is line {first + 1}:\n\n```text\n{lines[first]}\n```"),
        ("how many errors[ are (there|in this)]", f"{number(len(errors), 'error')}."),
        ("how many warnings[ are (there|in this)]", f"{number(warnings, 'warning')}."),
        ("when (was|did) the first error[ happen]", f"At `{stamps_[first]}`."),
        ("what is the last (line|message|entry)", f"The last line says `{said[-1]}`."),
        ("(show|list|filter) only [the] errors|how do i see only the errors", run("This prints the lines with errors alone:", only)),
        ("(who|which commit) (caused|broke) (it|this)|whose fault is it", unknown("the log says what happened, not who changed something.")),
    )  # fmt: skip
    return Text(file, "\n".join(lines), asked)


def ping(rng: Rng) -> Text:
    """`ping`, with or without losses."""
    host, ip = domain(rng), address(rng)
    sent = between(rng, 4, 10)
    fate = rng.random()
    received = sent if fate < 0.5 else 0 if fate < 0.7 else between(rng, 1, sent - 1)
    arrived = sorted(some(rng, range(1, sent + 1), received))
    delays = [between(rng, 20, 2500) / 10 for _ in arrived]
    lost = 100 * (sent - received) // sent
    lines = [f"PING {host} ({ip}) 56(84) bytes of data."]
    lines += [
        f"64 bytes from {ip}: icmp_seq={at} ttl=57 time={delay:.1f} ms"
        for at, delay in zip(arrived, delays, strict=True)
    ]
    lines += [
        "",
        f"--- {host} ping statistics ---",
        f"{sent} packets transmitted, {received} received, {lost}% packet loss, time {sent * 1001}ms",
    ]
    if delays:
        mean = sum(delays) / len(delays)
        lines.append(f"rtt min/avg/max/mdev = {min(delays):.3f}/{mean:.3f}/{max(delays):.3f}/1.204 ms")
        story = f"`{host}` answers: {received} of {sent} packets came back" + (
            f", after {min(delays):.1f} to {max(delays):.1f} ms." if received == sent else f", so {lost} % were lost."
        )
    else:
        story = f"`{host}` does not answer: none of {sent} packets came back."
    state = "Yes" if delays else "No"
    advice = (
        "Nothing: all packets came back."
        if received == sent
        else run(f"Find out where packets to `{host}` are lost:", f"mtr -rw {host}")
    )
    asked = [
        ("summary", story),
        ("what", story),
        ("is (it|the host|the server|the site) (up|reachable|alive|online)", f"{state}: {story}" if delays else f"It does not answer: none of {sent} packets came back. It may also just block ping."),
        ("how many packets (were|got) lost|is there packet loss|packet loss", f"{lost} %: {sent - received} of {number(sent, 'packet')}."),
        ("fix", advice),
        ("what is (its|the) (ip|address)", f"`{ip}`."),
    ]  # fmt: skip
    if delays:
        asked.append(
            (
                "(what is the|how long is the|average) (latency|ping|delay|round trip)|how slow is it",
                f"`{mean:.3f}` ms on average, `{max(delays):.3f}` ms at most.",
            )
        )
    return Text("ping.txt", "\n".join(lines), tuple(asked))


def curl(rng: Rng) -> Text:
    """`curl -v`."""
    host, path, ip = domain(rng), f"/{pick(rng, NOUNS)}s", address(rng)
    code, words, why, advice, command = (
        (200, "OK", "the server answered as it should", "", ""),
        (301, "Moved Permanently", "the page has moved", "Follow the redirect:", f"curl -L http://{host}{path}"),
        (401, "Unauthorized", "the server wants a login", "Send your user name; curl asks for the password:", f"curl -u USER http://{host}{path}"),
        (403, "Forbidden", "you may not read this", "", ""),
        (404, "Not Found", "there is no such page", "Check the path; this asks for the start page:", f"curl -I http://{host}/"),
        (429, "Too Many Requests", "you ask too often", "Wait, and let curl try again later:", f"curl --retry 5 http://{host}{path}"),
        (500, "Internal Server Error", "the program on the server failed", "", ""),
        (503, "Service Unavailable", "the server is overloaded or down for maintenance", "Try again later:", f"curl --retry 5 http://{host}{path}"),
    )[between(rng, 0, 7)]  # fmt: skip
    kind, size = pick(rng, ("text/html", "application/json", "text/plain")), between(rng, 100, 90_000)
    server = pick(rng, ("nginx", "nginx/1.24.0", "Apache/2.4.58", "cloudflare", "envoy"))
    lines = [f"*   Trying {ip}:80...", f"* Connected to {host} ({ip}) port 80", f"> GET {path} HTTP/1.1", f"> Host: {host}", "> User-Agent: curl/8.5.0", "> Accept: */*", ">", f"< HTTP/1.1 {code} {words}", f"< Server: {server}", f"< Content-Type: {kind}", f"< Content-Length: {size}"]  # fmt: skip
    if code == 301:
        lines.append(f"< Location: https://{host}{path}")
    story = f"`{host}` answered `{code} {words}`: {why}."
    fix = (
        run(advice, command)
        if advice
        else ("Nothing: the request worked." if code == 200 else f"That can only be changed on the server: {story}")
    )
    asked = (
        ("summary", story),
        ("what", f"A request for `{path}` and the head of its answer. {story}"),
        ("fail", f"It did not fail: {story}" if code == 200 else story),
        ("fix", fix),
        ("(which|what) status[ code]|did it work", f"{'Yes' if code == 200 else 'No'}: `{code} {words}`." if code != 301 else f"`{code} {words}`: it was redirected to `https://{host}{path}`."),
        ("(which|what) server (is it|do they use|software)", f"It calls itself `{server}`."),
        ("(which|what) (content type|format) is it", f"`{kind}`."),
        ("what is (its|the) (ip|address)", f"`{ip}`."),
    )  # fmt: skip
    return Text("curl.txt", "\n".join(lines), asked)


def ssh(rng: Rng) -> Text:
    """Errors of ssh."""
    user, host, ip = pick(rng, PEOPLE), domain(rng), address(rng)
    key = pick(rng, ("id_ed25519", "id_rsa", "work.key"))
    line = between(rng, 1, 60)
    body, cause, advice, command = (
        (f"{user}@{host}: Permission denied (publickey).", f"`{host}` does not accept any of your keys for `{user}`", "Put your public key there, if a password works, or try another key:", f"ssh-copy-id {user}@{host}"),
        (f"debug1: Connecting to {host} [{ip}] port 22.\ndebug1: Connection established.\ndebug1: Offering public key: /home/{user}/.ssh/{key}\ndebug1: Authentications that can continue: publickey\ndebug1: No more authentication methods to try.\n{user}@{host}: Permission denied (publickey).", f"the key `/home/{user}/.ssh/{key}` was offered, and `{host}` did not accept it", "Put its public half on the server, in another way than with this key:", f"cat ~/.ssh/{key}.pub"),
        (f"ssh: connect to host {host} port 22: Connection refused", f"nothing accepts connections on port 22 of `{host}`", "On that machine, see whether the ssh server runs:", "systemctl status ssh"),
        (f"ssh: connect to host {host} port 22: Connection timed out", f"`{host}` did not answer: it is off, or a firewall drops the packets", "See whether it answers at all:", f"ping -c 3 {host}"),
        (f"ssh: Could not resolve hostname {host}: Name or service not known", f"no address is known for the name `{host}`", "Check the spelling, and ask for the name:", f"dig +short {host}"),
        (f"@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\nOffending ED25519 key in /home/{user}/.ssh/known_hosts:{line}\nHost key for {host} has changed and you have requested strict checking.\nHost key verification failed.", f"the key of `{host}` is not the one that you know: it was set up anew, or somebody is in between", "If you know that it was set up anew, forget the old key:", f"ssh-keygen -R {host}"),
        (f"@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\nPermissions 0644 for '/home/{user}/.ssh/{key}' are too open.\nThis private key will be ignored.\n{user}@{host}: Permission denied (publickey).", f"others may read the private key `/home/{user}/.ssh/{key}`, so ssh does not use it", "Let only yourself read it:", f"chmod 600 ~/.ssh/{key}"),
    )[between(rng, 0, 6)]  # fmt: skip
    asked = (
        ("fail", run(f"It failed because {cause}.", command)),
        ("fix", run(advice, command)),
        ("what", f"An error of ssh: {cause}."),
        ("summary", f"The login failed: {cause}."),
        ("(which|what) (host|server|machine)[ is it]", f"`{host}`."),
        ("what is the password", unknown("passwords are not in it.")),
    )  # fmt: skip
    return Text("ssh.txt", body, asked)


def history(rng: Rng) -> Text:
    """`git log --oneline`."""
    count = between(rng, 4, 12)
    said = [
        f"{pick(rng, ('Add', 'Fix', 'Remove', 'Update', 'Rename', 'Test'))} {pick(rng, ('the', 'broken', 'old', 'missing', 'unused'))} {pick(rng, NOUNS)} {pick(rng, ('page', 'test', 'option', 'check', 'table', 'view'))}"
        for _ in range(count)
    ]
    ids = [hexadecimal(rng, 7) for _ in range(count)]
    fixes = sum(one.startswith("Fix") for one in said)
    asked = (
        ("what", f"{number(count, 'commit')} of a git repository, the newest first."),
        ("summary", f"{number(count, 'commit')}, from `{said[-1]}` to `{said[0]}`."),
        ("(what is|which is) the (last|latest|newest) commit", f"`{ids[0]}`: `{said[0]}`."),
        ("(what is|which is) the (first|oldest) commit[ here]", f"`{ids[-1]}`: `{said[-1]}`."),
        ("how many commits[ are (there|in this)]", f"{number(count, 'commit')}."),
        ("how many (fixes|bug fixes)[ are there]", f"{number(fixes, 'commit')} {'begins' if fixes == 1 else 'begin'} with Fix."),
        ("undo the (last|latest) commit|how do i undo the newest one", run(f"This undoes `{said[0]}`, and keeps its changes staged:", "git reset --soft HEAD~1")),
        ("(show|what is in) the (last|latest|newest) (one|commit)", run("This shows its changes:", f"git show {ids[0]}")),
        ("who (wrote|made) (this|them|these)", unknown("it has no authors. This shows them:", "git log --format='%h %an %s'")),
    )  # fmt: skip
    return Text("log.txt", "\n".join(f"{one} {text}" for one, text in zip(ids, said, strict=True)), asked)


def full_history(rng: Rng) -> Text:
    """`git log` with authors and dates."""
    count = between(rng, 2, 5)
    who = [pick(rng, PEOPLE).title() for _ in range(count)]
    lines, said, ids = [], [], [hexadecimal(rng, 40) for _ in range(count)]
    year, _, day = date(rng)
    for at in range(count):
        text = f"{pick(rng, ('Add', 'Fix', 'Remove', 'Update'))} {pick(rng, NOUNS)} {pick(rng, ('export', 'import', 'tests', 'cache', 'limits'))}"
        said.append(text)
        lines += [f"commit {ids[at]}", f"Author: {who[at]} <{who[at].lower()}@example.com>", f"Date:   {weekday(rng)} Mar {max(1, day - at)} {stamps(rng, 1)[0]} {year} +0100", "", f"    {text}", ""]  # fmt: skip
    authors = list(dict.fromkeys(who))
    asked = (
        ("what", f"{number(count, 'commit')} by {quoted(authors)}, the newest first."),
        ("summary", f"{number(count, 'commit')} by {quoted(authors)}; the newest is `{said[0]}`."),
        ("who (made|wrote) the (last|latest|newest) commit", f"`{who[0]}`."),
        ("who (worked on this|are the authors|contributed)", f"{quoted(authors)}."),
        ("what does the (last|latest|newest) commit do", f"`{said[0]}`."),
        ("(extract|list) the (emails|email addresses|addresses)", run("This lists each author's address once:", "git log --format=%ae | sort -u")),
    )  # fmt: skip
    return Text("log.txt", "\n".join(lines).strip(), asked)


def repository_status(rng: Rng) -> Text:
    """`git status`."""
    branch = pick(rng, ("main", "master", f"feature/{identifier(rng, '-')}", "develop"))
    endings = (".py", ".js", ".md", ".rs", ".css", ".go")
    names = list(dict.fromkeys(f"src/{identifier(rng, '_')}{pick(rng, endings)}" for _ in range(9)))
    staged, rest = names[: between(rng, 0, 2)], names[2:]
    changed, new = rest[: between(rng, 1, 3)], rest[3 : 3 + between(rng, 0, 3)]
    conflict = rest[-1:] if rng.random() < 0.25 and len(rest) > 6 else []
    lines = [f"On branch {branch}"]
    ahead = between(rng, 0, 4)
    if ahead:
        lines += [
            f"Your branch is ahead of 'origin/{branch}' by {number(ahead, 'commit')}.",
            '  (use "git push" to publish your local commits)',
            "",
        ]
    if staged:
        lines += [
            "Changes to be committed:",
            '  (use "git restore --staged <file>..." to unstage)',
            *(f"\tmodified:   {name}" for name in staged),
            "",
        ]
    if conflict:
        lines += [
            "Unmerged paths:",
            '  (use "git add <file>..." to mark resolution)',
            *(f"\tboth modified:   {name}" for name in conflict),
            "",
        ]
    lines += [
        "Changes not staged for commit:",
        '  (use "git add <file>..." to update what will be committed)',
        *(f"\tmodified:   {name}" for name in changed),
        "",
    ]
    if new:
        lines += [
            "Untracked files:",
            '  (use "git add <file>..." to include in what will be committed)',
            *(f"\t{name}" for name in new),
            "",
        ]
    state = f"On `{branch}`: {len(staged)} staged, {len(changed)} changed and not staged, {len(new)} untracked."
    if conflict:
        state += f" `{conflict[0]}` has a conflict."
    asked = [
        ("summary", state),
        ("what", f"The state of a git repository. {state}"),
        ("(which|what) branch (am i on|is this)", f"`{branch}`."),
        ("(which|what) files (are new|are untracked|does git not know)", f"{quoted(new)}." if new else "None: there are no untracked files."),
        ("(which|what) files (have|did) (changed|i change)|what is modified", f"{quoted([*staged, *changed, *conflict])}."),
        ("(what will|what would) be committed|what is staged", f"{quoted(staged)}." if staged else "Nothing: no change is staged."),
        ("(commit|add) (all of it|everything)|how do i commit all this", "First end the merge: `" + conflict[0] + "` has a conflict." if conflict else run("This stages all changes, new files too, and opens an editor for the message:", "git add -A && git commit")),
        (f"(undo|discard|throw away) my changes (in|to) {changed[0]}", run(f"This throws the changes in `{changed[0]}` away; they cannot be restored:", f"git restore {changed[0]}")),
        ("do i (have to|need to) push|is everything pushed", f"Yes: `{branch}` is ahead by {number(ahead, 'commit')}." if ahead else unknown("it does not compare with a server. This does:", "git fetch && git status -sb")),
    ]  # fmt: skip
    if conflict:
        asked.append(
            (
                "fix",
                run(f"Edit `{conflict[0]}`, which has a conflict, and mark it as solved:", f"git add {conflict[0]}"),
            )
        )
    return Text("status.txt", "\n".join(lines).strip(), tuple(asked))


LOGS: tuple[Maker, ...] = (
    access, error_log, system_log, journal, kernel, unit_status, program_log, ping, curl, ssh, history, full_history,
    repository_status,
)  # fmt: skip
