# SPDX-License-Identifier: Apache-2.0
"""Functions of the user's: on pictures, on whole batches, and behind a native transform."""

import gc
import threading
import weakref

import numpy as np
import pytest

import feedrace as fr
from small_loaders import thread_count, threads_fall_to

fn = fr.fn
ORDER = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def pipeline_of(function, **arguments):
    """Batches of (index, image), with a function of (image, index) behind the tensor."""
    arguments = {"batch_size": 4, "output": "numpy", "num_threads": 1, **arguments}

    @fr.pipeline(**arguments)
    def piped(root):
        jpeg, index = fn.read(root, fields=("image", "index"))
        image = fn.to_tensor(fn.resize(fn.decode(jpeg), 8), dtype="uint8")
        image, index = fn.python_function(image, index, function=function, batch=True)
        return index, image

    return piped


def indices(loader):
    return [index.tolist() for index, _ in loader]


def error_of(function, *args):
    with pytest.raises(fr.Error) as caught:
        function(*args)
    assert "\n" not in str(caught.value)
    return caught.value


# Functions of single pictures.


def picture_loader(folder, function, **arguments):
    @fr.pipeline(batch_size=4, output="numpy", num_threads=2)
    def piped(root):
        jpeg, label = fn.read(root)
        image = fn.resize(fn.decode(jpeg), 8)
        image = fn.python_function(image, function=function, **arguments)
        return fn.to_tensor(image, dtype="uint8", layout="HWC"), label

    return piped(folder)


def test_a_function_gets_each_picture_on_the_loaders_threads(folder):
    threads = set()

    def invert(picture):
        threads.add(threading.get_ident())
        assert (picture.dtype, picture.shape) == (np.uint8, (8, 8, 3))
        return 255 - picture

    def same(picture):
        return picture

    inverted = np.concatenate([image for image, _ in picture_loader(folder, invert)])
    plain = np.concatenate([image for image, _ in picture_loader(folder, same)])
    assert np.array_equal(inverted, 255 - plain)
    assert threading.get_ident() not in threads


def test_a_function_may_change_the_size(folder):
    loader = picture_loader(folder, lambda picture: picture[:4, :6].copy(), size=(4, 6))
    assert next(iter(loader))[0].shape == (4, 4, 6, 3)


def test_a_functions_random_numbers_repeat(folder):
    def noise(picture, number):
        assert 0 <= number < 1 << 128
        return np.random.default_rng(number).integers(0, 256, picture.shape, np.uint8)

    first, second = (picture_loader(folder, noise, random=True) for _ in range(2))
    one = np.concatenate([image for image, _ in first])
    assert np.array_equal(one, np.concatenate([image for image, _ in second]))
    assert not np.array_equal(one, np.concatenate([image for image, _ in first]))
    assert len({image.tobytes() for image in one}) == len(one)


def test_a_function_of_pictures_that_throws_names_the_sample(folder):
    def refuse(picture):
        raise ValueError("too dark")

    error = error_of(list, picture_loader(folder, refuse))
    assert "ant/0.jpg" in str(error)
    assert "too dark" in str(error)
    assert "refuse" in str(error)


def test_explain_names_the_step_that_is_not_fused(folder):
    loader = picture_loader(folder, lambda picture: picture)
    list(loader)
    assert "<lambda>" in loader.explain()


# Functions of whole batches.


def test_a_function_of_batches_keeps_their_order(folder):
    seen = []

    def double(image, index):
        seen.append(threading.get_ident())
        return image, index * 2

    loader = pipeline_of(double)(folder)
    assert indices(loader) == [[2 * i for i in batch] for batch in ORDER]
    assert indices(loader) == [[2 * i for i in batch] for batch in ORDER]
    # The first batch of an epoch on the loop's thread, the others on one of their own.
    assert seen[0] == seen[3] == threading.get_ident()
    assert threading.get_ident() not in (seen[1], seen[2])


def test_functions_of_batches_follow_each_other(folder):
    @fr.pipeline(batch_size=4, output="numpy")
    def chained(root):
        jpeg, label, index = fn.read(root, fields=("image", "label", "index"))
        image = fn.resize(fn.decode(jpeg), 8)
        mean = fn.python_function(image, function=lambda i: i.mean((1, 2, 3)), batch=True)
        both = fn.python_function(
            mean, label, function=lambda m, n: (m + n, m, n), batch=True, outputs=3
        )
        return *both, index

    with chained(folder) as loader:
        total, mean, label, _ = next(iter(loader))
        assert np.array_equal(total, mean + label)
        assert ((mean >= 0) & (mean <= 1)).all()


def test_a_function_of_batches_runs_one_batch_ahead(folder):
    ran = threading.Semaphore(0)
    count = []

    def note(image, index):
        count.append(index[0])
        ran.release()
        return image, index

    iterator = iter(pipeline_of(note)(folder))
    next(iterator)
    for _ in range(2):
        assert ran.acquire(timeout=30)  # The first, and the one behind it.
    assert count == [0, 4]
    assert not ran.acquire(timeout=0.05)  # No further until somebody asks.
    next(iterator)
    assert ran.acquire(timeout=30)
    assert count == [0, 4, 8]


@pytest.mark.parametrize("taken", range(5))
def test_the_state_is_that_of_the_last_batch_that_came(folder, taken):
    train = pipeline_of(lambda image, index: (image, index)).options(shuffle=True)
    unbroken = train(folder)
    expected = [batch for _ in range(3) for batch in indices(unbroken)]
    loader = train(folder)
    seen, state = [], loader.state_dict()
    while len(seen) < taken:
        for index, _ in loader:
            seen.append(index.tolist())
            state = loader.state_dict()
            if len(seen) == taken:
                break
    assert loader.state_dict() == state
    resumed = train(folder)
    resumed.load_state_dict(state)
    while resumed.epoch < 3:
        seen += indices(resumed)
    assert seen == expected


def test_leaving_a_loop_goes_back_to_the_last_batch(folder):
    loader = pipeline_of(lambda image, index: (image, index)).options(shuffle=True)(folder)
    epochs = [indices(loader) for _ in range(4)]
    loader.set_epoch(0)
    for _ in loader:
        break
    assert indices(loader) == epochs[1]
    for _ in loader:
        break
    loader.set_epoch(2)  # The one that it is in the middle of.
    assert indices(loader) == epochs[2]
    for _, _batch in zip(range(len(loader)), loader, strict=False):
        pass
    assert loader.epoch == 4
    loader.set_epoch(0)
    assert indices(loader) == epochs[0]


def test_leaving_a_loop_ends_the_thread(folder):
    before = thread_count()
    loader = pipeline_of(lambda image, index: (image, index))(folder)
    iterator = iter(loader)
    next(iterator)
    assert thread_count() > before
    del iterator
    assert threads_fall_to(before)
    watched = weakref.ref(loader)
    iterator = iter(loader)
    next(iterator)
    del loader, iterator
    gc.collect()
    assert watched() is None
    assert threads_fall_to(before)


def test_closing_in_the_middle_of_a_loop(folder):
    with pipeline_of(lambda image, index: (image, index))(folder) as loader:
        index, image = next(iter(loader))
    assert index.tolist() == ORDER[0]
    assert image.shape == (4, 3, 8, 8)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_function_that_throws_names_the_samples_and_loses_none(folder, failing):
    heal = []

    def refuse(image, index):
        if index[0] == 4 * failing and not heal:
            raise KeyError("no such thing")
        return image, index

    loader = pipeline_of(refuse)(folder)
    seen = []

    def loop():
        for index, _ in loader:
            seen.append(index.tolist())

    error = error_of(loop)
    assert error.code == "invalid_argument"
    assert "refuse at" in str(error)
    assert "test_functions.py" in str(error)
    assert f"batch {failing} of epoch 0" in str(error)
    assert loader.dataset.where(4 * failing) in str(error)
    assert "and 3 more" in str(error)
    assert "KeyError: 'no such thing'" in str(error)
    assert isinstance(error.__cause__, KeyError)
    assert seen == ORDER[:failing]
    # What comes next is the batch that failed.
    state = loader.state_dict()
    heal.append(True)
    resumed = pipeline_of(refuse)(folder)
    resumed.load_state_dict(state)
    assert indices(resumed) == ORDER[failing:]


def test_an_iterator_may_be_asked_again_after_an_error(folder):
    heal = []

    def refuse(image, index):
        if index[0] == 4 and not heal:
            raise ValueError("not yet")
        return image, index

    iterator = iter(pipeline_of(refuse)(folder))
    assert next(iterator)[0].tolist() == ORDER[0]
    for _ in range(2):
        assert "not yet" in str(error_of(next, iterator))
    heal.append(True)
    assert [index.tolist() for index, _ in iterator] == ORDER[1:]


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda image, index: image, "it gave <class 'numpy.ndarray'>; return a tuple of 2"),
        (lambda image, index: (image,), "it gave 1 values; return a tuple of 2"),
        (lambda image: image, "TypeError"),
    ],
)
def test_a_function_of_batches_must_give_as_many_values(folder, function, found):
    assert found in str(error_of(list, pipeline_of(function)(folder)))


def test_a_function_learns_which_batch_it_has(folder):
    def learn(image, info):
        return [(info.seed, info.epoch, info.step, info.indices.tolist())] * len(image)

    @fr.pipeline(batch_size=4, output="numpy", seed=5)
    def informed(root):
        jpeg, _ = fn.read(root)
        image = fn.resize(fn.decode(jpeg), 8)
        return fn.python_function(image, function=learn, batch=True, info=True)

    with informed(folder) as loader:
        for epoch in range(2):
            found = [batch[0][0] for batch in loader]
            assert found == [(5, epoch, step, ORDER[step]) for step in range(3)]


def test_explain_says_what_a_function_of_batches_takes(folder):
    loader = pipeline_of(lambda image, index: (image, index))(folder)
    list(loader)
    assert "ms a batch, on a Python thread of its own" in loader.explain()


def test_a_function_of_batches_may_write_into_them(folder):
    def darken(image, index):
        image[:] = 0
        return image, index

    for _, image in pipeline_of(darken)(folder):
        assert not image.any()


# Behind a native transform, on the loop's thread.


class Shift:
    """A batch function with a memory of what it was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, images, labels, info):
        self.calls.append((threading.get_ident(), info.seed, info.epoch, info.indices.tolist()))
        return images * 0 + 1, labels + 100

    def explain(self):
        return f"Shift ran {len(self.calls)} times"


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_a_batch_function_runs_behind_the_native_part(folder, output):
    if output == "torch":
        pytest.importorskip("torch")
    shift = Shift()
    transform = fr.Pipeline(
        fr.Pipeline.recipe("imagenet-val").steps, batch_function=shift, notes=["Shift is slow"]
    )
    loader = fr.ImageLoader(folder, batch_size=4, transform=transform, output=output, seed=3)
    for images, labels in loader:
        assert type(images).__module__.partition(".")[0] == output
        assert np.asarray(images).min() == 1
        assert int(labels[0]) >= 100
    assert shift.calls == [(threading.get_ident(), 3, 0, batch) for batch in ORDER]
    assert "Shift ran 3 times" in loader.explain()
    assert "Shift is slow" in loader.explain()
    assert str(transform).endswith("> Shift")


def test_a_batch_function_that_throws_loses_no_batch(folder):
    def refuse(images, labels, info):
        if info.step == 1 and info.epoch == 0:
            raise ValueError("no")
        return images, labels

    transform = fr.Pipeline(fr.Pipeline.recipe("imagenet-val").steps, batch_function=refuse)
    loader = fr.ImageLoader(
        folder, batch_size=4, transform=transform, output="numpy", fields=("image", "index")
    )
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    error = error_of(next, iterator)
    assert "refuse: batch 1 of epoch 0" in str(error)
    assert "ValueError: no; correct the function" in str(error)
    assert loader.state_dict() == state


def test_the_notes_of_a_transform_are_logged(folder, caplog):
    steps = fr.Pipeline.recipe("imagenet-val").steps
    fr.ImageLoader(folder, transform=fr.Pipeline(steps, notes=["something is slow"]))
    assert "something is slow" in [record.getMessage() for record in caplog.records]
