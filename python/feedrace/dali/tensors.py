# SPDX-License-Identifier: Apache-2.0
"""What `Pipeline.run` gives: lists of samples, as DALI's, over NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from feedrace import errors
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
