# SPDX-License-Identifier: Apache-2.0
"""Writes pillow_color.json: what Pillow makes of the colours that a formula gives.

Run: python make_pillow_color.py > pillow_color.json    (with Pillow and numpy)
The pictures are not stored; `colors` below and its twin in ops/color_adjust_test.cc make them. Of
the results a digest is stored. The calls are those of torchvision's `_functional_pil` (0.28).
"""

import json

import numpy as np
import PIL
from PIL import Image, ImageEnhance

# adjustment, factor, step of the levels, rows
CASES = [
    ("brightness", 0.0, 3, 86),
    ("brightness", 0.37, 3, 86),
    ("brightness", 1.0, 3, 86),
    ("brightness", 1.9, 3, 86),
    ("contrast", 0.0, 3, 86),
    ("contrast", 0.6, 3, 86),
    ("contrast", 0.6, 3, 20),
    ("contrast", 1.0, 3, 20),
    ("contrast", 2.5, 3, 41),
    ("saturation", 0.0, 3, 86),
    ("saturation", 0.81, 3, 86),
    ("saturation", 1.0, 3, 86),
    ("saturation", 3.3, 3, 86),
    ("hue", 0.0, 1, 256),
    ("hue", 0.1, 3, 86),
    ("hue", 0.5, 3, 86),
    ("hue", -0.003, 3, 86),
    ("hue", -0.25, 1, 256),
    ("hue", -0.5, 3, 86),
    ("grayscale", 0.0, 1, 256),
]


def colors(step: int, rows: int) -> np.ndarray:
    """All colours of levels 0, step, 2 * step, ...: a red a row, of which `rows` are kept."""
    levels = np.arange(0, 256, step, dtype=np.uint8)
    red, green, blue = np.meshgrid(levels[:rows], levels, levels, indexing="ij")
    return np.stack([red, green, blue], axis=-1).reshape(rows, -1, 3)


def hue(image: Image.Image, factor: float) -> Image.Image:
    h, s, v = image.convert("HSV").split()
    turned = np.array(h, dtype=np.uint8)
    turned += np.int32(factor * 255).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


ADJUSTMENTS = {
    "brightness": lambda image, factor: ImageEnhance.Brightness(image).enhance(factor),
    "contrast": lambda image, factor: ImageEnhance.Contrast(image).enhance(factor),
    "saturation": lambda image, factor: ImageEnhance.Color(image).enhance(factor),
    "hue": hue,
    "grayscale": lambda image, factor: image.convert("L").convert("RGB"),
}


def digest(data: bytes) -> str:
    """The sum of (byte + 1) * ((place + 1) * an odd number), modulo 2^64."""
    values = np.frombuffer(data, dtype=np.uint8).astype(np.uint64) + np.uint64(1)
    places = np.arange(1, len(values) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return f"{int((values * places).sum(dtype=np.uint64)):016x}"


def main() -> None:
    cases = []
    for name, factor, step, rows in CASES:
        image = Image.fromarray(colors(step, rows))
        result = ADJUSTMENTS[name](image, factor).tobytes()
        case = {"adjustment": name, "factor": factor, "step": step, "rows": rows}
        case["digest"] = digest(result)
        cases.append(case)
    rows_of_json = ",\n  ".join(json.dumps(case) for case in cases)
    print(f'{{"pillow": "{PIL.__version__}", "cases": [\n  {rows_of_json}\n]}}')


if __name__ == "__main__":
    main()
