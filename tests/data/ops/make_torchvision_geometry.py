# SPDX-License-Identifier: Apache-2.0
"""Writes torchvision_geometry.json: sizes, crops and borders as torchvision makes them of Pillow's
pictures, and how the boxes lie that its RandomErasing draws.

Run: python make_torchvision_geometry.py > torchvision_geometry.json    (with torchvision, Pillow)
The pictures are not stored; `picture` below and its twin in ops/op_cases.h make them. Of
small results every byte is stored, of others the digest of make_pillow_color.py.
"""

import json

import numpy as np
import PIL
import torch
import torchvision
from make_pillow_color import digest
from PIL import Image
from torchvision.transforms import RandomErasing
from torchvision.transforms.v2 import functional
from torchvision.transforms.v2.functional._geometry import _compute_resized_output_size

SIZES = [
    (1, 1),
    (3, 2),
    (500, 375),
    (375, 500),
    (333, 500),
    (640, 427),
    (227, 1021),
    (4000, 3),
    (7, 7),
]
SHORTER = [(256, None), (224, None), (232, 333), (37, 38), (1, 2), (7, 1000), (800, 1333)]
LONGER = [256, 100, 1, 999]
# picture's width and height, crop's width and height
CENTER_CROPS = [(5, 4, 3, 2), (6, 5, 3, 2), (7, 6, 2, 3), (4, 4, 4, 4), (3, 2, 5, 4), (3, 2, 6, 7)]
CENTER_CROPS += [(3, 9, 6, 4), (9, 2, 4, 5), (500, 375, 224, 224), (256, 341, 224, 224)]
# picture's width and height; left, top, right, bottom; mode; fill
PADS = [
    (3, 2, (1, 2, 3, 1), "constant", (9, 80, 255)),
    (3, 2, (0, 0, 0, 4), "constant", (0, 0, 0)),
    (3, 2, (2, 1, 4, 3), "edge", None),
    (4, 3, (3, 2, 1, 2), "reflect", None),
    (4, 3, (0, 2, 3, 0), "reflect", None),
    (4, 3, (4, 3, 2, 1), "symmetric", None),
    (3, 2, (8, 5, 7, 9), "symmetric", None),
    (1, 1, (2, 1, 1, 2), "symmetric", None),
    (1, 1, (2, 1, 1, 2), "edge", None),
    (2, 1, (1, 0, 1, 0), "reflect", None),
    (61, 47, (4, 4, 4, 4), "constant", (124, 116, 104)),
    (61, 47, (60, 46, 1, 7), "reflect", None),
    (61, 47, (200, 3, 61, 100), "symmetric", None),
]
STORED_BYTES = 200
# picture's width and height, scale, ratio
ERASINGS = [
    (224, 224, (0.02, 0.33), (0.3, 3.3)),
    (40, 200, (0.02, 0.9), (0.3, 3.3)),
    (300, 100, (0.1, 0.2), (0.5, 0.9)),
]
ERASING_DRAWS = 40_000
QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95]


def picture(width: int, height: int) -> Image.Image:
    index = np.arange(width * height * 3, dtype=np.uint64)
    values = (index * 2654435761 % 2**32 >> 24).astype(np.uint8)
    return Image.fromarray(values.reshape(height, width, 3))


def result_of(image: Image.Image) -> dict:
    data = image.tobytes()
    found = {"result": [image.width, image.height], "digest": digest(data)}
    if len(data) <= STORED_BYTES:
        found["rgb"] = data.hex()
    return found


def resizes() -> list[dict]:
    found = []
    for width, height in SIZES:
        for shorter, longest in SHORTER:
            size = _compute_resized_output_size((height, width), [shorter], longest)
            case = {"picture": [width, height], "shorter": shorter, "longest": longest}
            found.append(case | {"result": size[::-1]})
        for longer in LONGER:
            size = _compute_resized_output_size((height, width), None, longer)
            found.append({"picture": [width, height], "longer": longer, "result": size[::-1]})
    return found


def center_crops() -> list[dict]:
    found = []
    for width, height, crop_width, crop_height in CENTER_CROPS:
        result = functional.center_crop(picture(width, height), [crop_height, crop_width])
        case = {"picture": [width, height], "crop": [crop_width, crop_height]}
        found.append(case | result_of(result))
    return found


def pads() -> list[dict]:
    found = []
    for width, height, padding, mode, fill in PADS:
        result = functional.pad(
            picture(width, height), list(padding), fill=fill or 0, padding_mode=mode
        )
        case = {"picture": [width, height], "padding": padding, "mode": mode}
        found.append(case | {"fill": fill or (0, 0, 0)} | result_of(result))
    return found


def flips() -> list[dict]:
    found = []
    for width, height in [(1, 1), (5, 3), (4, 4), (61, 47)]:
        for horizontal in (False, True):
            for vertical in (False, True):
                result = picture(width, height)
                result = functional.horizontal_flip(result) if horizontal else result
                result = functional.vertical_flip(result) if vertical else result
                case = {"picture": [width, height], "horizontal": horizontal, "vertical": vertical}
                found.append(case | result_of(result))
    return found


def erasings() -> list[dict]:
    torch.manual_seed(0)
    found = []
    for width, height, scale, ratio in ERASINGS:
        image = torch.empty(3, height, width)
        boxes = [RandomErasing.get_params(image, scale, ratio, [0.0]) for _ in range(ERASING_DRAWS)]
        drawn = np.array([box[:4] for box in boxes if box[4] is not image], dtype=np.float64)
        y, x, high, wide = drawn.T
        case = {"picture": [width, height], "scale": scale, "ratio": ratio}
        case["drawn_share"] = len(drawn) / ERASING_DRAWS
        case["quantiles_at"] = QUANTILES
        case["area_share"] = np.quantile(high * wide / (width * height), QUANTILES).tolist()
        case["log_ratio"] = np.quantile(np.log(high / wide), QUANTILES).tolist()
        case["centre_x_share"] = np.quantile((x + wide / 2) / width, QUANTILES).tolist()
        case["centre_y_share"] = np.quantile((y + high / 2) / height, QUANTILES).tolist()
        found.append(case)
    return found


def main() -> None:
    groups = {
        "resize": resizes(),
        "center_crop": center_crops(),
        "pad": pads(),
        "flip": flips(),
        "erasing": erasings(),
    }
    print(f'{{"torchvision": "{torchvision.__version__}", "pillow": "{PIL.__version__}"')
    for name, cases in groups.items():
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        print(f', "{name}": [\n  {rows}\n]')
    print("}")


if __name__ == "__main__":
    main()
