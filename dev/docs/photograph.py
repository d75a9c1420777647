#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/report.md anew: photograph.py (needs make build, make test-report)

Loads the photographs of `make demo` for some seconds, and takes the report on a desk in its light
form, and on a phone in its dark one.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from chromium import Browser  # noqa: E402

SHOTS = {"light": (1120, 2300), "phone": (380, 2300)}
SCHEMES = {"light": "light", "phone": "dark"}
PROGRAM = ROOT / "build/release/bin/feedrace"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make = [sys.executable, ROOT / "dev/demo/make_photos.py", folder / "train", *sys.argv[1:]]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        report = [PROGRAM, "report", "train", "--seconds", "8", "--out", "report.html"]
        subprocess.run(report, check=True, cwd=folder)
        browser = Browser(folder)
        for name, (width, height) in SHOTS.items():
            png = folder / f"{name}.png"
            size = f"--window-size={width},{height}"
            page = (folder / "report.html").as_uri()
            browser._run(SCHEMES[name], f"--screenshot={png}", size, "--hide-scrollbars", page)
            webp = ROOT / f"docs/images/report-{name}.webp"
            Image.open(png).convert("RGB").save(webp, quality=70, method=6)
            print(f"{webp}: {webp.stat().st_size} bytes")


if __name__ == "__main__":
    main()
