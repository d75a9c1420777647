# SPDX-License-Identifier: Apache-2.0
"""Bytes of a sample's further fields, as Python values.

| field ends with | value |
| --- | --- |
| json | what `json.loads` gives |
| txt | str, from UTF-8 |
| cls | int |
| npy | NumPy array (without pickled objects) |
| anything else | bytes, as stored |
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from feedrace.errors import Error, error, text_of


def _text(content: bytes) -> str:
    return content.decode("utf-8")


def _array(content: bytes) -> Any:
    import numpy as np

    with io.BytesIO(content) as file:
        array = np.load(file, allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it is an archive of arrays (npz), not one array")
        return array


def _whole(content: bytes) -> int:
    return int(content.decode("ascii").strip())


_DECODERS: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    "json": ("JSON", json.loads),
    "txt": ("UTF-8 text", _text),
    "cls": ("a whole number as text", _whole),
    "npy": ("a NumPy array without objects", _array),
}


def decode_field(
    name: str,
    contents: Sequence[bytes | None],
    where: Callable[[int], str],
    refuse: Callable[[Error], None],
) -> list[Any]:
    """The values of one field of a batch, in order; None where a sample has none.

    Args:
        name: The field's name, such as "json" or "caption.txt".
        contents: The bytes of each sample.
        where: Says of a place in the batch which sample that is; for messages.
        refuse: Gets the Error (code "corrupt_data") of bytes that are not what the name says;
            where it returns, the value is None.
    """
    kind, decode = _DECODERS.get(name.rpartition(".")[2].lower(), ("bytes", bytes))
    values = []
    for place, content in enumerate(contents):
        try:
            values.append(None if content is None else decode(content))
        except Exception as e:  # Whatever a parser throws on bytes that it does not understand.
            found = f"{where(place)}: field {name!r} is no {kind.removeprefix('a ')}"
            reason = text_of(e)
            fix = f"repair it, or name it otherwise than *.{name.rpartition('.')[2]} to get bytes"
            refuse(error("corrupt_data", f"{found} ({reason}); {fix}"))
            values.append(None)
    return values
