"""What compilers, test runners and package managers print when something fails."""

from __future__ import annotations

from recipes.shell_guide.grammar.names import domain, pick, stem
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
    quoted,
    run,
    some,
    unknown,
)

_C_TYPES = ("int", "double", "char *", "size_t")


def _failed(
    name: str,
    body: str,
    *,
    what: str,
    why: str,
    fix: str,
    line: str,
    place: str,
    more: tuple[tuple[str, str], ...] = (),
) -> Text:
    """A text that says why something failed.

    `why`: one sentence. `fix`: advice, perhaps with a command. `line`: the line of the text that says it. `place`: the
    file and line, in a sentence.
    """
    at = [one.strip() for one in body.splitlines()].index(line.strip()) + 1
    asked = (
        ("fail", why),
        ("fix", fix),
        ("what", f"{what} {why}"),
        ("summary", why),
        ("line", f"Line {at} of the text has the error:\n\n```text\n{line.strip()}\n```"),
        ("line", place or why),
        *more,
        ("(who|which commit) (broke|caused) (it|this)", unknown("it shows the error, not the change that caused it. This shows the last commits:", "git log --oneline -5")),
    )  # fmt: skip
    return Text(name, body.strip(), asked)


def _function(rng: Rng) -> str:
    return f"{pick(rng, VERBS)}_{pick(rng, NOUNS)}"


def _camel(rng: Rng) -> str:
    return pick(rng, VERBS) + pick(rng, NOUNS).title()


def gcc(rng: Rng) -> Text:
    """`make`, with an error of gcc."""
    source = f"{pick(rng, ('src/', '', 'lib/'))}{pick(rng, NOUNS)}.c"
    target = source.removesuffix(".c") + ".o"
    function, name = _function(rng), f"{pick(rng, NOUNS)}_{pick(rng, ('count', 'size', 'list', 'id', 'name'))}"
    row, column = between(rng, 4, 400), between(rng, 5, 40)
    message, code, why, fix = (
        (f"'{name}' undeclared (first use in this function)", f"    {name} += 1;", f"uses `{name}`, which is declared nowhere", f"Declare `{name}` before line {row} of `{source}`, or correct its spelling."),
        ("expected ';' before 'return'", f"    {name} = {between(rng, 1, 99)}", "lacks a semicolon", f"Add a semicolon at the end of the line above the one that it names, near line {row} of `{source}`."),
        (f"too few arguments to function '{_function(rng)}'", f"    {_function(rng)}({name});", "calls a function with too few arguments", f"Give the call in line {row} of `{source}` all its arguments."),
        (f"conflicting types for '{function}'", f"int {function}(void)", f"declares `{function}` with other types than before", f"Make the declarations of `{function}` agree: the one in line {row} of `{source}` differs."),
        ("invalid operands to binary + (have 'char *' and 'char *')", f"    char *{name} = a + b;", "adds two pointers", f"Join the strings in line {row} of `{source}` with snprintf instead of a plus sign."),
    )[between(rng, 0, 4)]  # fmt: skip
    others = [
        f"gcc -Wall -O2 -c -o {one}.o {one}.c"
        for one in some(rng, ("main", "util", "parse", "net", "log"), between(rng, 1, 4))
    ]
    error = f"{source}:{row}:{column}: error: {message}"
    lines = [*others, f"gcc -Wall -O2 -c -o {target} {source}", f"{source}: In function '{function}':"]
    if rng.random() < 0.3:
        lines.append(f"{source}:{row - 2}:9: warning: unused variable 'i' [-Wunused-variable]")
    lines += [
        error,
        f"{row:>5} | {code}",
        "      | " + " " * 4 + "^~~~",
        f"make: *** [Makefile:{between(rng, 5, 40)}: {target}] Error 1",
    ]
    return _failed(
        "build.log", "\n".join(lines), what="The output of a build that failed.",
        why=f"Line {row} of `{source}` {why}: `{message}`.", fix=fix, line=error, place=f"Line {row} of `{source}`, at column {column}.",
        more=(("how many errors", "One error." + (" The warning does not stop the build." if "warning" in "\n".join(lines) else "")), ("open the file there|how do i open it at that line", run(f"This opens `{source}` at line {row}:", f"vim +{row} {source}"))),
    )  # fmt: skip


def missing_header(rng: Rng) -> Text:
    """gcc without a header, which a package has."""
    header, package = (("openssl/ssl.h", "libssl-dev"), ("zlib.h", "zlib1g-dev"), ("curl/curl.h", "libcurl4-openssl-dev"), ("Python.h", "python3-dev"), ("sqlite3.h", "libsqlite3-dev"), ("ncurses.h", "libncurses-dev"), ("png.h", "libpng-dev"), ("X11/Xlib.h", "libx11-dev"), ("ffi.h", "libffi-dev"), ("readline/readline.h", "libreadline-dev"))[between(rng, 0, 9)]  # fmt: skip
    source, row = f"{pick(rng, NOUNS)}.{pick(rng, ('c', 'cpp'))}", between(rng, 1, 20)
    error = f"{source}:{row}:10: fatal error: {header}: No such file or directory"
    body = f"cc -O2 -c -o {source.split('.')[0]}.o {source}\n{error}\n    {row} | #include <{header}>\n      |          ^~~~~~~~\ncompilation terminated.\nmake: *** [<builtin>: {source.split('.')[0]}.o] Error 1"
    return _failed(
        "build.log", body, what="The output of a build that failed.",
        why=f"The header `{header}` is missing, which `{source}` includes.", fix=run(f"Install the package with `{header}`; on Debian and Ubuntu:", f"sudo apt install {package}"), line=error,
        place=f"Line {row} of `{source}`.", more=(("(what|which) package (do i need|is missing|has it)", run("On Debian and Ubuntu:", f"sudo apt install {package}")),),
    )  # fmt: skip


def linker(rng: Rng) -> Text:
    """A symbol that the linker does not find."""
    symbol, flag = (("sqrt", "-lm"), ("pthread_create", "-lpthread"), ("deflate", "-lz"), ("SSL_new", "-lssl -lcrypto"), ("curl_easy_init", "-lcurl"), ("sqlite3_open", "-lsqlite3"), ("initscr", "-lncurses"))[between(rng, 0, 6)]  # fmt: skip
    own = rng.random() < 0.4
    if own:
        symbol = _function(rng)
    where, program = _function(rng), pick(rng, NOUNS)
    line = f"{program}.c:(.text+0x{hexadecimal(rng, 2)}): undefined reference to `{symbol}'"
    body = f"gcc -o {program} {program}.o\n/usr/bin/ld: {program}.o: in function `{where}':\n{line}\ncollect2: error: ld returned 1 exit status\nmake: *** [Makefile:{between(rng, 4, 30)}: {program}] Error 1"
    fix = (
        f"Link the file that defines `{symbol}` too, or define it."
        if own
        else run(f"Link the library that has `{symbol}`:", f"gcc -o {program} {program}.o {flag}")
    )
    return _failed("build.log", body, what="The output of a build that failed.", why=f"The linker finds no definition of `{symbol}`, which `{where}` uses.", fix=fix, line=line, place=f"In `{where}`, of `{program}.c`.")  # fmt: skip


def rustc(rng: Rng) -> Text:
    """`cargo build`, with an error of rustc."""
    source, row, column = f"src/{pick(rng, NOUNS)}.rs", between(rng, 4, 300), between(rng, 5, 30)
    name, other = pick(rng, NOUNS), _function(rng)
    code, message, why, fix = (
        ("E0382", f"borrow of moved value: `{name}`", f"uses `{name}` after it was moved", f"Borrow `{name}` where it is moved, or clone it."),
        ("E0425", f"cannot find value `{name}` in this scope", f"uses `{name}`, which is not defined there", f"Define `{name}` before line {row} of `{source}`, or correct its spelling."),
        ("E0308", "mismatched types", "has a value of another type than is expected", f"Convert the value in line {row} of `{source}` to the type that is expected."),
        ("E0599", f"no method named `{other}` found for struct `{name.title()}` in the current scope", f"calls the method `{other}`, which `{name.title()}` does not have", f"Write the method `{other}` for `{name.title()}`, or call one that it has."),
        ("E0502", f"cannot borrow `{name}` as mutable because it is also borrowed as immutable", f"borrows `{name}` as mutable while another borrow lives", f"End the first borrow of `{name}` before line {row} of `{source}`."),
        ("E0433", f"failed to resolve: use of undeclared crate or module `{name}`", f"uses the crate or module `{name}`, which is not declared", run(f"Add `{name}`, if it is a crate:", f"cargo add {name}")),
    )[between(rng, 0, 5)]  # fmt: skip
    crate, head = pick(rng, NOUNS), f"error[{code}]: {message}"
    body = f'   Compiling {crate} v0.{between(rng, 1, 9)}.{between(rng, 0, 9)} (/home/{pick(rng, PEOPLE)}/{crate})\n{head}\n  --> {source}:{row}:{column}\n   |\n{row:<3}|     {other}({name});\n   |     ^^^^^\n\nFor more information about this error, try `rustc --explain {code}`.\nerror: could not compile `{crate}` (bin "{crate}") due to 1 previous error'
    shown = message.replace("`", "")
    return _failed(
        "build.log", body, what="The output of cargo, which could not build.", why=f"Line {row} of `{source}` {why} (`{code}`, {shown}).", fix=fix, line=head,
        place=f"Line {row} of `{source}`, at column {column}.", more=(("(explain|what is) this error( code|)", run(f"This explains `{code}` in full:", f"rustc --explain {code}")),),
    )  # fmt: skip


def tsc(rng: Rng) -> Text:
    """Errors of the TypeScript compiler."""
    lines, places = [], []
    for _ in range(between(rng, 1, 4)):
        source, row, column = f"src/{_camel(rng)}.ts", between(rng, 2, 200), between(rng, 3, 40)
        field = pick(rng, NOUNS)
        code, message = (
            ("TS2339", f"Property '{field}' does not exist on type '{pick(rng, NOUNS).title()}'."), ("TS2322", "Type 'string' is not assignable to type 'number'."),
            ("TS2304", f"Cannot find name '{field}'."), ("TS2345", "Argument of type 'number' is not assignable to parameter of type 'string'."), ("TS7006", f"Parameter '{field}' implicitly has an 'any' type."), ("TS2532", "Object is possibly 'undefined'."),
        )[between(rng, 0, 5)]  # fmt: skip
        lines.append(f"{source}({row},{column}): error {code}: {message}")
        places.append((source, row, code, message))
    source, row, code, message = places[0]
    count, files = len(lines), list(dict.fromkeys(place[0] for place in places))
    tail = f" It is the first of {count} errors." if count > 1 else ""
    hint = {"TS2339": f"Declare the property in the type, or correct its name in line {row} of `{source}`.", "TS2322": f"Give the variable in line {row} of `{source}` a number, or declare it as a string.", "TS2304": f"Import or declare the name that line {row} of `{source}` uses.", "TS2345": f"Pass a string in line {row} of `{source}`, for example with String(...).", "TS7006": f"Write the type of the parameter in line {row} of `{source}`.", "TS2532": f"Check for undefined before the use in line {row} of `{source}`."}[code]  # fmt: skip
    return _failed(
        "tsc.log", "\n".join(lines), what="Errors of the TypeScript compiler.", why=f"Line {row} of `{source}`: `{message}`{tail}", fix=hint, line=lines[0],
        place=f"Line {row} of `{source}`.", more=(("how many errors[ are (there|in this)]", f"{number(count, 'error')}."), ("(which|what) files[ (have errors|are affected)]", f"{quoted(files)}.")),
    )  # fmt: skip


def pytest(rng: Rng) -> Text:
    """pytest, with a test that fails."""
    noun, verb = pick(rng, NOUNS), pick(rng, VERBS)
    file, test = f"tests/test_{noun}.py", f"test_{verb}_{noun}"
    row, failed, passed = between(rng, 6, 150), between(rng, 1, 3), between(rng, 2, 60)
    names = [test, *(f"test_{one}_{noun}" for one in some(rng, [one for one in VERBS if one != verb], failed - 1))]
    left, right = between(rng, 1, 90), between(rng, 100, 200)
    kind, said, why = (
        ("AssertionError", f"assert {left} == {right}", f"it expected `{right}` and got `{left}`"),
        ("KeyError", f"KeyError: '{pick(rng, ('id', 'name', 'total'))}'", "a key is missing from a dictionary"),
        ("AttributeError", "AttributeError: 'NoneType' object has no attribute 'name'", "something is None that should be an object"),
        ("TypeError", f"TypeError: {verb}_{noun}() missing 1 required positional argument: 'limit'", "a call lacks an argument"),
    )[between(rng, 0, 3)]  # fmt: skip
    lines = ["=" * 24 + " FAILURES " + "=" * 24, "_" * 20 + f" {test} " + "_" * 20, "", f"    def {test}():", f">       {'assert ' if kind == 'AssertionError' else 'result = '}{verb}_{noun}({left})", f"E       {said}", "", f"{file}:{row}: {kind}", "=" * 20 + " short test summary info " + "=" * 20]  # fmt: skip
    lines += [f"FAILED {file}::{one} - {said}" for one in names]
    lines.append(
        "=" * 12 + f" {failed} failed, {passed} passed in {between(rng, 1, 90)}.{between(rng, 10, 99)}s " + "=" * 12
    )
    return _failed(
        "pytest.log", "\n".join(lines), what=f"The result of pytest: {failed} failed, {passed} passed.", why=f"`{test}` fails in line {row} of `{file}`: {why}.",
        fix=run(f"Look at line {row} of `{file}`, and run this test alone until it passes:", f"pytest {file}::{test}"), line=f"E       {said}", place=f"Line {row} of `{file}`.",
        more=(
            ("how many (tests failed|failed|failures)", f"{failed} of {failed + passed}."), ("how many (tests passed|passed)", f"{passed} of {failed + passed}."),
            ("(which|what) tests failed", f"{quoted(names)}."), ("(run|rerun) only the failed (tests|ones)", run("This runs the tests that failed last:", "pytest --lf")),
            (f"(run|rerun) only this test|how do i run (just|only) {test}", run("This runs one test:", f"pytest {file}::{test}")),
        ),
    )  # fmt: skip


def npm(rng: Rng) -> Text:
    """npm: versions that do not fit, a missing file or script, no rights."""
    package, other = (
        ("react", "react-dom"),
        ("eslint", "eslint-plugin-vue"),
        ("vite", "vitest"),
        ("webpack", "ts-loader"),
        ("typescript", "ts-jest"),
    )[between(rng, 0, 4)]
    script, folder = (
        pick(rng, ("build", "start", "dev", "lint", "test")),
        f"/home/{pick(rng, PEOPLE)}/{stem(rng, spaces=0)}",
    )
    major = between(rng, 3, 18)
    lines, key, why, fix = (
        (["code ERESOLVE", "ERESOLVE unable to resolve dependency tree", f"Found: {package}@{major + 1}.0.0", f"peer {package}@\"^{major}.0.0\" from {other}@{major}.2.1"], 3, f"`{other}` wants version `^{major}.0.0` of `{package}`, and `{package}@{major + 1}.0.0` is chosen.", run(f"Install a version of `{other}` that fits:", f"npm install {other}@latest")),
        (["code ENOENT", "syscall open", f"path {folder}/package.json", f"enoent Could not read package.json: Error: ENOENT: no such file or directory, open '{folder}/package.json'"], 3, f"There is no `package.json` in `{folder}`.", run("Go to the folder of the project, or begin one here:", "npm init")),
        ([f"Missing script: \"{script}\"", "", "To see a list of scripts, run:", "  npm run"], 0, f"The project has no script `{script}`.", run("See which scripts there are:", "npm run")),
        (["code EACCES", "syscall mkdir", "path /usr/local/lib/node_modules", "errno -13", "Error: EACCES: permission denied, mkdir '/usr/local/lib/node_modules'"], 4, "You may not write to `/usr/local/lib/node_modules`.", run("Install for the user instead of the system:", "npm config set prefix ~/.local")),
        (["code E404", f"404 Not Found - GET https://registry.npmjs.org/{package}x - Not found", f"404  '{package}x@*' is not in this registry."], 2, f"The registry has no package `{package}x`.", run("Check the spelling; this searches for it:", f"npm search {package}")),
        (["code EJSONPARSE", f"path {folder}/package.json", "JSON.parse Expected ',' or '}' after property value in JSON at position 214"], 2, f"`{folder}/package.json` is not valid JSON.", run("This says where it is wrong:", "jq . package.json")),
    )[between(rng, 0, 5)]  # fmt: skip
    sign = pick(rng, ("npm ERR!", "npm error"))
    shown = [f"{sign} {one}".rstrip() for one in lines]
    return _failed("npm.log", "\n".join([*shown, f"{sign} A complete log of this run can be found in: /home/{pick(rng, PEOPLE)}/.npm/_logs"]), what="An error of npm.", why=why, fix=fix, line=shown[key], place="")  # fmt: skip


def pip(rng: Rng) -> Text:
    """pip: no such version, no compiler, a managed environment."""
    package = pick(rng, ("numpy", "pandas", "torch", "lxml", "psycopg2", "pillow", "scipy", "cryptography"))
    version = f"{between(rng, 20, 60)}.{between(rng, 0, 9)}"
    lines, key, why, fix = (
        ([f"ERROR: Could not find a version that satisfies the requirement {package}=={version} (from versions: 1.{between(rng, 0, 9)}.0, 2.{between(rng, 0, 9)}.1)", f"ERROR: No matching distribution found for {package}=={version}"], 0, f"There is no version `{version}` of `{package}` for this Python.", run("See which versions there are:", f"pip index versions {package}")),
        (["error: externally-managed-environment", "", "× This environment is externally managed", "╰─> To install Python packages system-wide, try apt install", "    python3-xyz, where xyz is the package you are trying to", "    install."], 0, "The Python of the system is managed by its packages, so pip does not change it.", run("Install into an environment of your own:", f"python3 -m venv .venv && .venv/bin/pip install {package}")),
        ([f"Collecting {package}", f"  Building wheel for {package} (setup.py): finished with status 'error'", "  error: command 'gcc' failed: No such file or directory", f"  ERROR: Failed building wheel for {package}"], 2, f"`{package}` has to be compiled, and there is no `gcc`.", run("Install a compiler; on Debian and Ubuntu:", "sudo apt install build-essential python3-dev")),
        (["ERROR: Could not open requirements file: [Errno 2] No such file or directory: 'requirements.txt'"], 0, "There is no `requirements.txt` in this folder.", run("Look where it is:", "find . -name requirements.txt")),
        ([f"Collecting {package}", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"], 1, "The disk is full.", run("Find out which disk is full, and empty the cache of pip:", "df -h && pip cache purge")),
        (["ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.", f"jupyter-{pick(rng, NOUNS)} 1.2 requires {package}<2, but you have {package} {version} which is incompatible."], 1, f"An installed package wants `{package}<2`, and `{package} {version}` is installed.", run("Install a version that fits:", f"pip install '{package}<2'")),
    )[between(rng, 0, 5)]  # fmt: skip
    return _failed("pip.log", "\n".join(lines), what="An error of pip.", why=why, fix=fix, line=lines[key], place="")


def cargo_test(rng: Rng) -> Text:
    """`cargo test`, with a test that panics."""
    module = pick(rng, NOUNS)
    tests = [f"{module}::tests::{pick(rng, VERBS)}s_{noun}" for noun in some(rng, NOUNS, between(rng, 3, 7))]
    bad = tests[between(rng, 0, len(tests) - 1)]
    row, left, right = between(rng, 10, 200), between(rng, 1, 90), between(rng, 100, 200)
    lines = [f"running {len(tests)} tests", *(f"test {one} ... {'FAILED' if one == bad else 'ok'}" for one in tests), "", "failures:", "", f"---- {bad} stdout ----", f"thread '{bad}' panicked at src/{module}.rs:{row}:9:", "assertion `left == right` failed", f"  left: {left}", f" right: {right}", "", f"test result: FAILED. {len(tests) - 1} passed; 1 failed; 0 ignored"]  # fmt: skip
    return _failed(
        "test.log", "\n".join(lines), what=f"The result of cargo test: {len(tests) - 1} passed, 1 failed.", why=f"`{bad}` fails in line {row} of `src/{module}.rs`: left is `{left}`, right is `{right}`.",
        fix=run(f"Look at line {row} of `src/{module}.rs`, and run this test alone:", f"cargo test {bad}"), line=f"thread '{bad}' panicked at src/{module}.rs:{row}:9:", place=f"Line {row} of `src/{module}.rs`.",
        more=(("(which|what) test failed", f"`{bad}`."), ("how many (tests|) (passed|succeeded)", f"{len(tests) - 1} of {len(tests)}."), ("how many failed", f"1 of {len(tests)}.")),
    )  # fmt: skip


def maven(rng: Rng) -> Text:
    """Maven, with an error of the compiler."""
    noun = pick(rng, NOUNS)
    file, row, column = (
        f"/src/main/java/com/example/{noun.title()}Service.java",
        between(rng, 10, 300),
        between(rng, 5, 40),
    )
    symbol = _camel(rng)
    message, why, fix = (
        ("cannot find symbol", "uses a name that is not defined", f"Import or define the name that line {row} of `{file}` uses."),
        ("incompatible types: String cannot be converted to int", "gives a string where a number is wanted", f"Convert the string in line {row} of `{file}`, for example with Integer.parseInt."),
        ("missing return statement", "ends a method without a return", f"Return a value on every path of the method that ends in line {row} of `{file}`."),
        ("';' expected", "lacks a semicolon", f"Add the semicolon in line {row} of `{file}`."),
    )[between(rng, 0, 3)]  # fmt: skip
    error = f"[ERROR] {file}:[{row},{column}] {message}"
    lines = ["[INFO] Scanning for projects...", f"[INFO] Building {noun}-service 1.{between(rng, 0, 9)}-SNAPSHOT", "[INFO] --- compiler:3.11.0:compile (default-compile) ---", "[ERROR] COMPILATION ERROR :", error]  # fmt: skip
    if message == "cannot find symbol":
        lines += [f"  symbol:   method {symbol}()", f"  location: class com.example.{noun.title()}Service"]
        why = f"calls `{symbol}`, which is not defined"
    lines += ["[INFO] BUILD FAILURE", f"[INFO] Total time:  {between(rng, 2, 40)}.{between(rng, 100, 999)} s"]
    return _failed("maven.log", "\n".join(lines), what="The output of Maven, which could not build.", why=f"Line {row} of `{file}` {why}: `{message}`.", fix=fix, line=error, place=f"Line {row} of `{file}`, at column {column}.")  # fmt: skip


def traceback(rng: Rng) -> Text:
    """A traceback of Python."""
    folder = f"/home/{pick(rng, PEOPLE)}/{pick(rng, NOUNS)}"
    inner, outer = f"{folder}/{pick(rng, NOUNS)}.py", f"{folder}/main.py"
    function, row, name = _function(rng), between(rng, 5, 300), pick(rng, NOUNS)
    module, package = (("requests", "requests"), ("yaml", "pyyaml"), ("PIL", "pillow"), ("bs4", "beautifulsoup4"), ("numpy", "numpy"), ("dotenv", "python-dotenv"), ("cv2", "opencv-python"))[between(rng, 0, 6)]  # fmt: skip
    look = f"Look at line {row} of `{inner}`"
    code, message, why, fix = (
        (f"return {name}s[{between(rng, 3, 90)}]", "IndexError: list index out of range", "the list has fewer items than the index", f"{look}: check the length of the list first."),
        (f"return data['{name}']", f"KeyError: '{name}'", f"the dictionary has no key `{name}`", f"{look}: use get, or check whether `{name}` is there."),
        (f"import {module}", f"ModuleNotFoundError: No module named '{module}'", f"the module `{module}` is not installed", run(f"Install the package with `{module}`:", f"python3 -m pip install {package}")),
        (f"return total / len({name}s)", "ZeroDivisionError: division by zero", "it divides by zero", f"{look}: the list can be empty, so check that first."),
        (f"with open('{name}.csv') as file:", f"FileNotFoundError: [Errno 2] No such file or directory: '{name}.csv'", f"the file `{name}.csv` is not there", run("Check the name, and in which folder the program runs:", f"ls -l {name}.csv")),
        (f"return {name}.title", "AttributeError: 'NoneType' object has no attribute 'title'", "something is None that should be an object", f"{look}: find out why the value is None there."),
        (f"total = '{name}: ' + count", 'TypeError: can only concatenate str (not "int") to str', "it joins a string and a number", f"{look}: turn the number into a string, with str or an f-string."),
        ("value = int(text)", f"ValueError: invalid literal for int() with base 10: '{name}'", f"`{name}` is not a number", f"{look}: check the text before it is converted."),
        (f"print({name}_total)", f"NameError: name '{name}_total' is not defined", f"the name `{name}_total` is not defined", f"{look}: define it first, or correct its spelling."),
        ("connection.connect()", "ConnectionRefusedError: [Errno 111] Connection refused", "nothing accepts the connection", run("Start the server that it connects to, and see which ports are listened on:", "ss -tln")),
        (f"with open('/etc/{name}.conf', 'w') as file:", f"PermissionError: [Errno 13] Permission denied: '/etc/{name}.conf'", f"it may not write `/etc/{name}.conf`", run("See who may:", f"ls -l /etc/{name}.conf")),
    )[between(rng, 0, 10)]  # fmt: skip
    body = f'Traceback (most recent call last):\n  File "{outer}", line {between(rng, 3, 40)}, in <module>\n    main()\n  File "{inner}", line {row}, in {function}\n    {code}\n{message}'
    if rng.random() < 0.4:
        body = f"loading {name}s\nstarted with {between(rng, 2, 900)} {name}s\n{body}"
    kind = message.split(":")[0]
    return _failed(
        "error.log", body, what="A traceback of Python.", why=f"Line {row} of `{inner}` fails with `{kind}`: {why}.", fix=fix, line=message, place=f"Line {row} of `{inner}`, in `{function}`.",
        more=(("(which|what) function[ (is it|fails)]", f"`{function}`."), ("(which|what) exception[ is it]", f"`{kind}`.")),
    )  # fmt: skip


def java(rng: Rng) -> Text:
    """A stack trace of Java."""
    name, row = pick(rng, NOUNS).title(), between(rng, 10, 300)
    method = _camel(rng)
    exception, why = (
        ("java.lang.NullPointerException", "something is null that should be an object"),
        ("java.lang.ArrayIndexOutOfBoundsException: Index 5 out of bounds for length 5", "an index is larger than the array"),
        ("java.lang.OutOfMemoryError: Java heap space", "the memory of the virtual machine is full"),
        ("java.lang.ClassNotFoundException: org.postgresql.Driver", "a class is not on the class path"),
        ("java.net.ConnectException: Connection refused", "nothing accepts the connection"),
    )[between(rng, 0, 4)]  # fmt: skip
    first = f'Exception in thread "main" {exception}'
    body = f"{first}\n\tat com.example.{name}.{method}({name}.java:{row})\n\tat com.example.{name}.run({name}.java:{between(rng, 301, 400)})\n\tat com.example.Main.main(Main.java:{between(rng, 5, 60)})"
    fix = (
        run("Give it more memory:", "java -Xmx2g -jar app.jar")
        if "Memory" in exception
        else f"Look at line {row} of `{name}.java`, in `{method}`."
    )
    return _failed("error.log", body, what="A stack trace of Java.", why=f"Line {row} of `{name}.java` fails with `{exception.split(':')[0]}`: {why}.", fix=fix, line=first, place=f"Line {row} of `{name}.java`, in `{method}`.")  # fmt: skip


def go(rng: Rng) -> Text:
    """`go build`."""
    noun, row = pick(rng, NOUNS), between(rng, 5, 200)
    file = f"./{noun}.go"
    name = _camel(rng)
    message, why, fix = (
        (f"undefined: {name}", f"uses `{name}`, which is not defined", f"Define `{name}`, or correct its name in line {row} of `{file}`."),
        (f"declared and not used: {name}", f"declares `{name}` and does not use it", f"Use `{name}` or remove it from line {row} of `{file}`."),
        ('"fmt" imported and not used', "imports a package that is not used", run("This removes unused imports:", f"goimports -w {noun}.go")),
        ("cannot use count (variable of type int) as string value in argument", "gives a number where a string is wanted", f"Convert the number in line {row} of `{file}`, for example with strconv.Itoa."),
        ("missing return", "ends a function without a return", f"Return a value on every path of the function that ends in line {row} of `{file}`."),
    )[between(rng, 0, 4)]  # fmt: skip
    error = f"{file}:{row}:{between(rng, 2, 30)}: {message}"
    return _failed("build.log", f"# example.com/{noun}\n{error}", what="An error of go build.", why=f"Line {row} of `{file}` {why}.", fix=fix, line=error, place=f"Line {row} of `{file}`.")  # fmt: skip


def docker(rng: Rng) -> Text:
    """`docker build`."""
    step, total = between(rng, 2, 6), between(rng, 7, 12)
    file, row = pick(rng, ("requirements.txt", "package.json", "app.py", "go.mod", "Cargo.toml")), between(rng, 3, 30)
    package = pick(rng, ("libfoo", "python4", "node-gyp2"))
    command, message, why, fix = (
        (f"COPY {file} .", f'ERROR: failed to solve: failed to compute cache key: "/{file}": not found', f"`{file}` is not in the folder that is built", run(f"See whether `{file}` is there, and whether the build leaves it out:", f"ls -l {file}; cat .dockerignore")),
        (f"RUN apt-get install -y {package}", f'ERROR: failed to solve: process "/bin/sh -c apt-get install -y {package}" did not complete successfully: exit code: 100', f"the package `{package}` could not be installed", f"Write `RUN apt-get update && apt-get install -y {package}` in line {row} of the Dockerfile, and check the name of the package.".replace("`", "")),
        ("RUN npm ci", 'ERROR: failed to solve: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1', "`npm ci` failed in it", run("Build again with all output:", "docker build --progress=plain .")),
        ("RUN make", 'ERROR: failed to solve: process "/bin/sh -c make" did not complete successfully: exit code: 127', "`make` is not installed in the image", f"Install make in the image before line {row} of the Dockerfile."),
    )[between(rng, 0, 3)]  # fmt: skip
    body = f" => [internal] load build definition from Dockerfile\n => [1/{total}] FROM docker.io/library/{pick(rng, ('python:3.12', 'node:20', 'debian:12'))}\n => ERROR [{step}/{total}] {command}\n------\nDockerfile:{row}\n>>> {command}\n------\n{message}"
    return _failed("docker.log", body, what="The output of docker build, which failed.", why=f"Step {step} of {total} failed: {why}.", fix=fix, line=message, place=f"Line {row} of the Dockerfile: `{command}`.")  # fmt: skip


def eslint(rng: Rng) -> Text:
    """Problems that ESLint found."""
    file = f"/home/{pick(rng, PEOPLE)}/app/src/{_camel(rng)}.js"
    rows = sorted({between(rng, 1, 200) for _ in range(between(rng, 2, 5))})
    rules = (("error", f"'{pick(rng, NOUNS)}' is defined but never used", "no-unused-vars"), ("error", f"'{pick(rng, NOUNS)}' is not defined", "no-undef"), ("warning", "Unexpected console statement", "no-console"), ("error", "Missing semicolon", "semi"), ("error", "Expected '===' and instead saw '=='", "eqeqeq"))  # fmt: skip
    found = [rules[between(rng, 0, 4)] for _ in rows]
    found[0] = rules[0]
    lines = [
        f"  {row}:{between(rng, 1, 40)}  {level}  {said}  {rule}"
        for row, (level, said, rule) in zip(rows, found, strict=True)
    ]
    errors = sum(one[0] == "error" for one in found)
    warnings = len(found) - errors
    body = "\n".join(
        [
            file,
            *lines,
            "",
            f"✖ {number(len(found), 'problem')} ({number(errors, 'error')}, {number(warnings, 'warning')})",
        ]
    )
    return _failed(
        "eslint.log", body, what="Problems that ESLint found.", why=f"{number(errors, 'error')} and {number(warnings, 'warning')} in `{file}`; the first, in line {rows[0]}: `{found[0][1]}`.",
        fix=run("ESLint mends some of them itself; this changes the file:", f"npx eslint --fix {file}"), line=lines[0], place=f"Line {rows[0]} of `{file}`.",
        more=(("how many (problems|errors and warnings)", f"{number(len(found), 'problem')}: {number(errors, 'error')} and {number(warnings, 'warning')}."),),
    )  # fmt: skip


def shell(rng: Rng) -> Text:
    """Errors of a shell script."""
    script, row = f"{stem(rng, spaces=0)}.sh", between(rng, 2, 120)
    command, file = (
        pick(rng, ("jq", "rsync", "docker", "python", "ffmpeg", "pandoc", "tree")),
        f"/{pick(rng, ('srv', 'opt', 'data'))}/{stem(rng, spaces=0)}",
    )
    package = {"docker": "docker.io", "python": "python-is-python3"}.get(command, command)
    message, why, fix = (
        (f"{script}: line {row}: {command}: command not found", f"`{command}` is not installed, or not in the path", run(f"Install `{command}`; on Debian and Ubuntu:", f"sudo apt install {package}")),
        (f"{script}: line {row}: syntax error near unexpected token `fi'", "an if is not well formed: perhaps a then is missing", run(f"Look at the if above line {row}; this checks the script without running it:", f"bash -n {script}")),
        (f"{script}: line {row}: {file}: No such file or directory", f"`{file}` does not exist", run("See what is there:", f"ls -l {file.rpartition('/')[0]}")),
        (f"{script}: line {row}: {file}: Permission denied", f"you may not use `{file}`", run("See who may:", f"ls -l {file}")),
        (f"{script}: line {row}: [: too many arguments", "a variable in a test is not quoted, and has a space in it", f"Put the variable in line {row} of `{script}` in double quotes."),
        (f"{script}: line {row}: unexpected EOF while looking for matching `\"'", "a double quote is not closed", run("This checks the script without running it:", f"bash -n {script}")),
        (f"{script}: line {row}: {pick(rng, NOUNS).upper()}: unbound variable", "a variable is used that is not set", f"Set the variable before line {row} of `{script}`, or give it a default."),
    )[between(rng, 0, 6)]  # fmt: skip
    body = (
        f"Starting {pick(rng, NOUNS)} {pick(rng, ('backup', 'export', 'sync'))}\n{message}"
        if rng.random() < 0.5
        else message
    )
    return _failed("script.log", body, what="An error of a shell script.", why=f"Line {row} of `{script}` fails: {why}.", fix=fix, line=message, place=f"Line {row} of `{script}`.")  # fmt: skip


def apt(rng: Rng) -> Text:
    """Errors of apt."""
    package, host = pick(rng, ("ffmpeg6", "nodejs-lts", "python3.14", "docker-compose-v3", "libssl4")), domain(rng)
    pid = between(rng, 400, 40_000)
    lines, key, why, fix = (
        (["Reading package lists... Done", "Building dependency tree... Done", f"E: Unable to locate package {package}"], 2, f"No source that apt knows has the package `{package}`.", run("Renew the lists, and search for the right name:", f"sudo apt update && apt search {package.rstrip('0123456789.')}")),
        ([f"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process {pid} (unattended-upgr)", "N: Be aware that removing the lock file is not a solution and may break your system.", "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?"], 0, "Another program, `unattended-upgr`, is installing packages now.", run("Wait until it has ended; this shows it:", f"ps -p {pid}")),
        ([f"Err:1 http://{host}/debian stable InRelease", f"  Could not resolve '{host}'", "E: Some index files failed to download. They have been ignored, or old ones used instead."], 1, f"The name `{host}` could not be resolved.", run("Check the connection and the name:", f"dig +short {host}")),
        (["E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct the problem."], 0, "An installation was interrupted.", run("Let dpkg finish it:", "sudo dpkg --configure -a")),
        (["The following packages have unmet dependencies:", f" {package} : Depends: libc6 (>= 2.99) but 2.36 is to be installed", "E: Unable to correct problems, you have held broken packages."], 1, f"`{package}` wants a newer `libc6` than there is.", run("See which versions there are:", f"apt policy {package} libc6")),
        (["E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)", "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?"], 0, "Only root may install packages.", run("Run it as root:", "sudo apt install PACKAGE")),
        ([f"W: GPG error: http://{host} stable InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY {hexadecimal(rng, 16).upper()}"], 0, f"The key that signs the packages of `{host}` is not installed.", "Install the key that this source names in its instructions, below /etc/apt/keyrings."),
    )[between(rng, 0, 6)]  # fmt: skip
    return _failed("apt.log", "\n".join(lines), what="An error of apt.", why=why, fix=fix, line=lines[key], place="")


def push(rng: Rng) -> Text:
    """git refuses: a push, a merge, a pull."""
    branch, file = pick(rng, ("main", "develop", "master")), f"src/{pick(rng, NOUNS)}.py"
    host = f"git@github.com:{pick(rng, PEOPLE)}/{pick(rng, NOUNS)}.git"
    lines, key, why, fix = (
        ([f"To {host}", f" ! [rejected]        {branch} -> {branch} (fetch first)", f"error: failed to push some refs to '{host}'", "hint: Updates were rejected because the remote contains work that you do not", "hint: have locally."], 1, f"Others have pushed to `{branch}` since you fetched.", run("Put your commits on top of theirs, and push again:", "git pull --rebase && git push")),
        ([f"Auto-merging {file}", f"CONFLICT (content): Merge conflict in {file}", "Automatic merge failed; fix conflicts and then commit the result."], 1, f"Both sides changed the same lines of `{file}`.", run(f"Edit `{file}`, then mark it as solved and end the merge:", f"git add {file} && git commit")),
        (["error: Your local changes to the following files would be overwritten by merge:", f"\t{file}", "Please commit your changes or stash them before you merge.", "Aborting"], 0, f"You have changes in `{file}` that are not committed.", run("Put them aside, pull, and take them back:", "git stash && git pull && git stash pop")),
        (["fatal: refusing to merge unrelated histories"], 0, "The two branches have no commit in common.", run("If they belong together nevertheless:", f"git pull origin {branch} --allow-unrelated-histories")),
        ([f"fatal: The current branch {branch}-{pick(rng, NOUNS)} has no upstream branch.", "To push the current branch and set the remote as upstream, use"], 0, "The branch is not connected to one on the server.", run("Push it, and remember where:", "git push -u origin HEAD")),
        ([f"remote: error: GH006: Protected branch update failed for refs/heads/{branch}.", f" ! [remote rejected] {branch} -> {branch} (protected branch hook declined)"], 1, f"The branch `{branch}` is protected: nobody may push to it directly.", run("Push to a branch of your own, and open a pull request:", "git switch -c my-change && git push -u origin HEAD")),
    )[between(rng, 0, 5)]  # fmt: skip
    return _failed("git.log", "\n".join(lines), what="A refusal of git.", why=why, fix=fix, line=lines[key], place="")


FAILURES: tuple[Maker, ...] = (
    gcc, missing_header, linker, rustc, tsc, pytest, npm, pip, cargo_test, maven, traceback, java, go, docker, eslint,
    shell, apt, push,
)  # fmt: skip
