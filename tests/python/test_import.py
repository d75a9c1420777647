# SPDX-License-Identifier: Apache-2.0
"""What importing the package pulls in, and what it offers."""

import os
import subprocess
import sys
import textwrap

import pytest

import feedrace as fr

FRAMEWORKS = ("torch", "torchvision", "jax", "numpy", "PIL", "tqdm", "rich", "logging")


def modules_after(script=""):
    """The modules of a fresh interpreter that imported the package and ran a script."""
    code = "import sys\nimport feedrace\n" + textwrap.dedent(script)
    code += "\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_it_imports_no_framework():
    modules = modules_after()
    assert "feedrace._feedrace" in modules
    assert not modules & set(FRAMEWORKS)
    assert not {name for name in modules if name.startswith("nvidia")}


def test_describing_a_pipeline_imports_no_framework():
    script = """
        @feedrace.pipeline
        def described():
            jpeg, label = feedrace.fn.read("x")
            return feedrace.fn.resize(feedrace.fn.decode(jpeg), 8), label
        described.describe()
    """
    assert not modules_after(script) & set(FRAMEWORKS)


def test_functions_are_not_hidden_by_the_modules_of_their_names():
    script = """
        import feedrace.pipeline, feedrace.progress, feedrace.show, feedrace.loader
        from feedrace.pipeline import Pipeline
        assert feedrace.Pipeline is Pipeline
        for name in ("pipeline", "progress", "show"):
            assert type(getattr(feedrace, name)).__name__ == "function", name
        assert feedrace.fn.decode.__name__ == "decode"
    """
    modules_after(script)


def test_all_names_are_there():
    for name in fr.__all__:
        assert getattr(fr, name) is not None
    assert set(fr.__all__) <= set(dir(fr))
    assert fr.__version__[0].isdigit()
    assert "imagenet-train" in fr.recipe_names()


def test_modules_are_imported_when_asked_for():
    assert fr.transforms.translate.__name__ == "translate"
    with pytest.raises(
        AttributeError, match="no attribute 'imageloader'; did you mean ImageLoader"
    ):
        _ = fr.imageloader


def test_the_error_is_one_class_with_a_code():
    assert issubclass(fr.Error, RuntimeError)
    with pytest.raises(fr.Error) as caught:
        fr.ImageLoader("/nowhere/at/all")
    assert caught.value.code == "not_found"


def test_an_error_can_be_pickled():
    import pickle

    with pytest.raises(fr.Error) as caught:
        fr.ImageLoader("/nowhere/at/all")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.code) == (fr.Error, str(caught.value), "not_found")
