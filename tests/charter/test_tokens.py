"""The estimate of tokens is never below what real vocabularies count, and never far above in prose."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from charter.tokens import estimate_tokens

ROOT = Path(__file__).parents[2]
JUDGE = ROOT / ".venv-judges/bin/python"
SCRIPTS = {
    "Chinese": "请在提交前运行所有测试。不要修改生成的文件。",
    "Russian": "Перед слиянием все тесты должны пройти. Нельзя удалять записи.",
    "German": "Vor dem Zusammenführen müssen alle Prüfungen bestanden sein; Änderungen sind unzulässig.",
    "Finnish": "Käyttäjäystävällisyyden varmistaminen edellyttää kokonaisvaltaista lähestymistapaa",
    "Arabic": "يجب أن تنجح جميع الاختبارات قبل الدمج",
    "Hindi": "सभी परीक्षण पास होने चाहिए",
    "emoji": "🚀🔥 ✅ fix 🎉",
    "hex": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 ",
    "key": "c2VjcmV0LWtleS1vZi1hLXRlc3Qtd2hpY2gtaXMtbm90LW9uZQ ",
    "letters": "xkqjvzwpt hgfdsrtyl qwrtzpsdf mnbvcxzlk ",
}
COUNT = """
import json, sys, bpe_openai
texts = json.load(sys.stdin)
encodings = [bpe_openai.get_encoding(name) for name in ("cl100k_base", "o200k_base")]
print(json.dumps([[len(encoding.encode(text)) for encoding in encodings] for text in texts]))
"""


def _texts() -> dict[str, str]:
    files = [
        *(ROOT / "src/doctrine/shipped").rglob("*.yaml"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "src/charter").glob("*.py"),
        *(ROOT / "docs/schemas").glob("*.json"),
    ]
    return {
        **{name: text * 10 for name, text in SCRIPTS.items()},
        **{str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")[:20_000] for path in files},
    }


def test_no_text_has_more_tokens_than_its_estimate() -> None:
    texts = _texts()
    done = subprocess.run(
        [str(JUDGE), "-c", COUNT], input=json.dumps(list(texts.values())), capture_output=True, text=True, check=False
    ) if JUDGE.exists() else None  # fmt: skip
    if done is None or done.returncode:
        pytest.skip("no package that ships vocabularies could be installed: make judges")
    counted = dict(zip(texts, json.loads(done.stdout), strict=True))
    estimates = {name: estimate_tokens(text) for name, text in texts.items()}
    prose = [name for name in texts if name.startswith("src/doctrine")]

    assert {} == {name: counts for name, counts in counted.items() if max(counts) > estimates[name]}
    assert {} == {name: counted[name] for name in prose if estimates[name] > 1.5 * max(counted[name])}


def test_parts_joined_by_a_blank_line_count_one_more() -> None:
    one, two = "Reproduce a fault before repairing it.", "- `pytest -q` passes"

    assert estimate_tokens(one) + estimate_tokens(two) + 1 == estimate_tokens(f"{one}\n\n{two}")
    assert 0 == estimate_tokens("")
