"""How often a request brings in what it must and leaves out what it must not, and what a context costs."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from doctrine.load import shipped_artifacts, shipped_bundle
from retrieval.judging import BASELINE, CASES, judge
from support import cpu_of, environment, git, paired

Say = Callable[[str], None]


def test_the_hit_rate_of_retrieval(benchmark: Any, say: Say) -> None:
    score = benchmark.pedantic(judge, rounds=1)
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))["hit_rate"]
    say(
        f"retrieval: {score.rate} of {score.judgements} judgements on {len(CASES)} requests (baseline {baseline})"
        f" · {1000 * benchmark.stats.stats.median:.0f} ms"
    )
    for miss in score.misses:
        say(f"  missed: {miss}")

    assert score.rate >= baseline


def _shop(root: Path, home: Path, spec_kitty: str) -> None:
    """A project as `charter synthesize` leaves it, with 200 artifacts of 2 to 4 KB in which no sentence comes twice."""
    for path, text in {
        "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["psycopg"]\n',
        "src/shop/cart.py": "",
        "tests/test_cart.py": "",
        "migrations/001_orders.sql": "CREATE TABLE orders (id int);\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git(root, "init", "-q")
    argv = [spec_kitty, "charter", "synthesize", "--defaults"]
    subprocess.run(argv, cwd=root, env=environment(home), capture_output=True, check=True)
    rng = random.Random(7)
    words = re.findall(r"[\w-]+[,.:;]?", " ".join(item.body for item in shipped_artifacts(shipped_bundle())))
    for number in range(200):
        folder = root / ".kittify/doctrine" / ("directives" if number % 2 else "tactics")
        folder.mkdir(parents=True, exist_ok=True)
        body, size = "", rng.randint(2_000, 4_000)
        while len(body) < size:
            body += f"  {' '.join(rng.choices(words, k=rng.randint(20, 60)))}\n\n"
        title, keywords = " ".join(rng.choices(words, k=5)), ", ".join(f"x{rng.randrange(500)}" for _ in range(4))
        head = f"id: house-{number:03d}\ntitle: {json.dumps(title)}\ntags: [house]\nkeywords: [{keywords}]\n"
        (folder / f"house-{number:03d}.yaml").write_text(f"{head}body: |\n{body}")


@pytest.mark.parametrize(
    "request_text", ["review the SQL migration", "review how the checkout service retries a failed payment and logs it"]
)
def test_a_context_with_200_project_artifacts(
    benchmark: Any, tmp_path: Path, home: Path, spec_kitty: str, say: Say, request_text: str
) -> None:
    shop, plain = tmp_path / "shop", tmp_path / "plain"
    for root in (shop, plain):
        root.mkdir()
    git(plain, "init", "-q")
    _shop(shop, home, spec_kitty)
    argv = [spec_kitty, "do", request_text, "--json"]
    measured = benchmark.pedantic(
        lambda: paired(lambda: cpu_of(argv, shop, home), lambda: cpu_of(argv, plain, home), 15), rounds=1
    )
    say(
        f"do with a charter and 200 project artifacts of 3 KB: {measured.ours:.1f} ms CPU, "
        f"{measured.ours - measured.reference:.1f} ms, {measured.ratio:.2f} x, "
        f"beyond a project without a charter · {len(request_text.split())} words"
    )
