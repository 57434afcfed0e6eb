"""The hybrid model served by processes of this machine, caches handed over by TCP on 127.0.0.1."""

from planner.hybrid.live.fleet import Fleet, cores
from planner.hybrid.live.link import LOOPBACK, Link, TokenBucket
from planner.hybrid.live.messages import ModelSetup, Step, WorkerSpec
from planner.hybrid.live.router import serve, serve_with
from planner.hybrid.live.system import LiveRecord, LiveRequest, LiveRun, LiveSystem

__all__ = [
    "LOOPBACK",
    "Fleet",
    "Link",
    "LiveRecord",
    "LiveRequest",
    "LiveRun",
    "LiveSystem",
    "ModelSetup",
    "Step",
    "TokenBucket",
    "WorkerSpec",
    "cores",
    "serve",
    "serve_with",
]
