"""Files that people show: settings, scripts, pages, letters."""

from __future__ import annotations

from recipes.shell_guide.grammar.names import address, digits, domain, identifier, pick, stem
from recipes.shell_guide.piped.parts import (
    NOUNS,
    PEOPLE,
    VERBS,
    Maker,
    Rng,
    Text,
    between,
    hexadecimal,
    number,
    pick_int,
    quoted,
    run,
    some,
    unknown,
)


def dotenv(rng: Rng) -> Text:
    """Variables of a program, with a secret among them."""
    port, host = between(rng, 1025, 9900), domain(rng)
    secret = pick(rng, ("API_KEY", "SECRET_KEY", "DB_PASSWORD", "JWT_SECRET"))
    pairs = [
        ("APP_ENV", pick(rng, ("production", "staging", "development"))),
        ("PORT", str(port)),
        ("DB_HOST", host),
        (secret, hexadecimal(rng, 24)),
    ]
    pairs += some(rng, (("DEBUG", pick(rng, ("true", "false"))), ("LOG_LEVEL", pick(rng, ("info", "debug", "warn"))), ("CACHE_TTL", digits(rng, 2, 4)), ("MAIL_FROM", f"info@{host}"), ("REGION", "eu-west-1"), ("WORKERS", str(between(rng, 1, 16)))), between(rng, 1, 4))  # fmt: skip
    rest = some(rng, pairs, len(pairs))
    names = [name for name, _ in rest]
    debug = dict(rest).get("DEBUG")
    asked = [
        ("what", f"{number(len(rest), 'variable')} for a program: {quoted(names)}. `{secret}` is a secret."),
        ("summary", f"Settings of a program that listens on port `{port}`; `{secret}` is a secret."),
        ("(which|what) port[ (does it use|is it)]", f"`{port}`."),
        ("is there a (secret|password|key) in (this|it)|can i (share|commit|publish) this", run(f"`{secret}` is a secret, so do not share it. This keeps the file out of git:", "echo .env >> .gitignore")),
        ("(where|which host) is the database|what is the database host", f"`{host}`."),
        ("how many (variables|settings)", f"{number(len(rest), 'variable')}."),
        ("load (this|it) into my shell|how do i (use|export) these variables", run("This exports all of them in the current shell:", "set -a; . ./.env; set +a")),
        ("what is the database password for the backup|who has access", unknown("it does not say that.")),
    ]  # fmt: skip
    if debug:
        asked.append(("is debug (on|enabled)", f"{'Yes' if debug == 'true' else 'No'}: `DEBUG` is `{debug}`."))
    return Text(".env", "\n".join(f"{name}={value}" for name, value in rest), tuple(asked))


def ini(rng: Rng) -> Text:
    """An INI file with sections."""
    sections = some(
        rng, ("server", "database", "logging", "mail", "cache", "auth", "client", "paths"), between(rng, 2, 4)
    )
    lines, keys = [], {}
    for section in sections:
        lines.append(f"[{section}]")
        for key in some(
            rng, ("host", "port", "timeout", "user", "path", "level", "retries", "enabled"), between(rng, 1, 4)
        ):
            value = {"host": domain(rng), "port": str(between(rng, 1024, 9900)), "timeout": str(between(rng, 1, 120)), "user": pick(rng, PEOPLE), "path": f"/var/lib/{pick(rng, NOUNS)}", "level": pick(rng, ("info", "debug")), "retries": str(between(rng, 1, 9)), "enabled": pick(rng, ("yes", "no"))}[key]  # fmt: skip
            lines.append(f"{key} = {value}")
            keys[section, key] = value
        lines.append("")
    (section, key), value = pick_pair(rng, keys)
    file = pick(rng, ("settings.ini", "app.ini", "config.ini", f"{identifier(rng, '-')}.ini"))
    asked = (
        ("what", f"Settings in {number(len(sections), 'section')}: {quoted(sections)}."),
        ("summary", f"{number(len(keys), 'setting')} in the sections {quoted(sections)}."),
        (f"what is the {key} (of|in) [the] {section}[ section]", f"The {key} of `{section}` is `{value}`."),
        ("(which|what) sections[ (are there|does it have)]", f"{quoted(sections)}."),
        ("how many (settings|keys|options)", f"{number(len(keys), 'setting')}."),
        ("(remove|strip) the (empty|blank) lines|how do i (remove|strip) the empty lines", run("This prints it without empty lines:", f"sed '/^$/d' {file}")),
        ("is it (still used|in use)|which program (reads|uses) this", unknown("it does not name its program.")),
    )  # fmt: skip
    return Text(file, "\n".join(lines).strip(), asked)


def pick_pair(rng: Rng, keys: dict[tuple[str, str], str]) -> tuple[tuple[str, str], str]:
    """One of the settings."""
    pairs = list(keys.items())
    return pairs[between(rng, 0, len(pairs) - 1)]


def dockerfile(rng: Rng) -> Text:
    """A Dockerfile."""
    base, install, start = (
        ("python:3.12-slim", "pip install -r requirements.txt", '["python", "app.py"]'),
        ("node:20-alpine", "npm ci", '["node", "server.js"]'),
        ("golang:1.22", "go build -o /app/server .", '["/app/server"]'),
        ("debian:12", "apt-get update && apt-get install -y nginx", '["nginx", "-g", "daemon off;"]'),
        ("ruby:3.3", "bundle install", '["ruby", "main.rb"]'),
    )[between(rng, 0, 4)]  # fmt: skip
    port, folder = pick_int(rng, (80, 3000, 5000, 8000, 8080, 9090)), pick(rng, ("/app", "/srv", "/usr/src/app"))
    user = rng.random() < 0.4
    lines = [
        f"FROM {base}",
        f"WORKDIR {folder}",
        "COPY . .",
        f"RUN {install}",
        *(["USER nobody"] if user else []),
        f"EXPOSE {port}",
        f"CMD {start}",
    ]
    name = "my-image"
    asked = (
        ("what", f"A Dockerfile: it begins with `{base}`, runs `{install}`, and starts `{start}`."),
        ("summary", f"It builds an image from `{base}` that starts `{start}` and listens on port `{port}`."),
        ("(which|what) base image[ (is it|does it use)]", f"`{base}`."),
        ("(which|what) port[ does it (use|expose)]", f"`{port}`."),
        ("does it run as root", "No, it runs as `nobody`." if user else f"Yes, unless `{base}` sets another user: there is no line with USER."),
        ("how do i build (it|this)|build this", run("In its folder:", f"docker build -t {name} .")),
        ("how do i (run|start) (it|this)", run(f"Build it, then run it with port `{port}`:", f"docker build -t {name} . && docker run --rm -p {port}:{port} {name}")),
        ("how (large|big) is the image", unknown("it only says how the image is built. For an image that is there:", f"docker images {name}")),
    )  # fmt: skip
    return Text("Dockerfile", "\n".join(lines), asked)


def compose(rng: Rng) -> Text:
    """A file of docker compose, in YAML."""
    services = some(rng, (("web", "nginx:1.25", 80), ("db", "postgres:16", 5432), ("cache", "redis:7", 6379), ("api", "node:20", 3000), ("queue", "rabbitmq:3", 5672), ("search", "opensearch:2", 9200)), between(rng, 2, 4))  # fmt: skip
    lines, ports = ["services:"], {}
    for name, image, inner in services:
        ports[name] = between(rng, 1025, 9900)
        lines += [
            f"  {name}:",
            f"    image: {image}",
            "    ports:",
            f'      - "{ports[name]}:{inner}"',
            *(["    restart: always"] if rng.random() < 0.5 else []),
        ]
    names = [name for name, _, _ in services]
    one, image, _ = services[0]
    asked = (
        ("what", f"A file for docker compose with {number(len(names), 'service')}: {quoted(names)}."),
        ("summary", f"It starts {quoted(names)} with docker compose."),
        ("(which|what) services[ are (there|in this)]", f"{quoted(names)}."),
        ("how many (services|containers)", f"{number(len(names), 'service')}."),
        (f"(which|what) port (does {one} use|is {one} on)", f"`{one}` is reached on port `{ports[one]}` of this machine."),
        (f"(which|what) image (does {one} use|is {one})", f"`{image}`."),
        ("(start|run) (it|this|them)|how do i (start|run) (it|this|them)", run("In its folder; they run in the background:", "docker compose up -d")),
        (f"(show|see) the logs of {one}|how do i see the logs of {one}", run(f"This follows the log of `{one}`:", f"docker compose logs -f {one}")),
        ("(are they|is it) running", unknown("it says what should run. This shows what does:", "docker compose ps")),
    )  # fmt: skip
    return Text("compose.yaml", "\n".join(lines), asked)


def script(rng: Rng) -> Text:
    """A shell script of a few lines, some of which delete or need root."""
    folder, target = f"/srv/{pick(rng, NOUNS)}s", f"/backup/{pick(rng, NOUNS)}"
    host, days, service = domain(rng), between(rng, 2, 60), pick(rng, ("nginx", "postgresql", "mosquitto", "gitea"))
    steps = some(rng, (
        (f"tar czf {target}.tar.gz {folder}", f"packs `{folder}` into `{target}.tar.gz`", ""),
        (f"find {target} -mtime +{days} -delete", f"deletes what is older than {days} days in `{target}`", f"It deletes files in `{target}`."),
        (f"rsync -a {folder}/ {host}:{target}/", f"copies `{folder}` to `{host}`", ""),
        (f"systemctl restart {service}", f"restarts `{service}`", f"It restarts `{service}`, which needs root."),
        (f"mkdir -p {target}", f"makes the folder `{target}`", ""),
        (f"curl -fsS https://{host}/health", f"asks `{host}` whether it is well", ""),
        (f"chown -R www-data {folder}", f"gives `{folder}` to `www-data`", f"It changes the owner of everything in `{folder}`, which needs root."),
        (f"rm -rf {target}/tmp", f"deletes `{target}/tmp`", f"It deletes `{target}/tmp` with all that is in it, without asking."),
    ), between(rng, 2, 4))  # fmt: skip
    strict = rng.random() < 0.6
    lines = ["#!/bin/bash", *(["set -euo pipefail"] if strict else []), "", *(step[0] for step in steps)]
    told = [step[1] for step in steps]
    story = f"A shell script that {', '.join(told[:-1])} and {told[-1]}."
    dangers = [step[2] for step in steps if step[2]]
    deletes = [one for one in dangers if "deletes" in one]
    file = f"{stem(rng, spaces=0)}.sh"
    asked = (
        ("what", story),
        ("summary", story),
        ("is (this|it) (safe|dangerous)|can i run this|should i worry", " ".join(dangers) if dangers else "It deletes nothing and needs no special rights."),
        ("does (it|this) delete (anything|something|files)", f"Yes. {' '.join(deletes)}" if deletes else "No, nothing in it deletes files."),
        ("does it stop (at|on) (the first|an) error", "Yes, because of `set -euo pipefail`." if strict else "No: it goes on after an error. With set -e in its second line it would stop."),
        ("(check|lint) (it|this)|is the syntax ok", run("This checks its syntax, and does not run it:", f"bash -n {file}")),
        ("how do i (run|start) (it|this)", run("Make it executable, and run it:", f"chmod +x {file} && ./{file}")),
        ("run (it|this) every night|how do i run this every night", run("Add a line like this to your timed jobs; it runs at 3:00:", f'(crontab -l; echo "0 3 * * * $PWD/{file}") | crontab -')),
        ("how long does it take", unknown("run it with a clock:", f"time ./{file}")),
    )  # fmt: skip
    return Text(file, "\n".join(lines), asked)


def sql(rng: Rng) -> Text:
    """A table's definition, or a query."""
    table = pick(rng, NOUNS) + "s"
    fields = some(rng, (("name", "TEXT NOT NULL"), ("price", "NUMERIC"), ("created", "DATE"), ("city", "TEXT"), ("email", "TEXT UNIQUE"), ("amount", "INTEGER"), ("active", "BOOLEAN")), between(rng, 2, 5))  # fmt: skip
    names = [name for name, _ in fields]
    if rng.random() < 0.5:
        body = (
            f"CREATE TABLE {table} (\n  id INTEGER PRIMARY KEY,\n"
            + ",\n".join(f"  {name} {kind}" for name, kind in fields)
            + "\n);"
        )
        story = f"It makes the table `{table}` with the columns {quoted(['id', *names])}."
        asked = (
            ("what", story), ("summary", story),
            ("(which|what) columns[ (are there|does it have)]", f"{quoted(['id', *names])}."), ("how many columns", f"{len(names) + 1}."),
            ("what is the primary key", "`id`."),
            ("(run|load|execute) (it|this)|how do i run this with sqlite", run("With SQLite, into a database of that name:", f"sqlite3 {table}.db < schema.sql")),
            ("how many rows are in it", unknown("it defines a table, and has no rows. This counts them:", f"sqlite3 {table}.db 'SELECT count(*) FROM {table}'")),
        )  # fmt: skip
        return Text("schema.sql", body, asked)
    value, most = between(rng, 10, 900), between(rng, 5, 50)
    deletes = rng.random() < 0.4
    if deletes:
        body = f"DELETE FROM {table}\nWHERE amount < {value};"
        story = f"It deletes the rows of `{table}` whose `amount` is less than `{value}`."
        safe = f"{story} Count them first, with SELECT count(*) and the same condition."
    else:
        body = f"SELECT {', '.join(names)}\nFROM {table}\nWHERE amount > {value}\nORDER BY {names[0]}\nLIMIT {most};"
        story = f"It lists {quoted(names)} of at most `{most}` rows of `{table}` whose `amount` is greater than `{value}`, by `{names[0]}`."
        safe = "Yes: it only reads."
    rows = unknown("that depends on the data.") if deletes else f"At most `{most}`."
    return Text(
        "query.sql",
        body,
        (
            ("what", story),
            ("summary", story),
            ("is (this|it) safe|does it (change|delete) anything", safe),
            ("(which|what) table[ does it use]", f"`{table}`."),
            ("how many rows (will it|does it) (return|affect)", rows),
        ),
    )


def markdown(rng: Rng) -> Text:
    """The README of a project."""
    name, noun = identifier(rng, "-"), pick(rng, NOUNS)
    heads = some(
        rng, ("Install", "Usage", "Configuration", "License", "Contributing", "Tests", "Roadmap"), between(rng, 2, 4)
    )
    licence = pick(rng, ("MIT", "Apache-2.0", "GPL-3.0", "BSD-3-Clause"))
    install = pick(rng, (f"pip install {name}", f"npm install {name}", f"cargo install {name}", f"brew install {name}"))
    verb = pick(rng, VERBS)
    body = {"Install": f"```\n{install}\n```", "Usage": f"Run `{name} {verb}` in a folder.", "Configuration": f"Settings are in `~/.config/{name}.toml`.", "License": f"{licence}", "Contributing": "Open an issue before a large change.", "Tests": "Run `make test`.", "Roadmap": f"- faster {noun} search\n- a web page"}  # fmt: skip
    text = f"# {name}\n\n{name} helps you {verb} every {noun} from the command line.\n\n" + "\n\n".join(
        f"## {head}\n\n{body[head]}" for head in heads
    )
    about = f"`{name}` is a program to {verb} every {noun} from the command line."
    asked = (
        ("what", f"The README of `{name}`, in Markdown. {about}"),
        ("summary", about),
        ("(what|which) sections[ (are there|does it have)]|outline", f"{quoted(heads)}."),
        ("how do i install (it|this)", run("It says:", install) if "Install" in heads else unknown("it has no section about that.")),
        ("(what|which) licen(s|c)e[ (is it|does it have)]", f"`{licence}`." if "License" in heads else unknown("it names no licence.")),
        ("how do i (run|use) it", run("It says:", f"{name} {verb}") if "Usage" in heads else unknown("it has no section about that.")),
        ("convert (it|this) to html|as html|how do i make html of this", run("With pandoc:", "pandoc README.md -o README.html")),
        ("how many (stars|users) does it have", unknown("it does not say that.")),
    )  # fmt: skip
    return Text("README.md", text, asked)


def letter(rng: Rng) -> Text:
    """A message in plain prose, with a date, a place and a wish."""
    sender, reader = (one.title() for one in some(rng, PEOPLE, 2))
    noun, day, hour, room = (
        pick(rng, NOUNS),
        pick(rng, ("Monday", "Tuesday", "Thursday", "Friday")),
        between(rng, 8, 17),
        f"room {between(rng, 100, 420)}",
    )
    wish, asks = (
        (f"Please send me the {noun} list before then.", f"to send the {noun} list before then"),
        (f"Could you bring the {noun} report?", f"to bring the {noun} report"),
        ("Please tell me if that does not suit you.", "to say so if it does not suit"),
    )[between(rng, 0, 2)]  # fmt: skip
    why = pick(
        rng,
        (
            f"the {noun} page is slow",
            f"two customers asked about the {noun} export",
            f"the old {noun} server will be switched off",
            f"we have to choose a new {noun} format",
        ),
    )
    filler = pick(
        rng, ("I hope you had a good week.", "Thanks for your help last time.", "It was nice to see you at the office.")
    )
    body = f"Hi {reader},\n\n{filler} We meet on {day} at {hour}:00 in {room}, because {why}. {wish}\n\nBest,\n{sender}"
    story = f"`{sender}` invites `{reader}` to a meeting on {day} at {hour}:00 in {room}, because {why}."
    asked = (
        ("summary", story),
        ("what", f"A message: {story}"),
        ("when (is it|do we meet|is the meeting)", f"On {day} at {hour}:00."),
        ("where (is it|do we meet|is the meeting)", f"In `{room}`."),
        ("who (wrote|sent) (this|it)|who is it from", f"`{sender}`."),
        ("what (does (he|she|the sender) want|do i have to do)|what is asked of me", f"`{sender}` asks for this: `{wish}`" if "?" not in wish else f"`{sender}` asks `{reader}` {asks}."),
        ("why (do we|is there a) (meet|meeting)", f"Because {why}."),
        ("how many words[ (are there|is it)]", run("This counts them:", "wc -w message.txt")),
        ("how long (will it take|is the meeting)", unknown("it does not say when the meeting ends.")),
    )  # fmt: skip
    return Text("message.txt", body, asked)


def html(rng: Rng) -> Text:
    """A small page with links."""
    title = f"{pick(rng, NOUNS).title()} {pick(rng, NOUNS)}s"
    links = [f"https://{domain(rng)}/{pick(rng, NOUNS)}" for _ in range(between(rng, 2, 5))]
    heading = f"Our {pick(rng, NOUNS)}s"
    body = (
        f"<!DOCTYPE html>\n<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{heading}</h1>\n<ul>\n"
        + "\n".join(f'  <li><a href="{link}">{link.rpartition("/")[2]}</a></li>' for link in links)
        + "\n</ul>\n</body>\n</html>"
    )
    asked = (
        ("what", f"A web page with the title `{title}` and {number(len(links), 'link')}."),
        ("summary", f"A page with the title `{title}`, the heading `{heading}` and {number(len(links), 'link')}."),
        ("what is the title", f"`{title}`."),
        ("how many links[ are (there|in this)]", f"{number(len(links), 'link')}."),
        ("where does (the first link|link one) (go|point)[ to]", f"To `{links[0]}`."),
        ("(extract|list|print) [all] [the] (links|urls)|how do i get all links out of this", run("This prints each address on a line:", "grep -o 'https\\?://[^\"]*' page.html")),
        ("(as plain text|turn it into text|convert it to text)", run("With pandoc:", "pandoc -f html -t plain page.html")),
    )  # fmt: skip
    return Text("page.html", body, asked)


def contacts(rng: Rng) -> Text:
    """Lines with names, addresses and numbers, as people note them."""
    count = between(rng, 4, 12)
    who = some(rng, PEOPLE, count)
    mails = [f"{name}@{domain(rng)}" for name in who]
    with_mail = [rng.random() < 0.8 for _ in who]
    lines = [
        f"{name.title()}, {mail if has else 'no mail'}, +{between(rng, 1, 99)} {between(rng, 100, 999)} {between(rng, 1000, 9999)}"
        for name, mail, has in zip(who, mails, with_mail, strict=True)
    ]
    file = pick(rng, ("contacts.txt", "people.txt", "guests.txt"))
    found = sum(with_mail)
    first = between(rng, 0, count - 1)
    asked = (
        ("what", f"{number(count, 'line')} with names, mail addresses and telephone numbers of people."),
        ("summary", f"{number(count, 'person', 'people')}, {found} of them with a mail address."),
        ("(extract|list|print) [all] [the] (emails|email addresses|mail addresses)|how do i get the emails out of this", run("This prints each address on a line:", f"grep -oE '[[:alnum:]._+-]+@[[:alnum:].-]+' {file}")),
        ("how many (people|lines|names|contacts)", f"{count}."),
        ("how many (emails|mail addresses|email addresses)", f"{found}."),
        (f"what is the (email|mail address|email address) of {who[first]}", f"`{mails[first]}`." if with_mail[first] else unknown("there is no mail address in that line.")),
        ("sort (it|this|them) by name|how do i sort this", run("The name comes first on each line:", f"sort {file}")),
        ("(remove|delete) (the duplicates|duplicate lines)", run("This prints each line once:", f"sort -u {file}")),
        ("how old are they|where do they live", unknown("it has names, mail addresses and telephone numbers only.")),
    )  # fmt: skip
    return Text(file, "\n".join(lines), asked)


def addresses(rng: Rng) -> Text:
    """A list of addresses, some of them twice."""
    pool = [address(rng) for _ in range(between(rng, 3, 7))]
    rows = [pick(rng, pool) for _ in range(between(rng, 6, 16))]
    different = len(set(rows))
    top = max(rows.count(one) for one in pool)
    most = [one for one in dict.fromkeys(rows) if rows.count(one) == top]
    file = pick(rng, ("ips.txt", "hosts.txt", "clients.txt"))
    asked = (
        ("what", f"{number(len(rows), 'IP address', 'IP addresses')}, one a line; {different} of them different."),
        ("summary", f"{number(len(rows), 'line')} with {number(different, 'different address', 'different addresses')}."),
        ("how many (different|unique|distinct) (ones|addresses|ips)", f"{different}."),
        ("how many (lines|addresses)[ are there]", f"{len(rows)}."),
        ("(which|what) (one|address) (comes|appears|is there) most often|most frequent", f"{quoted(most)}, {number(top, 'time')}{' each' if len(most) > 1 else ''}."),
        ("count each|how often does each (appear|come)", run("This counts each, the most frequent first:", f"sort {file} | uniq -c | sort -rn")),
        ("(remove|delete|drop) the duplicates|only (unique|different) ones", run("This prints each once:", f"sort -u {file}")),
        ("who do they belong to", unknown("it has only numbers. This asks who owns the first one:", f"whois {rows[0]}")),
    )  # fmt: skip
    return Text(file, "\n".join(rows), asked)


def web_server(rng: Rng) -> Text:
    """A site of nginx."""
    host, port, root = domain(rng), between(rng, 3000, 9900), f"/var/www/{pick(rng, NOUNS)}"
    tls = rng.random() < 0.5
    listen = "443 ssl" if tls else "80"
    lines = ["server {", f"    listen {listen};", f"    server_name {host};", *([f"    ssl_certificate /etc/ssl/{host}.pem;", f"    ssl_certificate_key /etc/ssl/{host}.key;"] if tls else []), f"    root {root};", "    location /api/ {", f"        proxy_pass http://127.0.0.1:{port};", "    }", "}"]  # fmt: skip
    story = f"A site of nginx for `{host}`: it serves the files in `{root}`, and hands what begins with `/api/` to port `{port}` of this machine."
    asked = (
        ("what", story),
        ("summary", story),
        ("(which|what) port does it listen on", f"`{listen.split()[0]}`."),
        ("does it use (https|tls|ssl)|is it encrypted", f"Yes, it listens on `{listen}`." if tls else f"No, it listens on port `{listen}` without TLS."),
        ("where are the files[ (served from|it serves)]|what is the root", f"In `{root}`."),
        ("where does /api/ go[ to]|what is behind /api/", f"To port `{port}` of this machine."),
        ("(test|check) (it|this)|is it valid", run("This checks the whole configuration, and changes nothing:", "sudo nginx -t")),
        ("(load|use|apply|activate) it|how do i activate it", run("Check it, and load it without an interruption:", "sudo nginx -t && sudo systemctl reload nginx")),
    )  # fmt: skip
    return Text(f"{host}.conf", "\n".join(lines), asked)


def ssh_hosts(rng: Rng) -> Text:
    """~/.ssh/config."""
    hosts = list(dict.fromkeys(identifier(rng, "-") for _ in range(between(rng, 2, 4))))
    lines, names, users, ports = [], {}, {}, {}
    for host in hosts:
        names[host], users[host], ports[host] = domain(rng), pick(rng, PEOPLE), pick_int(rng, (22, 2222, 2200, 22022))
        lines += [
            f"Host {host}",
            f"    HostName {names[host]}",
            f"    User {users[host]}",
            f"    Port {ports[host]}",
            "",
        ]
    one = pick(rng, hosts)
    asked = (
        ("what", f"Settings of ssh for {number(len(hosts), 'host')}: {quoted(hosts)}."),
        ("summary", f"{number(len(hosts), 'host')}: {quoted(hosts)}."),
        (f"(which|what) user (for|on) {one}|who am i on {one}", f"`{users[one]}`."),
        (f"(which|what) port does {one} use", f"`{ports[one]}`."),
        (f"(what is|where is) {one}[ really]", f"`{one}` is `{names[one]}`."),
        (f"(connect|log in) to {one}|how do i connect to {one}", run("With these settings, the short name is enough:", f"ssh {one}")),
        (f"what is the password (of|for) {one}", unknown("passwords are not in it.")),
    )  # fmt: skip
    return Text("config", "\n".join(lines).strip(), asked)


def makefile(rng: Rng) -> Text:
    """A Makefile."""
    program = identifier(rng, "-")
    targets = {"build": f"gcc -O2 -o {program} main.c", "test": "pytest -q", "lint": "ruff check .", "clean": f"rm -rf build {program}", "install": f"install -m 755 {program} /usr/local/bin", "run": f"./{program}", "docs": "mkdocs build"}  # fmt: skip
    names = some(rng, list(targets), between(rng, 3, 5))
    body = f".PHONY: {' '.join(names)}\n\n" + "\n\n".join(f"{name}:\n\t{targets[name]}" for name in names)
    one = pick(rng, names)
    asked = (
        ("what", f"A Makefile with the targets {quoted(names)}."),
        ("summary", f"It has {number(len(names), 'target')}: {quoted(names)}."),
        ("(which|what) targets[ are there]|what can i make", f"{quoted(names)}."),
        (f"what does (make {one}|{one}|the {one} target) do", f"It runs `{targets[one]}`." + (" That deletes them without asking." if one == "clean" else "")),
        (f"how do i run {one}", run("In the folder of the Makefile:", f"make {one}")),
        ("what happens (with|if i run) [plain] make|what is the default", f"It makes the first target, `{names[0]}`."),
        ("show what (it|make) would do|dry run|what would make run", run(f"This prints the commands of the first target, `{names[0]}`, and runs none:", "make -n")),
    )  # fmt: skip
    return Text("Makefile", body, asked)


def tasks(rng: Rng) -> Text:
    """A list of things to do, some of them done."""
    count = between(rng, 4, 11)
    done = [rng.random() < 0.4 for _ in range(count)]
    things = [f"{pick(rng, VERBS)} the {noun}" for noun in some(rng, NOUNS, count)]
    open_ = [thing for thing, one in zip(things, done, strict=True) if not one]
    body = "\n".join(f"- [{'x' if one else ' '}] {thing}" for thing, one in zip(things, done, strict=True))
    asked = (
        ("what", f"A list of {number(count, 'thing')} to do; {sum(done)} of them done."),
        ("summary", f"{sum(done)} of {count} done." + (f" The next open one: `{open_[0]}`." if open_ else "")),
        ("how many (are|things are) (done|finished)", f"{sum(done)} of {count}."),
        ("how many (are|things are) (open|left|not done)", f"{len(open_)} of {count}."),
        ("what is (next|the next one|still open)|what is left", (f"Next: `{open_[0]}`." if open_ else "Nothing: all of them are done.")),
        ("(show|list|print) only the open (ones|things)", run("This prints the lines that are not done:", "grep -F '[ ]' todo.md")),
        ("when is it due|until when", unknown("it has no dates.")),
    )  # fmt: skip
    return Text("todo.md", body, asked)


def packages(rng: Rng) -> Text:
    """requirements.txt, or package.json."""
    names = some(rng, ("requests", "flask", "numpy", "pandas", "click", "rich", "httpx", "pydantic", "pytest", "jinja2", "sqlalchemy", "pillow"), between(rng, 3, 9))  # fmt: skip
    pinned = [rng.random() < 0.7 for _ in names]
    versions = [f"{between(rng, 0, 9)}.{between(rng, 0, 30)}.{between(rng, 0, 9)}" for _ in names]
    body = "\n".join(
        f"{name}=={version}" if pin else name for name, version, pin in zip(names, versions, pinned, strict=True)
    )
    free = [name for name, pin in zip(names, pinned, strict=True) if not pin]
    at = between(rng, 0, len(names) - 1)
    asked = (
        ("what", f"{number(len(names), 'package')} that a Python project needs: {quoted(names)}."),
        ("summary", f"{number(len(names), 'package')}, {sum(pinned)} of them with a fixed version."),
        ("how many (packages|dependencies|requirements)", f"{number(len(names), 'package')}."),
        (f"(which|what) version of {names[at]}", f"`{versions[at]}`." if pinned[at] else unknown(f"no version of {names[at]} is fixed.")),
        ("(which|what) (packages|ones) (have no|are without a) version|what is not pinned", f"{quoted(free)}." if free else "None: all of them have a version."),
        ("(install|get) (them|these|it)|how do i install (them|these)", run("Into an environment of its own:", "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt")),
        ("are they (up to date|the newest|outdated)", unknown("it does not say what the newest versions are. For what is installed:", "pip list --outdated")),
    )  # fmt: skip
    return Text("requirements.txt", body, asked)


FILES: tuple[Maker, ...] = (
    dotenv, ini, dockerfile, compose, script, sql, markdown, letter, html, contacts, addresses, web_server, ssh_hosts,
    makefile, tasks, packages,
)  # fmt: skip
