//! What the host tells the init of a jail, in one message of JSON, before anything in the jail exists.
//!
//! Answers to: `tier-process`, which writes it, and `guest`, which carries it out. Must not: hold anything of a program.

use serde::{Deserialize, Serialize};

/// The first argument that makes an executable the init of a jail.
pub const HIDDEN_ARGUMENT: &str = "--ringfence-jail";

/// What the zygote says when its interpreter is warm.
pub const GREETING: &[u8] = b"ringfence jail 1";

/// Where the guest's driver lies in the jail.
pub const DRIVER: &str = "/run/ringfence";

/// Where a session with a network finds what it is told about it.
pub const EGRESS: &str = "/run/egress";

/// How a failure begins where this machine does not let the jail's walls be built: no namespaces, or no mounts in them.
pub const NO_WALLS: &str = "no walls: ";
/// Where a place keeps what a session changes in folders that it sees copy-on-write, until it is hidden. In it, for the
/// mount of number N, `N/upper` holds the changes.
pub const CHANGES: &str = "/run/changes";

/// The certificates that its programs trust.
pub const TRUSTED: &str = "/run/egress/trusted.pem";

/// A whole jail: one root, one interpreter, and as many sessions of one tenant under one policy as are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Which users of the host stand for those inside.
    pub users: Users,
    /// What the root holds, parents before children.
    pub root: Vec<Node>,
    /// The interpreter's path, as seen inside.
    pub program: String,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Modules that are imported before the first session.
    pub preload: Vec<String>,
    /// The host functions that its sessions are expected to have, as in [`declarations`](crate::declarations). A session
    /// that is set up with others gets those.
    pub functions: String,
    /// What each session gets.
    pub session: SessionPlan,
    /// Set where there are no walls: the lock is all that there is, and the root and the users above mean nothing.
    pub lock_only: Option<LockOnly>,
}

/// A session without namespaces: Landlock, filters and resource limits alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockOnly {
    /// A folder that is not there yet. It is made for the sessions' own folders, and removed with the last of them.
    pub folder: String,
    /// The user of the host's that the sessions become, who owns nothing; `None`: they stay whoever runs the host.
    pub user: Option<u32>,
    /// Paths that may be read, and devices that may be written to as well.
    pub readable: Vec<String>,
    /// Devices.
    pub devices: Vec<String>,
}

/// Which users of the host stand for those inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Users {
    /// Inside's user 0 is `first` on the host, and so on for `count` users. Needs root.
    Range {
        /// The first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Inside's user 0 is whoever runs the host.
    Own,
}

/// One thing in the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A file or folder of the host's.
    Bind {
        /// Its path on the host.
        host: String,
        /// Where it is seen.
        at: String,
        /// Whether it may be written to.
        writable: bool,
        /// Whether it is a device, which would be none without leave.
        device: bool,
        /// Whether what lies in it can be run.
        exec: bool,
    },
    /// A folder of the host's that sessions write to without changing it.
    Cow {
        /// Its path on the host.
        host: String,
        /// Where it is seen.
        at: String,
    },
    /// A symbolic link.
    Link {
        /// Where it lies.
        at: String,
        /// What it says.
        to: String,
    },
    /// A file with this content.
    File {
        /// Where it lies.
        at: String,
        /// What it holds.
        content: String,
    },
    /// An empty folder.
    Folder {
        /// Where it lies.
        at: String,
    },
}

/// What each session gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlan {
    /// Bytes of `/tmp`.
    pub tmp: u64,
    /// Bytes of `/workspace`; `None`: there is none.
    pub workspace: Option<u64>,
    /// Files and folders in each of them.
    pub inodes: u64,
    /// Where it sees folders of the host's copy-on-write, by number.
    pub cow: Vec<String>,
    /// Bytes of what it changes in them, together.
    pub changes: u64,
    /// Resource limits by the kernel's names (`RLIMIT_NOFILE`), each hard and soft.
    pub limits: Vec<(String, u64)>,
    /// What may be written beneath these paths, mounts included.
    pub writable: Vec<String>,
    /// Whether programs may be started.
    pub exec: bool,
    /// The port of its own loopback that leads to the host's proxy; `None`: there is no network.
    pub network: Option<u16>,
}

/// The longest errand, as JSON: what a socket takes in one message.
pub const ERRAND: usize = 160 << 10;

/// A command to be run in a session's place: one message of JSON through the door, with the descriptors of
/// [`ErrandHandle`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Where it starts.
    pub folder: String,
    /// The session's user inside; `None`: the only one that there is.
    pub user: Option<u32>,
}

/// What comes with an errand, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrandHandle {
    /// A handle on process 1 of the session's namespaces.
    Place,
    /// Where [`Report`]s go. One message that comes by it lets the command begin.
    Report,
    /// Standard input.
    Stdin,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl ErrandHandle {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::Place, Self::Report, Self::Stdin, Self::Stdout, Self::Stderr];
}

/// What is told of an errand, one message of JSON each. No program writes any of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The process is there, with a handle on it, and waits for leave.
    Forked,
    /// The jail could not do its part.
    Failed(String),
    /// There is no such command: why, in one line.
    NoCommand(String),
    /// It ended with this code, or by the signal that 128 is taken from.
    Exited(i32),
}

/// The user inside of the first session of a jail that has a range of users. Where folders are seen copy-on-write it is
/// that of every session: the host's folder belongs to one user of the jail's.
pub const FIRST_USER: u32 = 1000;
