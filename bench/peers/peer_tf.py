# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's tf.data, which decodes only the crop."""

from bench.peers import measure  # First: import time counts from here.

# isort: split

import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf  # noqa: E402

from bench import layout  # noqa: E402


def load(path, antialias, dct_method):
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(data),
        tf.zeros([1, 0, 4], tf.float32),
        min_object_covered=0.0,
        aspect_ratio_range=measure.RATIO,
        area_range=measure.AREA,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.decode_and_crop_jpeg(data, window, channels=3, dct_method=dct_method)
    side = (measure.SIDE_PX, measure.SIDE_PX)
    image = tf.image.resize(image, side, method="bilinear", antialias=antialias)
    image = tf.image.random_flip_left_right(image)
    return (image - tf.constant(measure.MEAN_255)) * (1 / tf.constant(measure.STD_255))


def build(config, antialias=True, dct_method=""):
    samples = layout.epoch()
    random.Random(config.seed).shuffle(samples)
    paths, labels = zip(*samples, strict=True)
    dataset = (
        tf.data.Dataset.from_tensor_slices((list(paths), list(labels)))
        .shuffle(len(samples))
        .repeat()
        .map(
            lambda path, label: (load(path, antialias, dct_method), label),
            num_parallel_calls=config.threads,
            deterministic=False,
        )
        .batch(config.batch, drop_remainder=True)
        .prefetch(2)
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = config.threads
    options.threading.max_intra_op_parallelism = 1
    return ((images, labels.numpy()) for images, labels in dataset.with_options(options))


if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    measure.main(
        "tensorflow-cpu",
        files={
            "tf_crop": build,
            "tf_crop_noaa": lambda c: build(c, antialias=False),
            "tf_crop_noaa_fast": lambda c: build(c, antialias=False, dct_method="INTEGER_FAST"),
        },
    )
