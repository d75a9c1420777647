# SPDX-License-Identifier: Apache-2.0
"""Makes small data sets of pictures."""

import io
import json
import tarfile

import numpy as np
from PIL import Image


def jpeg_of(seed, size=(40, 32)):
    """A JPEG of soft colours that differ by seed; `size` is width, height."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(small).resize(size, Image.Resampling.BILINEAR).save(file, "JPEG", quality=90)
    return file.getvalue()


def write_classes(root, counts, size_of=lambda seed: (40, 32)):
    seed = 0
    for name, count in counts.items():
        (root / name).mkdir()
        for i in range(count):
            (root / name / f"{i}.jpg").write_bytes(jpeg_of(seed, size_of(seed)))
            seed += 1
    return root


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def fields_of(i):
    """What sample i of the shards has."""
    return {
        "jpg": jpeg_of(i),
        "cls": str(i % 3).encode(),
        "json": json.dumps({"caption": f"picture {i}", "box": [i, 2]}).encode(),
        "txt": f"größe {i}".encode(),
        "npy": npy_of(np.arange(i + 1, dtype=np.float32)),
        "bin": bytes([i, 255]),
        **({"rare": b"here"} if i % 2 else {}),
    }


def write_shard(path, samples):
    """A tar of {key: {field: bytes}}."""
    with tarfile.open(path, "w") as tar:
        for key, fields in samples.items():
            for field, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{field}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path
