# SPDX-License-Identifier: Apache-2.0
"""`feedrace report`: one page that needs nothing beside itself."""

import html.parser
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import run
from pictures import make_folder


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "data")


class Page(html.parser.HTMLParser):
    """What a page asks others for, and what it says."""

    def __init__(self, text):
        super().__init__()
        self.asked, self.tags, self.headings, self._in = [], set(), [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self._in = tag
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "action", "poster"):
                self.asked.append(value)

    def handle_data(self, data):
        if self._in == "h2" and data.strip():
            self.headings.append(data)


@pytest.fixture
def report(folder, tmp_path):
    (folder / "cat" / "bad.jpg").write_bytes(b"no picture")
    file = tmp_path / "report.html"
    args = (
        "report",
        folder,
        "--batch",
        4,
        "--seconds",
        0.5,
        "--out",
        file,
        "--on-error",
        "replace",
    )
    done = run(*args, "--quarantine", tmp_path / "bad.jsonl")
    assert done.code == 0, done.err
    return file.read_text()


def test_a_report_needs_nothing_beside_itself(report):
    page = Page(report)
    assert page.asked, "it has pictures"
    assert all(one.startswith("data:image/png;base64,") for one in page.asked)
    assert "url(" not in report
    assert "@import" not in report
    assert not page.tags & {"script", "link", "iframe", "object", "embed", "base"}


def test_a_report_is_well_formed_and_whole(report):
    ElementTree.fromstring(report.removeprefix("<!DOCTYPE html>"))
    headings = " ".join(Page(report).headings)
    for part in ("Throughput", "Stages", "Latency", "Contact sheet", "Bytes by the path", "Errors"):
        assert part in headings
    for part in ("Plan", "doctor", "Machine"):
        assert part in headings
    assert "bad.jpg" in report, "what is bad stands there"
    assert "prefers-color-scheme:dark" in report
    assert "width=device-width" in report


def table_of(report, kind):
    """Rows of cells of the table of that class."""
    page = ElementTree.fromstring(report.removeprefix("<!DOCTYPE html>"))
    (table,) = (one for one in page.iter("table") if one.get("class") == kind)
    rows = table.find("tbody").iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def test_a_report_has_the_verdict_in_parts(report):
    headings = " ".join(Page(report).headings)
    for part in ("What to do", "What each part could give alone", "Evidence"):
        assert part in headings
    parts = {row[0]: row[1:] for row in table_of(report, "ceilings")}
    assert parts.pop("this run")[0] != "0"
    assert parts
    assert {known for _, known in parts.values()} == {"from this run"}


def test_evidence_has_a_row_for_each_stage(report):
    rows = table_of(report, "stages")
    assert [row[0].split()[0] for row in rows] == ["io", "decode", "consumer"]
    assert report.count('class="limits"') <= 1
    for row in rows:
        _, threads, busy, waiting, _, level, takes = row
        assert int(threads) >= 1
        assert abs(int(busy.split()[0]) + int(waiting.split()[0]) - 100) <= 1
        assert level.split()[1:] in (
            ["reads", "in", "flight"],
            ["samples", "to", "decode"],
            ["batches", "ready"],
        )
        assert " ms a " in takes


def test_names_can_not_break_out_of_a_report(tmp_path):
    folder = make_folder(tmp_path / '<script>alert("x")&')
    file = tmp_path / "report.html"
    assert run("report", folder, "--batch", 4, "--seconds", 0.2, "--out", file).code == 0
    ElementTree.fromstring(file.read_text().removeprefix("<!DOCTYPE html>"))
    assert "<script" not in file.read_text()


def test_a_run_without_any_batch_has_a_report_too(tmp_path):
    folder = tmp_path / "data"
    (folder / "cat").mkdir(parents=True)
    for name in ("a", "b", "c", "d"):
        (folder / "cat" / f"{name}.jpg").write_bytes(b"no picture")
    file = tmp_path / "report.html"
    done = run("report", folder, "--batch", 4, "--seconds", 0.5, "--out", file)
    assert done.code == 1, done.err
    assert "the run ended by an error: " in done.out.decode()
    page = file.read_text()
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert "not a picture" in page
