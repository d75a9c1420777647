# SPDX-License-Identifier: Apache-2.0
"""Writes pillow_resize.json: what Pillow makes of pictures that a formula gives.

Run: python make_pillow_resize.py > pillow_resize.json    (with Pillow and numpy)
The pictures are not stored; `picture` below and its twin in ops/pillow_test.cc make them. Of small
results every byte is stored, of large ones the FNV-1a hash.
"""

import json

import numpy as np
import PIL
from PIL import Image

# crop width and height, output width and height, whether the values are 0 and 255 alone
CASES = [
    (1, 1, 5, 3, False),
    (2, 3, 4, 4, False),
    (7, 5, 3, 2, False),
    (5, 7, 9, 11, True),
    (8, 8, 8, 8, False),
    (8, 6, 8, 3, False),
    (40, 1, 3, 2, True),
    (320, 260, 224, 224, False),
    (320, 260, 224, 224, True),
    (100, 100, 224, 224, False),
    (500, 375, 224, 224, False),
    (1000, 800, 224, 224, False),
    (224, 224, 224, 224, False),
    (223, 225, 224, 224, False),
    (448, 448, 224, 224, True),
    (61, 97, 224, 160, False),
    (1, 65500, 3, 16, True),
    (65500, 1, 16, 3, True),
    (65500, 2, 1, 1, True),
    (4000, 3, 33, 31, False),
    (1777, 1333, 17, 19, False),
]
STORED_BYTES = 300


def picture(width: int, height: int, extreme: bool) -> np.ndarray:
    index = np.arange(width * height * 3, dtype=np.uint64)
    mixed = (index * 2654435761 + width * 40503 + height) % 2**32
    mixed = (mixed ^ (mixed >> 15)) * 2246822519 % 2**32
    values = (mixed >> 24).astype(np.uint8)
    if extreme:
        values = np.where(values < 128, 0, 255).astype(np.uint8)
    return values.reshape(height, width, 3)


def fnv1a(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def main() -> None:
    cases = []
    for width, height, out_width, out_height, extreme in CASES:
        image = Image.fromarray(picture(width, height, extreme))
        result = image.resize((out_width, out_height), Image.Resampling.BILINEAR).tobytes()
        case = {"crop": [width, height], "output": [out_width, out_height], "extreme": extreme}
        case["fnv1a"] = fnv1a(result)
        if len(result) <= STORED_BYTES:
            case["rgb"] = result.hex()
        cases.append(case)
    rows = ",\n  ".join(json.dumps(case) for case in cases)
    print(f'{{"pillow": "{PIL.__version__}", "cases": [\n  {rows}\n]}}')


if __name__ == "__main__":
    main()
