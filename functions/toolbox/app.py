"""The Lambda entry, the same in the zip and in the image: `Handler: app.handler`."""

import contextlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "src"))

from toolbox import environment, linux
from toolbox.handler import handler, nursery

__all__ = ["handler"]

environment.scrub()
with contextlib.suppress(OSError):
    # What scrubbing cannot reach, the environment the process was started with, is closed to its own user by this.
    linux.set_dumpable(False)
# Starting it takes longer than anything else here, and Lambda's initialisation has the most CPU.
nursery.start()
