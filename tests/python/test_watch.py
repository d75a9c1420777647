# SPDX-License-Identifier: Apache-2.0
"""What a loader shows of itself to others: a trace, metrics, its socket."""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import feedrace as fr
from small_loaders import error_of, loader_of


def events(path):
    return json.loads(Path(path).read_text())


def names(path, phase="X"):
    return {event["name"] for event in events(path) if event["ph"] == phase}


def test_a_trace_lasts_as_long_as_its_with(folder, tmp_path):
    loader = loader_of(folder, batch_size=4)
    with loader.trace(tmp_path / "one.json") as trace:
        batches = len(list(loader))
    assert trace.path == str(tmp_path / "one.json")
    assert {"decode and augment", "train", "next(): wait for a batch"} <= names(trace.path)
    taken = [event for event in events(trace.path) if event["ph"] == "f"]
    assert len(taken) == batches


def test_a_trace_can_be_stopped_and_another_begun(folder, tmp_path):
    loader = loader_of(folder, batch_size=4)
    trace = loader.trace(str(tmp_path / "a.json"))
    list(loader)
    assert "is being written already" in error_of(loader.trace, tmp_path / "b.json")
    trace.stop()
    trace.stop()
    with loader.trace(tmp_path / "b.json"):
        list(loader)
    assert "train" in names(tmp_path / "a.json") & names(tmp_path / "b.json")


def test_a_trace_ends_with_its_loader(folder, tmp_path):
    with loader_of(folder, batch_size=4) as loader:
        trace = loader.trace(tmp_path / "one.json")
        next(iter(loader))
    trace.stop()
    assert events(trace.path)[-1]["name"] == "end of the trace"


def test_a_trace_is_whole_when_the_loop_fails(folder, tmp_path):
    loader = loader_of(folder, batch_size=4)

    def fail():
        with loader.trace(tmp_path / "one.json"):
            for _ in loader:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert events(tmp_path / "one.json")[-1]["name"] == "end of the trace"


def test_a_trace_needs_a_file_that_can_be_written(folder, tmp_path):
    loader = loader_of(folder)
    assert "No such file or directory" in error_of(
        loader.trace, tmp_path / "no" / "t.json", code="io"
    )
    assert "file is 5; it must be a path" in error_of(loader.trace, 5)
    with pytest.raises(fr.Error, match="No space left on device"), loader.trace("/dev/full"):
        list(loader)


def test_metrics_are_read_by_prometheus(folder):
    with loader_of(folder, batch_size=4, metrics=0) as loader:
        list(loader)
        address = f"http://{loader.metrics_address}/metrics"
        with urllib.request.urlopen(address, timeout=60) as answer:
            text = answer.read().decode()
        assert loader.stats()["samples"] == 12
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["feedrace_samples"].samples[0].value == 12
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=60)


def test_metrics_are_off_unless_asked_for(folder):
    assert loader_of(folder).metrics_address == ""


def test_metrics_outlive_a_pause(folder):
    loader = loader_of(folder, batch_size=4, metrics="127.0.0.1:0")
    next(iter(loader))  # Dropped at once: all threads of the loader end but this one.
    urllib.request.urlopen(f"http://{loader.metrics_address}/metrics", timeout=60).close()


@pytest.mark.parametrize("port", [-1, 65536, 1.5, True, "nowhere", "1.2.3.4"])
def test_what_is_no_port_is_refused(folder, port):
    assert "metrics" in error_of(loader_of, folder, metrics=port)


def test_a_port_that_is_taken_is_an_error(folder):
    loader = loader_of(folder, metrics=0)
    message = error_of(loader_of, folder, metrics=loader.metrics_address, code="io")
    assert "take another port" in message


def sockets(runtime):
    folder = runtime / "feedrace"
    return list(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


def test_a_loader_has_a_socket_while_its_loop_runs(folder, runtime):
    loader = loader_of(folder, batch_size=4)
    assert sockets(runtime) == []
    iterator = iter(loader)
    next(iterator)
    (socket,) = sockets(runtime)
    assert socket.name.startswith(f"{os.getpid()}-")
    assert socket.stat().st_mode & 0o777 == 0o600
    iterator.close()
    assert sockets(runtime) == []


def test_a_loader_has_none_where_it_is_not_wanted(folder, runtime):
    list(loader_of(folder, live_socket=False))
    assert sockets(runtime) == []
    assert "live_socket" in error_of(loader_of, folder, live_socket="no")
