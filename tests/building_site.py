"""Build the site of the documentation for a test; where its tool is not installed, the test skips and says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stage import stage

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / ".venv-docs"
# `python -m sphinx` with a collector of garbage that does not walk all pages again and again.
SPHINX = "import gc, sys; gc.set_threshold(200_000, 20, 20); from sphinx.cmd.build import main; sys.exit(main())"


def require_tool() -> None:
    """Skip where `make site-tool` could not install Sphinx."""
    if not (TOOLS / ".ready").exists():
        pytest.skip("the tool that makes the site is not here: make site-tool installs it")


def build_site(folder: Path) -> Path:
    """Return the folder of a site built as `make docs` builds it: every warning is an error."""
    require_tool()
    source, out = folder / "source", folder / "site"
    stage(source)
    argv = [f"{TOOLS}/bin/python", "-c", SPHINX, "-W", "-n", "-q", "-E", "--keep-going", "-b", "html"]
    argv += ["-d", f"{folder}/doctrees", "-c", f"{ROOT}/docs/site", str(source), str(out)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    return out
