# SPDX-License-Identifier: Apache-2.0
"""`feedrace top`: what it finds by itself, and how it draws that."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios

import pytest
from stub_gpus import machine, needs_stubs  # noqa: F401
from watching import loading, wait_until

import mounts
from conftest import HANG_SECONDS, run, start
from pictures import make_folder


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "data")


@pytest.fixture
def runtime(tmp_path):
    """A run-time directory of the test's own, so that it sees no other loaders."""
    path = tmp_path / "run"
    path.mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(path)}


def test_top_finds_loaders_by_itself(folder, runtime):
    with loading(folder, env=runtime) as process:
        wait_until(lambda: top(runtime)["loaders"])
        (loader,) = top(runtime)["loaders"]
        assert loader["pid"] == process.pid
    assert loader["data"] == str(folder)
    assert set(loader["stages"]) == {"io", "decode", "consumer"}
    assert loader["samples_per_second"] > 0
    assert loader["verdict"]
    assert loader["read_latency"]["count"] > 0
    cached = loader["data_cached"]
    assert cached.get("samples") == 12 or "page cache" in cached["missing"]
    assert top(runtime)["loaders"] == []


def top(runtime):
    return run("top", "--once", "--seconds", 0.2, "--json", env=runtime).json()


@needs_stubs
def test_top_shows_what_gpus_do(machine, runtime):  # noqa: F811
    made = machine(devices=2)
    made.environment["XDG_RUNTIME_DIR"] = runtime["XDG_RUNTIME_DIR"]
    first, _ = made.run("top", "--once", "--seconds", 0.1, "--json").json()["gpus"]["devices"]
    assert (first["name"], first["busy_share"]) == ("GPU of the stub", 0.62)
    assert first["pcie_received_bytes_per_second"] == 2 << 20
    assert "decoder_share" not in first, "it does not tell"
    text = made.run("top", "--once", "--seconds", 0.1).out.decode()
    assert "gpu 1" in text
    assert "62 %" in text


def test_top_says_why_it_sees_no_gpu(runtime, tmp_path):
    found = run("top", "--once", "--seconds", 0.1, "--json", "--cuda-plugin", tmp_path, env=runtime)
    assert str(tmp_path) in found.json()["gpus"]["missing"]


def test_a_loader_without_a_run_time_directory_says_so_and_runs(folder, runtime, tmp_path):
    (tmp_path / "run" / "feedrace").mkdir(mode=0o777)
    os.chmod(tmp_path / "run" / "feedrace", 0o777)
    args = ("bench", "loader", folder, "--batch", 4, "--epochs", 2, "--json")
    found = run(*args, env=runtime).json()
    assert "feedrace top will not see this loader" in found["fallbacks"][0]["reason"]


def test_the_socket_of_a_killed_loader_is_removed(folder, runtime, tmp_path):
    sockets = tmp_path / "run" / "feedrace"
    process = start("bench", "loader", folder, "--seconds", 600, "--batch", 4, env=runtime)
    wait_until(lambda: sockets.exists() and list(sockets.iterdir()))
    process.kill()
    process.communicate()
    (stale,) = sockets.iterdir()
    os.utime(stale, (0, 0))  # Else it might be about to listen.
    assert top(runtime)["loaders"] == []
    assert list(sockets.iterdir()) == []


@pytest.mark.parametrize("columns", [1, 20, 80])
def test_top_draws_on_a_terminal_of_any_width(folder, runtime, columns):
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with loading(folder, env=runtime):
        process = start("top", "--seconds", 0.1, stdout=follower, env={**runtime, "TERM": "xterm"})
        os.close(follower)
        seen = b""
        while seen.count(b"\033[J") < 3:
            assert select.select([leader], [], [], HANG_SECONDS)[0], "it draws nothing"
            seen += os.read(leader, 65536)
        process.send_signal(signal.SIGINT)
        process.wait(HANG_SECONDS)
    os.close(leader)
    assert process.returncode == 0
    frame = seen.split(b"\033[H")[2].replace(b"\033[K", b"").replace(b"\033[J", b"")
    assert all(len(line.rstrip("\r")) <= columns for line in frame.decode().split("\n"))


def test_top_finds_loaders_that_have_no_run_time_directory(folder, runtime):
    without = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
    with loading(folder, env=without) as process:
        wait_until(lambda: process.pid in [one["pid"] for one in top(runtime)["loaders"]])


def test_top_tells_how_much_of_the_data_is_cached(folder, runtime):
    args = ("--page-cache", "keep")
    with loading(folder, *args, env=runtime):
        wait_until(lambda: top(runtime)["loaders"])
        cached = top(runtime)["loaders"][0]["data_cached"]
    if "missing" in cached:
        pytest.skip(cached["missing"])
    assert cached["share"] == 1, "it was written just now, and read"


def test_top_goes_on_when_the_data_are_gone(tmp_path, runtime):
    data = make_folder(tmp_path / "short")
    with loading(data, "--on-error", "replace", "--error-budget", 1_000_000, env=runtime):
        wait_until(lambda: top(runtime)["loaders"])
        for picture in data.glob("*/*"):
            picture.unlink()
        found = top(runtime)["loaders"]
        # It may have ended by then; while it runs, nothing is said to be cached.
        assert all("share" not in one["data_cached"] for one in found)


def read_directly(path):
    """Reads a file past the page cache, so that the device is asked."""
    done = subprocess.run(
        ["dd", f"if={path}", "of=/dev/null", "bs=64k", "iflag=direct"], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("no file here can be read past the page cache")


def test_top_measures_the_block_layer_where_it_may(tmp_path):
    mounts.need_root()
    tracing = tmp_path / "sys" / "kernel" / "tracing"
    tracing.mkdir(parents=True)
    file = tmp_path / "file"
    file.write_bytes(os.urandom(4 << 20))
    os.sync()
    with mounts.mounted(tracing, "-t", "tracefs", "nodev"):
        if not (tracing / "events" / "block" / "block_rq_issue").exists():
            pytest.skip("this kernel has no trace events of the block layer")
        args = ("top", "--json", "--seconds", 0.5, "--root", tmp_path)
        process = start(*args)
        wait_until(lambda: list((tracing / "instances").iterdir()))
        lines = []
        for _ in range(4):
            read_directly(file)
            lines.append(json.loads(process.stdout.readline())["block_latency"])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_SECONDS)
        assert list((tracing / "instances").iterdir()) == [], "it leaves no tracing behind"
    latencies = [one for line in lines for one in line["devices"].values()]
    if not latencies:
        pytest.skip("the files here lie on no block device")
    assert sum(one["count"] for one in latencies) > 0
    assert all(0 < one["p50"] < HANG_SECONDS for one in latencies)


def test_top_says_why_it_does_not_see_the_block_layer(tmp_path):
    found = run("top", "--once", "--seconds", 0.1, "--json", "--root", tmp_path).json()
    assert "mount -t tracefs" in found["block_latency"]["missing"]
    args = ("top", "--once", "--seconds", 0.1, "--json", "--no-block-latency")
    assert run(*args).json()["block_latency"] is None


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_top_moves_no_cursor_where_none_can_be_moved(runtime, kind):
    leader, follower = pty.openpty()
    process = start(
        "top", "--once", "--seconds", 0.1, stdout=follower, env={**runtime, "TERM": kind}
    )
    process.wait(HANG_SECONDS)
    os.close(follower)
    seen = os.read(leader, 65536)
    os.close(leader)
    assert process.returncode == 0
    assert b"device" in seen
    assert b"\033" not in seen


def test_loaders_that_do_not_answer_are_named(runtime, tmp_path):
    folder = tmp_path / "run" / "feedrace"
    folder.mkdir(mode=0o700)
    listening = []
    for number in range(5):
        one = socket.socket(socket.AF_UNIX)
        one.bind(str(folder / f"{os.getpid()}-{number}.sock"))
        one.listen()
        listening.append(one)
    found = top(runtime)
    assert len(found["silent"]) == 5
    assert found["loaders"] == []
    for one in listening:
        one.close()
