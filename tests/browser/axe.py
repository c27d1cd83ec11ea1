"""axe-core over a page that a browser shows: faults that keep people out, as axe grades them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from browser.chromium import Browser

SOURCE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
_RUN = """
window.axeFound = null;
axe.run(document, {iframes: false}).then((found) => {
  window.axeFound = found.violations.filter((item) => ["serious", "critical"].includes(item.impact))
    .map((item) => `${item.id}: ${item.nodes.slice(0, 3).map((one) => one.html.slice(0, 99)).join(" | ")}`);
}, (error) => { window.axeFound = [`axe: ${error}`]; });
"""


def find_faults(browser: Browser) -> list[str]:
    """Return what axe calls serious or critical; skips where axe-core is not installed."""
    if not SOURCE.is_file():
        pytest.skip("axe-core is not here: make browser installs it with npm")
    browser.value(f"{SOURCE.read_text(encoding='utf-8')}; undefined")
    browser.value(f"{_RUN}; undefined")
    for _ in range(300):
        found = browser.value("window.axeFound")
        if found is not None:
            return list(found)
        time.sleep(0.1)
    return ["axe did not end"]
