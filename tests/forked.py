"""Run many command lines of an installed program in processes forked from one that has loaded its modules.

    with forking(python, env) as run:
        run("do", "fix it", cwd=project, env=env).json()

Each command has a process of its own with its own folder, environment and streams, and finds what was installed by
then; only what a start loads, most of the time of a short command, is loaded once.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from support import Ran

# Without names of modules it loads every module of ours that can be loaded where it runs.
DRIVER = """
import contextlib, gc, importlib, json, os, pkgutil, sys, tempfile
gc.set_threshold(200_000, 20, 20)  # as the script does
import specify_cli
from specify_cli.cli.main import main
found = pkgutil.walk_packages(specify_cli.__path__, "specify_cli.", onerror=lambda name: None)
for name in sys.argv[1:] or (module.name for module in found):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
import ruamel.yaml  # half of all commands load it when they read a charter
gc.freeze()
for line in sys.stdin:
    argv, folder, env, given = json.loads(line)
    files = [tempfile.TemporaryFile() for _ in range(3)]
    files[0].write(given.encode())
    files[0].seek(0)
    child = os.fork()
    if not child:
        os.chdir(folder); os.environ.clear(); os.environ.update(env)
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.argv = ["spec-kitty", *argv]
        code = main(argv)
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in files[1:]]
    for file in files:
        file.close()
    print(json.dumps([code, *said]), flush=True)
"""
Forked = Callable[..., Ran]


@contextlib.contextmanager
def forking(
    python: Path | str, env: Mapping[str, str], *modules: str, kilobytes: int | None = None
) -> Iterator[Forked]:
    """Start the process, with these modules or with all; what is given runs one command line in a child of it.

    With `kilobytes` no child may have more of address space.
    """
    argv = [str(python), "-c", DRIVER, *modules]
    argv = argv if kilobytes is None else ["sh", "-c", f'ulimit -v {kilobytes}; exec "$@"', "sh", *argv]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        sent, answers = process.stdin, process.stdout

        def run_one(*argv: str, cwd: Path, env: Mapping[str, str] = env, stdin: str = "") -> Ran:
            sent.write(json.dumps([argv, str(cwd), dict(env), stdin]) + "\n")
            sent.flush()
            return Ran(*json.loads(answers.readline()))

        yield run_one
