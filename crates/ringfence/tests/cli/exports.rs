//! `--exports`: host functions of a Python file.

use std::io::{BufRead, BufReader};
use std::process::Command;

use crate::home::Home;

const TOOLS: &str = "\
from ringfence import PublicError, sandbox_export

@sandbox_export
def double(x: int) -> int:
    '''Twice the number.'''
    print('doubling')
    return 2 * x

@sandbox_export
async def greet(name: str) -> str:
    return f'hello {name}'

@sandbox_export
def fails(how: str) -> None:
    if how == 'public':
        raise PublicError('not today', type='ValueError')
    raise RuntimeError('secret-in-the-host')
";

#[test]
fn functions_of_a_file_can_be_called() {
    let home = Home::new()
        .with("tools.py", TOOLS)
        .with("policy.toml", "version = 1\nname = \"p\"\n[functions.double]\narguments.x = { maximum = 10 }\n");
    let check = |options: &[&str], code: &str, want: (i32, &str, &str)| {
        home.check(&[&["run", "--exports", "tools.py"], options, &["-c", code]].concat(), want);
    };
    check(&[], "double(21)", (0, "42\n", "doubling\n"));
    check(&[], "try:\n    fails('public')\nexcept ValueError as e:\n    print(e)", (0, "not today\n", ""));
    check(
        &["-p", "policy.toml"],
        "double(3)",
        (
            0,
            "6\n",
            "note: the policy does not list `fails`, so the program can't call it\nnote: the policy does not list `greet`, so the program can't call it\ndoubling\n",
        ),
    );
}

/// Who wrote the function sees why it failed; the program and the log see its type.
#[test]
fn a_function_that_fails_shows_its_traceback_to_the_host_alone() {
    let tools = "from ringfence import sandbox_export\n\n@sandbox_export\ndef fails(how: str) -> None:\n    raise RuntimeError(f'secret {how}')\n";
    let home = Home::new().with("tools.py", tools);
    let code = "try:\n    fails('\\x1b[31m\\nringfence: all is well')\nexcept RuntimeError as e:\n    print(e)";
    let traceback = "host function `fails` failed:\n  Traceback (most recent call last):\n    File \"FILE\", line 5, in fails\n      raise RuntimeError(f'secret {how}')\n  RuntimeError: secret \\x1b[31m\n  ringfence: all is well\n"
        .replace("FILE", &home.work("tools.py").display().to_string().replace(&home.path().display().to_string(), "HOME"));
    home.check(&["run", "--exports", "tools.py", "-c", code], (0, "the host function failed\n", &traceback));
    let log = std::fs::read_to_string(home.path().join("state/ringfence/audit.jsonl")).expect("the log");
    assert!(log.contains("RuntimeError") && !log.contains("secret") && !log.contains("Traceback"), "{log}");
}

/// The clock stands still while only the host can wake the program; its own timer is its own time.
#[test]
fn a_timer_of_the_programs_own_counts() {
    let tools = "import asyncio\nfrom ringfence import sandbox_export\n\n@sandbox_export\nasync def slow() -> int:\n    await asyncio.sleep(1.5)\n    return 7\n";
    let home = Home::new().with("tools.py", tools);
    let struck = "ringfence: the limit on wall struck: 700 ms allowed\nhint: give `--wall`, or raise `limits.wall` in the policy\n";
    for place in [["--engine", "rustpython"], ["--tier", "process"]] {
        let check = |code: &str, want: (i32, &str, &str)| {
            let code = format!("import asyncio\n{code}");
            let arguments = [&["run", "--wall", "700ms", "--exports", "tools.py"], &place[..], &["-c", &code]].concat();
            home.check(&arguments, want);
        };
        check("await slow()", (0, "7\n", ""));
        check("await asyncio.gather(slow(), slow())", (0, "[7, 7]\n", ""));
        check("await asyncio.wait_for(slow(), 10)", (4, "", struck));
        check("call = asyncio.ensure_future(slow())\nawait asyncio.sleep(10)", (4, "", struck));
    }
    home.check(
        &["run", "--wall", "700ms", "--engine", "monty", "--exports", "tools.py", "-c", "await slow()"],
        (0, "7\n", ""),
    );
}

/// `nohup` and jobs in the background: what this process was started to ignore, it ignores.
#[test]
fn signals_end_a_run_in_order_and_leave_nothing() {
    let tools = "import os, time\nfrom ringfence import sandbox_export\n\n@sandbox_export\ndef waits() -> None:\n    while not os.path.exists('go'):\n        time.sleep(0.01)\n";
    let home = Home::new().with("tools.py", tools);
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).expect("own folder");
    let code = "print('on')\nwaits()\nprint('done')";
    let run = |before: &str, signal: &str| {
        let program = env!("CARGO_BIN_EXE_ringfence");
        let script = format!("{before} exec \"$0\" run --exports tools.py -c \"$1\"");
        let mut shell = home.command(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", &script, program, code]).current_dir(home.work(""));
        for (name, value) in shell.env("TMPDIR", &temporary).get_envs() {
            command.env(name, value.expect("set"));
        }
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("readable");
        assert_eq!(line, "on\n");
        let sent =
            Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().expect("a shell");
        assert!(sent.success());
        if !before.is_empty() {
            std::fs::write(home.work("go"), "").expect("own folder");
        }
        let output = child.wait_with_output().expect("it ends");
        let left = std::fs::read_dir(&temporary).expect("own folder").count();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), left)
    };
    let given_up = "ringfence: the caller gave the run up\n".to_owned();
    for signal in ["HUP", "TERM", "INT"] {
        assert_eq!(run("", signal), (Some(130), given_up.clone(), 0), "{signal}");
    }
    assert_eq!(run("", "KILL"), (None, String::new(), 0));
    assert_eq!(run("trap '' HUP;", "HUP"), (Some(0), String::new(), 0));
}

#[test]
fn an_async_call_that_nobody_awaits_is_told() {
    let home = Home::new().with("tools.py", TOOLS);
    for engine in ["monty", "rustpython", "auto"] {
        let check = |code: &str, want: (i32, &str, &str)| {
            home.check(&["run", "--engine", engine, "--exports", "tools.py", "-c", code], want);
        };
        check("greet('x')\nNone", (0, "", "RuntimeWarning: coroutine 'greet' was never awaited\n"));
        check("await greet('x')", (0, "'hello x'\n", ""));
        check("later = greet('x')\nawait later", (0, "'hello x'\n", ""));
    }
}

#[test]
fn a_function_that_leaves_does_not_end_the_program() {
    let tools = "import sys\nfrom ringfence import sandbox_export\n\n@sandbox_export\ndef leaves(how: str) -> None:\n    if how == 'exit':\n        sys.exit(3)\n    raise KeyboardInterrupt('secret')\n";
    let home = Home::new().with("tools.py", tools);
    for engine in ["monty", "rustpython"] {
        let check = |how: &str, name: &str| {
            let code = format!("try:\n    leaves('{how}')\nexcept RuntimeError as e:\n    print(e)");
            let said = home.say(&["run", "--engine", engine, "--exports", "tools.py", "-c", &code], "");
            assert_eq!((said.exit, said.stdout), (Some(0), format!("{name}: the host function failed\n")), "{engine}");
        };
        check("exit", "SystemExit");
        check("interrupt", "KeyboardInterrupt");
    }
}

#[test]
fn whole_numbers_of_any_size_reach_functions_exactly() {
    let home = Home::new().with("tools.py", TOOLS);
    for engine in ["monty", "rustpython"] {
        let code = "[double(n) - 2 * n for n in (2**63 - 1, 2**63, 2**64 + 1, -2**63 - 1, 3**200)]";
        home.check(
            &["run", "--engine", engine, "--exports", "tools.py", "-c", code],
            (0, "[0, 0, 0, 0, 0]\n", &"doubling\n".repeat(5)),
        );
        let code = "try:\n    double([{'n': (1 << 400_000,)}])\nexcept TypeError as e:\n    print(e)";
        home.check(
            &["run", "--engine", engine, "--exports", "tools.py", "-c", code],
            (0, "an int of more than 100000 digits can't cross to the host\n", ""),
        );
    }
}

#[test]
fn a_file_that_cannot_be_used_is_told_in_one_line() {
    let home = Home::new()
        .with("none.py", "x = 1\n")
        .with("syntax.py", "def f(:\n")
        .with("raises.py", "from ringfence import sandbox_export\n1/0\n")
        .with("leaves.py", "import os\nos._exit(3)\n");
    let check = |file: &str, stderr: &str| home.check(&["run", "--exports", file, "-c", "1"], (2, "", stderr));
    check("missing.py", "ringfence: there is no file `missing.py`\n");
    check(
        "none.py",
        "ringfence: `none.py` exports no functions; mark them with `@sandbox_export`, or list their names in `EXPORTS`\n",
    );
    check("syntax.py", "ringfence: `syntax.py`, line 1: SyntaxError: invalid syntax\n");
    check("raises.py", "ringfence: `raises.py`, line 2: ZeroDivisionError: division by zero\n");
    check("leaves.py", "ringfence: `leaves.py` ended its Python process before it could be used\n");
}

#[test]
fn a_function_that_never_answers_is_given_up() {
    let tools = "import threading\nfrom ringfence import sandbox_export\n\n@sandbox_export\ndef waits(x: int) -> None:\n    threading.Event().wait()\n";
    let home = Home::new().with("tools.py", tools).with(
        "policy.toml",
        "version = 1\n[limits]\nlifetime = \"20s\"\nidle = \"20s\"\n[functions.waits]\ntimeout = \"100ms\"\n",
    );
    let code = "try:\n    waits(1)\nexcept TimeoutError as e:\n    print(e)";
    for engine in ["monty", "rustpython"] {
        let run = |policy: &[&str], span: &str| {
            let arguments = [&["run", "--engine", engine, "--exports", "tools.py"], policy, &["-c", code]].concat();
            home.check(&arguments, (0, &format!("host function `waits` did not answer within {span}\n"), ""));
        };
        run(&["--policy", "policy.toml"], "100ms");
        run(&["--call", "200ms"], "200ms");
    }
    let log = home.say(&["audit", "show", "--json", "--event", "call_answered"], "").stdout;
    let ends = log.lines().filter(|line| line.contains(r#""outcome":{"error":{"type":"timeout"}}"#)).count();
    assert_eq!((ends, log.lines().count()), (4, 4), "{log}");
}

#[test]
fn a_file_that_never_finishes_loading_is_given_up() {
    let home = Home::new().with("tools.py", "import threading\nthreading.Event().wait()\n");
    home.check(
        &["run", "--load", "300ms", "--exports", "tools.py", "-c", "1"],
        (
            4,
            "",
            "ringfence: loading `tools.py` took longer than 300ms\nhint: give `--load` a longer time, such as `--load 2min`\n",
        ),
    );
}

#[test]
fn a_python_that_is_not_there_is_told_in_one_line() {
    let home = Home::new().with("tools.py", TOOLS);
    let mut command = home.command(&["run", "--exports", "tools.py", "-c", "1"]);
    let output = command.env("RINGFENCE_PYTHON", "no-such-python").output().expect("it starts");
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
        (
            Some(2),
            "ringfence: `no-such-python` can't be started: no such file or directory\nhint: `--exports` needs Python 3.10 or newer; install it, or name it in RINGFENCE_PYTHON\n"
        )
    );
}
