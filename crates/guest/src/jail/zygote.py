"""The zygote of a jail: an ordinary CPython that is warmed once and forked for each session.

Answers to: the host, over descriptor 3, and the init, over descriptor 4, which makes places. Must not: run a program,
start a thread, or draw a random number before a fork. What `enter` does not manage, it does not go on without.
"""

import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys

CONTROL, PLACES, SESSION = 3, 4, 3
GREETING = b"ringfence jail 1"

NEW_NS, NEW_IPC, NEW_PID, NEW_NET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
SET_DUMPABLE, SET_SECCOMP, CAPBSET_DROP, SET_SECUREBITS, SET_NO_NEW_PRIVS = 4, 22, 24, 28, 38
FILTER = 2
LOCKED_NO_ROOT = 0x2F  # no right comes from being user 0, and none is kept over a change of user; locked
FIRST_USER, USERS = 1000, 60000

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CAPSET = {"x86_64": 126, "aarch64": 91}.get(os.uname().machine)
# Rights of landlock's file rules, in their order: version 1 has the first 13, 2 adds REFER, 3 TRUNCATE, 5 IOCTL_DEV.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, REFER, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
READ = EXECUTE | READ_FILE | READ_DIR
CONNECT_TCP = 1 << 1
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
DEVICES = "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class Failed(Exception):
    """A step that could not be done."""


def check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise Failed(f"{what}: {os.strerror(number)}")
    return result


def prctl(option, *arguments, what):
    padded = [ctypes.c_ulong(number) if isinstance(number, int) else number for number in (*arguments, 0, 0, 0, 0)[:4]]
    return check(libc.prctl(option, *padded), what)


# --- the session's lock ---------------------------------------------------------------------------------------------


class Landlock:
    """The rules of one session, added to a rule set and then put on."""

    def __init__(self):
        self.version = check(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1), "landlock is missing")
        self.handled = ALL.get(self.version, (1 << 16) - 1)
        # Files; TCP's bind and connect from version 4; abstract sockets and signals of others from version 6.
        fields = struct.pack("=QQQ", self.handled, 3 if self.version >= 4 else 0, 3 if self.version >= 6 else 0)
        size = 24 if self.version >= 6 else 16 if self.version >= 4 else 8
        self.rules = check(libc.syscall(CREATE_RULESET, fields, ctypes.c_size_t(size), 0), "no landlock rules")

    def allow(self, path, rights):
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            rights &= self.handled
            if not os.path.isdir(path):
                rights &= ON_FILES
            rule = struct.pack("=Qi", rights, opened)
            check(libc.syscall(ADD_RULE, self.rules, 1, rule, 0), f"no landlock rule for {path}")
        finally:
            os.close(opened)

    def connect(self, port):
        if self.version >= 4:
            rule = struct.pack("=QQ", CONNECT_TCP, port)
            check(libc.syscall(ADD_RULE, self.rules, 2, rule, 0), "no landlock rule for the proxy")

    def put_on(self):
        check(libc.syscall(RESTRICT_SELF, self.rules, 0), "landlock can't be put on")
        os.close(self.rules)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def put_filter_on(steps):
    kept = ctypes.create_string_buffer(steps, len(steps))
    program = Program(len(steps) // 8, ctypes.addressof(kept))
    prctl(SET_SECCOMP, FILTER, ctypes.byref(program), what="a filter can't be put on")


def lock(plan, filters, user):
    for name, amount in plan["limits"]:
        resource.setrlimit(getattr(resource, name), (amount, amount))
    rules = Landlock()
    rules.allow("/", READ_DIR)  # names only, and of nothing but what the jail holds
    for path in plan["readable"]:
        rules.allow(path, READ)
    for path in plan["writable"]:
        rules.allow(path, ALL[1] & ~(MAKE_CHAR | MAKE_BLOCK) | REFER | TRUNCATE)
    for path in DEVICES:
        rules.allow(path, READ_FILE | WRITE_FILE)
    if plan["network"] is not None:
        rules.connect(plan["network"])
    prctl(SET_NO_NEW_PRIVS, 1, what="privileges can be gained")
    rules.put_on()
    for capability in range(64):
        if libc.prctl(CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    prctl(SET_SECUREBITS, LOCKED_NO_ROOT, what="user 0 keeps its rights")
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    nothing = struct.pack("=Ii6I", 0x20080522, 0, *[0] * 6)
    header, data = nothing[:8], nothing[8:]
    check(libc.syscall(CAPSET, header, data), "capabilities can't be given up")
    prctl(SET_DUMPABLE, 1, what="its own files in /proc can't be read")
    for steps in filters:
        put_filter_on(steps)


# --- a session's beginning ------------------------------------------------------------------------------------------


def enter(place, descriptors, plan, filters, user):
    """From the fork to the lock. Nothing of the session is read before it is on."""
    network = NEW_NET if plan["network"] is not None else 0
    check(libc.setns(place, NEW_NS | NEW_IPC | network), "the place can't be entered")
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the zygote's own children are nobody's business
    if user is not None:
        for path in ("/workspace",) if plan["workspace"] is not None else ():
            os.chown(path, user, user)
    os.chdir("/workspace" if plan["workspace"] is not None else "/tmp")
    session, out, err = descriptors
    # The numbers may be taken by one another: first out of the way, then into place.
    high = [os.dup2(number, 100 + at, False) for at, number in enumerate((session, out, err))]
    for number, at in zip(high, (SESSION, 1, 2)):
        os.dup2(number, at, at != SESSION)
    os.closerange(SESSION + 1, 200)
    lock(plan, filters, user)


def run(driver, place, descriptors, plan, filters, user):
    try:
        enter(place, descriptors, plan, filters, user)
        driver.reseed()
        gc.enable()
        driver.serve(SESSION)
    finally:
        os._exit(70)


class Zygote:
    def __init__(self, settings, driver):
        self.plan, self.range = settings["session"], settings["range"]
        self.filters = [bytes(steps) for steps in settings["filters"]]
        self.driver = driver
        self.control = socket.socket(fileno=CONTROL)
        self.places = socket.socket(fileno=PLACES)
        self.own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.forked = 0

    def place(self):
        self.places.send(b"p")
        said, descriptors, _, _ = socket.recv_fds(self.places, 4096, 2)
        if not descriptors:
            raise Failed(said.decode("utf-8", "replace") or "the init is gone")
        return descriptors

    def fork(self, descriptors):
        """A session in a place of its own: a handle on the place, the session's number, and the place's line if any."""
        place, *line = self.place()
        user = FIRST_USER + self.forked % USERS if self.range else None
        self.forked += 1
        check(libc.setns(place, NEW_PID), "the place's processes can't be joined")
        pid = os.fork()
        if pid == 0:
            run(self.driver, place, descriptors, self.plan, self.filters, user)
        check(libc.setns(self.own, NEW_PID), "the own processes can't be joined again")
        return place, pid, line

    def serve(self):
        while True:
            said, descriptors, _, _ = socket.recv_fds(self.control, 64, 4)
            if not said:
                os._exit(0)
            try:
                place, pid, line = self.fork(descriptors)
                made = [place, os.pidfd_open(pid), *line]
                socket.send_fds(self.control, [b"forked"], made)
                for number in made:
                    os.close(number)
            except (Failed, OSError) as error:
                self.control.send(f"a session can't be forked: {error}".encode()[:400])
            finally:
                for number in descriptors:
                    os.close(number)


def main():
    control = socket.socket(fileno=CONTROL)
    try:
        settings = json.loads(sys.argv[1])
        for name in settings["preload"]:
            importlib.import_module(name)
        from ringfence_guest import session

        session.warm()
        if len(os.listdir("/proc/self/task")) != 1:
            raise Failed(f"importing {', '.join(settings['preload'])} starts threads, which a fork would lose")
        zygote = Zygote(settings, session)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        sys.argv = [""]
        gc.collect()
        gc.disable()
        gc.freeze()
    except BaseException as error:
        control.send(f"the interpreter can't be warmed: {type(error).__name__}: {error}".encode()[:400])
        os._exit(1)
    control.detach()
    zygote.control.send(GREETING)
    zygote.serve()
