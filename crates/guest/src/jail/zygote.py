"""The zygote of a jail: an ordinary CPython that is warmed once and forked for each session.

Answers to: the host, over descriptor 3, and the init, over descriptor 4, which makes places. Must not: run a program,
start a thread, or leave two sessions the same random state. What `enter` does not manage, it does not go on without.
"""

import _signal
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

from ringfence_guest import forks

CONTROL, PLACES, SESSION, RULES = 3, 4, 3, 4
GREETING = b"ringfence jail 1"
AHEAD = b"a"  # asks for a session that nobody waits for yet

NEW_NS, NEW_IPC, NEW_USER, NEW_PID, NEW_NET = 0x00020000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36
SET_DUMPABLE, SET_SECCOMP, CAPBSET_READ, CAPBSET_DROP, SET_SECUREBITS, SET_NO_NEW_PRIVS = 4, 22, 23, 24, 28, 38
FILTER = 2
LOCKED_NO_ROOT = 0x2F  # no right comes from being user 0, and none is kept over a change of user; locked
FIRST_USER, USERS = 1000, 60000
ONLY_USER = 1000

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CAPSET = {"x86_64": 126, "aarch64": 91}.get(os.uname().machine)
# Rights of landlock's file rules, of which version 5 has them all.
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK, REFER, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 13, 1 << 14, 1 << 15
HANDLED = (1 << 16) - 1
WRITE = HANDLED & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
READ = EXECUTE | READ_FILE | READ_DIR
SIGNALS = 1 << 1  # of what Landlock confines to its own processes
FIRST_WITH_SIGNALS = 6
ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


class Failed(Exception):
    """A step that could not be done."""


def check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise Failed(f"{what}: {os.strerror(number)}")
    return result


def prctl(option, first, second, what):
    check(libc.prctl(option, first, second, 0, 0), what)


# --- a session's lock -----------------------------------------------------------------------------------------------


def among_the_hosts(lock_only):
    """What may be done where there is no root of the session's own: what is not named can't be opened."""
    rules = [(path, READ) for path in lock_only["readable"]]
    rules += [(path, READ | WRITE_FILE) for path in lock_only["devices"]]
    return [(path, rights if os.path.isdir(path) else rights & ON_FILES) for path, rights in rules]


def of_process(folder):
    """A session's own folder, and what of `/proc` tells of itself and nothing else."""
    own = [(f"/proc/{os.getpid()}/{name}", READ) for name in ("fd", "maps", "stat", "statm", "status")]
    own = [(path, rights if os.path.isdir(path) else rights & ON_FILES) for path, rights in own]
    return [(folder, WRITE), *own]


def restrict(made):
    check(libc.syscall(RESTRICT_SELF, made, 0), "landlock can't be put on")
    os.close(made)


def hold_signals(outside):
    """From now on this process and all that come from it can signal one another only. It is tried on one outside: this
    process is to signal whatever it may."""
    prctl(SET_NO_NEW_PRIVS, 1, 0, "privileges can be gained")
    fields = struct.pack("=QQQ", 0, 0, SIGNALS)
    restrict(check(libc.syscall(CREATE_RULESET, fields, ctypes.c_size_t(24), 0), "no landlock rules"))
    try:
        os.kill(outside, 0)
    except PermissionError:
        return
    raise Failed("landlock does not hold signals back")


class RulesAlone:
    """Landlock's rules where there are no places. In a place, whoever makes that makes them."""

    def __init__(self, lock_only):
        version = check(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1), "landlock is missing")
        if version < FIRST_WITH_SIGNALS:
            raise Failed(f"landlock is version {version} here, and without namespaces it has to be {FIRST_WITH_SIGNALS}")
        # Files; TCP's bind and connect; abstract sockets and signals of others.
        self.fields = struct.pack("=QQQ", HANDLED, 3, 3)
        self.rules = among_the_hosts(lock_only)

    def put_on(self, more):
        made = check(libc.syscall(CREATE_RULESET, self.fields, ctypes.c_size_t(24), 0), "no landlock rules")
        for path, rights in (*self.rules, *more):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", rights & HANDLED, opened)
            check(libc.syscall(ADD_RULE, made, 1, rule, 0), "no landlock rule")
            os.close(opened)
        restrict(made)


class Program(ctypes.Structure):
    """A filter as the kernel takes it."""

    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    @classmethod
    def of(cls, steps):
        kept = ctypes.create_string_buffer(steps, len(steps))
        program = cls(len(steps) // 8, ctypes.addressof(kept))
        program.kept = kept
        return program


# Those of which a process has less than the zygote needs for itself.
LATE = ("RLIMIT_NOFILE", "RLIMIT_NPROC")


class Lock:
    """A session's lock. All that can be made ahead, or be inherited, is: after the fork come little but system calls."""

    def __init__(self, plan, filters, lock_only):
        limits = [(name, getattr(resource, name), amount) for name, amount in plan["limits"]]
        self.limits = [(number, (amount, amount)) for _, number, amount in limits]
        self.late = [(number, (amount, amount)) for name, number, amount in limits if name in LATE]
        self.programs = [Program.of(steps) for steps in filters]
        self.filters = [ctypes.addressof(program) for program in self.programs]
        nothing = struct.pack("=Ii6I", 0x20080522, 0, *[0] * 6)
        self.header, self.no_rights = nothing[:8], nothing[8:]
        self.capabilities = [number for number in range(64) if libc.prctl(CAPBSET_READ, number, 0, 0, 0) >= 0]
        self.alone = None if lock_only is None else RulesAlone(lock_only)

    def begin(self, range):
        """In the zygote: what takes nothing from it that it needs, and every session inherits."""
        for number, amounts in self.limits:
            if (number, amounts) not in self.late:
                resource.setrlimit(number, amounts)
        prctl(SET_NO_NEW_PRIVS, 1, 0, "privileges can be gained")
        if range:
            os.setgroups([])
            self.no_way_back()

    def no_way_back(self):
        """No right comes back once it is given up. A user namespace of a session's own would undo it."""
        for capability in self.capabilities:
            prctl(CAPBSET_DROP, capability, 0, "a right can be had again")
        prctl(SET_SECUREBITS, LOCKED_NO_ROOT, 0, "user 0 keeps its rights")

    def put_on(self, user, rules):
        for number, amounts in self.late:
            resource.setrlimit(number, amounts)
        restrict(rules)
        if user is None:
            self.no_way_back()
        else:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        self.close()

    def put_on_alone(self, folder, others):
        """Where there are no namespaces: rights were given up before, as far as there were any."""
        for name, (amount, _) in self.limits:
            _, most = resource.getrlimit(name)
            amount += others if name == resource.RLIMIT_NPROC else 0
            amount = amount if most == resource.RLIM_INFINITY else min(amount, most)
            resource.setrlimit(name, (amount, amount))
        prctl(SET_NO_NEW_PRIVS, 1, 0, "privileges can be gained")
        self.alone.put_on(of_process(folder))
        self.close()

    def close(self):
        check(libc.syscall(CAPSET, self.header, self.no_rights), "capabilities can't be given up")
        prctl(SET_DUMPABLE, 1, 0, "its own files in /proc can't be read")
        for address in self.filters:
            prctl(SET_SECCOMP, FILTER, address, "a filter can't be put on")


# --- a session's beginning ------------------------------------------------------------------------------------------


def own_users():
    """A user namespace of its own, whose only user is the same: processes are counted by user and namespace."""
    check(libc.unshare(NEW_USER), "a user namespace of its own can't be made")
    prctl(SET_DUMPABLE, 1, 0, "its own files in /proc can't be written")
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(f"{ONLY_USER} {ONLY_USER} 1")


def go_in(doors):
    """Into the session's control groups, by files that the host has opened."""
    for door in doors:
        os.write(door, b"0")


class Session:
    """What every session of this zygote begins with."""

    def __init__(self, plan, filters, lock_only, driver, forks):
        self.lock = Lock(plan, filters, lock_only)
        self.forks = forks
        self.has_workspace = plan["workspace"] is not None
        # What of a place it joins, besides the namespace of processes.
        self.kinds = (NEW_NS, NEW_IPC) if plan["network"] is None else (NEW_NS, NEW_IPC, NEW_NET)
        self.users = 1 if plan["cow"] else USERS  # a folder that is seen copy-on-write belongs to one user
        self.driver = driver

    def run(self, place, descriptors, doors, user, is_ahead):
        """In the child. From the fork to the lock nothing of the session is read."""
        try:
            go_in(doors)
            *namespaces, rules = place
            for namespace, kind in zip(namespaces, self.kinds):
                check(libc.setns(namespace, kind), "the place can't be entered")
            if user is None:
                own_users()
            elif self.has_workspace:
                os.chown("/workspace", user, user)
            os.dup2(rules, RULES, False)
            self.begin(descriptors, RULES + 1, "/workspace" if self.has_workspace else "/tmp")
            self.lock.put_on(user, RULES)
            self.serve(is_ahead)
        finally:
            os._exit(70)

    def run_alone(self, folder, descriptors, doors, others, is_ahead):
        """The same in a child that has no place, but a folder of its own and a parent that ends what it leaves."""
        try:
            go_in(doors)
            prctl(SET_PDEATHSIG, signal.SIGKILL, 0, "it would outlive its parent")
            self.begin(descriptors, SESSION + 1, folder)
            os.environ.update(HOME=folder, TMPDIR=folder, MPLCONFIGDIR=folder)
            self.lock.put_on_alone(folder, others)
            self.serve(is_ahead)
        finally:
            os._exit(70)

    def begin(self, descriptors, unused, folder):
        """`unused`: the first number that is nothing of the session's."""
        os.setsid()
        # The zygote's own children are nobody's business. Python's `signal.signal` is the same with much around it.
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        os.chdir(folder)
        # None of these numbers is one of the others: those are taken in the zygote.
        session, out, err = descriptors
        os.dup2(session, SESSION, False)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(unused, 200)

    def serve(self, is_ahead):
        self.forks.give_back()
        self.driver.reseed()
        gc.enable()
        self.driver.serve(SESSION, is_ahead)


def session_of(settings, driver, forks):
    filters = [bytes(steps) for steps in settings["filters"]]
    return Session(settings["session"], filters, settings["lock_only"], driver, forks)


class Zygote:
    def __init__(self, settings, driver, forks):
        self.range = settings["range"]
        self.session = session_of(settings, driver, forks)
        self.forks = forks
        self.control = socket.socket(fileno=CONTROL)
        self.places = socket.socket(fileno=PLACES)
        self.own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.forked = 0
        self.session.lock.begin(self.range)
        self.places.send(b"p")

    def place(self):
        """The place that was asked for last. The next one is made while this one's session is forked."""
        said, descriptors, _, _ = socket.recv_fds(self.places, 4096, 8)
        self.places.send(b"p")
        if not descriptors:
            raise Failed(said.decode("utf-8", "replace") or "the init is gone")
        return descriptors

    def fork(self, descriptors, doors, is_ahead):
        """A session in a place of its own: a handle on the place, the session's number, and what else the host gets:
        the place's line, and what holds its changes."""
        place, processes, *inside = self.place()
        joined = len(self.session.kinds) + 1
        inside, others = inside[:joined], inside[joined:]
        user = FIRST_USER + self.forked % self.session.users if self.range else None
        self.forked += 1
        try:
            check(libc.setns(processes, NEW_PID), "the place's processes can't be joined")
            pid = self.forks.fork()
            if pid == 0:
                self.session.run(inside, descriptors, doors, user, is_ahead)
            check(libc.setns(self.own, NEW_PID), "the own processes can't be joined again")
        finally:
            for number in (processes, *inside):
                os.close(number)
        return place, pid, others

    @staticmethod
    def leave():
        os._exit(0)

    def serve(self):
        while True:
            said, descriptors, _, _ = socket.recv_fds(self.control, 64, 8)
            if not said:
                self.leave()
            try:
                place, pid, others = self.fork(descriptors[:3], descriptors[3:], said == AHEAD)
                made = [place, os.pidfd_open(pid), *others]
                socket.send_fds(self.control, [b"forked"], made)
                for number in made:
                    os.close(number)
            except (Failed, OSError) as error:
                self.control.send(f"a session can't be forked: {error}".encode()[:400])
            finally:
                for number in descriptors:
                    os.close(number)


# --- where there are no namespaces -----------------------------------------------------------------------------------


def remove(folder):
    """Removes a folder that a program filled. What is in folders within is brought up, so that no depth is too great."""
    os.chmod(folder, 0o700)
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    waiting = ["."]
    while waiting:
        name = waiting.pop()
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        for entry in os.listdir(inside):
            try:
                os.unlink(entry, dir_fd=inside)
            except IsADirectoryError:
                brought = os.urandom(16).hex()
                os.chmod(entry, 0o700, dir_fd=inside)
                os.rename(entry, brought, src_dir_fd=inside, dst_dir_fd=top)
                waiting.append(brought)
        os.close(inside)
        if name != ".":
            os.rmdir(name, dir_fd=top)
    os.close(top)
    os.rmdir(folder)


def tasks_of(user):
    """Processes and threads of this user: the kernel counts them together."""
    count = 0
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit():
                with open(f"/proc/{entry}/status") as file:
                    fields = dict(line.split(":", 1) for line in file)
                if int(fields["Uid"].split()[0]) == user:
                    count += int(fields["Threads"])
        except (OSError, KeyError, ValueError):
            continue
    return count


# The mode of the sessions' folder once there will be no further session.
LEAVING = 0o710


class Alone:
    """The zygote where there are no namespaces. Each session is below a *keeper*, which waits for the host to let go of
    its leash, and then ends whatever came from the session: Landlock lets it signal these processes and no others, and
    lets none of them signal it."""

    def __init__(self, settings, driver, forks):
        self.folder = settings["lock_only"]["folder"]
        self.session = session_of(settings, driver, forks)
        self.forks = forks
        self.control = socket.socket(fileno=CONTROL)
        self.forked = 0
        # All of it is imported.
        remove(f"{self.folder}/driver")

    def serve(self):
        while True:
            said, descriptors, _, _ = socket.recv_fds(self.control, 64, 8)
            if not said:
                self.leave()
            self.forked += 1
            try:
                pid = self.forks.fork()
                if pid == 0:
                    self.keep(descriptors, said == AHEAD)
            except OSError as error:
                self.control.send(f"a session can't be forked: {error}".encode()[:400])
            finally:
                for number in descriptors:
                    os.close(number)

    def leave(self):
        try:
            # First the sign, so that a keeper which is done later looks after the folder.
            os.chmod(self.folder, LEAVING)
            os.rmdir(self.folder)
        except OSError:
            pass  # a keeper is not done yet: the last one sees to it
        os._exit(0)

    def keep(self, descriptors, is_ahead):
        """In the child. It tells the host of the session, or why there is none."""
        descriptors, leash, doors = descriptors[:3], descriptors[3], descriptors[4:]
        zygote, folder = os.getppid(), f"{self.folder}/{self.forked}"
        is_held = False
        try:
            try:
                others = tasks_of(os.getuid())
                prctl(SET_CHILD_SUBREAPER, 1, 0, "orphans can't be kept")
                os.mkdir(folder, 0o700)
                hold_signals(zygote)
                is_held = True
                pid = self.forks.fork()
                if pid == 0:
                    self.session.run_alone(folder, descriptors, doors, others, is_ahead)
                said, handles = b"forked", [os.pidfd_open(pid)]
            except (Failed, OSError) as error:
                said, handles = f"a session can't be forked: {error}".encode()[:400], []
            try:
                socket.send_fds(self.control, [said], handles)
            except OSError:
                pass  # the host is gone, which the leash tells too
            if not is_held:
                os.rmdir(folder)
                os._exit(1)
            end_with(leash)
            remove(folder)
            if os.getppid() != zygote or os.stat(self.folder).st_mode & 0o777 == LEAVING:
                self.leave()
        finally:
            os._exit(0)


def end_with(leash):
    """Waits until the host lets go of the leash, and ends every process that came from this one."""
    os.dup2(leash, 0)
    os.closerange(1, 200)
    while os.read(0, 64):
        pass
    # All at once: none of them can fork meanwhile, and this process is spared.
    os.kill(-1, signal.SIGKILL)
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        return  # the last one is gone


def main():
    control, lock_only, kept = socket.socket(fileno=CONTROL), None, forks.Kept()
    try:
        settings = json.loads(sys.argv[1])
        lock_only = settings["lock_only"]
        for name in settings["preload"]:
            importlib.import_module(name)
        from ringfence_guest import session

        session.warm(settings["functions"])
        if len(os.listdir("/proc/self/task")) != 1:
            raise Failed(f"importing {', '.join(settings['preload'])} starts threads, which a fork would lose")
        zygote = (Zygote if settings["lock_only"] is None else Alone)(settings, session, kept)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        gc.collect()
        gc.disable()
        gc.freeze()
    except BaseException as error:
        why = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        control.send(f"the interpreter can't be warmed: {why}".encode()[:400])
        if lock_only:
            remove(lock_only["folder"])
        os._exit(1)
    control.detach()
    try:
        zygote.control.send(GREETING)
        zygote.serve()
    except OSError:
        zygote.leave()  # nobody is there to be told
