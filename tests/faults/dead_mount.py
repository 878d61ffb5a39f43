#!/usr/bin/env python3
"""Mounts a file system that never answers, and runs a command: dead_mount.py FOLDER COMMAND...

The mount is one of FUSE. This process is its server and reads no request, so each call on the folder waits until its process
is killed, as on a file server that is gone. Call it in a mount namespace of its own. Exit code 77: FUSE is not available here.
"""
import ctypes
import os
import subprocess
import sys

folder, command = sys.argv[1], sys.argv[2:]
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
sys.exit(subprocess.run(command, check=False).returncode)
