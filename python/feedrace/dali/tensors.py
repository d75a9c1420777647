# SPDX-License-Identifier: Apache-2.0
"""What `Pipeline.run` gives: lists of samples, as DALI's, over NumPy arrays or a GPU's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from feedrace import errors
from feedrace._feedrace import DeviceArray
from feedrace.calls import checked_methods
from feedrace.dali import types

if TYPE_CHECKING:
    import numpy as np


@checked_methods
class TensorCPU:
    """One dense array. `numpy.asarray` and DLPack take it without a copy."""

    def __init__(self, array: np.ndarray, layout: str = "") -> None:
        self._array = array
        self._layout = layout

    def shape(self) -> list[int]:
        return list(self._array.shape)

    @property
    def dtype(self) -> types.DALIDataType:
        return types.of_numpy(self._array.dtype)

    def layout(self) -> str:
        """ "HWC", "CHW", with "N" in front for a batch, or nothing."""
        return self._layout

    def as_cpu(self) -> TensorCPU:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        import numpy as np

        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


@checked_methods
class TensorListCPU:
    """The samples of one output of a batch; theirs for good, not only until the next batch."""

    def __init__(self, samples: np.ndarray | list[np.ndarray], layout: str = "") -> None:
        self._samples: Sequence[np.ndarray] = samples  # type: ignore[assignment]
        self._layout = layout

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> TensorCPU:
        return TensorCPU(self.at(index), self._layout)

    def __iter__(self) -> Iterator[TensorCPU]:
        return (self[index] for index in range(len(self)))

    def at(self, index: int) -> np.ndarray:
        """Sample `index` as an array."""
        import numpy as np

        return np.asarray(self._samples[index])

    def shape(self) -> list[tuple[int, ...]]:
        return [tuple(self.at(index).shape) for index in range(len(self))]

    @property
    def dtype(self) -> types.DALIDataType:
        return types.of_numpy(self.at(0).dtype)

    def layout(self) -> str:
        return self._layout

    def is_dense_tensor(self) -> bool:
        return len(set(self.shape())) == 1

    def as_array(self) -> np.ndarray:
        """[N, …], where all samples have one shape."""
        import numpy as np

        if not self.is_dense_tensor():
            shapes = errors.shown(sorted(set(self.shape())))
            fix = "take them one by one, by at(i), or resize them to one size"
            raise errors.invalid("as_array", f"samples have different shapes: {shapes}", fix)
        if isinstance(self._samples, np.ndarray):
            return self._samples
        return np.stack(self._samples)

    def as_tensor(self) -> TensorCPU:
        return TensorCPU(self.as_array(), f"N{self._layout}" if self._layout else "")

    def as_cpu(self) -> TensorListCPU:
        return self


@checked_methods
class TensorGPU:
    """One dense array of a GPU, for DLPack and the CUDA Array Interface, without a copy."""

    def __init__(self, array: DeviceArray, layout: str = "") -> None:
        self._array = array
        self._layout = layout

    def shape(self) -> list[int]:
        return list(self._array.shape)

    @property
    def dtype(self) -> types.DALIDataType:
        return types.of_numpy(self._array.dtype)

    def layout(self) -> str:
        """ "HWC", "CHW", with "N" in front for a batch."""
        return self._layout

    def device_id(self) -> int:
        return int(self._array.__dlpack_device__()[1])

    def as_cpu(self) -> TensorCPU:
        """A copy, which is waited for."""
        return TensorCPU(self._array.numpy(), self._layout)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self._array.__cuda_array_interface__)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._array.__dlpack_device__()
        return kind, number


@checked_methods
class TensorListGPU:
    """The samples of one output of a batch on a GPU; theirs for good."""

    def __init__(self, samples: DeviceArray | list[DeviceArray], layout: str = "") -> None:
        self._samples = samples
        self._layout = layout

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> TensorGPU:
        return TensorGPU(self._samples[index], self._layout)

    def __iter__(self) -> Iterator[TensorGPU]:
        return (self[index] for index in range(len(self)))

    def shape(self) -> list[tuple[int, ...]]:
        return [tuple(one.shape()) for one in self]

    @property
    def dtype(self) -> types.DALIDataType:
        return self[0].dtype

    def layout(self) -> str:
        return self._layout

    def device_id(self) -> int:
        return self[0].device_id()

    def is_dense_tensor(self) -> bool:
        return isinstance(self._samples, DeviceArray)

    def as_tensor(self) -> TensorGPU:
        """[N, …], where all samples have one shape."""
        if not isinstance(self._samples, DeviceArray):
            fix = "take them one by one, by list[i], or resize them to one size"
            raise errors.invalid("as_tensor", "samples have different shapes", fix)
        return TensorGPU(self._samples, f"N{self._layout}" if self._layout else "")

    def as_cpu(self) -> TensorListCPU:
        """A copy, which is waited for."""
        if isinstance(self._samples, DeviceArray):
            return TensorListCPU(self._samples.numpy(), self._layout)
        return TensorListCPU([one.numpy() for one in self._samples], self._layout)


def tensor_list(samples: Any, layout: str) -> TensorListCPU | TensorListGPU:
    """The list of an output's samples, where they are."""
    one = samples[0] if isinstance(samples, list) and samples else samples
    kind = TensorListGPU if isinstance(one, DeviceArray) else TensorListCPU
    return kind(samples, layout)
