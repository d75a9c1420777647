#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws one training batch with the labels under the pictures: contact_sheet.py DATA FILE.png

The pictures are what a training loop gets, as `feedrace batch` writes it: decoded, cropped, resized
and flipped; only normalisation is left off.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

FEEDRACE = os.environ.get("FEEDRACE_BIN", "build/release/bin/feedrace")
COLUMNS = 8
ROWS = 4
CAPTION_PX = 20
GAP_PX = 4


def load_batch(data):
    """The pictures [N, H, W, 3] and what the program says of each sample."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--batch", str(COLUMNS * ROWS), "--dtype", "uint8", "--layout", "HWC"]
        options += ["--last-batch", "partial", "--out", folder]
        result = subprocess.run([FEEDRACE, "batch", data, *options], stdout=subprocess.PIPE)
        if result.returncode != 0:
            sys.exit(result.returncode)
        return np.load(Path(folder, "images.npy")), json.loads(result.stdout)["samples"]


def caption(sample):
    name = sample.get("class", "")
    return f"{sample['label']} {name}".strip()


def draw(images, samples):
    count, height, width, _ = images.shape
    rows = -(-count // COLUMNS)
    cell_width, cell_height = width + GAP_PX, height + CAPTION_PX + GAP_PX
    sheet = Image.new("RGB", (COLUMNS * cell_width + GAP_PX, rows * cell_height + GAP_PX), "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=14)
    for i, (image, sample) in enumerate(zip(images, samples, strict=True)):
        x = GAP_PX + i % COLUMNS * cell_width
        y = GAP_PX + i // COLUMNS * cell_height
        sheet.paste(Image.fromarray(image), (x, y))
        pen.text((x + 2, y + height + 1), caption(sample), fill="black", font=font)
    return sheet


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: contact_sheet.py DATA FILE.png")
    images, samples = load_batch(sys.argv[1])
    draw(images, samples).save(sys.argv[2])
    print(f"contact sheet: {len(images)} pictures of one batch, in {Path(sys.argv[2]).resolve()}")


if __name__ == "__main__":
    main()
