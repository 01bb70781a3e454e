"""The Lambda entry, the same in the zip and in the image: `Handler: app.handler`."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "src"))

from toolbox import environment, linux  # noqa: E402
from toolbox.handler import handler, nursery  # noqa: E402

__all__ = ["handler"]

environment.scrub()
with contextlib.suppress(OSError):
    # The environment that this process was started with stays readable in /proc for its own user; unless it is not dumpable.
    linux.set_dumpable(False)
# Starting it takes longer than anything else here, and Lambda's initialisation has the most CPU.
nursery.start()
