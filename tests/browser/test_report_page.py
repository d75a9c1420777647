# SPDX-License-Identifier: Apache-2.0
"""A report as a reader sees it: on a desk and on a phone, light and dark."""

import pytest
from chromium import CHROMIUM, Browser

from conftest import run
from pictures import make_folder

PHONE, DESK = 360, 1280
# WCAG 2.2, level AA, for text of ordinary size.
LEAST_CONTRAST = 4.5
WIDTHS_AND_SCHEMES = [(w, s) for w in (PHONE, DESK) for s in ("light", "dark")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.fail("chromium is not installed; make test-report installs it")
    return Browser(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with something in every part: a long name, a bad picture, findings."""
    folder = tmp_path_factory.mktemp("data") / ("a_long_name_without_a_blank_" * 4)
    make_folder(folder)
    (folder / "cat" / "bad.jpg").write_bytes(b"no picture")
    file = folder.parent / "report.html"
    args = ("--batch", 4, "--seconds", 1, "--on-error", "replace", "--out", file)
    done = run("report", folder, *args, "--quarantine", folder.parent / "bad.jsonl")
    assert done.code == 0, done.err
    return file


@pytest.mark.parametrize(("width", "scheme"), WIDTHS_AND_SCHEMES)
def test_nothing_sticks_out(browser, page, width, scheme):
    found = browser.look(page, width, scheme)
    assert found["width"] == width
    assert found["scrollWidth"] <= width, found["outside"]
    assert found["outside"] == []
    assert found["cut"] == [], "of the charts' words and numbers"


@pytest.mark.parametrize(("width", "scheme"), WIDTHS_AND_SCHEMES)
def test_all_text_can_be_read(browser, page, width, scheme):
    found = browser.look(page, width, scheme)
    assert len(found["texts"]) > 50
    assert [one for one in found["texts"] if one["contrast"] < LEAST_CONTRAST] == []
    assert (sum(found["background"][:3]) < 150) == (scheme == "dark")


def test_pictures_and_charts_are_there(browser, page):
    found = browser.look(page, DESK, "light")
    assert found["images"] > 0
    assert found["brokenImages"] == 0
    assert len(found["charts"]) == 3
    assert min(found["charts"]) > 100


def test_it_asks_nobody_for_anything(browser, page):
    requests = browser.look(page, DESK, "light")["requests"]
    assert [one for one in requests if not one.startswith("data:")] == []
