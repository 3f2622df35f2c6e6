"""Texts in rows and columns: data in files, and what programs print about a machine."""

from __future__ import annotations

import json

from recipes.shell_guide.grammar.names import address, identifier, pick, stem, word
from recipes.shell_guide.piped.parts import (
    NOUNS,
    PEOPLE,
    SERVICES,
    Maker,
    Rng,
    Text,
    between,
    columns,
    hexadecimal,
    iso,
    number,
    pick_int,
    quoted,
    run,
    short_date,
    some,
    unknown,
)

_FIELDS = ("city", "country", "status", "color", "team", "category", "owner", "language")
_VALUES = {
    "city": ("Oslo", "Lyon", "Porto", "Graz", "Leeds", "Kyoto", "Austin", "Gdansk", "Turin", "Malmo"),
    "country": ("NO", "FR", "PT", "AT", "GB", "JP", "US", "PL", "IT", "SE"),
    "status": ("active", "paused", "closed", "new"),
    "color": ("red", "green", "blue", "black", "white"),
    "team": ("core", "web", "data", "ops", "mobile"),
    "category": ("tools", "books", "garden", "toys", "food"),
    "owner": PEOPLE,
    "language": ("en", "de", "fr", "es", "pt", "ja"),
}
_AMOUNTS = ("price", "amount", "quantity", "age", "score", "hours", "weight", "total")


def _distinct(rng: Rng, count: int, least: int, most: int) -> list[int]:
    """Different numbers, so that the largest is one."""
    found: set[int] = set()
    while len(found) < count:
        found.add(between(rng, least, most))
    return [int(one) for one in rng.permutation(sorted(found))]


def separated(rng: Rng) -> Text:
    """A table with a head, in commas, semicolons or tabs."""
    sign, name = (",", "csv") if rng.random() < 0.7 else (";", "csv") if rng.random() < 0.5 else ("\t", "tsv")
    kinds, amount = some(rng, _FIELDS, between(rng, 1, 3)), pick(rng, _AMOUNTS)
    head = ["id", "name", *kinds, amount]
    count = between(rng, 4, 18)
    amounts = _distinct(rng, count, 1, 900)
    who = some(rng, PEOPLE, count)
    start = between(rng, 1, 400)
    rows = [
        [str(start + at), who[at], *(pick(rng, _VALUES[kind]) for kind in kinds), str(amounts[at])]
        for at in range(count)
    ]
    body = "\n".join(sign.join(row) for row in [head, *rows])
    file = f"{stem(rng, spaces=0)}.{name}"
    written = {",": "commas", ";": "semicolons", "\t": "tabs"}[sign]
    largest, smallest = rows[amounts.index(max(amounts))], rows[amounts.index(min(amounts))]
    place, kind = len(head), kinds[0]
    values = [row[2] for row in rows]
    value = pick(rng, values)
    cut = "" if sign == "\t" else f" -d'{sign}'"
    separator = {",": "-t,", ";": "-t';'", "\t": "-t$'\\t'"}[sign]
    awk = {",": "-F,", ";": "-F';'", "\t": "-F'\\t'"}[sign]
    rows_said = f"It has {number(count, 'row')}, besides the line with the names of the columns."
    asked = (
        ("what", f"A table with {number(count, 'row')}, separated by {written}. Its columns are {quoted(head)}."),
        ("summary", f"{number(count, 'row')} with {quoted(head)}; `{amount}` goes from {min(amounts)} to {max(amounts)}."),
        ("how many (rows|lines of data|records|entries)[ (are there|are in this|does it have)]", rows_said),
        ("(which|what) columns (are there|does it have|are in this)|the columns|list the columns", f"The columns are {quoted(head)}."),
        (f"(who|which one) has the (highest|largest|biggest) {amount}", f"`{largest[1]}` has the highest {amount}, {max(amounts)}."),
        (f"(who|which one) has the (lowest|smallest) {amount}", f"`{smallest[1]}` has the lowest {amount}, {min(amounts)}."),
        (f"how many (have {value} as {kind}|are {value})", f"{number(values.count(value), 'row')} {'has' if values.count(value) == 1 else 'have'} `{value}` in the column `{kind}`."),
        (f"(show|give me|print|extract) only the {amount} column|how do i get the {amount} column", run(f"`{amount}` is column {place}:", f"cut{cut} -f{place} {file}")),
        (f"sort (this|it|them) by {amount}|how do i sort this by {amount}", run(f"`{amount}` is column {place}, and the first line is the head:", f"tail -n +2 {file} | sort {separator} -k{place},{place}n")),
        (f"(sum|total|add up) the {amount} column|what is the sum of {amount}", run(f"`{amount}` is column {place}; this adds it up:", f"awk {awk} 'NR > 1 {{ sum += ${place} }} END {{ print sum }}' {file}")),
        (f"the average {amount}|what is the (mean|average) of {amount}", run(f"`{amount}` is column {place}; this computes the mean:", f"awk {awk} 'NR > 1 {{ sum += ${place}; n++ }} END {{ print sum / n }}' {file}")),
        ("(who (wrote|made) this|when was this made|is this up to date)", unknown("it has only the rows.")),
    )  # fmt: skip
    return Text(file, body, asked)


def records(rng: Rng) -> Text:
    """JSON: a list of objects, or one with nested ones."""
    amount, kind = pick(rng, _AMOUNTS), pick(rng, _FIELDS)
    count = between(rng, 2, 6)
    amounts = _distinct(rng, count, 1, 500)
    who = some(rng, PEOPLE, count)
    rows = [{"name": who[at], kind: pick(rng, _VALUES[kind]), amount: amounts[at]} for at in range(count)]
    key = pick(rng, NOUNS) + "s"
    body, path, top = json.dumps(rows, indent=2), "", f"A JSON list of {number(count, 'object')}"
    if rng.random() < 0.5:
        body = json.dumps({"version": between(rng, 1, 9), key: rows}, indent=2)
        path, top = f".{key}", f"A JSON object; `{key}` holds a list of {number(count, 'object')}"
    elif rng.random() < 0.4:
        body = "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]"
    file = f"{stem(rng, spaces=0)}.json"
    largest = who[amounts.index(max(amounts))]
    one = between(rng, 0, count - 1)
    asked = (
        ("what", f"{top}, each with {quoted(list(rows[0]))}."),
        ("summary", f"{top} with {quoted(list(rows[0]))}; `{amount}` goes from {min(amounts)} to {max(amounts)}."),
        ("how many (entries|objects|items|elements)[ are (there|in this)]", f"{number(count, 'object')}."),
        (f"(who|which one) has the (highest|largest) {amount}", f"`{largest}`, with {max(amounts)}."),
        (f"what is the {amount} of {who[one]}", f"The {amount} of `{who[one]}` is `{amounts[one]}`."),
        ("(which|what) (keys|fields)[ (are there|does each have)]", f"Each object has {quoted(list(rows[0]))}."),
        ("(extract|list|print|show) [only] the names|how do i get all names out of this", run("This prints each name on a line:", f"jq -r '{path or '.'}[].name' {file}")),
        (f"sort (this|them) by {amount}|how do i sort by {amount}", run(f"This sorts the objects by `{amount}`:", f"jq '{path or '.'} | sort_by(.{amount})' {file}")),
        ("(turn|convert) this into csv|as csv[ please]|how do i make a csv of this", run("This writes one line with commas for each object:", f"jq -r '{path or '.'}[] | [.name, .{kind}, .{amount}] | @csv' {file}")),
        ("is this valid json|validate this", run("It reads as valid JSON; this checks it:", f"jq empty {file}")),
    )  # fmt: skip
    return Text(file, body, asked)


def processes(rng: Rng) -> Text:
    """`ps aux`."""
    count = between(rng, 5, 14)
    cpu, memory = _distinct(rng, count, 0, 990), _distinct(rng, count, 0, 600)
    programs = some(rng, ("/usr/bin/java -jar app.jar", "/usr/lib/firefox/firefox", "node server.js", "python3 train.py", "postgres: writer", "nginx: worker process", "/usr/sbin/sshd -D", "redis-server *:6379", "/usr/bin/Xorg :0", "bash", "vim notes.md", "php-fpm: pool www", "/usr/sbin/cron -f", "mysqld", "ffmpeg -i in.mkv out.mp4", "rsync -a src/ dst/", "code --type=renderer", "chrome --type=gpu-process", "/usr/bin/dockerd", "ruby bin/rails server"), count)  # fmt: skip
    pids = sorted(_distinct(rng, count, 2, 40_000))
    users = [pick(rng, ("root", "www-data", "postgres", *PEOPLE[:9])) for _ in range(count)]
    rows: list[list[object]] = [
        ["USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND"]
    ]
    for at in range(count):
        size = memory[at] * 9000 + between(rng, 500, 8000)
        tty = pick(rng, ("?", "?", "pts/0", "pts/1"))
        rows.append([
            users[at], pids[at], f"{cpu[at] / 10:.1f}", f"{memory[at] / 10:.1f}", size * 2, size, tty,
            pick(rng, ("Ss", "S", "Sl", "R+")), f"{between(rng, 0, 23):02}:{between(rng, 0, 59):02}",
            f"{between(rng, 0, 90)}:{between(rng, 0, 59):02}", programs[at],
        ])  # fmt: skip
    most, busy = memory.index(max(memory)), cpu.index(max(cpu))
    user = pick(rng, users)
    of_user = users.count(user)
    other = "" if most == busy else f"`{programs[busy]}` "
    asked = (
        ("summary", f"{number(count, 'process', 'processes')}; `{programs[most]}` uses the most memory ({max(memory) / 10:.1f} %) and {other}the most CPU ({max(cpu) / 10:.1f} %)."),
        ("what", f"A list of {number(count, 'process', 'processes')} with their owner, process id, share of CPU and memory, and command."),
        ("(which|what) process (uses|takes|eats|needs) the most (memory|ram)|what is eating my (memory|ram)|biggest memory user", f"`{programs[most]}` with process id `{pids[most]}`: {max(memory) / 10:.1f} % of the memory."),
        ("(which|what) process (uses|takes|needs) the most cpu|what is (eating|hogging) (my|the) cpu|why is my (laptop|machine|server) so slow", f"`{programs[busy]}` with process id `{pids[busy]}` uses the most CPU: {max(cpu) / 10:.1f} %."),
        ("kill the (one|process) that (uses|takes) the most memory|how do i stop the (biggest one|one with the most memory)", run(f"`{programs[most]}` uses the most memory; this asks it to end:", f"kill {pids[most]}")),
        (f"how many processes (belong to {user}|are run by {user}|does {user} run)", f"{number(of_user, 'process', 'processes')} of `{user}`."),
        ("how many processes[ are (there|running)]", f"{number(count, 'process', 'processes')}."),
        ("who (runs|owns|started) the one with the most (memory|ram)", f"`{users[most]}` runs it."),
        ("(which|what) ports do (these|they) (use|listen on)|is (one of them|anything) listening", unknown("it lists processes, not ports. This does:", "sudo ss -tlnp")),
    )  # fmt: skip
    return Text("ps.txt", columns(rows, right=(1, 2, 3, 4, 5, 9)), asked)


def disks(rng: Rng) -> Text:
    """`df -h`."""
    mounts = [
        "/",
        *some(
            rng, ("/home", "/var", "/boot", "/srv", "/data", "/mnt/backup", "/media/usb", "/opt"), between(rng, 2, 5)
        ),
    ]
    shares = _distinct(rng, len(mounts), 3, 99)
    if rng.random() < 0.3:
        shares[between(rng, 0, len(mounts) - 1)] = 100
    rows: list[list[object]] = [["Filesystem", "Size", "Used", "Avail", "Use%", "Mounted on"]]
    free = {}
    for at, mount in enumerate(mounts):
        size = pick_int(rng, (20, 50, 100, 120, 240, 465, 900))
        used = size * shares[at] // 100
        free[mount] = "0" if shares[at] == 100 else f"{size - used}G"
        rows.append(
            [f"/dev/sd{'ab'[at % 2]}{at // 2 + 1}", f"{size}G", f"{used}G", free[mount], f"{shares[at]}%", mount]
        )
    rows.insert(2, ["tmpfs", "3.9G", "1.2M", "3.9G", "1%", "/run"])
    body = columns(rows, right=(1, 2, 3, 4))
    fullest = mounts[shares.index(max(shares))]
    asked_for = pick(rng, mounts)
    full = f"`{fullest}` is the fullest: {max(shares)} % are used, and `{free[fullest]}` are free."
    tight = [mount for mount, share in zip(mounts, shares, strict=True) if share >= 90]
    alarm = (
        f"Yes, {quoted(tight)} {'is' if len(tight) == 1 else 'are'} at 90 % or more."
        if tight
        else f"No: the fullest, `{fullest}`, is at {max(shares)} %."
    )
    asked = (
        ("summary", full),
        ("what", f"How full each file system is. {full}"),
        ("(which|what) (disk|partition|file system|one) is (the fullest|almost full|full)|is (any|a) disk (almost full|running out of space)|which one do i have to worry about", full),
        ("(is (one|any) [of them] (over|above) 90 (%|percent)|do i have to worry|is everything ok)", alarm),
        (f"how much (space|room) is (free|left) on {asked_for}", f"`{free[asked_for]}` are free on `{asked_for}`."),
        (f"how full is {asked_for}", f"`{asked_for}` is at {shares[mounts.index(asked_for)]} %."),
        ("fix", run(f"Find out what fills `{fullest}`, the fullest of them:", f"sudo du -xh -d1 {fullest} | sort -h | tail")),
        ("(which|what) (files|folders|directories) (fill|take up|use) (it|the space|the most)|what is (using|eating) the space|why is it full", unknown("it shows file systems, not folders. This finds the largest folders:", f"sudo du -xh -d1 {fullest} | sort -h | tail")),
    )  # fmt: skip
    return Text("df.txt", body, asked)


def folder_sizes(rng: Rng) -> Text:
    """`du -h | sort -h`."""
    count = between(rng, 5, 12)
    sizes = sorted(_distinct(rng, count, 1, 990))
    names = list(dict.fromkeys(f"./{stem(rng, spaces=0)}" for _ in range(count * 2)))[:count]
    sizes = sizes[: len(names)]
    body = "\n".join(f"{size}M\t{name}" for size, name in zip(sizes, names, strict=True))
    largest = f"`{names[-1]}` is the largest, with `{sizes[-1]}M`."
    asked = (
        ("summary", f"{number(len(names), 'folder')}. {largest}"),
        ("what", f"The sizes of {number(len(names), 'folder')}, from the smallest to the largest. {largest}"),
        ("(which|what) is the (biggest|largest)[ (folder|one|directory)]|what takes the most space|where is all my space", largest),
        ("(which|what) is the smallest[ (folder|one|directory)]", f"`{names[0]}`, with `{sizes[0]}M`."),
        ("(can|may|should) i delete (it|the biggest one|the largest)", unknown("it shows sizes, not what is needed. Look into the folder first:", f"ls -la {names[-1]}")),
        ("the (three|3) largest", f"{quoted(names[-1:-4:-1])}."),
    )  # fmt: skip
    return Text("sizes.txt", body, asked)


def listing(rng: Rng) -> Text:
    """`ls -l`."""
    count = between(rng, 4, 13)
    names = sorted(
        dict.fromkeys(
            f"{stem(rng, spaces=0)}{pick(rng, ('.txt', '.log', '.py', '.jpg', '.csv', '.md', '.sh', '.pdf', ''))}"
            for _ in range(count)
        )
    )
    count = len(names)
    sizes = _distinct(rng, count, 20, 900_000)
    owner = pick(rng, PEOPLE)
    folders = [rng.random() < 0.2 for _ in names]
    folders[between(rng, 0, count - 1)] = False
    scripts = [
        not folder and name.endswith(".sh") and rng.random() < 0.5 for folder, name in zip(folders, names, strict=True)
    ]
    rows: list[list[object]] = []
    owners = [owner if rng.random() < 0.85 else "root" for _ in names]
    for at, name in enumerate(names):
        mode = (
            "drwxr-xr-x"
            if folders[at]
            else "-rwxr-xr-x"
            if scripts[at]
            else pick(rng, ("-rw-r--r--", "-rw-------", "-rw-rw-r--"))
        )
        size = 4096 if folders[at] else sizes[at]
        when = f"{short_date(rng)} {between(rng, 0, 23):02}:{between(rng, 0, 59):02}"
        rows.append([mode, 2 if folders[at] else 1, owners[at], owners[at], size, when, name])
    body = f"total {between(rng, 8, 4000)}\n" + columns(rows, right=(1, 4))
    files = [(sizes[at], names[at]) for at in range(count) if not folders[at]]
    size, largest = max(files)
    roots = [name for name, one in zip(names, owners, strict=True) if one == "root"]
    number_of_folders = sum(folders)
    runnable = [name for name, one in zip(names, scripts, strict=True) if one]
    asked = (
        ("what", f"A list of {number(len(files), 'file')} and {number(number_of_folders, 'folder')} with rights, owner, size and date. The largest file is `{largest}`."),
        ("summary", f"{number(len(files), 'file')} and {number(number_of_folders, 'folder')}; the largest file is `{largest}` with `{size}` bytes."),
        ("(which|what) (file is the (largest|biggest)|is the (largest|biggest) file)", f"`{largest}`, with `{size}` bytes."),
        ("how many files[ are (there|in this)]", f"{number(len(files), 'file')}, besides {number(number_of_folders, 'folder')}."),
        ("how many (folders|directories)[ are (there|in this)]", f"{number(number_of_folders, 'folder')}."),
        ("which (files belong to|files are owned by|ones are of) root", f"{quoted(roots)}." if roots else "None of them belongs to root."),
        ("(which|what) (scripts|files) can be (run|executed)|what is executable", f"{quoted(runnable)}." if runnable else "None of the files may be run; only folders have an x."),
        ("what is (in|inside) the (largest|biggest)[ (file|one)]", unknown("it lists names, not contents. This shows the beginning:", f"head {largest}")),
    )  # fmt: skip
    return Text("listing.txt", body, asked)


def containers(rng: Rng) -> Text:
    """`docker ps -a`."""
    count = between(rng, 2, 7)
    images = [
        pick(
            rng,
            ("nginx:1.25", "postgres:16", "redis:7", "node:20", "mysql:8", "python:3.12", "traefik:v3.0", "rabbitmq:3"),
        )
        for _ in range(count)
    ]
    names = list(dict.fromkeys(f"{identifier(rng, '-')}-{at}" for at in range(1, count + 1)))
    rows: list[list[object]] = [["CONTAINER ID", "IMAGE", "STATUS", "PORTS", "NAMES"]]
    up, codes = [], []
    for at in range(count):
        running = rng.random() < 0.65
        code = pick_int(rng, (0, 1, 137, 127, 2))
        up.append(running)
        codes.append(code)
        status = f"Up {between(rng, 2, 23)} hours" if running else f"Exited ({code}) {between(rng, 2, 50)} minutes ago"
        port = between(rng, 3000, 9900)
        rows.append(
            [
                hexadecimal(rng, 12),
                images[at],
                status,
                f"0.0.0.0:{port}->{pick(rng, ('80', '5432', '6379', '8080'))}/tcp" if running else "",
                names[at],
            ]
        )
    running_names = [name for name, one in zip(names, up, strict=True) if one]
    stopped = [name for name, one in zip(names, up, strict=True) if not one]
    failed = [(name, code) for name, one, code in zip(names, up, codes, strict=True) if not one and code]
    state = f"{number(len(running_names), 'container')} {'is' if len(running_names) == 1 else 'are'} running and {len(stopped)} stopped."
    asked = [
        ("what", f"A list of {number(count, 'container')}: {len(running_names)} running, {len(stopped)} stopped."),
        ("summary", state + (f" {quoted([name for name, _ in failed])} ended with an error." if failed else "")),
        ("how many (containers are|are) (running|up)", f"{len(running_names)} of {count}."),
        ("(which|what) (containers are|one is|are) (stopped|down|not running|dead)", f"{quoted(stopped)}." if stopped else "None: all of them are running."),
        ("(which|what) (containers are|one is|are) (running|up)", f"{quoted(running_names)}." if running_names else "None of them is running."),
        (f"(which|what) image (does {names[0]} use|is {names[0]})", f"`{names[0]}` uses `{images[0]}`."),
        ("how much memory do they (use|take)|which one uses the most (cpu|memory)", unknown("it lists containers, not what they use. This does:", "docker stats --no-stream")),
    ]  # fmt: skip
    if failed:
        name, code = failed[0]
        why = {137: "it was killed, perhaps because memory ran out", 127: "a command was not found"}.get(
            code, "its log says why"
        )
        asked.append(("fail", run(f"`{name}` ended with exit code `{code}`: {why}.", f"docker logs --tail 50 {name}")))
        asked.append(("fix", run(f"Look at what `{name}` said before it ended:", f"docker logs --tail 50 {name}")))
    return Text("containers.txt", columns(rows, gap=3), tuple(asked))


def sockets(rng: Rng) -> Text:
    """`ss -tlnp`."""
    known = some(rng, (("sshd", 22), ("nginx", 80), ("nginx", 443), ("postgres", 5432), ("redis-server", 6379), ("node", 3000), ("python3", 8000), ("java", 8080), ("mysqld", 3306), ("cupsd", 631), ("grafana", 3001), ("node", 5173), ("beam.smp", 5672)), between(rng, 3, 8))  # fmt: skip
    rows: list[list[object]] = [["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Process"]]
    pids = _distinct(rng, len(known), 300, 30_000)
    everywhere = [rng.random() < 0.5 for _ in known]
    for (program, port), pid, open_ in zip(known, pids, everywhere, strict=True):
        host = "0.0.0.0" if open_ else "127.0.0.1"
        rows.append(
            [
                "LISTEN",
                0,
                pick_int(rng, (128, 511, 4096)),
                f"{host}:{port}",
                "0.0.0.0:*",
                f'users:(("{program}",pid={pid},fd={between(rng, 3, 20)}))',
            ]
        )
    at = between(rng, 0, len(known) - 1)
    program, port = known[at]
    ports = [one for _, one in known]
    free = next(one for one in (9000, 4321, 7777) if one not in ports)
    outside = [f"{name} ({one})" for (name, one), open_ in zip(known, everywhere, strict=True) if open_]
    asked = (
        ("what", f"{number(len(known), 'TCP socket')} that listen, with their processes. The ports are {quoted(sorted(ports))}."),
        ("summary", f"{number(len(known), 'port')} {'is' if len(known) == 1 else 'are'} listened on: {quoted(sorted(ports))}."),
        (f"(what|which process|who) (uses|listens on|is on|has) port {port}", f"`{program}` with process id `{pids[at]}`."),
        (f"(which|what) port (does {program} use|is {program} on)", f"`{program}` listens on {quoted([one for name, one in known if name == program])}."),
        (f"is (anything|something) on port {free}|is port {free} (free|in use)", f"No process in this list listens on port {free}."),
        ("how many (ports|sockets)[ are (open|listed)]", f"{len(known)}."),
        ("(which|what) (ones|ports|) (are|is) (open|reachable) (from outside|to the network|to everyone)", f"Those on all addresses: {', '.join(outside)}." if outside else "None: all of them listen on `127.0.0.1` only."),
        (f"(free|stop what is on) port {port}|how do i free port {port}", run(f"`{program}` holds it; this asks it to end:", f"sudo kill {pids[at]}")),
    )  # fmt: skip
    return Text("sockets.txt", columns(rows, right=(1, 2)), asked)


def top_screen(rng: Rng) -> Text:
    """The first lines of `top`."""
    count = between(rng, 4, 9)
    cpu = sorted(_distinct(rng, count, 1, 990), reverse=True)
    memory = _distinct(rng, count, 1, 500)
    names = some(rng, ("firefox", "node", "java", "python3", "Xorg", "postgres", "mysqld", "chrome", "gnome-shell", "ffmpeg", "clang", "rustc", "dockerd", "systemd", "bash"), count)  # fmt: skip
    pids = _distinct(rng, count, 1, 40_000)
    load = [between(rng, 5, 1500) / 100 for _ in range(3)]
    total, used = pick_int(rng, (3911, 7852, 15_876, 31_990)), 0
    used = total * between(rng, 20, 95) // 100
    days = between(rng, 2, 90)
    users = between(rng, 2, 5)
    head = (
        f"top - {between(rng, 10, 23)}:{between(rng, 10, 59)}:{between(rng, 10, 59)} up {days} days, {between(rng, 1, 9)}:{between(rng, 10, 59)}, "
        f" {users} users,  load average: {load[0]:.2f}, {load[1]:.2f}, {load[2]:.2f}\n"
        f"MiB Mem : {total}.0 total, {total - used}.0 free, {used}.0 used\n\n"
    )  # fmt: skip
    rows: list[list[object]] = [["PID", "USER", "%CPU", "%MEM", "COMMAND"]]
    rows += [
        [pids[at], pick(rng, ("root", *PEOPLE[:6])), f"{cpu[at] / 10:.1f}", f"{memory[at] / 10:.1f}", names[at]]
        for at in range(count)
    ]
    most = memory.index(max(memory))
    asked = (
        ("summary", f"`{names[0]}` uses the most CPU ({cpu[0] / 10:.1f} %), `{names[most]}` the most memory ({max(memory) / 10:.1f} %). The load is `{load[0]:.2f}`."),
        ("what", f"The state of a machine that has been up for {days} days: its load, its memory, and the {count} busiest processes."),
        ("(which|what) [process] (uses|takes|needs) the most (memory|ram)", f"`{names[most]}` with process id `{pids[most]}`: {max(memory) / 10:.1f} %."),
        ("(which|what) [process] (uses|takes|needs) the most cpu|what is the (fan|load) about|why is (it|this machine) slow", f"`{names[0]}` with process id `{pids[0]}`: {cpu[0] / 10:.1f} %."),
        ("how long has (it|the machine|this server) been (up|running)|what is the uptime", f"More than {days} days."),
        ("what is the load", f"`{load[0]:.2f}` over the last minute, `{load[1]:.2f}` over five and `{load[2]:.2f}` over fifteen."),
        ("how much memory (is (free|left|used)|does it have)", f"Of `{total}.0` MiB, `{used}.0` are used and `{total - used}.0` free."),
        ("(is the disk full|how much disk space is left)", unknown("it shows processes and memory. This shows the disks:", "df -h")),
    )  # fmt: skip
    return Text("top.txt", head + columns(rows, right=(0, 2, 3)), asked)


def memory(rng: Rng) -> Text:
    """`free -m`."""
    total = pick_int(rng, (1987, 3911, 7852, 15_876, 31_990, 64_212))
    available = total * between(rng, 2, 70) // 100
    free = available * between(rng, 20, 80) // 100
    used = total - available
    swap = pick_int(rng, (0, 2047, 4095, 8191))
    swapped = swap * between(rng, 0, 99) // 100
    rows: list[list[object]] = [
        ["", "total", "used", "free", "shared", "buff/cache", "available"],
        ["Mem:", total, used, free, between(rng, 5, 300), available - free + 80, available],
        ["Swap:", swap, swapped, swap - swapped, "", "", ""],
    ]
    body = columns(rows, right=(1, 2, 3, 4, 5, 6), gap=4)
    share = 100 * available // total
    said = f"Of `{total}` MiB, `{used}` are used and `{available}` available, {share} %."
    swap_said = f"`{swapped}` of `{swap}` MiB of swap are used." if swap else "No: there is no swap here."
    low = "Yes" if share < 10 else "No"
    asked = (
        ("summary", said),
        ("what", f"How much memory and swap a machine has. {said}"),
        ("how much (memory|ram) is (free|left|available)|do i have (memory|ram) left", f"`{available}` MiB are available, {share} % of all."),
        ("am i (out of|running out of) memory|is memory (low|tight)|do i need more ram", f"{low}: `{available}` of `{total}` MiB are available, {share} %."),
        ("how much swap is used|is (it|the machine) swapping|is swap used", swap_said),
        ("(which|what) [process] uses (it|the memory|so much)|who takes all the memory", unknown("it shows sums only. This lists the processes by memory:", "ps aux --sort=-%mem | head")),
    )  # fmt: skip
    return Text("free.txt", body, asked)


def upgrades(rng: Rng) -> Text:
    """`apt list --upgradable`."""
    names = some(rng, ("openssl", "libc6", "curl", "vim", "git", "nginx", "python3.12", "linux-image-generic", "firefox", "tzdata", "bash", "sudo", "openssh-server", "libxml2", "systemd", "apt", "ca-certificates", "postgresql-16"), between(rng, 3, 12))  # fmt: skip
    lines, versions = [], {}
    for name in names:
        major, minor = between(rng, 1, 9), between(rng, 0, 30)
        old, new = f"{major}.{minor}.{between(rng, 0, 4)}-1", f"{major}.{minor}.{between(rng, 5, 12)}-1"
        versions[name] = (old, new)
        lines.append(f"{name}/stable {new} amd64 [upgradable from: {old}]")
    one = pick(rng, names)
    asked = (
        ("what", f"{number(len(names), 'package')} that can be upgraded, with the new version and the old one."),
        ("summary", f"{number(len(names), 'package')} can be upgraded: {quoted(names[:3])}{' and more' if len(names) > 3 else ''}."),
        ("how many (packages|updates|of them)[ (can be upgraded|are there)]", f"{number(len(names), 'package')}."),
        (f"(which|what) version (of {one} do i get|will {one} have)", f"`{one}` goes from `{versions[one][0]}` to `{versions[one][1]}`."),
        ("(upgrade|install|update) (them|all|all of them)|fix", run("This upgrades all of them, as root:", "sudo apt upgrade")),
        (f"(upgrade|update) only {one}|just {one}", run(f"This upgrades `{one}` alone, as root:", f"sudo apt install --only-upgrade {one}")),
        ("(is one of them|are any of these) (important|critical|a security fix)", unknown("the list does not say which are security updates. The source of each version tells more:", f"apt changelog {one}")),
    )  # fmt: skip
    return Text("upgrades.txt", "Listing...\n" + "\n".join(lines), asked)


def pods(rng: Rng) -> Text:
    """`kubectl get pods`."""
    count = between(rng, 3, 8)
    names = [f"{identifier(rng, '-')}-{hexadecimal(rng, 9)}-{hexadecimal(rng, 5)}" for _ in range(count)]
    rows: list[list[object]] = [["NAME", "READY", "STATUS", "RESTARTS", "AGE"]]
    bad: list[tuple[str, str]] = []
    restarts = _distinct(rng, count, 0, 40)
    for at in range(count):
        status = (
            "Running"
            if rng.random() < 0.6
            else pick(rng, ("CrashLoopBackOff", "ImagePullBackOff", "Pending", "OOMKilled", "ErrImagePull"))
        )
        if status != "Running":
            bad.append((names[at], status))
        rows.append(
            [names[at], "1/1" if status == "Running" else "0/1", status, restarts[at], f"{between(rng, 1, 60)}d"]
        )
    most = names[restarts.index(max(restarts))]
    because = {"CrashLoopBackOff": "its program ends again and again", "ImagePullBackOff": "its image cannot be pulled", "ErrImagePull": "its image cannot be pulled", "Pending": "no node has taken it yet", "OOMKilled": "it used more memory than it may"}  # fmt: skip
    asked = [
        ("what", f"{number(count, 'pod')} of a cluster; {count - len(bad)} of them {'is' if count - len(bad) == 1 else 'are'} running."),
        ("how many (pods|of them) (are|is) running", f"{count - len(bad)} of {count}."),
        ("(which|what) [pod] (was restarted|restarted) (most|most often)|most restarts", f"`{most}`, {max(restarts)} times."),
    ]  # fmt: skip
    if bad:
        name, status = bad[0]
        look = (
            f"kubectl logs --previous {name}"
            if status in ("CrashLoopBackOff", "OOMKilled")
            else f"kubectl describe pod {name}"
        )
        broken = f"{quoted([one for one, _ in bad])}."
        asked += [
            ("summary", f"{len(bad)} of {number(count, 'pod')} {'is' if len(bad) == 1 else 'are'} not running: {broken}"),
            ("fail", run(f"`{name}` is in `{status}`: {because[status]}. This says more:", look)),
            ("fix", run(f"Find out why `{name}` is in `{status}`:", look)),
            ("(which|what) (pods|ones) (are|is) (broken|not running|down)|what is broken", broken),
        ]  # fmt: skip
    else:
        asked += [("summary", f"All {count} pods are running."), ("fail", "Nothing here failed: every pod is `Running`."), ("(which|what) (pods|ones) (are|is) (broken|not running|down)", "None: all are `Running`.")]  # fmt: skip
    return Text("pods.txt", columns(rows, gap=3), tuple(asked))


def timed_jobs(rng: Rng) -> Text:
    """A crontab whose lines say when."""
    jobs = some(rng, ("/usr/local/bin/backup.sh", "~/bin/sync-photos", "certbot renew -q", "/opt/report/send.py", "find /tmp -mtime +7 -delete", "/usr/bin/updatedb", "~/bin/health-check", "/opt/db/dump.sh"), between(rng, 2, 5))  # fmt: skip
    lines, said = [], []
    for _ in jobs:
        hour, minute = between(rng, 0, 23), between(rng, 0, 59)
        plan, words = (
            (f"{minute} {hour} * * *", f"every day at {hour:02}:{minute:02}"),
            (f"*/{(step := pick_int(rng, (5, 10, 15, 20, 30)))} * * * *", f"every {step} minutes"),
            (f"{minute} {hour} * * 1", f"every Monday at {hour:02}:{minute:02}"),
            (f"{minute} {hour} 1 * *", f"on the first of each month at {hour:02}:{minute:02}"),
            ("@reboot", "at each start of the machine"),
            (f"{minute} * * * *", f"every hour at minute {minute}"),
        )[between(rng, 0, 5)]  # fmt: skip
        lines.append(plan)
        said.append(words)
    body = "\n".join(f"{plan} {job}" for plan, job in zip(lines, jobs, strict=True))
    if rng.random() < 0.5:
        body = "# m h dom mon dow command\n" + body
    at = between(rng, 0, len(jobs) - 1)
    asked = (
        ("what", f"{number(len(jobs), 'timed job')} of cron: " + "; ".join(f"`{job}` {when}" for job, when in zip(jobs, said, strict=True)) + "."),
        ("summary", f"{number(len(jobs), 'timed job')}: " + "; ".join(f"`{job}` {when}" for job, when in zip(jobs, said, strict=True)) + "."),
        (f"when does {jobs[at]} run|how often does {jobs[at]} run", f"`{jobs[at]}` runs {said[at]}."),
        ("how many jobs[ are (there|in this)]", f"{number(len(jobs), 'job')}."),
        ("what does (the first line|line one) (do|mean)", f"It runs `{jobs[0]}` {said[0]}."),
        ("did (it|they) (run|work)|when did (the last one|it) run last", unknown("it holds the plan, not what happened. The journal says that:", "journalctl -u cron --since today")),
    )  # fmt: skip
    return Text("crontab", body, asked)


def logins(rng: Rng) -> Text:
    """`who`."""
    count = between(rng, 2, 7)
    users = [pick(rng, PEOPLE[:14]) for _ in range(count)]
    hosts = [address(rng) for _ in users]
    day = iso(rng)
    rows: list[list[object]] = [
        [user, f"pts/{at}", f"{day} {between(rng, 10, 23)}:{between(rng, 10, 59)}", f"({host})"]
        for at, (user, host) in enumerate(zip(users, hosts, strict=True))
    ]
    different = list(dict.fromkeys(users))
    asked = (
        ("what", f"{number(count, 'login')} of {number(len(different), 'user')}: {quoted(different)}."),
        ("summary", f"{quoted(different)} {'is' if len(different) == 1 else 'are'} logged in."),
        ("how many (users|people|different users)[ are logged in]", f"{number(len(different), 'user')} in {number(count, 'session')}."),
        (f"where (is {users[0]} logged in|does {users[0]} come) from", f"`{users[0]}` comes from {quoted([host for user, host in zip(users, hosts, strict=True) if user == users[0]])}."),
        ("what are they doing", unknown("it shows logins, not commands. This shows what each of them runs:", "w")),
    )  # fmt: skip
    return Text("who.txt", columns(rows), asked)


def branches(rng: Rng) -> Text:
    """`git branch -vv`."""
    names = list(
        dict.fromkeys(
            f"{pick(rng, ('feature', 'fix', 'docs', 'chore'))}/{identifier(rng, '-')}"
            for _ in range(between(rng, 2, 7))
        )
    )
    names.insert(between(rng, 0, len(names)), "main")
    current = pick(rng, names)
    width = max(map(len, names))
    body = "\n".join(
        f"{'*' if name == current else ' '} {name:<{width}} {hexadecimal(rng, 7)} {pick(rng, ('Fix', 'Add', 'Update', 'Remove'))} {pick(rng, NOUNS)} {word(rng)}"
        for name in names
    )
    asked = (
        ("what", f"{number(len(names), 'branch', 'branches')} of a git repository; `{current}` is checked out."),
        ("summary", f"{number(len(names), 'branch', 'branches')}, of which `{current}` is checked out."),
        ("(which|what) branch am i on|where am i", f"You are on `{current}`."),
        ("how many branches[ are there]", f"{number(len(names), 'branch', 'branches')}."),
        ("(which|what) (branches|ones) (are merged|can i delete)", unknown("it does not say what is merged. This lists the branches that are:", "git branch --merged main")),
    )  # fmt: skip
    return Text("branches.txt", body, asked)


def units(rng: Rng) -> Text:
    """`systemctl --failed`."""
    failed = [f"{name}.service" for name in some(rng, SERVICES, between(rng, 1, 4))]
    rows: list[list[object]] = [["UNIT", "LOAD", "ACTIVE", "SUB", "DESCRIPTION"]]
    rows += [[name, "loaded", "failed", "failed", f"{name.removesuffix('.service')} server"] for name in failed]
    body = columns(rows) + f"\n\n{number(len(failed), 'loaded unit')} listed."
    asked = (
        ("summary", f"{number(len(failed), 'service')} failed: {quoted(failed)}."),
        ("what", f"The services that failed: {quoted(failed)}."),
        ("how many (services|units|) failed", f"{len(failed)}: {quoted(failed)}."),
        ("fail", unknown("it names what failed, not the reason. The journal has it:", f"journalctl -u {failed[0]} -n 50")),
        ("fix", run(f"Read why `{failed[0]}` failed, and start it again when that is mended:", f"journalctl -u {failed[0]} -n 50")),
    )  # fmt: skip
    return Text("failed.txt", body, asked)


TABLES: tuple[Maker, ...] = (
    separated, records, processes, disks, folder_sizes, listing, containers, sockets, top_screen, memory, upgrades,
    pods, timed_jobs, logins, branches, units,
)  # fmt: skip
