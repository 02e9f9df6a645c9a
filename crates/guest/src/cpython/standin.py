import os, struct
def warm(): pass
def reseed(): pass
def serve(fd):
    os.write(fd, struct.pack("<IBI", 4, 0, 1))
    import time
    while True:
        b = os.read(fd, 65536)
        if not b: os._exit(0)
