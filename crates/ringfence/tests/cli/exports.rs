//! `--exports`: host functions of a Python file.

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
