# SPDX-License-Identifier: Apache-2.0
"""`Pipeline` and `pipeline_def`, as DALI spells them."""

from __future__ import annotations

import contextvars
import functools
import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

from feedrace import devices, errors
from feedrace.calls import check_call, checked, checked_methods
from feedrace.dali import nodes, operators, source, types
from feedrace.dali.description import Description
from feedrace.dali.tensors import TensorListCPU, TensorListGPU, tensor_list
from feedrace.missing import not_there

__all__ = ["Pipeline", "pipeline_def"]

_log = logging.getLogger("feedrace")

# In the order of DALI's own signature; those with a value here have that value alone.
_SUPPORTED = ("batch_size", "num_threads", "device_id", "seed", "prefetch_queue_depth")
_HINTS = (
    "exec_pipelined",
    "exec_async",
    "bytes_per_sample",
    "set_affinity",
    "max_streams",
    "default_cuda_stream_priority",
    "enable_memory_stats",
    "py_num_workers",
    "py_start_method",
    "py_callback_pickler",
    "exec_dynamic",
    "experimental_exec_dynamic",
    "stream_policy",
    "concurrency",
)
_RESUME = "feedrace.ImageLoader resumes exactly by state_dict()"
_REFUSED = {
    "enable_checkpointing": (False, _RESUME),
    "checkpoint": (None, _RESUME),
    "debug": (False, "leave it out"),
    "enable_conditionals": (False, "leave it out, and use fn.random.coin_flip"),
    "output_dtype": (None, "leave it out"),
    "output_ndim": (None, "leave it out"),
    "output_layout": (None, "leave it out"),
}
_ARGUMENTS = (*_SUPPORTED, *_HINTS, *_REFUSED)
# What pipelines of DALI that this one stands for are asked for.
_METHODS = (
    "build",
    "enable_gds",
    "epoch_size",
    "explain",
    "reader_meta",
    "reset",
    "run",
    "set_outputs",
    "stats",
)


@checked_methods
class Pipeline:
    """What happens to samples, and their batches.

    Made by `pipeline_def`, or by hand: ``with pipe: … pipe.set_outputs(images, labels)``.

    Args:
        batch_size: Samples of a batch.
        num_threads: Decode threads; None: by the number of cores.
        device_id: The GPU for batches, where any operator is on it; None: the CPU.
        seed: Of order and draws; None or -1: 0, the same in every run.
        prefetch_queue_depth: Batches made ahead.

    Raises:
        Error: An argument is unknown, out of range, or not to be had here.
    """

    def __init__(
        self,
        batch_size: int | None = None,
        num_threads: int | None = None,
        device_id: int | None = None,
        seed: int | None = None,
        **others: Any,
    ) -> None:
        where = "Pipeline"
        errors.check_names(where, "argument", others, _ARGUMENTS)
        if operators.is_unset(batch_size):
            raise errors.invalid(where, "no batch_size", "give one, such as batch_size=256")
        self.max_batch_size = errors.check_int(where, "batch_size", batch_size, 1)
        is_auto = operators.is_unset(num_threads)
        self.num_threads = 0 if is_auto else errors.check_int(where, "num_threads", num_threads, 1)
        self.device_id = _check_device(where, device_id)
        self.seed = operators.seed_of(where, seed) or 0
        depth = others.pop("prefetch_queue_depth", 2)
        self.prefetch_queue_depth = _check_depth(where, depth)
        for name, (value, fix) in _REFUSED.items():
            given = others.pop(name, None)
            if given is not None and given is not value:
                raise errors.unsupported(where, f"{name} is not in feedrace.dali", fix)
        self._graph = nodes.Graph()
        for name, value in others.items():
            if value is not None:
                self._graph.note(f"{where}: {name} has no effect here")
        self._tokens: list[contextvars.Token[nodes.Graph | None]] = []
        self._description: Description | None = None
        self._loader: Any = None
        self._last_batch = ""
        self._has_run = False

    @property
    def batch_size(self) -> int:
        return self.max_batch_size

    def __enter__(self) -> Pipeline:
        self._tokens.append(nodes.enter(self._graph))
        return self

    def __exit__(self, *_: object) -> None:
        nodes.leave(self._tokens.pop())

    def set_outputs(self, *outputs: Any) -> None:
        """What `run` gives: outputs of operators. Checks the whole description."""
        if self._loader is not None:
            fix = "make a second pipeline"
            raise errors.invalid("Pipeline.set_outputs", "the pipeline runs already", fix)
        self._description = Description(outputs)
        for note in self._graph.notes:
            _log.info("dali: %s", note)

    def build(self) -> None:
        """Opens the data set. Optional: `run` and iterators do it."""
        self.start("fill")

    def enable_gds(self) -> None:
        """Has no effect, and logs so: pictures reach a GPU by way of host memory."""
        _log.warning("dali: enable_gds() has no effect: reads take the path that the plan names")

    @property
    def device(self) -> dict[str, Any]:
        """Where batches go and are decoded, as the native loader's arguments."""
        if self.device_id is None or not self._graph.uses_gpu:
            return {}
        share = self._graph.hardware_share
        return {
            "device": f"cuda:{self.device_id}",
            "decode_device": self._graph.decode_device,
            "hardware_share": share,
            "cuda_plugin": devices.plugin_places(None),
            "cuda_libraries": devices.library_folders(None),
        }

    def start(self, last_batch: str) -> Any:
        """The native loader, opened with this rule for the last batch of an epoch."""
        if self._loader is not None and self._last_batch == last_batch:
            return self._loader
        if self._has_run:
            raise errors.invalid(
                "Pipeline",
                f"it runs with last_batch={self._last_batch!r}, and is asked for {last_batch!r}",
                "make a second pipeline",
            )
        self._loader = source.open_loader(self, self.description, last_batch)
        self._last_batch = last_batch
        return self._loader

    @property
    def description(self) -> Description:
        if self._description is None:
            # DALI's older form: a subclass whose define_graph() gives the outputs.
            if not hasattr(type(self), "define_graph"):
                fix = "call set_outputs, or use @pipeline_def"
                raise errors.invalid("Pipeline", "it has no outputs", fix)
            with self:
                outputs = self.define_graph()
            self.set_outputs(*_as_outputs(outputs))
        assert self._description is not None
        return self._description

    def take(self) -> Any:
        """The next native batch, of whichever epoch it is."""
        if self._loader is None:
            self.start("fill")
        self._has_run = True
        batch = self._loader.next()
        if batch is None:  # The end of an epoch; the next call begins the next one.
            batch = self._loader.next()
        if batch is None:
            raise errors.error("not_found", "Pipeline: an epoch without samples; check the reader")
        return batch

    def run(self) -> tuple[TensorListCPU | TensorListGPU, ...]:
        """The next batch, of `batch_size` samples: one list of tensors for each output.

        Images of a pipeline with a GPU are on it; labels and components are copied to the CPU. At
        the end of an epoch the batch is filled with repeats from it, and the next epoch follows.
        """
        batch = self.take()
        return tuple(
            tensor_list(output.samples(batch), output.layout) for output in self.description.outputs
        )

    outputs = share_outputs = run

    def schedule_run(self) -> None:
        """Nothing: batches are made ahead anyway."""

    def release_outputs(self) -> None:
        """Nothing: a batch's memory returns when its tensors die."""

    def reset(self) -> None:
        """Nothing: epochs follow each other."""

    def epoch_size(self, reader_name: str | None = None) -> Any:
        """Samples of an epoch of all shards, padded ones included: a dict by the reader's name, or
        the number for `reader_name`."""
        reader = self.description.reader
        size = self._meta(reader)["epoch_size_padded"]
        return {reader.name: size} if reader_name is None else size * self._named(reader_name)

    def reader_meta(self, reader_name: str | None = None) -> dict[str, Any]:
        """What is known of the reader: its epoch size, shards and padding, as DALI names them."""
        reader = self.description.reader
        meta = self._meta(reader)
        if reader_name is None:
            return {reader.name: meta}
        self._named(reader_name)
        return meta

    def _named(self, name: object) -> int:
        known = self.description.reader.name
        if name != known:
            raise errors.unknown("Pipeline", "reader", name, [known])
        return 1

    def _meta(self, reader: nodes.Reader) -> dict[str, Any]:
        loader = self._loader if self._loader is not None else self.start("fill")
        size = loader.sample_count
        shards = reader.shard_count
        padded = -(-size // shards) * shards if reader.pads_last_batch else size
        return {
            "epoch_size": size,
            "epoch_size_padded": padded,
            "number_of_shards": shards,
            "shard_id": reader.shard_id,
            "pad_last_batch": int(reader.pads_last_batch),
            "stick_to_shard": int(reader.sticks_to_shard),
        }

    def shard_size(self) -> int:
        """Samples of an epoch that this pipeline gives, before any batch is filled or dropped."""
        reader = self.description.reader
        return -(-int(self._loader.sample_count) // reader.shard_count)

    def steps(self) -> int:
        """Batches of an epoch, the same in every epoch and on every shard."""
        return int(json.loads(self._loader.plan_json())["steps"])

    def explain(self) -> str:
        """One sentence: what limits the rate, with the evidence."""
        return str(self.start(self._last_batch or "fill").explain())

    def stats(self) -> dict[str, Any]:
        return dict(self.start(self._last_batch or "fill").stats())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "define_graph":
            raise AttributeError(name)
        meant = errors.closest(name, _METHODS)
        hint = f"did you mean {meant}()? There are" if meant else "there are"
        found = f"Pipeline.{name}: it is not in feedrace.dali"
        raise not_there(f"{found}; {hint} {errors.listed(_METHODS)}")


def _check_device(where: str, device_id: Any) -> int | None:
    is_number = isinstance(device_id, int)
    if device_id is None or (is_number and device_id == types.CPU_ONLY_DEVICE_ID):
        return None
    return errors.check_int(where, "device_id", device_id, 0)


def _check_depth(where: str, depth: Any) -> int:
    if isinstance(depth, dict):
        errors.check_names(where, "member of prefetch_queue_depth", depth, ("cpu_size", "gpu_size"))
        return max(_check_depth(where, one) for one in depth.values() or (2,))
    return errors.check_int(where, "prefetch_queue_depth", depth, 1, 1024, "batches")


def _as_outputs(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


@checked("pipeline_def")
def pipeline_def(function: Callable[..., Any] | None = None, **fixed: Any) -> Any:
    """Makes a function that describes a pipeline one that gives it.

    The function's own arguments are passed on; those of `Pipeline` may be given here or in the
    call, where they stand above those given here.
    """
    where = "pipeline_def"
    errors.check_names(where, "argument", fixed, _ARGUMENTS)
    if function is None:
        return functools.partial(pipeline_def, **fixed)
    if not callable(function):
        fix = "write @pipeline_def above a function, or @pipeline_def(batch_size=…)"
        raise errors.invalid(where, f"{errors.shown(function)} is no function", fix)
    name = getattr(function, "__name__", "pipeline")
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    own = [one.name for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)

    @functools.wraps(function)
    def make(*inputs: Any, **arguments: Any) -> Pipeline:
        settings = {k: v for k, v in arguments.items() if k in _ARGUMENTS and k not in own}
        others = {k: v for k, v in arguments.items() if k not in settings}
        for key in others:
            if key not in own and not takes_any:
                raise errors.unknown(name, "argument", key, [*own, *_SUPPORTED])
        check_call(name, signature, inputs, others)
        pipe = Pipeline(**{**fixed, **settings})
        with pipe:
            outputs = _as_outputs(function(*inputs, **others))
        pipe.set_outputs(*outputs)
        return pipe

    return make
