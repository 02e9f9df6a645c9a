//! The session's private files: a tree in memory with a quota, and read-only files put there by the host.
//!
//! Answers to: the engines' `open` and `os`, and the host's [`FileOp`]s. Must not: touch a real file system.

use std::collections::{BTreeMap, BTreeSet};

use ringfence_types::{FileEntry, FileFault, FileOp, FileReply, GuestPath};

/// The most files and folders a session may have.
const MAX_NODES: usize = 10_000;

/// A tree of files in memory.
#[derive(Debug, Default)]
pub struct Files {
    quota: u64,
    used: u64,
    files: BTreeMap<GuestPath, File>,
    folders: BTreeSet<GuestPath>,
}

#[derive(Debug)]
struct File {
    content: Vec<u8>,
    read_only: bool,
}

impl Files {
    /// A `/workspace` that may hold `quota` bytes; none at all where it is 0.
    pub fn new(quota: u64) -> Self {
        let mut files = Self { quota, ..Self::default() };
        if quota > 0 {
            files.folders.extend(GuestPath::resolve("/workspace"));
            files.folders.extend(GuestPath::resolve("/tmp"));
        }
        files
    }

    /// Carries out an operation of the host's. Only the host may write read-only files.
    pub fn apply(&mut self, op: FileOp) -> FileReply {
        let result = match op {
            FileOp::Put { path, content, read_only } => self.put(path, content, read_only).map(|()| FileReply::Done),
            FileOp::Get { path } => self.read(&path).map(|content| FileReply::Content(content.to_vec())),
            FileOp::List { path } => self.list(&path).map(FileReply::Entries),
            FileOp::Remove { path } => self.discard(&path).map(|()| FileReply::Done),
        };
        result.unwrap_or_else(FileReply::Fault)
    }

    /// A file's content.
    pub fn read(&self, path: &GuestPath) -> Result<&[u8], FileFault> {
        match self.files.get(path) {
            Some(file) => Ok(&file.content),
            None if self.is_folder(path) => Err(FileFault::IsFolder(path.to_string())),
            None => Err(FileFault::NotFound(path.to_string())),
        }
    }

    /// Whether a file or folder is there.
    pub fn exists(&self, path: &GuestPath) -> bool {
        self.files.contains_key(path) || self.is_folder(path)
    }

    /// Whether a folder is there. The root always is.
    pub fn is_folder(&self, path: &GuestPath) -> bool {
        path.as_str() == "/" || self.folders.contains(path)
    }

    /// The guest writes a whole file: only where the workspace is, into a folder that exists.
    pub fn write(&mut self, path: &GuestPath, content: Vec<u8>) -> Result<(), FileFault> {
        self.writable(path)?;
        if self.files.get(path).is_some_and(|file| file.read_only) {
            return Err(FileFault::Denied(path.to_string()));
        }
        if self.is_folder(path) {
            return Err(FileFault::IsFolder(path.to_string()));
        }
        let parent = parent(path);
        if !self.is_folder(&parent) {
            return Err(FileFault::NotFound(path.to_string()));
        }
        self.store(path.clone(), File { content, read_only: false })
    }

    /// The guest makes a folder.
    pub fn make_folder(&mut self, path: &GuestPath) -> Result<(), FileFault> {
        self.writable(path)?;
        if self.files.contains_key(path) {
            return Err(FileFault::NotFolder(path.to_string()));
        }
        self.room_for_node(path)?;
        self.folders.insert(path.clone());
        Ok(())
    }

    /// The guest removes a file, or an empty folder.
    pub fn remove(&mut self, path: &GuestPath) -> Result<(), FileFault> {
        self.writable(path)?;
        if self.files.get(path).is_some_and(|file| file.read_only) || !self.list(path).unwrap_or_default().is_empty() {
            return Err(FileFault::Denied(path.to_string()));
        }
        self.discard(path)
    }

    /// What lies directly in a folder, in order of name.
    pub fn list(&self, path: &GuestPath) -> Result<Vec<FileEntry>, FileFault> {
        if self.files.contains_key(path) {
            return Err(FileFault::NotFolder(path.to_string()));
        }
        if !self.is_folder(path) {
            return Err(FileFault::NotFound(path.to_string()));
        }
        let files = self.files.iter().map(|(at, file)| (at, file.content.len() as u64, false));
        let folders = self.folders.iter().map(|at| (at, 0, true));
        let mut rows: Vec<FileEntry> = files
            .chain(folders)
            .filter(|(at, ..)| at.as_str() != "/" && parent(at) == *path)
            .map(|(at, size, folder)| FileEntry { path: at.clone(), size, folder })
            .collect();
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(rows)
    }

    /// The session's own files, then `state`, as one snapshot. Files of mounts are put back by the host.
    pub fn write_down(&self, state: &[u8]) -> Vec<u8> {
        let own: Vec<_> = self.files.iter().filter(|(_, file)| !file.read_only).collect();
        let mut bytes = Vec::with_capacity(state.len() + 64);
        write_count(&mut bytes, self.folders.len());
        self.folders.iter().for_each(|path| write_piece(&mut bytes, path.as_str().as_bytes()));
        write_count(&mut bytes, own.len());
        for (path, file) in own {
            write_piece(&mut bytes, path.as_str().as_bytes());
            write_piece(&mut bytes, &file.content);
        }
        bytes.extend_from_slice(state);
        bytes
    }

    /// Takes up what [`Files::write_down`] wrote; the rest is the interpreter's state. `None`: not of that form.
    pub fn take_up<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = bytes;
        for _ in 0..read_count(&mut rest)? {
            self.folders.insert(read_path(&mut rest)?);
        }
        for _ in 0..read_count(&mut rest)? {
            let path = read_path(&mut rest)?;
            let content = read_piece(&mut rest)?.to_vec();
            self.store(path, File { content, read_only: false }).ok()?;
        }
        Some(rest)
    }

    fn put(&mut self, path: GuestPath, content: Vec<u8>, read_only: bool) -> Result<(), FileFault> {
        let mut folder = parent(&path);
        while folder.as_str() != "/" {
            if self.files.contains_key(&folder) {
                return Err(FileFault::NotFolder(folder.to_string()));
            }
            self.room_for_node(&folder)?;
            self.folders.insert(folder.clone());
            folder = parent(&folder);
        }
        if self.is_folder(&path) {
            return Err(FileFault::IsFolder(path.to_string()));
        }
        self.store(path, File { content, read_only })
    }

    /// Read-only files are the host's and count towards no quota.
    fn store(&mut self, path: GuestPath, file: File) -> Result<(), FileFault> {
        let before = self.files.get(&path).map_or(0, weight);
        let used = self.used.saturating_sub(before).saturating_add(weight(&file));
        if used > self.quota && weight(&file) > 0 {
            return Err(FileFault::NoSpace(path.to_string()));
        }
        self.room_for_node(&path)?;
        self.used = used;
        self.files.insert(path, file);
        Ok(())
    }

    fn discard(&mut self, path: &GuestPath) -> Result<(), FileFault> {
        if !self.exists(path) {
            return Err(FileFault::NotFound(path.to_string()));
        }
        self.folders.retain(|at| !at.is_under(path.as_str()));
        let mut freed = 0;
        self.files.retain(|at, file| {
            let keep = !at.is_under(path.as_str());
            freed += if keep { 0 } else { weight(file) };
            keep
        });
        self.used = self.used.saturating_sub(freed);
        Ok(())
    }

    fn writable(&self, path: &GuestPath) -> Result<(), FileFault> {
        let inside = path.is_under("/workspace") || path.is_under("/tmp");
        if self.quota > 0 && inside { Ok(()) } else { Err(FileFault::Denied(path.to_string())) }
    }

    fn room_for_node(&self, path: &GuestPath) -> Result<(), FileFault> {
        if self.files.len() + self.folders.len() < MAX_NODES || self.exists(path) {
            Ok(())
        } else {
            Err(FileFault::NoSpace(path.to_string()))
        }
    }
}

fn write_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend_from_slice(&(count as u64).to_le_bytes());
}

fn write_piece(bytes: &mut Vec<u8>, piece: &[u8]) {
    write_count(bytes, piece.len());
    bytes.extend_from_slice(piece);
}

fn read_count(rest: &mut &[u8]) -> Option<usize> {
    let (count, after) = rest.split_first_chunk()?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*count)).ok()
}

fn read_piece<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_count(rest)?;
    let (piece, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(piece)
}

fn read_path(rest: &mut &[u8]) -> Option<GuestPath> {
    GuestPath::resolve(std::str::from_utf8(read_piece(rest)?).ok()?).ok()
}

fn weight(file: &File) -> u64 {
    if file.read_only { 0 } else { file.content.len() as u64 }
}

fn parent(path: &GuestPath) -> GuestPath {
    let text = path.as_str();
    let end = text.rfind('/').unwrap_or(0).max(1);
    GuestPath::resolve(text.get(..end).unwrap_or("/")).unwrap_or_else(|_| path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> GuestPath {
        GuestPath::resolve(text).expect("a good path")
    }

    #[test]
    fn the_quota_holds_and_freed_space_comes_back() {
        let mut files = Files::new(10);
        assert_eq!(files.write(&path("/workspace/a"), vec![0; 8]), Ok(()));
        assert_eq!(files.write(&path("/workspace/b"), vec![0; 3]), Err(FileFault::NoSpace("/workspace/b".into())));
        assert_eq!(files.write(&path("/workspace/a"), vec![0; 10]), Ok(()));
        assert_eq!(files.remove(&path("/workspace/a")), Ok(()));
        assert_eq!(files.write(&path("/workspace/b"), vec![0; 10]), Ok(()));
    }

    #[test]
    fn files_survive_a_snapshot() {
        let mut files = Files::new(10);
        assert_eq!(files.make_folder(&path("/workspace/d")), Ok(()));
        assert_eq!(files.write(&path("/workspace/d/a"), vec![7; 8]), Ok(()));
        let bytes = files.write_down(b"state");
        let mut again = Files::new(10);
        assert_eq!(again.take_up(&bytes), Some(b"state".as_slice()));
        assert_eq!(again.read(&path("/workspace/d/a")), Ok([7; 8].as_slice()));
        assert_eq!(Files::new(5).take_up(&bytes), None);
        assert_eq!(Files::new(10).take_up(&bytes[..20]), None);
    }

    #[test]
    fn the_guest_writes_in_its_workspace_only() {
        let mut files = Files::new(10);
        let put = FileOp::Put { path: path("/data/ro.txt"), content: b"x".to_vec(), read_only: true };
        assert_eq!(files.apply(put), FileReply::Done);
        assert_eq!(files.write(&path("/data/ro.txt"), vec![]), Err(FileFault::Denied("/data/ro.txt".into())));
        assert_eq!(files.write(&path("/etc/x"), vec![]), Err(FileFault::Denied("/etc/x".into())));
        assert_eq!(files.write(&path("/workspace/no/x"), vec![]), Err(FileFault::NotFound("/workspace/no/x".into())));
        assert_eq!(files.read(&path("/data/ro.txt")), Ok(b"x".as_slice()));
        assert_eq!(Files::new(0).write(&path("/workspace/a"), vec![1]), Err(FileFault::Denied("/workspace/a".into())));
    }
}
