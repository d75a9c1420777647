# SPDX-License-Identifier: Apache-2.0
"""A pipeline's outputs as feedrace's loader needs them: steps, fields, and how a batch is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from feedrace import _feedrace, errors
from feedrace._feedrace import DeviceArray
from feedrace.dali import nodes, types
from feedrace.outputs import Convert, converter

if TYPE_CHECKING:
    import numpy as np

_WHERE = "outputs of the pipeline"
_NATIVE_DTYPES = {types.UINT8: "uint8", types.FLOAT16: "float16", types.FLOAT: "float32"}


@dataclass(frozen=True)
class ImageOutput:
    """Images of a batch: one array, or several where their sizes differ."""

    layout: str

    def dense(self, batch: Any) -> Any:
        """[N, 3, H, W] or [N, H, W, 3], by DLPack and without a copy."""
        if batch.images is None:
            raise errors.invalid(
                "iterator",
                "pictures of one batch differ in size",
                "end the pipeline with one size, by fn.resize(size=…), fn.crop or "
                "fn.random_resized_crop, or take samples one by one: pipe.run()[0].at(i)",
            )
        return batch.images

    def samples(self, batch: Any) -> Any:
        if batch.device >= 0:
            return batch.images if batch.images is not None else batch.image_list
        if batch.images is None:
            return [as_numpy(image) for image in batch.image_list]
        return as_numpy(batch.images)

    def converted(self, batch: Any, convert: Convert) -> Any:
        """As `dense`, of a framework."""
        return convert(self.dense(batch))


@dataclass(frozen=True)
class LabelOutput:
    """Labels of a batch: [N, 1], or [N]."""

    dtype: str
    is_squeezed: bool
    layout: str = ""

    def dense(self, batch: Any) -> np.ndarray:
        # Eight bytes a sample are copied, so that they are DALI's type.
        labels = as_numpy(batch.labels).astype(self.dtype)
        return labels if self.is_squeezed else labels.reshape(-1, 1)

    samples = dense

    def converted(self, batch: Any, convert: Convert) -> Any:
        """Of a framework, on the GPU where the batch is: its type is changed there."""
        if batch.device < 0:
            return convert(self.dense(batch))
        labels = convert(batch.labels)
        if type(labels).__module__.partition(".")[0] == "torch":
            import torch

            labels = labels.to(getattr(torch, self.dtype))
        else:
            labels = labels.astype(self.dtype)
        return labels if self.is_squeezed else labels.reshape(-1, 1)


@dataclass(frozen=True)
class BytesOutput:
    """Bytes of a component, read as `dtype`: [N, length] where all have the same length."""

    field: str
    dtype: str
    layout: str = ""

    def samples(self, batch: Any) -> list[np.ndarray]:
        import numpy as np

        item_bytes = np.dtype(self.dtype).itemsize
        arrays = []
        for key, content in zip(batch.keys, batch.field(self.field), strict=True):
            content = content or b""
            if len(content) % item_bytes:
                found = f"component {self.field} has {len(content)} bytes"
                fix = f"give it a dtype whose size divides that, not {self.dtype}"
                raise errors.error("corrupt_data", f"sample {key}: {found}; {fix}")
            arrays.append(np.frombuffer(content, self.dtype).copy())
        return arrays

    def dense(self, batch: Any) -> np.ndarray:
        import numpy as np

        arrays = self.samples(batch)
        if len({len(array) for array in arrays}) > 1:
            raise errors.invalid(
                "iterator",
                f"component {self.field} has another length in another sample of the batch",
                "write it at one length, or take samples one by one: pipe.run()[…].at(i)",
            )
        return np.stack(arrays)

    def converted(self, batch: Any, convert: Convert) -> Any:
        return convert(self.dense(batch))


class Description:
    """What a pipeline does, checked.

    Attributes:
        reader: Where samples come from.
        steps: What feedrace's loader does to a picture.
        outputs: In the order in which the pipeline returns them.
        image_fields: Components of a shard that may hold the picture; None: as they come.
        fields: Components whose bytes are outputs.
    """

    def __init__(self, outputs: tuple[Any, ...]) -> None:
        if not outputs:
            fix = "return at least one output of an operator"
            raise errors.invalid(_WHERE, "there are none", fix)
        for i, node in enumerate(outputs):
            _check_output(i, node)
        self.reader: nodes.Reader = outputs[0].reader
        if any(node.reader is not self.reader for node in outputs):
            fix = "read from one; several data sets mix in feedrace.ImageLoader"
            raise errors.unsupported(_WHERE, "they come from several readers", fix)
        pictures = list(dict.fromkeys(node for node in outputs if isinstance(node, nodes.Images)))
        if len(pictures) > 1:
            fix = "return one; feedrace.dali makes one tensor of each sample"
            raise errors.unsupported(_WHERE, f"{len(pictures)} different kinds of images", fix)
        self.steps = _steps(pictures[0]) if pictures else [{"op": "read_only"}]
        self.image_fields = self._image_fields(pictures[0].source if pictures else outputs[0])
        self.outputs = [self._output(node) for node in outputs]
        self.fields = [
            output.field + ("?" if self.reader.may_lack_components else "")
            for output in self.outputs
            if isinstance(output, BytesOutput)
        ]
        _feedrace.describe(self.steps)

    def _image_fields(self, source: Any) -> list[str] | None:
        # What a shard's sample must have to be one; without pictures, its first output.
        if not self.reader.components:
            return None
        return self.reader.components[source.component].split(";")

    def _output(self, node: Any) -> Any:
        if isinstance(node, nodes.Images):
            return ImageOutput(node.layout)
        if isinstance(node, nodes.Labels):
            return LabelOutput(types.numpy_name(node.dtype), node.is_squeezed)
        component = self.reader.components[node.component]
        if ";" in component:
            fix = "name one component, or decode it"
            raise errors.unsupported(_WHERE, f"bytes of either of {component!r}", fix)
        return BytesOutput(component, types.numpy_name(node.dtype))


def _check_output(index: int, node: Any) -> None:
    if isinstance(node, (list, tuple)):
        fix = "return all outputs side by side"
        raise errors.invalid(_WHERE, f"output {index} is a {type(node).__name__}", fix)
    if not isinstance(node, nodes.DataNode):
        fix = "return outputs of operators"
        raise errors.invalid(_WHERE, f"output {index} is {errors.shown(node)}", fix)
    if isinstance(node, nodes.Draw):
        fix = "return images, labels, or components of shards"
        raise errors.unsupported(_WHERE, f"output {index} is a random number", fix)
    if isinstance(node, nodes.Images) and node.random_crop is not None:
        fix = "put fn.resize with both sides behind fn.decoders.image_random_crop"
        raise errors.unsupported(_WHERE, f"output {index} is a crop of random size", fix)
    if isinstance(node, nodes.Encoded) and node.component is None:
        fix = "decode them by fn.decoders.image"
        raise errors.unsupported(_WHERE, f"output {index} is encoded bytes of files", fix)


def _steps(node: nodes.Images) -> list[nodes.Step]:
    end = {"op": "to_tensor", "dtype": _NATIVE_DTYPES[node.dtype], "layout": node.layout}
    return [*node.steps, end]


def as_numpy(array: Any) -> np.ndarray:
    """A native array as numpy's, writable: of host memory without a copy, of a GPU's a copy."""
    return array.numpy() if isinstance(array, DeviceArray) else converter("numpy")(array)
