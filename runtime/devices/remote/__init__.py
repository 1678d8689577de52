"""Devices of other machines: the client's side (`device`) and the server's (`server`).

gRPC reads two settings from the environment when it is imported, so they are set here. Its errors go to the
user as errors of the kit, not to standard error. Its handlers of forks are off: they end about 2 % of the
child processes that the kit starts while gRPC is at work.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
