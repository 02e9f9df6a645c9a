//! Bad input of every kind gets one clear line, the right exit code, and no traceback.

use crate::home::Home;

const HELP: &str = "hint: `ringfence --help` lists commands and options\n";

#[test]
fn what_is_wrong_with_a_program_is_said_in_one_line() {
    let home = Home::new().with("bad.py", b"x = 1\n\xff\xfe\n");
    let check = |arguments: &[&str], stderr: &str| home.check(arguments, (2, "", stderr));
    check(&["run", "missing.py"], "ringfence: `missing.py` can't be read: no such file or directory\n");
    check(&["run", "."], "ringfence: `.` is a folder; name a file\n");
    check(&["run", "bad.py"], "ringfence: `bad.py` is not UTF-8 (line 2)\nhint: save it as UTF-8\n");
    check(
        &["run"],
        &format!("ringfence: the following required arguments were not provided: <FILE|-c <CODE>>\n{HELP}"),
    );
}

#[test]
fn what_is_wrong_with_an_option_is_said_in_one_line() {
    let home = Home::new().with("data", "x");
    let check = |options: &[&str], stderr: &str| {
        let arguments = [&["run", "-c", "1"], options].concat();
        home.check(&arguments, (2, "", stderr));
    };
    check(
        &["--wall", "5"],
        &format!(
            "ringfence: invalid value '5' for '--wall <SPAN>': `5` is not a span of time; write it as `500ms`, `5s`, `10min` or `1h`\n{HELP}"
        ),
    );
    check(
        &["--memory", "many"],
        &format!(
            "ringfence: invalid value 'many' for '--memory <SIZE>': `many` is not a size; write it as `64MiB`, `512KiB` or `1GiB`\n{HELP}"
        ),
    );
    check(
        &["--tier", "cloud"],
        &format!(
            "ringfence: invalid value 'cloud' for '--tier <TIER>': `cloud` is not a tier; use one of: embedded, wasm, process, container, microvm, remote, cluster\n{HELP}"
        ),
    );
    check(&["--wall", "0s"], "ringfence: closed: `limits.wall` is zero, so nothing could run; the usual is `5s`\n");
    check(&["--input", "x"], "ringfence: the input `x` has no `=`\nhint: write it as `--input days=3`\n");
    let no_name = "hint: an input is a variable of the program, such as `days`\n";
    let check_name =
        |item: &str, why: &str| check(&["--input", item], &format!("ringfence: the input {why}\n{no_name}"));
    check_name("2x=1", "`2x` is no name of Python's: letters, digits and `_`, no digit first");
    check_name("class=2", "`class` is a keyword of Python");
    check(
        &["--input", "x=oslo"],
        "ringfence: the input `x` is not JSON: expected value at line 1 column 1\nhint: write text in quotes: `--input 'x=\"text\"'`\n",
    );
    check(
        &["--file", "data"],
        "ringfence: `data` does not say where the file goes\nhint: write it as `--file data.csv:/workspace/data.csv`\n",
    );
    check(&["--file", "none:/workspace/x"], "ringfence: `none` can't be read: no such file or directory\n");
    check(&["--stdin", "none"], "ringfence: `none` can't be read: no such file or directory\n");
}

#[test]
fn what_is_wrong_with_a_policy_is_said_with_its_line() {
    let home = Home::new()
        .with("broken.toml", "version = 1\nname = \"p\n")
        .with("unknown.toml", "version = 1\nname = \"p\"\n[limit]\nwall = \"5s\"\n")
        .with("bytes.toml", b"\xff");
    for command in [&["run", "-c", "1", "--policy"][..], &["policy", "check"]] {
        let check = |file: &str, stderr: &str| home.check(&[command, &[file]].concat(), (2, "", stderr));
        check("none.toml", "ringfence: `none.toml` can't be read: no such file or directory\n");
        check("bytes.toml", "ringfence: `bytes.toml` is not UTF-8\n");
        check("unknown.toml", "ringfence: unknown.toml:3: unknown key `limit` in a policy; did you mean `limits`?\n");
    }
}
