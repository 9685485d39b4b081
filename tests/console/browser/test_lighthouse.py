"""Lighthouse on two pages, and what makes a page quick on any machine: light, nothing that blocks or moves."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import PROGRAM_FOLDERS
from tests.console.browser.visitor import Console, Visitor

pytestmark = [pytest.mark.needs_chromium, pytest.mark.nightly]

PAGES = ("", "/transactions", "/phone", "/menus/shop")
# Each takes ten seconds; the other pages are built of the same parts, and axe looks at all of them.
AUDITED = ("/transactions", "/phone")
_PACKAGE = "lighthouse@12.8.2"
_LEAST = 0.95
_MOST_REQUESTS = 8
_MOST_BYTES = 120_000
# It checks loaded pages: to load a page itself, it would wait for an idle machine.
_AUDITOR = """
import fs from "node:fs";
import { snapshot } from "lighthouse";
import puppeteer from "puppeteer-core";

const { port, cookie, pages } = JSON.parse(fs.readFileSync(0, "utf8"));
const browser = await puppeteer.connect({ browserURL: `http://127.0.0.1:${port}`, protocolTimeout: 300000 });
const page = await browser.newPage();
await page.setExtraHTTPHeaders({ Cookie: cookie });
const scores = {};
for (const address of pages) {
  await page.goto(address, { waitUntil: "load", timeout: 0 });
  const { lhr } = await snapshot(page, {
    flags: { onlyCategories: ["accessibility", "best-practices"], logLevel: "error", disableFullPageScreenshot: true },
  });
  const failed = Object.values(lhr.audits).filter((each) => each.score !== null && each.score < 0.9);
  scores[address] = {
    accessibility: lhr.categories.accessibility.score, practices: lhr.categories["best-practices"].score,
    shown: lhr.finalDisplayedUrl, failed: failed.map((each) => each.id),
  };
}
console.log(JSON.stringify(scores));
await browser.disconnect();
"""
_MEASURE = """async () => {
  let moved = 0;
  const observer = new PerformanceObserver((list) => list.getEntries().forEach((entry) => { moved += entry.value; }));
  observer.observe({ type: "layout-shift", buffered: true });
  for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
  const page = performance.getEntriesByType("navigation")[0];
  const parts = performance.getEntriesByType("resource");
  return {
    moved,
    requests: parts.length + 1,
    bytes: [page, ...parts].reduce((sum, part) => sum + part.encodedBodySize, 0),
    blocking: parts.filter((part) => part.initiatorType === "script" && part.renderBlockingStatus === "blocking")
      .map((part) => part.name),
  };
}"""


@contextmanager
def _debuggable(visitor: Visitor, profile: Path) -> Iterator[int]:
    """A Chromium of its own; the port at which other programs steer it."""
    context = visitor.browser.browser_type.launch_persistent_context(
        profile,
        executable_path=shutil.which("chromium", path=PROGRAM_FOLDERS),
        args=["--no-sandbox", "--remote-debugging-port=0"],
    )
    written = profile / "DevToolsActivePort"
    while not written.exists() or "\n" not in written.read_text():
        context.pages[0].wait_for_timeout(50)
    yield int(written.read_text().split()[0])
    context.close()


def test_pages_are_light_and_nothing_on_them_blocks_or_moves(visitor: Visitor) -> None:
    for width in (360, 1400):
        with visitor.tab(width=width) as page:
            for path in PAGES:
                page.goto(f"/console{path}", wait_until="load")
                measured = page.evaluate(_MEASURE)
                assert measured["blocking"] == [], path
                assert measured["moved"] < 0.01, (path, width, measured)
                assert measured["requests"] <= _MOST_REQUESTS, (path, measured)
                assert measured["bytes"] <= _MOST_BYTES, (path, measured)


@pytest.mark.needs_node
@pytest.mark.timeout(600)
def test_lighthouse_finds_pages_accessible_and_well_made(visitor: Visitor, console: Console, tmp_path: Path) -> None:
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", _PACKAGE]
    subprocess.run(install, cwd=tmp_path, check=True, timeout=300)
    (tmp_path / "audit.mjs").write_text(_AUDITOR)
    with visitor.tab() as page:
        (cookie,) = (each for each in page.context.cookies() if each["name"] == "console")
    with _debuggable(visitor, tmp_path / "profile") as port:
        wanted = {
            "port": port,
            "cookie": f"console={cookie['value']}",
            "pages": [f"{console.base_url}/console{path}" for path in AUDITED],
        }
        audited = subprocess.run(
            ["node", "audit.mjs"],
            cwd=tmp_path,
            input=json.dumps(wanted),
            text=True,
            capture_output=True,
            timeout=500,
            check=False,
        )
    assert audited.returncode == 0, audited.stderr
    for address, scores in json.loads(audited.stdout).items():
        assert scores["shown"] == address
        assert scores["accessibility"] >= _LEAST, (address, scores)
        assert scores["practices"] >= _LEAST, (address, scores)
