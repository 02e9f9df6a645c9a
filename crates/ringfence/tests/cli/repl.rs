//! `ringfence repl`, its input from a pipe.

use crate::home::Home;

#[test]
fn names_stay_from_line_to_line() {
    let home = Home::new();
    home.check_with(&["repl"], "x = 20\nx + 1\n", (0, "21\n", ""));
    home.check_with(&["repl"], "def f():\n    return 7\n\nf()\n", (0, "7\n", ""));
    home.check_with(
        &["repl"],
        "x = 1\n1/0\nx\n",
        (0, "1\n", "Traceback (most recent call last):\n  File \"<repl>\", line 1, in <module>\n    1/0\nZeroDivisionError: division by zero\n"),
    );
    home.check_with(
        &["repl"],
        ":nonsense\n:quit\n1\n",
        (0, "", "ringfence: there is no `:nonsense`\nhint: `:help` lists what there is\n"),
    );
}

#[test]
fn a_snapshot_goes_on_in_another_process() {
    let home = Home::new();
    let said = home.say(&["repl", "--engine", "monty"], "x = 41\n:snapshot saved\n");
    assert_eq!((said.exit, said.stderr.as_str()), (Some(0), ""));
    home.check_with(&["repl", "--engine", "monty", "--snapshot", "saved"], "x + 1\n", (0, "42\n", ""));
}
