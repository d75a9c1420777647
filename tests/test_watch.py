# SPDX-License-Identifier: Apache-2.0
"""What a running loader shows of itself: a trace, ranges for profilers, metrics."""

import json
import re
import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from stub_gpus import STUBS, machine, needs_stubs  # noqa: F401
from watching import loading, wait_until

from conftest import HANG_SECONDS, REPOSITORY, run
from pictures import make_folder

LOAD = ("bench", "loader", "--batch", 4)


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "data")


def address_of(process):
    """Where the metrics of a loader are, as it says on its standard error."""
    line = process.stderr.readline().decode()
    return re.search(r"http://\S+", line).group()


def fetch(address):
    with urllib.request.urlopen(address, timeout=HANG_SECONDS) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def sample(families, name, **labels):
    (found,) = [
        one.value
        for family in families
        for one in family.samples
        if one.name == name and all(one.labels.get(k) == v for k, v in labels.items())
    ]
    return found


def test_a_trace_of_the_command_is_json_with_all_stages(folder, tmp_path):
    file = tmp_path / "trace.json"
    run("bench", "loader", folder, "--batch", 4, "--epochs", 3, "--json", "--trace", file).json()
    trace = json.loads(file.read_text())
    groups = {one["args"]["name"] for one in trace if one["name"] == "process_name"}
    assert {"1 I/O prefetch", "2 decode and augment", "4 training"} <= groups
    assert {one["ph"] for one in trace} >= {"X", "C", "b", "e", "s", "t", "f", "M"}
    assert trace[-1]["args"]["dropped_events"] == 0


def test_a_trace_is_whole_after_ctrl_c(folder, tmp_path):
    file = tmp_path / "trace.json"
    with loading(folder, "--trace", file):
        wait_until(lambda: file.exists() and file.stat().st_size > 10_000)
    assert json.loads(file.read_text())[-1]["name"] == "end of the trace"


def test_a_trace_that_can_not_be_written_is_an_error(folder, tmp_path):
    message = run(*LOAD, folder, "--trace", tmp_path / "absent" / "t.json").error(3)
    assert "absent/t.json: open: No such file or directory; name a trace file" in message
    message = run(*LOAD, folder, "--epochs", 1, "--trace", "/dev/full").error(3)
    assert "/dev/full: write: No space left on device" in message


def test_metrics_are_what_a_real_parser_reads(folder):
    with loading(folder, "--metrics", "0") as process:
        address = address_of(process)
        assert address.startswith("http://127.0.0.1:"), "nobody else may ask, unless told so"
        wait_until(lambda: "feedrace_batches_total 0\n" not in fetch(address)[1])
        kind, text = fetch(address)
        families = list(text_string_to_metric_families(text))
        later = list(text_string_to_metric_families(fetch(address)[1]))
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert sample(families, "feedrace_samples_total") > 0
    for stage in ("io", "decode", "consumer"):
        assert sample(families, "feedrace_stage_busy_seconds_total", stage=stage) >= 0
    assert sample(families, "feedrace_loader_info", data=str(folder)) == 1
    (latency,) = [one for one in families if one.name == "feedrace_read_latency_seconds"]
    assert latency.type == "histogram"
    assert all(one.documentation for one in families)
    for family in families:
        for one in family.samples:
            if one.name.endswith("_total"):
                assert sample(later, one.name, **one.labels) >= one.value, "a counter only grows"


def test_all_metrics_are_in_the_docs(folder):
    page = (REPOSITORY / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(feedrace_\w+)`", page, re.MULTILINE))
    with loading(folder, "--metrics", "0") as process:
        families = list(text_string_to_metric_families(fetch(address_of(process))[1]))
    suffixes = {"counter": "_total", "info": "_info"}
    served = {one.name + suffixes.get(one.type, "") for one in families}
    assert served <= documented
    elsewhere = documented - served
    assert all(re.search("_(device|shared_cache|queue)_", name) for name in elsewhere), elsewhere


def test_metrics_are_off_unless_asked_for_and_end_with_the_loader(folder):
    with loading(folder, "--metrics", "127.0.0.1:0") as process:
        address = address_of(process)
        fetch(address)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address.replace("/metrics", "/etc/passwd"))
    with pytest.raises(urllib.error.URLError):
        fetch(address)


def test_hostile_clients_do_no_harm(folder):
    with loading(folder, "--metrics", "0") as process:
        address = address_of(process)
        port = int(re.search(r":(\d+)/", address).group(1))
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        for client in slow:
            client.sendall(b"GET /metr")
        before = fetch(address)[1]
        wait_until(lambda: fetch(address)[1] != before)  # The loader goes on, too.
        for client in slow:
            client.close()


@pytest.mark.parametrize("address", ["x", "70000", "10.0.0.1", "example.org:80"])
def test_what_is_no_address_is_refused(folder, address):
    message = run(*LOAD, folder, "--metrics", address).error(2, 3)
    assert "metrics: " in message


@needs_stubs
def test_profilers_see_what_each_thread_does(folder, machine, tmp_path):  # noqa: F811
    made = machine()
    ranges = tmp_path / "ranges"
    made.environment["NVTX_INJECTION64_PATH"] = str(STUBS / "libnvtx_tool.so")
    made.environment["FEEDRACE_STUB_RANGES"] = str(ranges)
    args = ("bench", "loader", folder, "--batch", 4, "--epochs", 2, "--device", "cuda:0", "--json")
    assert made.run(*args).json()["images_per_second"] > 0
    open_ranges, seen = {}, set()
    for line in ranges.read_text().splitlines():
        thread, call, *name = line.split(maxsplit=2)
        assert call in ("domain", "push", "pop")
        if call == "domain":
            assert name == ["feedrace"]
            continue
        stack = open_ranges.setdefault(thread, [])
        if call == "pop":
            stack.pop()
        else:
            seen.add(*name)
            stack.append(*name)
    assert not any(open_ranges.values()), "each range is ended by its thread"
    assert seen >= {"decode and augment", "decode and copy", "next(): wait for a batch"}
    assert seen >= {"choose and submit", "wait for storage"}
