# SPDX-License-Identifier: Apache-2.0
"""fr.progress: every batch comes through, and something is shown of it."""

import importlib.util
import io
import sys

import pytest

import feedrace as fr
from feedrace.progress import Meter, count_samples
from small_loaders import thread_count, threads_fall_to

module = sys.modules["feedrace.progress"]
STYLES = ["tqdm", "rich", "plain", "none"]


@pytest.fixture
def loader(folder):
    return fr.ImageLoader(
        folder, batch_size=4, transform="imagenet-val", fields=("index", "image"), output="numpy"
    )


def needs(style):
    if style in ("tqdm", "rich") and importlib.util.find_spec(style) is None:
        pytest.skip(f"{style} is not installed")


@pytest.mark.parametrize("style", STYLES)
def test_every_batch_comes_through(loader, style, capsys):
    needs(style)
    seen = [index.tolist() for index, _ in fr.progress(loader, style=style)]
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    out, err = capsys.readouterr()
    assert out == ""
    if style == "none":
        assert err == ""
    else:
        for shown in ("epoch 0", "3/3", "images/s", "waiting"):
            assert shown in err
    list(fr.progress(loader, style=style, description="validation"))
    err = capsys.readouterr().err
    assert ("validation" in err) == (style != "none")


@pytest.mark.parametrize("style", STYLES)
def test_leaving_the_loop_ends_threads_and_bar(loader, style, capsys):
    needs(style)
    before = thread_count()
    for _ in fr.progress(loader, style=style):
        break
    assert threads_fall_to(before)
    assert [index.tolist() for index, _ in loader][0] == [0, 1, 2, 3]
    assert capsys.readouterr().out == ""


def test_an_error_comes_through(loader, capsys):
    def loop():
        for _ in fr.progress(loader, style="plain"):
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        loop()
    assert capsys.readouterr().err.endswith("\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("installed", "stream", "style"),
    [
        (("tqdm", "rich"), io.StringIO(), "tqdm"),
        (("rich",), io.StringIO(), "rich"),
        ((), Terminal(), "plain"),
        ((), io.StringIO(), "none"),
        ((), None, "none"),
    ],
)
def test_auto_takes_the_first_that_is_there(monkeypatch, installed, stream, style):
    monkeypatch.setattr(module, "_is_installed", lambda name: name in installed)
    monkeypatch.setattr(sys, "stderr", stream)
    assert module._installed_style() == style


def test_what_it_refuses(monkeypatch, loader):
    with pytest.raises(fr.Error, match="it got \\[1, 2\\]; give it an ImageLoader"):
        fr.progress([1, 2])
    with pytest.raises(fr.Error, match="style is 'tqmd'; did you mean 'tqdm'?"):
        fr.progress(loader, style="tqmd")
    with pytest.raises(fr.Error, match="no argument 'stile'; did you mean 'style'?"):
        fr.progress(loader, stile="tqdm")
    with pytest.raises(fr.Error, match="description is 3; it must be a str"):
        fr.progress(loader, description=3)
    monkeypatch.setattr(module, "_is_installed", lambda name: False)
    with pytest.raises(fr.Error, match="style is 'rich', which is not installed; pip install rich"):
        fr.progress(loader, style="rich")


def test_rate_and_waiting_are_counted_from_the_first_batch(monkeypatch):
    times = iter([0.0, 5.0, 6.0, 7.0, 7.0, 9.0])
    monkeypatch.setattr(module, "monotonic", lambda: next(times))
    meter = Meter()
    meter.ask()
    meter.get(10)  # Five seconds of starting, which are nobody's waiting.
    assert meter.text() == "starting"
    meter.ask()
    meter.get(10)
    assert meter.text() == "5 images/s, waiting 50 %"
    meter.ask()
    meter.get(20)
    assert meter.text() == "8 images/s, waiting 75 %"


def test_samples_are_counted_by_the_first_member_with_a_length():
    assert count_samples(([1, 2, 3],), 7) == 3
    assert count_samples((4, (1, 2)), 7) == 2
    assert count_samples((), 7) == 7
