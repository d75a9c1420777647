# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, which looks at pages as a reader's browser does."""

import html
import json
import os
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium")
SECONDS = 120
# A reader's own choices are made by Blink's settings: 0 is dark, 1 is light.
SCHEMES = {"dark": 0, "light": 1}
PROBE = (Path(__file__).parent / "probe.html").read_text()


class Browser:
    """Shows a page in a frame of a given width, and tells what the page has become there."""

    def __init__(self, folder):
        self._folder = folder
        self._seen = {}

    def _run(self, scheme, *arguments):
        profile = self._folder / "profile"
        command = [
            CHROMIUM,
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--allow-file-access-from-files",
            f"--user-data-dir={profile}",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            "--virtual-time-budget=5000",
            *arguments,
        ]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # Root has none.
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def look(self, page, width, scheme):
        """What probe.html finds out about a page. Looks once."""
        key = (page, width, scheme)
        if key not in self._seen:
            self._seen[key] = self._look(*key)
        return self._seen[key]

    def _look(self, page, width, scheme):
        probe = self._folder / "probe.html"
        probe.write_text(PROBE.replace("PAGE", page.name).replace("WIDTH", str(width)))
        shutil.copy(page, self._folder / page.name)
        shown = self._run(scheme, "--dump-dom", probe.as_uri())
        found = html.unescape(shown.partition('<pre id="found">')[2].partition("</pre>")[0])
        assert found, shown
        return json.loads(found)
