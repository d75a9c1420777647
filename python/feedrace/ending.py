# SPDX-License-Identifier: Apache-2.0
"""Loaders when the interpreter exits: those that live are ended, and no further ones are made.

Threads of a loader that nobody ends would ask for the interpreter's lock when it is gone, and go on
beside its end. `weakref.finalize` ends them, in an exit handler that is registered once.
"""

from __future__ import annotations

import threading
import weakref

from feedrace.errors import invalid


def _nothing() -> bool:
    return True


# Its handler is registered here, with the import: of handlers the last one runs first, so all that
# a program registers behind the import may use loaders.
weakref.finalize(_nothing, _nothing)
# A handler that is registered while handlers run is never run.
_IMPORTED_AT_EXIT = not threading.main_thread().is_alive()


def refuse_at_exit(where: str) -> None:
    """Raises Error where nothing would end a loader that is made now."""
    is_over = weakref.finalize(_nothing, _nothing)() is None  # As all, once they have been called.
    if is_over or _IMPORTED_AT_EXIT:
        found = "the interpreter exits, and nothing would end the loader's threads any more"
        fix = "make it before, or in an atexit handler registered after feedrace was imported"
        raise invalid(where, found, fix)
