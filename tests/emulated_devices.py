"""Emulated devices with much and with little shared memory."""

from cudaemu import DeviceSpec

BIG = DeviceSpec(multiprocessors=2)
SMALL = DeviceSpec(  # tables must be staged piece by piece
    multiprocessors=2,
    shared_memory_optin=20 * 1024,
    shared_memory_per_multiprocessor=24 * 1024,
)
