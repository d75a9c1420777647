# SPDX-License-Identifier: Apache-2.0
"""The members of a Compose that run as Python: what they are fed, what they draw, how they fail."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from torchvision_import import import_torchvision

torchvision = import_torchvision()
import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

from feedrace.errors import Error  # noqa: E402
from feedrace.transforms import translate  # noqa: E402


def picture_batch(count=3, height=10, width=12, dtype=torch.uint8):
    numbers = torch.arange(count * height * width * 3) % 251
    return numbers.reshape(count, height, width, 3).to(dtype)


def info(*indices, seed=5, epoch=2):
    return SimpleNamespace(seed=seed, epoch=epoch, indices=np.array(indices, dtype=np.int64))


def run(transform, images, about):
    images, labels = translate(transform).batch_function(images.clone(), "labels", about)
    assert labels == "labels"
    return images


@pytest.mark.parametrize(
    ("behind", "kind"),
    [
        ([v2.ToImage()], Image.Image),
        ([v2.ToDtype(torch.float32, scale=True)], torch.Tensor),
    ],
)
def test_a_member_is_given_what_it_was_written_for(behind, kind):
    seen = []
    members = [v2.Lambda(lambda picture: seen.append(picture) or picture), *behind]
    images = picture_batch(count=1)
    run(v2.Compose(members), images if kind is Image.Image else images.permute(0, 3, 1, 2), info(0))
    assert [type(one) for one in seen] == [kind]


def test_behind_to_image_a_member_is_given_a_tv_image():
    seen = []
    own = v2.Lambda(lambda picture: seen.append(type(picture)) or picture)
    result = run(
        v2.Compose([v2.ToImage(), own]), picture_batch().permute(0, 3, 1, 2), info(0, 1, 2)
    )
    assert seen == [tv_tensors.Image] * 3
    assert type(result) is torch.Tensor


def test_the_result_is_torchvisions_own():
    rest = v2.Compose(
        [v2.RandomSolarize(128, p=1), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    )
    images = picture_batch()
    expected = torch.stack([rest(Image.fromarray(one.numpy())) for one in images])
    assert torch.equal(run(rest, images, info(0, 1, 2)), expected)


def draw_all(picture):
    """One number of each generator, as a picture's pixel."""
    numbers = [torch.rand(1).item(), random.random(), np.random.random()]
    return torch.tensor(numbers, dtype=torch.float64)


def test_draws_depend_on_seed_epoch_and_sample_alone():
    images = picture_batch(count=4)
    alone = run(draw_all, images[:1], info(7))
    among = run(draw_all, images, info(3, 4, 7, 9))
    assert torch.equal(alone[0], among[2])
    assert len({tuple(one) for one in among.tolist()}) == 4
    assert not torch.equal(alone, run(draw_all, images[:1], info(7, seed=6)))
    assert not torch.equal(alone, run(draw_all, images[:1], info(7, epoch=3)))


def test_the_programs_generators_are_left_alone():
    def state():
        return torch.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state())

    before = state()
    run(draw_all, picture_batch(), info(0, 1, 2))
    assert state() == before
    with pytest.raises(Error):
        run(lambda picture: draw_all(picture)[99], picture_batch(), info(0, 1, 2))
    assert state() == before


def test_results_of_different_shapes_are_a_list():
    def cut(picture):
        return picture.crop((0, 0, 1 + random.randrange(8), 5))

    images = run(cut, picture_batch(count=8), info(*range(8)))
    assert isinstance(images, list)
    assert {tuple(one.shape[:2]) for one in images} == {(3, 5)}
    assert len({one.shape[2] for one in images}) > 1


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_pil_result_becomes_channels_first(mode):
    images = picture_batch(count=2)
    result = run(lambda picture: picture.convert(mode), images, info(0, 1))
    for one, source in zip(result, images, strict=True):
        expected = np.array(Image.fromarray(source.numpy()).convert(mode)).reshape(10, 12, -1)
        assert np.array_equal(one.permute(1, 2, 0).numpy(), expected)


def test_numpy_batches_stay_numpy():
    images = picture_batch(count=2).numpy()
    function = translate(v2.Lambda(np.asarray)).batch_function
    result, _ = function(images, None, info(0, 1))
    assert isinstance(result, np.ndarray)
    assert np.array_equal(result, images)


def test_jax_batches_stay_jax():
    jax = pytest.importorskip("jax")
    images = jax.numpy.asarray(picture_batch(count=2).numpy())
    function = translate(v2.Compose([v2.RandomSolarize(128, p=1), v2.PILToTensor()])).batch_function
    result, _ = function(images, None, info(0, 1))
    assert isinstance(result, jax.Array)
    assert result.shape == (2, 3, 10, 12)
    assert np.array_equal(
        result[1],
        v2.functional.solarize(picture_batch(count=2)[1].permute(2, 0, 1), 128).numpy(),
    )


def test_a_failure_names_sample_and_member():
    def break_it(picture):
        raise KeyError("two\nlines")

    with pytest.raises(Error) as caught:
        run(v2.Compose([v2.GaussianBlur(3), break_it]), picture_batch(), info(41, 42, 43))
    assert caught.value.code == "corrupt_data"
    message = str(caught.value)
    assert "\n" not in message
    assert (
        "sample 41 (place 0 of its batch): transform member 2 (break_it) raised KeyError" in message
    )
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_result_that_is_no_image_is_refused():
    with pytest.raises(Error, match="gave None") as caught:
        run(lambda picture: None, picture_batch(), info(0, 1, 2))
    assert caught.value.code == "corrupt_data"


def test_explain_says_what_it_has_cost():
    function = translate(v2.Compose([v2.RandAugment(), v2.ToImage()])).batch_function
    assert "RandAugment, ToImage" in function.explain()
    assert " ms " not in function.explain()
    function(picture_batch(), None, info(0, 1, 2))
    assert " ms a sample over 3 samples" in function.explain()


def test_an_empty_batch_is_given_back():
    images = picture_batch()[:0]
    assert translate(v2.RandAugment()).batch_function(images, [], info())[0] is images
