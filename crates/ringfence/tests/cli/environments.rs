//! `ringfence env`: a tiny wheel that is built here, locked, named by a policy, told by its digest. No network.

use std::path::Path;
use std::process::Command;

use crate::home::{Home, Said};

/// Packs a wheel with one module, as the format wants it.
const PACK: &str = r#"
import base64, hashlib, sys, zipfile
name, version, body, folder = sys.argv[1:]
info = f"{name}-{version}.dist-info"
files = {
    f"{name}.py": body,
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
digest = lambda text: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
record = "".join(f"{path},sha256={digest(text)},{len(text)}\n" for path, text in files.items())
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
        wheel.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
"#;

const POLICY: &str = "version = 1\n[isolation]\ntiers = [\"process\"]\n[python]\nenv = \"tiny\"\npackages = [\"tinypkg\"]\n\
                      [limits]\nwall = \"20s\"\n[audit]\nlog = \"audit.jsonl\"\n";

fn home() -> Home {
    let home = Home::below(Path::new("/var/tmp")).with("requirements.txt", "tinypkg\n").with("policy.toml", POLICY);
    std::fs::create_dir(home.work("wheels")).expect("own folder");
    pack(&home, "1.0", "ANSWER = 41 + 1\n");
    home
}

fn pack(home: &Home, version: &str, body: &str) {
    let packed = Command::new("python3").args(["-c", PACK, "tinypkg", version, body]).arg(home.work("wheels")).status();
    assert!(packed.expect("python3").success(), "the wheel is packed");
}

const CREATE: [&str; 7] = ["env", "create", "tiny", "--requirements", "requirements.txt", "--wheels", "wheels"];

/// The digest that `env list` tells.
fn digest(home: &Home) -> String {
    let listed: serde_json::Value =
        serde_json::from_str(&home.say(&["env", "list", "--json"], "").stdout).expect("JSON");
    assert_eq!(listed.pointer("/0/packages"), Some(&serde_json::json!(["tinypkg==1.0"])));
    let digest = listed.pointer("/0/digest").and_then(serde_json::Value::as_str);
    digest.expect("a text").to_owned()
}

#[test]
fn an_environment_is_made_from_wheels_alone_and_its_digest_is_on_record() {
    let home = home();
    let Said { exit, stdout, stderr } = home.say(&CREATE, "");
    assert_eq!((exit, stderr.as_str()), (Some(0), ""), "{stdout}");
    let sha256 = digest(&home);
    let version = stdout.split("Python ").nth(1).and_then(|rest| rest.split(',').next()).expect("a version");
    let want = format!(
        "environment `tiny`: Python {version}, 1 package, sha256 {sha256}\na policy names it as `env = \"tiny\"` under \
         `[python]`\n"
    );
    assert_eq!(stdout, want);
    let lock = home.path().join("state/ringfence/environments/tiny/requirements.lock");
    let lock = std::fs::read_to_string(lock).expect("a lock file");
    assert!(lock.starts_with("tinypkg==1.0 --hash=sha256:") && lock.lines().count() == 1, "{lock}");
    // The one package is there, and what made the environment is not.
    home.check(&["run", "--policy", "policy.toml", "-c", "import tinypkg; tinypkg.ANSWER"], (0, "42\n", ""));
    let pip = home.say(&["run", "--policy", "policy.toml", "-c", "import pip"], "");
    assert_eq!(pip.exit, Some(5), "{}", pip.stderr);
    home.check(
        &["exec", "--policy", "policy.toml", "--", "python", "-c", "import tinypkg; print(tinypkg.ANSWER)"],
        (0, "42\n", ""),
    );
    let log = home.say(&["audit", "show", "audit.jsonl", "--json", "--event", "granted"], "").stdout;
    let first: serde_json::Value = serde_json::from_str(log.lines().next().expect("a grant")).expect("JSON");
    assert_eq!(first["detail"]["environment"], serde_json::json!({"name": "tiny", "sha256": sha256}));
}

#[test]
fn the_digest_tells_what_was_installed() {
    let home = home();
    assert_eq!(home.say(&CREATE, "").exit, Some(0));
    let before = digest(&home);
    let replace = [&CREATE[..], &["--replace"]].concat();
    assert_eq!(home.say(&replace, "").exit, Some(0));
    assert_eq!(digest(&home), before, "the same wheel");
    pack(&home, "1.0", "ANSWER = 43\n");
    assert_eq!(home.say(&replace, "").exit, Some(0));
    assert_ne!(digest(&home), before, "another body under the same version");
    home.check(&["run", "--policy", "policy.toml", "-c", "import tinypkg; tinypkg.ANSWER"], (0, "43\n", ""));
}

#[test]
fn what_can_not_be_made_is_told_and_leaves_what_was_there() {
    let home = home().with("more.txt", "tinypkg\nno-such-package-here\n");
    let none =
        "ringfence: the environment `tiny` is not made; `ringfence env create tiny --requirements FILE` makes it\n";
    home.check(&["run", "--policy", "policy.toml", "-c", "1"], (5, "", none));
    let bad = home.say(&["env", "create", "tiny", "-r", "more.txt", "--wheels", "wheels"], "");
    assert_eq!(bad.exit, Some(2));
    let lines: Vec<&str> = bad.stderr.lines().collect();
    assert!(lines[0].starts_with("ringfence: pip failed: "), "{}", bad.stderr);
    assert_eq!(lines[1], "hint: the folder of `--wheels` must hold a wheel of every package that is needed");
    home.check(&["env", "list"], (0, "NAME  PYTHON  PACKAGES  SHA256  MADE\n", ""));
    assert_eq!(home.say(&CREATE, "").exit, Some(0));
    let there = "ringfence: there is an environment `tiny` already\nhint: give `--replace` to make it anew; what runs in it \
                 now may fail\n";
    home.check(&CREATE, (2, "", there));
    let before = digest(&home);
    let worse = home.say(&["env", "create", "tiny", "-r", "more.txt", "--wheels", "wheels", "--replace"], "");
    assert_eq!((worse.exit, digest(&home)), (Some(2), before));
    home.check(&["env", "remove", "tiny"], (0, "removed: tiny\n", ""));
    let gone = "ringfence: there is no environment `tiny`\nhint: `ringfence env list` lists them\n";
    home.check(&["env", "remove", "tiny"], (2, "", gone));
    let name = home.say(&["env", "remove", "../state"], "");
    assert_eq!(name.exit, Some(2), "{}", name.stderr);
}
