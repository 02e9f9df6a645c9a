//! The steps of a jail, in their order.
//!
//! Answers to: the host. Must not: change the order: each step needs what the ones after it take away.
//!
//! The process that the host starts leaves its namespaces and forks the init, which is process 1 of the jail. The init
//! forks the zygote, an ordinary CPython. For each session the init makes a *place*: a process that does nothing but
//! be process 1 of namespaces with the session's own mounts. The zygote forks a session into the place; whoever kills
//! the place ends all that is in it.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use ringfence_wire::jail::{DRIVER, Node, Plan, Users};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::filter::{Around, Filters, filters};
use super::root::{Root, mount_session};
use super::{Failed, Step, cow, errand, lock_only, network, rules, start, sys};
use crate::message;
use crate::sys::{Forked, control_socket, die_with, end, fork, ignore_children};

/// The longest plan.
const PLAN: usize = 1 << 20;

/// An ordinary user has himself alone to give, and is seen inside as this one: programs take user 0 for one with rights.
const INSIDE: u32 = 1000;
const OWN: u32 = 1;

/// Makes this process the outermost of a jail. Every failure is told to the host in one line.
pub fn serve() -> ! {
    let failed = match read_plan() {
        Ok(plan) => match &plan.lock_only {
            Some(lock) => lock_only::begin(&plan, lock),
            None => match leave(&plan) {
                Ok(never) => match never {},
                Err(failed) => failed,
            },
        },
        Err(failed) => failed,
    };
    tell_host(failed.to_string().as_bytes());
    end(1)
}

enum Never {}

fn tell_host(said: &[u8]) {
    let _ = message::send(control_socket(), said, &[]);
}

fn read_plan() -> Result<Plan, Failed> {
    let mut bytes = vec![0; PLAN];
    let (_, count) = recv(control_socket(), &mut bytes, RecvFlags::empty())
        .map_err(std::io::Error::from)
        .step(|| "the plan can't be read".into())?;
    let plan = bytes.get(..count).unwrap_or_default();
    serde_json::from_slice(plan).map_err(|error| Failed::new(format!("the plan is none: {error}")))
}

/// Leaves the host's namespaces; what goes on in the new ones is the init's.
fn leave(plan: &Plan) -> Result<Never, Failed> {
    let kinds = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    let nodes = all_nodes(plan);
    let root = match plan.users {
        Users::Range { first, count } => {
            // The host's root still reads what others may not, such as an interpreter in a private home.
            own_mounts().map_err(Failed::no_walls)?;
            let root = Root::build(&nodes, Some(first))?;
            map_from_outside(kinds, first, count).map_err(Failed::no_walls)?;
            sys::become_its_root().step(|| "the user can't be changed".into())?;
            root
        }
        Users::Own => {
            map_own(kinds).map_err(Failed::no_walls)?;
            Root::build(&nodes, None)?
        }
    };
    let outer = std::process::id();
    match fork().step(|| "the init can't be forked".into())? {
        Forked::Child => {
            // The number of the parent can't be seen from in here: it is in another process namespace.
            let _ = die_with(outer);
            Init::begin(plan, &root)
        }
        Forked::Parent(pid, _handle) => {
            // The host's control socket is the init's from here on: its end must be seen when that ends.
            let _ = sys::close_from(0);
            end(sys::wait_for(pid))
        }
    }
}

fn own_mounts() -> Result<(), Failed> {
    sys::unshare(libc::CLONE_NEWNS).step(|| "mount namespaces can't be made".into())?;
    sys::keep_mounts_private().step(|| "mounts can't be kept private".into())
}

/// Namespaces of an ordinary user's, whose only user is himself.
fn map_own(kinds: libc::c_int) -> Result<(), Failed> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(kinds).step(|| "user namespaces can't be made".into())?;
    write_map("setgroups", "deny")?;
    write_map("uid_map", &format!("{INSIDE} {user} {OWN}"))?;
    write_map("gid_map", &format!("{INSIDE} {group} {OWN}"))?;
    sys::keep_mounts_private().step(|| "mounts can't be kept private".into())
}

/// A range of the host's users can be given by somebody outside only: a helper that stays there.
fn map_from_outside(kinds: libc::c_int, first: u32, count: u32) -> Result<(), Failed> {
    let (mut ours, mut theirs) = UnixStream::pair().step(|| "no socket".into())?;
    let parent = std::process::id();
    match fork().step(|| "the helper can't be forked".into())? {
        Forked::Child => {
            drop(ours);
            let mut byte = [0];
            let told = theirs.read_exact(&mut byte);
            let range = format!("0 {first} {count}");
            let written = told.and_then(|()| {
                std::fs::write(format!("/proc/{parent}/uid_map"), &range)?;
                std::fs::write(format!("/proc/{parent}/gid_map"), &range)
            });
            let said = written.map_or_else(|error| error.to_string(), |()| String::new());
            let _ = theirs.write_all(said.as_bytes());
            end(0)
        }
        Forked::Parent(helper, _) => {
            drop(theirs);
            sys::unshare(kinds).step(|| "user namespaces can't be made".into())?;
            ours.write_all(b"u").step(|| "the helper is gone".into())?;
            let mut said = String::new();
            ours.read_to_string(&mut said).step(|| "the helper is gone".into())?;
            sys::wait_for(helper);
            if said.is_empty() { Ok(()) } else { Err(Failed::new(format!("users can't be mapped: {said}"))) }
        }
    }
}

/// Leaves the jail's user namespace for one of this process's own, whose only user is the same.
pub fn own_users() -> Result<(), Failed> {
    sys::unshare(libc::CLONE_NEWUSER)
        .and_then(|()| sys::let_be_joined())
        .step(|| "a user namespace of its own can't be made".into())?;
    let same = format!("{INSIDE} {INSIDE} {OWN}");
    write_map("uid_map", &same)?;
    write_map("gid_map", &same)
}

fn write_map(name: &str, text: &str) -> Result<(), Failed> {
    std::fs::write(format!("/proc/self/{name}"), text).step(|| format!("`{name}` can't be written"))
}

/// What the plan names, and what every jail has.
fn all_nodes(plan: &Plan) -> Vec<Node> {
    let folder = |at: &str| Node::Folder { at: at.to_owned() };
    let mut nodes: Vec<Node> = ["/proc", "/tmp", "/dev", "/dev/shm", "/workspace", "/run"].map(folder).into();
    nodes.extend(plan.root.iter().cloned());
    let file =
        |(name, content): (&str, &str)| Node::File { at: format!("{DRIVER}/{name}"), content: content.to_owned() };
    nodes.extend(start::driver().map(file));
    nodes
}

/// A place for one session.
struct Place {
    /// Whoever ends it ends all that is in it.
    process: OwnedFd,
    /// By these a session joins it: its namespaces of processes, mounts, inter-process communication, and of the network
    /// where it has its own; then Landlock's rules.
    joined: Vec<OwnedFd>,
    /// Its line, where it has a network.
    line: Option<OwnedFd>,
    /// What holds its changes, where it sees folders copy-on-write.
    changes: Option<OwnedFd>,
}

impl Place {
    fn handles(&self) -> Vec<BorrowedFd<'_>> {
        let ways = self.joined.iter().chain(&self.line).chain(&self.changes);
        [&self.process].into_iter().chain(ways).map(AsFd::as_fd).collect()
    }
}

/// What a process makes that becomes a place.
struct Made {
    /// As in [`Place`].
    joined: Vec<OwnedFd>,
    listener: Option<OwnedFd>,
    changes: Option<OwnedFd>,
}

/// Process 1 of the jail.
struct Init<'a> {
    plan: &'a Plan,
    filters: Filters,
    own_processes: OwnedFd,
}

impl<'a> Init<'a> {
    fn begin(plan: &'a Plan, root: &Root) -> Result<Never, Failed> {
        rules::are_there()?;
        root.enter()?;
        ignore_children();
        sys::set_host_name("jail").step(|| "the host name can't be set".into())?;
        // Programs need no user namespaces of their own. Where the file is hidden, the filter still refuses them, and an
        // ordinary user's sessions get one each: processes are counted by user and namespace.
        if matches!(plan.users, Users::Range { .. }) {
            let _ = std::fs::write("/proc/sys/user/max_user_namespaces", "0");
        }
        let own_processes = std::fs::File::open("/proc/self/ns/pid").step(|| "no process namespace".into())?.into();
        let around = plan.session.network.map_or(Around::Walls, |_| Around::WallsWithNetwork);
        let filters = filters(plan.session.exec, around)?;
        Init { plan, filters, own_processes }.run()
    }

    fn run(&self) -> Result<Never, Failed> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(std::io::Error::from)
            .step(|| "no socket".into())?;
        let zygote = match fork().step(|| "the zygote can't be forked".into())? {
            Forked::Child => {
                let failed = self.become_zygote(&theirs);
                tell_host(failed.to_string().as_bytes());
                end(1)
            }
            Forked::Parent(_, handle) => handle,
        };
        drop(theirs);
        loop {
            let (host_gone, any) = (libc::POLLRDHUP, libc::POLLIN);
            let watched =
                [(control_socket(), host_gone), (zygote.as_fd(), any), (ours.as_fd(), any), (errand::door(), any)];
            match sys::wait_for_any(&watched) {
                Ok(seen) if matches!(seen.as_slice(), [false, false, true, _]) => {}
                Ok(seen) if matches!(seen.as_slice(), [false, false, false, false]) => continue,
                Ok(seen) if matches!(seen.as_slice(), [false, false, false, true]) => {
                    if errand::take(errand::door(), &self.plan.session, &self.filters) {
                        continue;
                    }
                    end(0)
                }
                // Nobody is left to serve: the kernel ends whatever is still in here.
                _ => end(0),
            }
            self.answer(ours.as_fd());
        }
    }

    /// The zygote asks for a place by one message, ahead of need, and gets the way into it, or a reason.
    fn answer(&self, zygote: BorrowedFd<'_>) {
        let mut byte = [0; 16];
        if !recv(zygote, &mut byte, RecvFlags::empty()).is_ok_and(|(_, count)| count > 0) {
            end(0);
        }
        let _ = match self.place() {
            Ok(place) => message::send(zygote, b"place", &place.handles()),
            Err(failed) => message::send(zygote, failed.to_string().as_bytes(), &[]),
        };
    }

    /// A process that is process 1 of namespaces with a session's own mounts, and does nothing else.
    fn place(&self) -> Result<Place, Failed> {
        let (ours, theirs) = UnixStream::pair().step(|| "no socket".into())?;
        let (line, place_end) = self.plan.session.network.map(|_| network::line()).transpose()?.unzip();
        sys::unshare(libc::CLONE_NEWPID).step(|| "a process namespace can't be made".into())?;
        match fork().step(|| "a place can't be forked".into())? {
            Forked::Child => {
                let ready = self.become_place();
                let _ = match &ready {
                    Ok(made) => {
                        let handles: Vec<_> = made.joined.iter().chain(&made.changes).map(AsFd::as_fd).collect();
                        message::send(theirs.as_fd(), b"ready", &handles)
                    }
                    Err(failed) => message::send(theirs.as_fd(), failed.to_string().as_bytes(), &[]),
                };
                if let (Ok(Made { listener: Some(listener), .. }), Some(line)) = (ready, place_end) {
                    network::hand_over(line, listener);
                }
                let _ = sys::close_from(0);
                sys::rest_for_ever()
            }
            Forked::Parent(_, process) => {
                let own = self.own_processes.as_fd();
                sys::enter(own, libc::CLONE_NEWPID)
                    .step(|| "the own process namespace can't be joined again".into())?;
                drop(theirs);
                let mut said = [0; 1024];
                let (said, mut joined) = message::receive(ours.as_fd(), &mut said).step(|| "a place is gone".into())?;
                if joined.is_empty() {
                    return Err(Failed::new(String::from_utf8_lossy(said).into_owned()));
                }
                let changes = if self.plan.session.cow.is_empty() { None } else { joined.pop() };
                Ok(Place { process, joined, line, changes })
            }
        }
    }

    fn become_place(&self) -> Result<Made, Failed> {
        let port = self.plan.session.network;
        sys::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWIPC | port.map_or(0, |_| libc::CLONE_NEWNET))
            .and_then(|()| sys::keep_mounts_private())
            .and_then(|()| sys::let_be_joined())
            .step(|| "namespaces can't be made".into())?;
        mount_session(&self.plan.session)?;
        let changes = cow::mount(&self.plan.session)?;
        let listener = port.map(network::listener).transpose()?;
        let open = |name| std::fs::File::open(format!("/proc/self/ns/{name}")).map(OwnedFd::from);
        let open = |name| open(name).step(|| format!("the namespace `{name}` can't be opened"));
        let names = ["pid", "mnt", "ipc"].into_iter().chain(port.map(|_| "net"));
        let mut joined = names.map(open).collect::<Result<Vec<_>, _>>()?;
        joined.push(rules::of(&self.plan.session)?);
        Ok(Made { joined, listener, changes })
    }

    /// Becomes the interpreter. Gives back only why it could not.
    fn become_zygote(&self, places: &OwnedFd) -> Failed {
        start::interpreter(self.plan, &self.filters, DRIVER, Some(places.as_fd()))
    }
}
