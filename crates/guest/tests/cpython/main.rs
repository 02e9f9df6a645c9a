//! The driver of native CPython, run by the machine's `python3` and spoken to by its frames alone.
//!
//! Answers to: the contract of `crates/wire` and of the other engines, whose exact texts it repeats. Must not: be run
//! in a jail; that is the tier's. `RINGFENCE_TEST_PYTHON` names another interpreter.

mod basics;
mod careless;
mod failures;
mod forks;
mod functions;
mod processes;
mod rich;
mod support;
mod values;

#[test]
fn the_crate_carries_every_file_of_the_package() {
    let mut found = Vec::new();
    let package = std::path::Path::new(support::DRIVER).join("ringfence_guest");
    for entry in std::fs::read_dir(package).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = format!("ringfence_guest/{}", path.file_name().expect("a name").to_string_lossy());
            found.push((name, std::fs::read_to_string(path).expect("a text")));
        }
    }
    found.sort();
    let carried = ringfence_guest::cpython::FILES.iter();
    let carried: Vec<_> = carried.map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    assert_eq!(found, carried);
}
