"""The page in a real browser: silent, whole, and readable on a phone and a desk, light and dark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report import verdicts
from report.browser import Browser, browser
from report.test_report_page import hostile

from unlabel.audit import Verdict
from unlabel.report.page import page

__all__ = ["browser"]  # a fixture

PHONE, DESK = (390, 844), (1280, 900)
#: A4 less the margins, at 96 dots an inch.
PAPER = (672, 986)
PURGED = {"active": "2026-11-16T07:21:00+00:00", "left": "2026-11-16T07:21:01+00:00", "right": None}

#: Sentences about words that cover or leave what they belong to, and blocks that cover each other.
OVERLAPS = """(() => {
  const found = [], box = e => e.getBoundingClientRect();
  const cover = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
                       && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  const pairs = (things, what) => things.forEach((one, i) => things.slice(i + 1).forEach(two => {
    if (cover(box(one), box(two)))
      found.push(what + ': ' + one.textContent.slice(0, 40) + ' / ' + two.textContent.slice(0, 40));
  }));
  for (const chart of document.querySelectorAll('svg.chart')) {
    const words = [...chart.querySelectorAll('text')], edge = box(chart);
    pairs(words, 'words');
    for (const word of words) {
      const at = box(word);
      if (at.left < edge.left - 1 || at.right > edge.right + 1
          || at.top < edge.top - 1 || at.bottom > edge.bottom + 1)
        found.push('outside: ' + word.textContent);
    }
  }
  const shown = e => box(e).width > 1 && box(e).height > 1;
  for (const parent of document.querySelectorAll(
      'body, main, header, section, div, ul, ol, figure, table, tbody, tr, td, dl, li, details'))
    pairs([...parent.children].filter(shown), parent.tagName);
  for (const e of document.querySelectorAll('h1, h2, h3, p, li, td, th, dt, dd, summary, figure'))
    if (e.scrollWidth > e.clientWidth + 1 && shown(e.closest('thead') ?? e))
      found.push('too wide: ' + e.textContent.slice(0, 40));
  return found;
})()"""

#: The lowest contrast of any words with what they stand on, as WCAG counts it.
CONTRAST = """(() => {
  const parts = c => [...c.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const light = c => c.slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = e => { for (; e; e = e.parentElement) {
    const c = parts(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
    return [255, 255, 255, 1]; };
  const words = 'h1, h2, h3, p, li, td, th, dt, dd, span, summary, text, figcaption';
  let worst = [99, ''];
  for (const e of document.querySelectorAll(words)) {
    if (!e.textContent.trim() || e.classList.contains('patch')) continue;
    const style = getComputedStyle(e);
    const a = light(parts(e.tagName === 'text' ? style.fill : style.color)), b = light(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, e.className + ' ' + e.textContent.slice(0, 40)];
  }
  return worst;
})()"""


def long_names() -> Verdict:
    """Return a verdict whose labels and parties have names that fit nowhere."""
    full = verdicts.full()
    names = [f"{name} of a kind that nobody could have foreseen" for name in verdicts.NAMES]
    lanes = {f"{party} hand side of the federation": m for party, m in full.messages.items()}
    return replace(
        full,
        labels=("unforeseeable" * 6,),
        pictures={**full.pictures, "labels": names},
        messages=lanes,
        request="9" * 64,
    )


VERDICTS = {
    "full": verdicts.full(),
    "bare": verdicts.bare(),
    "quiet": verdicts.top_only(),
    "long": long_names(),
    "hostile": hostile(),
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, verdict in VERDICTS.items():
        (folder / f"{name}.html").write_text(page(verdict, PURGED), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in VERDICTS}


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize(
    ("name", "scheme"), [*((name, "light") for name in VERDICTS), ("full", "dark")]
)
def test_the_page_is_silent_whole_and_nothing_overlaps(
    browser: Browser, pages: dict[str, Path], name: str, size: tuple[int, int], scheme: str
) -> None:
    browser.show(pages[name], *size, scheme)
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].as_uri()]
    drawn = browser.ask(
        "[...document.querySelectorAll('svg.chart')].map(e => e.getBoundingClientRect())"
        ".map(b => [b.width, b.height])"
    )
    expected = page(VERDICTS[name]).count('<svg role="img"')
    assert len(drawn) == expected
    assert (expected > 10) == (name != "bare")
    assert all(width > 200 and height > 60 for width, height in drawn)
    for opened in (False, True):  # the tables behind the pictures, shut and open
        browser.ask(
            f"document.querySelectorAll('details').forEach(e => e.open = {str(opened).lower()})"
        )
        assert browser.ask(OVERLAPS) == []
        wide = "[document.documentElement.scrollWidth, document.body.scrollWidth]"
        assert max(browser.ask(wide)) <= size[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_stand_out_from_what_they_stand_on(
    browser: Browser, pages: dict[str, Path], scheme: str
) -> None:
    browser.show(pages["full"], *DESK, scheme)
    ratio, where = browser.ask(CONTRAST)
    assert ratio >= 4.5, where  # what WCAG asks of small letters
    back = browser.ask("getComputedStyle(document.body).backgroundColor")
    darkness = sum(int(part) for part in back.removeprefix("rgb(").rstrip(")").split(","))
    assert (darkness < 384) == (scheme == "dark")


def test_the_verdict_is_seen_without_scrolling(browser: Browser, pages: dict[str, Path]) -> None:
    for size in (PHONE, DESK):
        browser.show(pages["full"], *size)
        bottom = "document.querySelector('.demand').getBoundingClientRect().bottom"
        assert browser.ask(bottom) <= size[1]


def test_nothing_that_a_user_wrote_is_run(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["hostile"], *DESK)
    assert browser.ask("document.scripts.length + document.images.length") == 0
    assert "<script>" in browser.ask("document.querySelector('.subject').textContent")


def test_on_paper_every_table_is_there_and_the_ground_is_white(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages["full"], *PAPER)
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.ask(OVERLAPS) == []
    heights = browser.ask(
        "[...document.querySelectorAll('details table')].map(e => e.getBoundingClientRect().height)"
    )
    assert len(heights) == 7
    assert min(heights) > 40
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_what_looks_for_overlaps_finds_them(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["full"], *DESK)
    browser.ask("document.querySelectorAll('#accuracy text').forEach(e => e.setAttribute('y', 50))")
    assert any(found.startswith("words: ") for found in browser.ask(OVERLAPS))
    browser.show(pages["full"], *DESK)
    browser.ask("document.querySelector('.meaning').style.marginBottom = '-60px'")
    assert any(found.startswith("SECTION: ") for found in browser.ask(OVERLAPS))
    browser.show(pages["full"], *PHONE)
    browser.ask("document.querySelector('.meaning').style.whiteSpace = 'nowrap'")
    assert any(found.startswith("too wide: ") for found in browser.ask(OVERLAPS))
