//! A unix socket at which clients of this user meet one engine.
//!
//! Answers to: `ringfence stdio --listen`. Must not: serve another user, or take a path that something else uses.

use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ringfence_session::Engine;
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::{Options, StdioError, serve};

/// Serves every client that connects at `path`, each with its own sessions, until it is dropped.
pub async fn listen(engine: Engine, path: &Path, options: Options) -> Result<(), StdioError> {
    let refused = |why: String| StdioError::Listen { path: path.display().to_string(), why };
    free(path).await.map_err(refused)?;
    let listener = UnixListener::bind(path).map_err(|error| refused(error.to_string()))?;
    let _socket = Socket::of(path).map_err(|error| refused(error.to_string()))?;
    // Until here others could connect, but whoever is another user is turned away below.
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| refused(error.to_string()))?;
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if is_own(&stream) => {
                    let (input, output) = stream.into_split();
                    clients.spawn(serve(engine.clone(), input, output, options.clone()));
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => tokio::time::sleep(super::PATIENCE).await,
                Err(error) => return Err(refused(error.to_string())),
            },
            // A client that broke the protocol was told so; the others go on.
            Some(_) = clients.join_next() => {}
        }
    }
}

fn is_own(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

/// The client went away, or descriptors ran out for now.
fn is_passing(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let now = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::CONNABORTED, Errno::INTR];
    error.raw_os_error().is_some_and(|code| now.iter().any(|errno| errno.raw_os_error() == code))
}

/// Clears away a socket that nobody listens at any more, and nothing else.
async fn free(path: &Path) -> Result<(), String> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err("something else is there; give another path".to_owned());
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("another engine listens there; give another path, or use that one".to_owned()),
    }
}

/// The socket's file, removed at the end where it is still this one.
struct Socket {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    fn of(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), inode: std::fs::symlink_metadata(path)?.ino() })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
