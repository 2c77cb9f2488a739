"""The HTML report in a real browser: readable in both schemes, by keyboard, on a phone, offline."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, sync_playwright

from journal import Reader
from reports.build import build_report
from reports.render.html import render_html
from tests.support import stories

pytestmark = pytest.mark.needs("chromium")
CONTRAST_MIN = 4.5

# For every element with text of its own: the contrast of its colour with the nearest background.
CONTRASTS = """
() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const f = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const behind = e => { for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const found = [];
  for (const e of document.querySelectorAll('body *:not(svg):not(svg *):not(script)')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility()) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(behind(e));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.tagName + '.' + e.className]);
  }
  return found;
}
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    reader = Reader.open(stories.second_interrupt(folder / "j.journal", folder / "keys"))
    path = folder / "report.html"
    path.write_text(render_html(build_report(reader)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_the_page_is_readable_and_quiet(
    browser: Browser, page_file: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=True
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert said == []
    assert asked == [page_file.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    weak = [pair for pair in page.evaluate(CONTRASTS) if pair[0] < CONTRAST_MIN]
    assert weak == []
    context.close()


def test_a_label_leads_to_the_raw_event_without_scripts(browser: Browser, page_file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_file.as_uri())
    label = page.locator("#summary a.ref").first
    target = page.locator(label.get_attribute("href") or "")
    assert not target.is_visible()
    label.click()
    assert target.is_visible()
    assert (label.inner_text().strip("[]").split("·")[1]) in target.inner_text()
    context.close()


# Clicks every label once; gives how many there were and those that showed no evidence of their own.
CLICKS = """
async () => {
  const seen = new Map();
  for (const a of document.querySelectorAll('a.ref')) seen.set(a.getAttribute('href'), a);
  const lost = [];
  for (const [href, a] of seen) {
    a.click();
    await new Promise(requestAnimationFrame);
    const target = document.querySelector(href);
    const leaf = a.textContent.replace(/[\\[\\]]/g, '').split('·')[1];
    if (!target || !target.checkVisibility() || !target.textContent.includes(leaf))
      lost.push(a.textContent);
  }
  return [seen.size, lost];
}
"""


def test_every_label_of_the_report_opens_its_own_event(browser: Browser, page_file: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(page_file.as_uri())
    clicked, lost = page.evaluate(CLICKS)
    assert clicked > 20
    assert lost == []
    context.close()


def test_the_keyboard_reaches_the_report_first_and_then_the_sections(
    browser: Browser, page_file: Path
) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    focused = "document.activeElement.getAttribute('href') || document.activeElement.tagName"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "#report"
    seen: list[str] = []
    while "#conclusion" not in seen and len(seen) < 60:
        page.keyboard.press("Tab")
        seen.append(page.evaluate(focused))
    assert "#summary" in seen
    assert "#conclusion" in seen
    page.close()


def test_headings_do_not_skip_a_level_and_the_landmarks_are_there(
    browser: Browser, page_file: Path
) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    levels = page.eval_on_selector_all("h1,h2,h3,h4", "all => all.map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    for landmark in ("header", "nav", "main"):
        assert page.locator(landmark).count() == 1
    assert page.locator("svg title").count() >= 2
    page.close()


def test_the_printed_page_has_every_section(browser: Browser, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator("#conclusion").is_visible()
    page.close()
