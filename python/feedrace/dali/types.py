# SPDX-License-Identifier: Apache-2.0
"""DALI's names for data types, kinds of pictures, interpolations and layouts, with its numbers."""

from __future__ import annotations

import enum

from feedrace import errors
from feedrace.missing import not_there


class DALIDataType(enum.Enum):
    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11

    def __str__(self) -> str:
        return f"types.{self.name}"

    __repr__ = __str__


class DALIImageType(enum.Enum):
    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3  # noqa: N815  DALI's spelling
    ANY_DATA = 4

    def __str__(self) -> str:
        return f"types.{self.name}"

    __repr__ = __str__


class DALIInterpType(enum.Enum):
    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5

    def __str__(self) -> str:
        return f"types.{self.name}"

    __repr__ = __str__


NO_TYPE = DALIDataType.NO_TYPE
UINT8 = DALIDataType.UINT8
UINT16 = DALIDataType.UINT16
UINT32 = DALIDataType.UINT32
UINT64 = DALIDataType.UINT64
INT8 = DALIDataType.INT8
INT16 = DALIDataType.INT16
INT32 = DALIDataType.INT32
INT64 = DALIDataType.INT64
FLOAT16 = DALIDataType.FLOAT16
FLOAT = DALIDataType.FLOAT
FLOAT64 = DALIDataType.FLOAT64
BOOL = DALIDataType.BOOL

RGB = DALIImageType.RGB
BGR = DALIImageType.BGR
GRAY = DALIImageType.GRAY
YCbCr = DALIImageType.YCbCr
ANY_DATA = DALIImageType.ANY_DATA

INTERP_NN = DALIInterpType.INTERP_NN
INTERP_LINEAR = DALIInterpType.INTERP_LINEAR
INTERP_CUBIC = DALIInterpType.INTERP_CUBIC
INTERP_LANCZOS3 = DALIInterpType.INTERP_LANCZOS3
INTERP_TRIANGULAR = DALIInterpType.INTERP_TRIANGULAR
INTERP_GAUSSIAN = DALIInterpType.INTERP_GAUSSIAN

NCHW = "CHW"
NHWC = "HWC"
CPU_ONLY_DEVICE_ID = -99999

_NUMPY_NAMES = {
    DALIDataType.UINT8: "uint8",
    DALIDataType.UINT16: "uint16",
    DALIDataType.UINT32: "uint32",
    DALIDataType.UINT64: "uint64",
    DALIDataType.INT8: "int8",
    DALIDataType.INT16: "int16",
    DALIDataType.INT32: "int32",
    DALIDataType.INT64: "int64",
    DALIDataType.FLOAT16: "float16",
    DALIDataType.FLOAT: "float32",
    DALIDataType.FLOAT64: "float64",
    DALIDataType.BOOL: "bool",
}
_BY_NUMPY_NAME = {name: dtype for dtype, name in _NUMPY_NAMES.items()}


def numpy_name(dtype: DALIDataType) -> str:
    """How numpy and torch spell it: "float32" for `FLOAT`."""
    return _NUMPY_NAMES[dtype]


def of_numpy(dtype: object) -> DALIDataType:
    """DALI's name of a numpy data type."""
    return _BY_NUMPY_NAME[str(dtype)]


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    known = [word for word in globals() if word[0].isupper() and not word.startswith("DALI")]
    meant = errors.closest(name, known)
    hint = f"did you mean types.{meant}? There are" if meant else "there are"
    found = f"types.{name}: it is not in feedrace.dali"
    raise not_there(f"{found}; {hint} {errors.listed(known)}")
