//! What modules want done around a fork: by the zygote's fork of a session, and by what the session forks.
//!
//! Answers to: the promise that two processes of a package that sees to its own random state never share it.

use std::process::Command;

use crate::support::{DRIVER, python};

/// Modules that say when they are called, one of which Python's own threads stand for, and one that fails.
const SCRIPT: &str = r"
import os, sys
sys.path.insert(0, sys.argv[1])
from ringfence_guest import forks
kept = forks.Kept()
own = {'__name__': 'package', 'os': os, 'said': []}
exec('''
os.register_at_fork(before=lambda: said.append('before 1'), after_in_child=lambda: said.append('child 1'))
os.register_at_fork(before=lambda: said.append('before 2'), after_in_parent=lambda: 1 / 0)
os.register_at_fork(after_in_parent=lambda: said.append('parent 3'), after_in_child=lambda: said.append('child 3'))
''', own)
needless = {'__name__': 'threading', 'os': os, 'said': own['said']}
exec('os.register_at_fork(after_in_child=lambda: said.append(\'threads\'))', needless)

def forked(fork):
    own['said'].clear()
    there, here = os.pipe()
    pid = fork()
    if pid == 0:
        os.write(here, ', '.join(own['said']).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return os.read(there, 1000).decode(), ', '.join(own['said'])

print(*forked(kept.fork), sep=' | ')
kept.give_back()
print(*forked(os.fork), sep=' | ')
";

#[test]
fn packages_are_called_at_every_fork_and_pythons_own_only_where_threads_may_be() {
    let out = Command::new(python()).args(["-c", SCRIPT, DRIVER]).output().expect("python3 starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let want = "before 2, before 1, child 1, child 3 | before 2, before 1, parent 3\n\
                before 2, before 1, child 1, child 3, threads | before 2, before 1, parent 3\n";
    assert_eq!(text, want, "{}", String::from_utf8_lossy(&out.stderr));
}
