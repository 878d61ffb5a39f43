#!/usr/bin/env python3
"""Mounts a file system that never answers, and runs a command: dead_mount.py [--unkillable] FOLDER COMMAND...

The mount is one of FUSE. This process is its server and reads no request, so each call on the folder waits until its process
is killed, as on a file server that is gone. With --unkillable it reads the requests, so that the kernel waits for the answer
even after SIGKILL (state D). Call it in a mount namespace of its own. Exit code 77: FUSE is not available here.
"""
import ctypes
import os
import struct
import subprocess
import sys
import threading

unkillable = sys.argv[1] == "--unkillable"
folder, *command = sys.argv[1 + unkillable:]
FUSE_INIT = 26  # linux/fuse.h, protocol 7.31


def read_requests():
    """Answers the handshake, and reads all other requests."""
    while True:
        _, opcode, unique = struct.unpack_from("=IIQ", os.read(server, 1 << 17))
        if opcode == FUSE_INIT:
            settings = struct.pack("=IIIIHHIIHHI28x", 7, 31, 0, 0, 8, 8, 1 << 16, 1, 1, 0, 0)
            os.write(server, struct.pack("=IiQ", 16 + len(settings), 0, unique) + settings)


try:
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
except OSError as error:
    print(f"SKIP: FUSE is not available: /dev/fuse: {error.strerror}")
    sys.exit(77)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0"
if libc.mount(b"dead", folder.encode(), b"fuse", 0, options.encode()) != 0:
    print(f"SKIP: FUSE is not available: mount: {os.strerror(ctypes.get_errno())}")
    sys.exit(77)
if unkillable:
    threading.Thread(target=read_requests, daemon=True).start()
sys.exit(subprocess.run(command, check=False).returncode)
