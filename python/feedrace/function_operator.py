# SPDX-License-Identifier: Apache-2.0
"""The operator of `feedrace.fn` that calls a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from feedrace.errors import check_bool, check_int, check_size, shown
from feedrace.graph import PICTURES, BatchCall, Node, check_owner, take, value_name
from feedrace.operator_call import Call, operator


@operator
def python_function(
    call: Call,
    *inputs: Node,
    function: Callable[..., Any] | None = None,
    batch: bool = False,
    size: int | tuple[int, int] | None = None,
    outputs: int | None = None,
    random: bool = False,
    info: bool = False,
) -> Any:
    """Calls a function of yours: for each picture, or for each whole batch.

    Of each picture (the default): it gets uint8 [H, W, 3] (a NumPy array) and returns the same, on
    the loader's decode threads, several at a time. It stands between `decode` and `normalize`.

    Of whole batches (``batch=True``): it gets what the batch has for `inputs` (the picture's
    tensor, labels, fields, in that order) and returns as many values, on a thread of its own that
    runs one batch ahead. Everything behind it is such a function, too.

    Args:
        function: For whole batches it may change arrays in place.
        size: Of the pictures that it returns, where it is another one than it gets.
        outputs: How many values a function of batches returns; as many as `inputs` if left out.
        random: Whether a function of single pictures gets a second argument: a whole number below
            2^128 that is a function of (seed, epoch, sample), to seed a generator with.
        info: Whether a function of batches gets ``info=``, with `.seed`, `.epoch`, `.step` and
            `.indices`: with a generator made from these, a run that is resumed repeats it.

    Returns:
        A node; with several outputs a tuple of them. What the function throws comes out of the
        loop, as an Error that names the samples' places and has it as ``__cause__``; of a single
        picture `on_error` decides, as of a sample that can't be read.
    """
    if not callable(function):
        call.refuse(f"function is {shown(function)}", "give a callable: function=my_function")
    name = getattr(function, "__qualname__", type(function).__name__)
    if not check_bool(call.where, "batch", batch):
        if outputs is not None or info:
            call.refuse("outputs or info is given", "they go with batch=True")
        if len(inputs) != 1:
            fix = "one that takes more works on whole batches: batch=True"
            call.refuse(f"{len(inputs)} inputs of a function of single pictures", fix)
        shape = None if size is None else check_size(call.where, "size", size)
        drawn: dict[str, Any] = {"random": True} if check_bool(call.where, "random", random) else {}
        return call.step(inputs[0], function=function, name=name, size=shape, **drawn)
    if size is not None or random:
        fix = "they go with functions of single pictures; take info=True for random numbers"
        call.refuse("size or random is given", fix)
    takes_info = check_bool(call.where, "info", info)
    return _batch_function(call, function, name, inputs, outputs, takes_info)


def _batch_function(
    call: Call,
    function: Callable[..., Any],
    name: str,
    inputs: tuple[Node, ...],
    outputs: int | None,
    takes_info: bool,
) -> Any:
    if not inputs:
        call.refuse("no inputs", "give at least one, such as the picture's tensor")
    for node in inputs:
        if isinstance(node, Node) and node.kind in ("field", "batch"):
            check_owner(call.trace, call.where, node)
            continue
        fix = "give it the picture's tensor, a field, or another batch function's result"
        take(call.trace, call.where, node, PICTURES, fix)
    for node in inputs:
        node.is_taken = True
    most = 64  # Far more than a batch has members; a guard against a size given by mistake.
    count = len(inputs) if outputs is None else check_int(call.where, "outputs", outputs, 1, most)
    number = len(call.trace.batch_calls)
    names = tuple(f"{name}#{number}.{i}" for i in range(count))
    taken = tuple(value_name(node) for node in inputs)
    made = BatchCall(function, name, call.place, taken, names, takes_info)
    call.trace.batch_calls.append(made)
    nodes = tuple(call.node("batch", name=result) for result in names)
    return nodes[0] if count == 1 else nodes
