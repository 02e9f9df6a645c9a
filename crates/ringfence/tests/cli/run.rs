//! `ringfence run`.

use ringfence_types::ByteSize;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;

use crate::home::Home;

#[test]
fn a_program_runs_and_its_value_is_shown() {
    let home = Home::new().with("six.py", "print('hi')\n6*7\n");
    home.check(&["run", "-c", "print('hi'); 6*7"], (0, "hi\n42\n", ""));
    home.check(&["run", "six.py"], (0, "hi\n42\n", ""));
    home.check_with(&["run", "-"], "'a\\x1b' * 2", (0, "'a\\x1ba\\x1b'\n", ""));
    home.check(&["run", "-c", "None"], (0, "", ""));
    home.check(&["run", "-q", "-c", "print('hi'); 6*7"], (0, "hi\n", ""));
    home.check(&["run", "--engine", "rustpython", "-c", "import re\nre.sub('a', 'b', 'aa')"], (0, "'bb'\n", ""));
    home.check(
        &["run", "--input", "x=[1, 2]", "--input", "y={\"a\": null}", "-c", "x, y"],
        (0, "([1, 2], {'a': None})\n", ""),
    );
}

#[test]
fn whole_numbers_of_any_size_are_exact_both_ways() {
    let home = Home::new();
    let large = 2_u128.pow(100) + 1;
    for engine in ["monty", "rustpython"] {
        let run = |options: &[&str], code: &str| {
            let input = format!("x={{\"a\": [{large}, -{large}, 18446744073709551615]}}");
            home.say(&[&["run", "--engine", engine, "--input", &input], options, &["-c", code]].concat(), "")
        };
        assert_eq!(run(&[], "x").stdout, format!("{{'a': [{large}, -{large}, 18446744073709551615]}}\n"), "{engine}");
        assert_eq!(run(&[], "x['a'][0] == 2**100 + 1").stdout, "True\n", "{engine}");
        let outcome: serde_json::Value = serde_json::from_str(&run(&["--json"], "x['a'][1]").stdout).expect("JSON");
        assert_eq!(outcome["value"], json!({"$type": "int", "value": format!("-{large}")}), "{engine}");
    }
}

/// More digits than the host writes in decimal: nothing is lost, and nothing takes long.
#[test]
fn a_number_of_millions_of_digits_is_shown_in_hexadecimal() {
    let home = Home::new();
    let code = "(1 << 33_000_000) + 10";
    for place in [["--engine", "monty"], ["--engine", "rustpython"], ["--tier", "process"]] {
        let run = |options: &[&str]| {
            let limits = ["run", "--output", "16MiB", "--memory", "512MiB"];
            home.say(&[&limits[..], &place, options, &["-c", code]].concat(), "").stdout
        };
        let want = format!("1{}a", "0".repeat(33_000_000 / 4 - 1));
        assert!(run(&[]) == format!("0x{want}\n"), "{place:?}");
        let outcome: serde_json::Value = serde_json::from_str(&run(&["--json"])).expect("JSON");
        assert!(outcome["value"] == json!({"$type": "int", "hex": want}), "{place:?}");
    }
}

/// The row of the tier that gave the result names the engine that did.
#[test]
fn what_was_chosen_names_the_engine_of_the_result() {
    let home = Home::new();
    let said = home.say(&["run", "--json", "-c", "1/0"], "");
    let outcome: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let why = "engine `rustpython`, to which the program moved: ";
    let row = outcome["chosen"][0]["why"].as_str().expect("text");
    assert_eq!((&outcome["engine"], row.starts_with(why)), (&json!("rustpython"), true), "{row}");
}

/// As deep as a value or a chain of causes may be, and one deeper.
#[test]
fn what_is_too_deep_to_cross_is_told_by_every_engine() {
    let home = Home::new();
    for place in [["--engine", "monty"], ["--engine", "rustpython"], ["--tier", "process"]] {
        let run = |code: &str| home.say(&[&["run"], &place[..], &["-c", code]].concat(), "");
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let said = run(&nested(63));
        assert_eq!((said.exit, said.stdout), (Some(0), nested(63) + "\n"), "{place:?}");
        let said = run(&nested(64));
        assert_eq!((said.exit, said.stdout.as_str()), (Some(0), ""), "{place:?}: {}", said.stderr);
        assert!(said.stderr.contains("64 levels"), "{place:?}: {}", said.stderr);
        if place[1] == "monty" {
            continue;
        }
        let chain = "e = None\nfor n in range(40):\n    try:\n        raise ValueError(n) from e\n    except ValueError as new:\n        e = new\nraise e";
        let said = run(chain);
        let causes = said.stderr.matches("ValueError: ").count();
        assert_eq!((said.exit, causes), (Some(1), 8), "{place:?}: {}", said.stderr);
    }
}

#[test]
fn the_outcome_as_json_is_all_that_is_printed() {
    let home = Home::new();
    let said = home.say(&["run", "--json", "-c", "print('hi'); 6*7"], "");
    let outcome: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    let part = |name: &str| outcome[name].clone();
    assert_eq!((said.exit, said.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        ["status", "value", "stdout", "tier", "strength"].map(part),
        [json!("completed"), json!(42), json!("hi\n"), json!("embedded"), json!("process")]
    );
}

#[test]
fn each_end_has_its_exit_code_and_line() {
    let home = Home::new();
    home.check(
        &["run", "-c", "def f(x):\n    return 1 / x\nf(0)"],
        (1, "", "Traceback (most recent call last):\n  File \"main.py\", line 3, in <module>\n    f(0)\n  File \"main.py\", line 2, in f\n    return 1 / x\nZeroDivisionError: division by zero\n"),
    );
    home.check(
        &["run", "--wall", "200ms", "-c", "while True: pass"],
        (4, "", "ringfence: the limit on wall struck: 200 ms allowed\nhint: give `--wall`, or raise `limits.wall` in the policy\n"),
    );
    home.check(
        &["run", "--tier", "wasm", "-c", "1"],
        (
            5,
            "",
            "ringfence: no allowed tier can run the program (embedded: the policy does not allow it; process: the policy does not allow it; wasm: not in this build)\nhint: `ringfence explain` shows what each tier lacks\n",
        ),
    );
    home.check(&["run", "-c", "import sys\nsys.exit(0)"], (0, "", ""));
}

#[test]
fn output_past_the_limit_keeps_its_end() {
    let home = Home::new();
    let said = home.say(&["run", "--output", "1KiB", "-c", "for i in range(1000): print(i)"], "");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!((said.exit, lines.first(), lines.last()), (Some(0), Some(&"0"), Some(&"999")));
    assert_eq!(lines.iter().filter(|line| line.ends_with("bytes dropped ...]")).count(), 1);
}

#[test]
fn ctrl_c_gives_the_run_up() {
    let home = Home::new();
    let mut child = home.command(&["run", "-c", "print('on')\nwhile True: pass"]).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let sent = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().expect("a shell");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(sent.success());
    assert_eq!(
        (line.as_str(), output.status.code(), stderr.as_ref()),
        ("on\n", Some(130), "ringfence: the caller gave the run up\n")
    );
}

#[test]
fn a_pipe_that_nobody_writes_to_is_given_up() {
    let home = Home::new();
    let made = Command::new("mkfifo").args(["p1", "p2", "p3"].map(|name| home.work(name))).status().expect("a shell");
    assert!(made.success());
    let too_slow = "ringfence: reading the program took longer than 300ms\nhint: give `--load` a longer time, such as `--load 2min`\n";
    home.check(&["run", "--load", "300ms", "p1"], (4, "", too_slow));
    home.check(&["run", "--load", "300ms", "-c", "1", "--stdin", "p2"], (4, "", too_slow));
    home.check(&["run", "--load", "300ms", "-c", "1", "--policy", "p3"], (4, "", too_slow));
}

#[test]
fn ctrl_c_gives_loading_up() {
    let tools = "import pathlib, threading\npathlib.Path('begun').write_text('')\nthreading.Event().wait()\n";
    let home = Home::new().with("tools.py", tools);
    let mut child = home.command(&["run", "--exports", "tools.py", "-c", "1"]).spawn().expect("it starts");
    while !home.work("begun").exists() {
        std::thread::yield_now();
    }
    let sent = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().expect("a shell");
    assert!(sent.success() && child.wait().expect("it ends").code() == Some(130));
    let mut stderr = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("readable");
    assert_eq!(stderr, "ringfence: loading `tools.py` was given up by the caller\n");
}

#[test]
fn a_program_that_leaves_says_its_last_words_once() {
    let home = Home::new();
    let told = |code: &str, options: &[&str]| home.say(&[&["run"], options, &["-c", code]].concat(), "");
    for (engine, leave) in
        [("monty", "raise SystemExit("), ("rustpython", "import sys\nsys.exit("), ("auto", "import sys\nsys.exit(")]
    {
        let check = |code: &str, want: (i32, &str, &str)| {
            home.check(&["run", "--engine", engine, "-c", &format!("{leave}{code})")], want);
        };
        check("'bye'", (1, "", "bye\n"));
        for limit in ["1KiB", "64KiB"] {
            let said = told(&format!("{leave}'A' * 10**6)"), &["--engine", engine, "--output", limit]);
            // What was seen as it came, then the tail behind a line that counts what was dropped.
            let most = limit.parse::<ByteSize>().expect("a size").bytes() as usize * 3 / 2 + 64;
            assert!(said.exit == Some(1) && said.stderr.len() <= most, "{engine}: {} bytes", said.stderr.len());
        }
        if engine == "monty" {
            // It knows `SystemExit` with a text only.
            continue;
        }
        check("", (0, "", ""));
        check("0", (0, "", ""));
        check("3", (1, "", "note: the program left with exit code 3\n"));
        let json = told(&format!("{leave}3)"), &["--engine", engine, "--json"]);
        let outcome: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
        assert_eq!(
            (json.exit, &outcome["status"], &outcome["exception"]["exit_code"]),
            (Some(1), &json!("raised"), &json!(3))
        );
    }
}

#[test]
fn what_is_left_to_atexit_runs_at_the_end() {
    let home = Home::new();
    let begin = "import atexit, sys\natexit.register(print, 'bye')\nprint('hi')\n";
    let check = |code: &str, want: (i32, &str, &str)| home.check(&["run", "-c", &format!("{begin}{code}")], want);
    check("6*7", (0, "hi\nbye\n42\n", ""));
    check("sys.exit(3)", (1, "hi\nbye\n", "note: the program left with exit code 3\n"));
    check(
        "1/0",
        (
            1,
            "hi\nbye\n",
            "Traceback (most recent call last):\n  File \"main.py\", line 4, in <module>\n    1/0\nZeroDivisionError: division by zero\n",
        ),
    );
    let said = home.say(&["run", "-c", &format!("{begin}atexit.register(lambda: 1/0)\nNone")], "");
    assert_eq!((said.exit, said.stdout.as_str()), (Some(0), "hi\nbye\n"));
    assert_eq!(said.stderr.lines().last(), Some("ZeroDivisionError: division by zero"), "{}", said.stderr);
    let endless = "def endless():\n    while True: pass\natexit.register(endless)";
    let said = home.say(&["run", "--wall", "300ms", "-c", &format!("{begin}{endless}")], "");
    assert_eq!((said.exit, said.stdout.as_str()), (Some(4), "hi\n"));
}

#[test]
fn a_traceback_keeps_within_the_output_limit() {
    let home = Home::new();
    for engine in ["monty", "rustpython"] {
        let raise = "raise ValueError('A' * 10**6)";
        let said = home.say(&["run", "--engine", engine, "--output", "1KiB", "-c", raise], "");
        let line = format!("ValueError: {}…", "A".repeat(1014));
        assert_eq!((said.exit, said.stderr.lines().last()), (Some(1), Some(line.as_str())), "{engine}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let home = Home::new();
    let mut child = home.command(&["run", "-c", "for i in range(2000): print('x' * 20)"]).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn files_go_where_they_are_sent() {
    let home = Home::new()
        .with("data.csv", "a,b\n1,2\n")
        .with("policy.toml", "version = 1\nname = \"p\"\n[filesystem]\nworkspace = \"1MiB\"\n");
    let read = "print(open('/workspace/data.csv').read(), end='')";
    home.check(
        &["run", "-p", "policy.toml", "--file", "data.csv:/workspace/data.csv", "-c", read],
        (0, "a,b\n1,2\n", ""),
    );
}

#[test]
fn a_policys_paths_begin_where_it_lies() {
    let home = Home::new();
    std::fs::create_dir_all(home.work("deep/data")).expect("own folder");
    let policy = "version = 1\nname = \"p\"\n[filesystem]\nmounts = [{ host = \"data\", at = \"/data\", mode = \"ro\" }]\n[audit]\nlog = \"log.jsonl\"\n";
    let home = home.with("deep/policy.toml", policy).with("deep/data/x.txt", "inside");
    home.check(&["run", "-p", "deep/policy.toml", "-c", "open('/data/x.txt').read()"], (0, "'inside'\n", ""));
    assert!(home.work("deep/log.jsonl").exists());
}
