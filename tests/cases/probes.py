"""Tries each system call and file that a jail closes, and tells of each: `name<TAB>result`.

A result begins with `open` (the kernel let it happen), an error's name (it refused), `SIG…` (it killed the caller), or
`own` (what is seen belongs to the jail). Every probe runs in a child process: what it changes is gone with it. The calls
are made so that they harm nothing where they are open: a file system type that does not exist, a name that is too long.
The numbers are those of x86-64.
"""

import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import stat
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
PROBES = {}


def name_of(number):
    return errno.errorcode.get(number, str(number))


def call(number, *arguments, past=()):
    """A system call. An error in `past` comes only after the kernel's check of rights: the door was open."""
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *given)
    if result >= 0:
        return "open"
    error = name_of(ctypes.get_errno())
    return "open " + error if error in past else error


def opened(path, how=os.O_RDONLY):
    fd = os.open(path, how | os.O_NONBLOCK)
    if how == os.O_RDONLY:
        os.read(fd, 1)
    return "open"


def child(body):
    """Runs `body` in a child of its own, and gives what became of it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(5)
            told = body()
        except OSError as e:
            told = name_of(e.errno) if e.errno else type(e).__name__
        except BaseException as e:
            told = type(e).__name__
        os.write(writer, str(told).encode()[:150])
        os._exit(0)
    os.close(writer)
    told = b""
    while True:
        part = os.read(reader, 4096)
        if not part:
            break
        told += part
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    return told.decode() or signal.Signals(status & 127).name


def probe(name):
    def keep(body):
        PROBES[name] = body
        return body

    return keep


def simple(name, number, *arguments, past=()):
    PROBES[name] = lambda: call(number, *arguments, past=past)


def file(name, path, how=os.O_RDONLY):
    PROBES[name] = lambda: opened(path, how)


NEWUSER, NEWNS, NEWNET = 0x10000000, 0x20000, 0x40000000
simple("unshare_user", 272, NEWUSER)


@probe("clone3_user")
def _():
    arguments = struct.pack("8Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    result = libc.syscall(ctypes.c_long(435), arguments, ctypes.c_long(64))
    if result == 0:
        os._exit(0)
    return "open" if result > 0 else name_of(ctypes.get_errno())


simple("unshare_mnt", 272, NEWNS)


@probe("userns_then_mount")
def _():
    first = call(272, NEWUSER | NEWNS)
    return first if first != "open" else call(165, b"x", b"/tmp", b"no-such-type", 0, 0, past=("ENODEV",))


@probe("setns_self")
def _():
    return call(308, os.open("/proc/self/ns/net", os.O_RDONLY), NEWNET)


simple("mount_tmpfs", 165, b"x", b"/tmp", b"no-such-type", 0, 0, past=("ENODEV",))
simple("fsopen", 430, b"tmpfs", 0)
simple("open_tree_clone", 428, -100, b"/", 1)
simple("pivot_root", 155, b".", b".", past=("EINVAL", "EBUSY"))
simple("chroot", 161, b"/tmp")
simple("ptrace_traceme", 101, 0, 0, 0, 0)


@probe("ptrace_child")
def _():
    pid = os.fork()
    if pid == 0:
        time.sleep(2)
        os._exit(0)
    told = call(101, 16, pid, 0, 0)
    os.kill(pid, signal.SIGKILL)
    return told


@probe("vm_readv_parent")
def _():
    room = ctypes.create_string_buffer(8)
    here = struct.pack("QQ", ctypes.addressof(room), 8)
    return call(310, os.getppid(), here, 1, here, 1, 0)


file("proc_self_mem_write", "/proc/self/mem", os.O_RDWR)
file("proc_1_environ", "/proc/1/environ")


@probe("proc_1_root")
def _():
    return "open %d" % len(os.listdir("/proc/1/root/"))


@probe("visible_pids")
def _():
    seen = len([entry for entry in os.listdir("/proc") if entry.isdigit()])
    return "%s %d" % ("own" if seen <= 5 else "open", seen)


@probe("inherited_fds")
def _():
    # The two ends of this program's pipe, and the one socket of the bridge.
    found = []
    for fd in range(3, 256):
        try:
            kind = stat.S_IFMT(os.fstat(fd).st_mode)
        except OSError:
            continue
        if kind not in (stat.S_IFIFO, stat.S_IFSOCK) or (kind == stat.S_IFSOCK and fd != 3):
            found.append((fd, os.readlink("/proc/self/fd/%d" % fd) if os.path.exists("/proc/self/fd") else "?"))
    return "open %s" % found if found else "own"


file("core_pattern_w", "/proc/sys/kernel/core_pattern", os.O_WRONLY)
file("sysrq_w", "/proc/sysrq-trigger", os.O_WRONLY)
file("modprobe_w", "/proc/sys/kernel/modprobe", os.O_WRONLY)
file("userns_max_w", "/proc/sys/user/max_user_namespaces", os.O_WRONLY)
file("kcore", "/proc/kcore")
file("kallsyms", "/proc/kallsyms")
file("proc_cmdline", "/proc/cmdline")
file("config_gz", "/proc/config.gz")
file("keyrings", "/proc/keys")


@probe("sys_fs_cgroup")
def _():
    return "open %d" % len(os.listdir("/sys/fs/cgroup"))


@probe("release_agent_w")
def _():
    for folder in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        if os.path.exists(folder + "/release_agent"):
            return opened(folder + "/release_agent", os.O_WRONLY)
    return "ENOENT"


file("sys_kernel", "/sys/kernel/mm/transparent_hugepage/enabled")
simple("keyctl", 250, 0, -3, 0)
simple("add_key", 248, b"user", b"probe", b"abc", 3, -2)
simple("io_uring", 425, 1, ctypes.create_string_buffer(256))
simple("bpf", 321, 0, struct.pack("IIII", 2, 4, 4, 1) + b"\0" * 112, 128)
simple("perf_event", 298, struct.pack("II", 1, 128) + b"\0" * 120, 0, -1, -1, 0)
simple("userfaultfd", 323, 1)
simple("memfd_secret", 447, 0)
simple("fanotify", 300, 0, 0)


@probe("name_to_handle")
def _():
    room = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
    return call(303, -100, b"/", room, ctypes.create_string_buffer(8), 0)


simple("open_by_handle", 304, -100, struct.pack("IiQ", 8, 1, 2), 0, past=("ESTALE", "EINVAL", "EBADF"))
simple("kexec", 246, 0, 0, 0, 0)
simple("init_module", 175, b"", 0, b"", past=("ENOEXEC",))
simple("reboot_bad", 169, 0, 0, 0, 0, past=("EINVAL",))
simple("swapon", 167, b"/nonexistent", 0, past=("ENOENT",))
simple("syslog_dmesg", 103, 3, ctypes.create_string_buffer(64), 64)
simple("acct", 163, b"/tmp/nonexistent-probe", past=("ENOENT",))
simple("clock_settime", 227, 0, struct.pack("qq", -1, -1))
simple("adjtimex_read", 159, ctypes.create_string_buffer(256))
simple("sethostname", 170, b"x", 1000, past=("EINVAL",))
simple("personality_norand", 135, 0x0040000)
simple("sched_fifo", 144, 0, 1, struct.pack("i", 1))
simple("nice_minus20", 141, 0, 0, -20)
simple("quotactl", 179, 0, b"/dev/vda", 0, 0)


@probe("shmget")
def _():
    made = libc.syscall(ctypes.c_long(29), ctypes.c_long(0), ctypes.c_long(4096), ctypes.c_long(0o1600))
    if made < 0:
        return name_of(ctypes.get_errno())
    call(31, made, 0, 0)
    return "open"


@probe("mq_open")
def _():
    told = call(240, b"ringfence-probe", 0o102, 0o600, 0)
    call(241, b"ringfence-probe")
    return told


def executed(pid):
    status = os.waitpid(pid, 0)[1]
    return "open" if status == 0 else name_of(status >> 8)


def true_program():
    with open("/bin/true", "rb") as source:
        return source.read()


@probe("memfd_exec")
def _():
    fd = os.memfd_create("probe")
    os.write(fd, true_program())
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(fd, ["true"], {})
        except OSError as e:
            os._exit(e.errno)
    return executed(pid)


@probe("exec_sh")
def _():
    pid = os.fork()
    if pid == 0:
        try:
            os.execve("/bin/sh", ["sh", "-c", "exit 0"], {})
        except OSError as e:
            os._exit(e.errno)
    return executed(pid)


@probe("tmp_exec")
def _():
    path = "/tmp/ringfence-probe-%d" % os.getpid()
    with open(path, "wb") as target:
        target.write(true_program())
    os.chmod(path, 0o755)
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(path, ["true"], {})
        except OSError as e:
            os._exit(e.errno)
    told = executed(pid)
    os.unlink(path)
    return told


@probe("rwx_mmap")
def _():
    mmap.mmap(-1, 4096, prot=7)
    return "open"


@probe("int80_getpid")
def _():
    pid = os.fork()
    if pid == 0:
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(bytes.fromhex("b814000000cd80c3"))
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        os._exit(0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() > 0 else errno.ENOSYS)
    status = os.waitpid(pid, 0)[1]
    if status & 127:
        return signal.Signals(status & 127).name
    return "open" if status == 0 else name_of(status >> 8)


simple("x32_getpid", 0x40000000 | 39)
simple("sock_netlink", 41, 16, 3, 0)
simple("sock_packet", 41, 17, 3, 0)
simple("sock_vsock", 41, 40, 1, 0)
simple("sock_alg", 41, 38, 5, 0)
simple("sock_xdp", 41, 44, 3, 0)
simple("sock_inet", 41, 2, 1, 0)
simple("sock_raw_icmp", 41, 2, 3, 1)
simple("sock_unix", 41, 1, 1, 0)
simple("sock_key", 41, 15, 3, 2)


def connected(family, address):
    with socket.socket(family) as s:
        s.settimeout(1)
        s.connect(address)
    return "open"


@probe("abstract_unix")
def _():
    return connected(socket.AF_UNIX, "\0bank-canary")


@probe("tcp_loopback")
def _():
    return connected(socket.AF_INET, ("127.0.0.1", 48123))


@probe("mknod_chr")
def _():
    path = "/tmp/ringfence-probe-null-%d" % os.getpid()
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    os.unlink(path)
    return "open"


@probe("mkfifo")
def _():
    path = "/tmp/ringfence-probe-fifo-%d" % os.getpid()
    os.mkfifo(path)
    os.unlink(path)
    return "open"


@probe("dev_list")
def _():
    harmless = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm", "core"}
    more = sorted(set(os.listdir("/dev")) - harmless)
    return "open %s" % more if more else "own"


file("kvm_open", "/dev/kvm", os.O_RDWR)


@probe("write_usr")
def _():
    path = "/usr/local/lib/ringfence-probe-%d" % os.getpid()
    with open(path, "w"):
        pass
    os.unlink(path)
    return "open"


file("read_shadow", "/etc/shadow")


@probe("root_home")
def _():
    seen = ["/root/" + name for name in os.listdir("/root")]
    # A jail shows the folders on the way to its own interpreter, by their names.
    own = all(sys.base_prefix.startswith(name + "/") or sys.prefix.startswith(name + "/") for name in seen)
    return "%s %d" % ("own" if own else "open", len(seen))


@probe("kill_parent")
def _():
    os.kill(os.getppid(), 0)
    # The parent is this program, or in a jail its init: never more than a few steps up.
    return "own" if os.getppid() < 50 else "open"


@probe("kill_all0")
def _():
    reached = 0
    for pid in range(1, 5000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        except OSError:
            pass
        reached += 1
    return "%s %d" % ("own" if reached <= 5 else "open", reached)


simple("setuid0", 105, 0)


@probe("status")
def _():
    with open("/proc/self/status") as text:
        lines = dict(line.split(":", 1) for line in text if ":" in line)
    got = {key: lines[key].split()[0] for key in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")}
    free = int(got["CapEff"], 16) | int(got["CapPrm"], 16) | int(got["CapBnd"], 16)
    held = os.getuid() != 0 and free == 0 and got["NoNewPrivs"] == "1" and got["Seccomp"] == "2"
    return "%s uid %d %s" % ("own" if held else "open", os.getuid(), got)


@probe("raise_nofile")
def _():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except (OSError, ValueError):
        return "EPERM"
    return "open"


simple("tiocsti", 16, 0, 0x5412, b"x")


@probe("seccomp_listener")
def _():
    program = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
    return call(317, 1, 8, struct.pack("HxxxxxxQ", 1, ctypes.addressof(program)))


simple("prctl_dumpable", 157, 4, 1, 0, 0, 0)


@probe("inotify_many")
def _():
    made = 0
    while made < 2000 and libc.syscall(ctypes.c_long(294), ctypes.c_long(0)) >= 0:
        made += 1
    return "%s %d" % ("own" if made <= 300 else "open", made)


for name, body in PROBES.items():
    print("%s\t%s" % (name, child(body)), flush=True)
