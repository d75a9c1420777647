# SPDX-License-Identifier: Apache-2.0
"""DALI's names over feedrace: a script runs with only its import lines changed.

```python
import feedrace.dali.fn as fn
import feedrace.dali.types as types
from feedrace.dali import pipeline_def
from feedrace.dali.plugin.pytorch import DALIGenericIterator
```

`device_id=None` runs on the CPU, and operators with device="mixed" or "gpu" with it; `device_id=0`
delivers to that GPU. What is not
here says so, by name, when the pipeline is made. What differs from DALI:

- **Order.** `random_shuffle` is a permutation of all samples, a function of seed and epoch; without
  a buffer, so `initial_fill` is not needed. It is the same in every run: a seed not set is 0.
- **Epochs.** Every epoch has the same number of batches. `LastBatchPolicy.FILL` fills the last one
  with repeats from the same epoch, where DALI takes samples of the next one (or, with
  `pad_last_batch`, repeats the last), so that its epochs differ in length.
- **Shards.** All of `num_shards` get equally many batches of the same sizes, and each epoch is
  split anew. Which samples a shard gets must not depend on it, so with several shards the order and
  all draws follow the reader's `seed` argument (0 if not set), not the pipeline's, to which scripts
  often add the rank.
- **Folders** are read in any depth; names that begin with a dot are passed over.
- **Pixels** are those of the rest of feedrace; see `feedrace.dali.fn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from feedrace.dali import fn, types
from feedrace.dali.pipeline import Pipeline, pipeline_def
from feedrace.missing import missing_name

__all__ = ["Pipeline", "fn", "pipeline_def", "types"]

# Not for type checkers, which would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        fix = (
            "iterators are imported from feedrace.dali.plugin.pytorch and feedrace.dali.plugin.jax"
        )
        raise missing_name("feedrace.dali", name, __all__, fix)
