"""The Python tool container: loads an Open WebUI tool file, tells its specs, runs its functions in a sandbox.

Three kinds of process, from the outside in:

* the **parent** (`handler`) is the Lambda process. It holds whatever credentials the platform gave it, talks to the
  broker, and never runs a line of tool code;
* the **zygote** (`zygote`) has the heavy libraries imported and forks children from them, so that a new child costs
  milliseconds; it runs no tool code either;
* a **child** (`child`) belongs to one user and one tool. It runs the tool, under a **warden** (`warden`) that watches
  its memory and disk and takes all its descendants down with it.

The wire contract with the callers is `PROTOCOL.md`; what isolates a child on which platform is in `README.md`.
"""

__version__ = "0.1.0"
