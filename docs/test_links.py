"""Every link between our pages leads somewhere, to a file and to a heading in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "results").glob("*.md"),
        *(ROOT / "deploy").glob("*.md"),
    ]
)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def anchor(heading: str) -> str:
    """Return a heading's anchor as GitHub makes it.

    >>> anchor("`mixup-ascent`, and (2) more")
    'mixup-ascent-and-2-more'
    """
    kept = re.sub(r"[^\w\- ]", "", heading.lower())
    return kept.replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the anchors of a page; what looks like a heading in a block of code is none."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return {anchor(heading) for heading in HEADING.findall(outside)}


def broken(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    found = []
    text = page.read_text(encoding="utf-8")
    # Code spans go, except those that are the words of a link, as in [`deep`](#deep).
    for target in LINK.findall(CODE.sub("", text)):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (heading and heading not in anchors(there.read_text("utf-8"))):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_what_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `place` in it\n\n```\n# not a heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-place-in-it) [`c`](#here) [d](https://x.example/y)\n"
        "[e](gone.md) [f](there.md#not-a-heading) ![g](img/gone.png) [h](#away) `[i](gone.py)`\n\n"
        "## Here\n"
    )
    assert broken(page) == ["gone.md", "there.md#not-a-heading", "img/gone.png", "#away"]


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = {target.partition("#")[0] for target in LINK.findall(readme)}
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")}
    assert pages - linked == set()


def test_every_test_and_source_that_a_page_names_exists() -> None:
    pages = [
        page.read_text(encoding="utf-8") for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
    ]
    paths = {path for text in pages for path in re.findall(r"`((?:tests|docs)/[\w/]+\.py)`", text)}
    assert [path for path in sorted(paths) if not (ROOT / path).is_file()] == []
    rooms = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    sources_named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", rooms)) - paths
    package = ROOT / "src" / "unlabel"
    assert [path for path in sorted(sources_named) if not (package / path).is_file()] == []
    named = {name for text in pages for name in re.findall(r"`(test_\w{12,})`", text)}
    sources = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "docs").glob("test_*.py")]
    defined = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert [name for name in sorted(named) if f"def {name}(" not in defined] == []
