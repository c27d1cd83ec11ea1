"""Write `stores/`: each store that is not derived as this version writes it; run by hand, once for each new form.

    PYTHONPATH=tests python -m histories.stores tests/histories/stores/1

`2026-09.cold` is a packed month, `sealed.tar.xz` a copy that left encrypted and `keys` what opens it, `proofs.tar.xz`
an archive with proofs, `accepted.json` what a person accepted, `packs.lock` a pinned pack.
"""

from __future__ import annotations

import lzma
import shutil
import sys
import tempfile
from pathlib import Path

from specify_cli.invocation.executor import ProfileInvocationExecutor
from support import Ran, accept, git, run_main

SEPTEMBER = 1_789_430_400_000_000_000
REQUEST = "fix the login test of ada@example.org"


def write_stores(folder: Path) -> None:
    """Write every store below a folder that is not there yet."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        root, home = Path(place) / "p", Path(place) / "home"
        home.mkdir()
        root.mkdir()
        git(root, "init", "-q")
        (root / ".kittify").mkdir()
        (root / ".kittify/config.yaml").write_text("capture: {sealed: per-record}\n")
        accept(root)

        def run(*argv: str) -> Ran:
            ran = run_main(list(argv), cwd=root, home=home)
            assert ran.code == 0, (argv, ran.err)
            return ran

        executor = ProfileInvocationExecutor(root, home=str(home), clock=lambda: SEPTEMBER)
        one = executor.invoke(REQUEST).invocation_id
        executor.complete(one)
        run("invocations", "export", one, "--output", str(folder / "sealed.tar"))
        shutil.copytree(root / ".git/kittify/sealed", folder / "keys")
        shutil.copy(root / ".git/kittify/accepted.json", folder)
        run("trail", "checkpoint")
        run("invocations", "export", one, "--proofs", "--output", str(folder / "proofs.tar"))
        pack = Path(place) / "rules"
        (pack / "directives").mkdir(parents=True)
        (pack / "pack.yaml").write_text("id: rules\nversion: '1'\n")
        (pack / "directives/one.directive.yaml").write_text("id: one\ntitle: One\nintent: Keep it small.\n")
        run("packs", "add", str(pack))
        shutil.copy(root / ".kittify/packs.lock", folder)
        run("cold", "pack")
        (archive,) = (root / ".kittify").rglob("*.cold")
        shutil.copy(archive, folder)
        for path in folder.glob("*.tar"):
            path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
            path.unlink()


if __name__ == "__main__":
    write_stores(Path(sys.argv[1]))
