"""The handler over standard input and output: one JSON event a line in, one JSON answer a line out.

For tests and adapters in other languages, which get exactly what an invocation would get: `python -m toolbox.lines`.
"""

import json
import sys

from .handler import handler


def main() -> None:
    for line in sys.stdin:
        if line.strip():
            sys.stdout.write(json.dumps(handler(json.loads(line))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
