# SPDX-License-Identifier: Apache-2.0
"""Runs one program within a time budget; a GPU call that hangs must not hang the check."""

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

# How long a killed program may take to go: one that waits in the kernel for a driver may never.
GOING_SECONDS = 5


@dataclass
class Outcome:
    """How a program ended, and what it said."""

    code: int = 0
    timed_out: bool = False
    seconds: float = 0
    lines: list = field(default_factory=list)
    errors: str = ""

    def last_word(self):
        """The last line that says something, stderr first."""
        for text in (self.errors.splitlines(), self.lines):
            said = [line.strip() for line in text if line.strip()]
            if said:
                return said[-1]
        return "it said nothing"

    def ending(self):
        """In words, for one that did not end well."""
        if self.timed_out:
            return f"no end after {self.seconds:.0f} s, killed; its last line: {self.last_word()}"
        if self.code < 0:
            name = signal.Signals(-self.code).name
            return f"killed by {name}; its last line: {self.last_word()}"
        return f"exit {self.code}: {self.last_word()}"


def end(process):
    """Ends the program and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GOING_SECONDS)


def read_lines(process, deadline, take):
    """Hands on lines until the end of the output; false when the time is up first."""
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            piece = os.read(process.stdout.fileno(), 65536)
            *lines, pending = (pending + piece).split(b"\n")
            if not piece and pending:
                lines.append(pending)
            for line in lines:
                take(line.decode("utf-8", "replace"))
            if not piece:
                return True
    return False


def run(command, seconds, environment=None, cores=None, on_line=None):
    """Runs `command` for at most so long, on these cores. Lines are handed on as they come."""
    outcome, started = Outcome(), time.monotonic()

    def take(line):
        outcome.lines.append(line)
        if on_line:
            on_line(line)

    def on_cores():
        if cores:
            os.sched_setaffinity(0, cores)

    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                preexec_fn=on_cores,
                start_new_session=True,
            )
        except OSError as why:
            return Outcome(code=127, errors=f"{command[0]}: {why.strerror}")
        try:
            deadline = started + seconds
            outcome.timed_out = not read_lines(process, deadline, take)
            if not outcome.timed_out:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.1, deadline - time.monotonic()))
                outcome.timed_out = process.poll() is None
        finally:
            end(process)
            process.stdout.close()
        outcome.code = process.returncode if process.returncode is not None else -signal.SIGKILL
        outcome.seconds = time.monotonic() - started
        errors.seek(0)
        outcome.errors = errors.read().decode("utf-8", "replace")
    return outcome
