# SPDX-License-Identifier: Apache-2.0
"""NVIDIA DALI on the CPU."""

from bench.peers import measure  # First: import time counts from here.

# isort: split

import numpy as np
from nvidia.dali import fn, pipeline_def, types

from bench import layout


def read(source):
    if source == "files":
        return fn.readers.file(
            file_list=str(layout.LIST),
            file_root=str(layout.BENCH_DATA),
            random_shuffle=True,
            name="reader",
        )
    return fn.readers.webdataset(
        paths=layout.shards(),
        ext=["jpg", "cls"],
        random_shuffle=True,
        initial_fill=1024,
        missing_component_behavior="error",
        name="reader",
    )


def crop(encoded, crops_while_decoding, decode, resize):
    box = {"random_area": measure.AREA, "random_aspect_ratio": measure.RATIO}
    size = {"size": (measure.SIDE_PX, measure.SIDE_PX), "interp_type": types.INTERP_LINEAR}
    decode = {"device": "cpu", "output_type": types.RGB, **decode}
    if crops_while_decoding:
        part = fn.decoders.image_random_crop(encoded, num_attempts=10, **box, **decode)
        return fn.resize(part, **size, **resize)
    return fn.random_resized_crop(fn.decoders.image(encoded, **decode), **box, **size, **resize)


def build(
    config,
    source="files",
    crops_while_decoding=True,
    dtype=types.FLOAT16,
    decode=None,
    resize=None,
):
    @pipeline_def(
        batch_size=config.batch, num_threads=config.threads, device_id=None, seed=config.seed
    )
    def pipeline():
        encoded, labels = read(source)
        images = fn.crop_mirror_normalize(
            crop(encoded, crops_while_decoding, decode or {}, resize or {}),
            dtype=dtype,
            output_layout="CHW",
            mirror=fn.random.coin_flip(probability=0.5),
            mean=list(measure.MEAN_255),
            std=list(measure.STD_255),
        )
        return images, labels

    running = pipeline()
    running.build()
    while True:
        images, labels = running.run()
        yield np.asarray(images.as_tensor()), numbers(labels, source)


def numbers(labels, source):
    if source == "files":
        return np.asarray(labels.as_tensor()).reshape(-1)
    return [int(bytes(np.asarray(labels.at(i)))) for i in range(len(labels))]


NO_ANTIALIAS = {"antialias": False}

if __name__ == "__main__":
    measure.main(
        "nvidia-dali-cuda130",
        files={
            "dali_file_crop": build,
            "dali_file_crop_fp32": lambda c: build(c, dtype=types.FLOAT),
            "dali_file_crop_noaa": lambda c: build(c, resize=NO_ANTIALIAS),
            "dali_file_crop_noaa_fp32": lambda c: build(c, dtype=types.FLOAT, resize=NO_ANTIALIAS),
            "dali_file_crop_fast": lambda c: build(c, decode={"use_fast_idct": True}),
            "dali_file_full": lambda c: build(c, crops_while_decoding=False),
        },
        shards={"dali_wds_crop": lambda c: build(c, source="shards")},
    )
