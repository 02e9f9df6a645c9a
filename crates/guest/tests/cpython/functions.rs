//! Host functions: how they look, sync, async, side by side, from threads and in other processes.
//!
//! Answers to: the same tables as the other engines where they have them.

use crate::support::{Guest, functions};

#[test]
fn host_functions_look_and_act_like_python_functions() {
    let mut guest = Guest::new();
    guest.prints(
        "import inspect\nprint(inspect.signature(look_up), look_up.__doc__, look_up.__name__, look_up.__module__)",
        "(a: 'int', /, b: 'int' = 10, *, c: 'int' = None) -> 'dict[str, int]' Looks a thing up. look_up host\n",
    );
    guest.prints(
        "help(look_up)",
        "Help on function look_up in module host:\n\nlook_up(a: 'int', /, b: 'int' = 10, *, c: 'int' = None) -> 'dict[str, int]'\n    Looks a thing up.\n\n",
    );
    guest
        .check("look_up.__defaults__, look_up.__kwdefaults__", "Tuple([Tuple([Int(10)]), Dict([(Str(\"c\"), None)])])");
    guest.check("import typing\ntyping.get_type_hints(look_up)['a'] is int", "Bool(true)");
    guest.check("from host import look_up as l\nimport host\nl is look_up is host.look_up", "Bool(true)");
    guest.check("import builtins\n(builtins.same is same, builtins.open is open)", "Tuple([Bool(true), Bool(false)])");
    guest.check("import pickle\npickle.loads(pickle.dumps(same)) is same", "Bool(true)");
    guest.check(
        "inspect.iscoroutinefunction(later), inspect.iscoroutinefunction(same)",
        "Tuple([Bool(true), Bool(false)])",
    );
    guest.asks("look_up(1)", &["call look_up [Int(1)] []"]);
    guest.asks("look_up(1, 2)", &["call look_up [Int(1), Int(2)] []"]);
    guest.asks("look_up(1, b=2, c=3)", &["call look_up [Int(1)] [(\"b\", Int(2)), (\"c\", Int(3))]"]);
    guest.asks("look_up()", &[]);
    guest.check(
        "look_up()",
        "TypeError: look_up() missing 1 required positional argument: 'a' @main.py:1 <module> `look_up()`",
    );
    guest.check(
        "look_up(1, z=1)",
        "TypeError: look_up() got an unexpected keyword argument 'z' @main.py:1 <module> `look_up(1, z=1)`",
    );
    guest.check("sorted([3, 1, 2], key=same)", "List([Int(1), Int(2), Int(3)])");
    guest.check("class R:\n    def __repr__(self): return same('repr')\nrepr(R())", "Str(\"repr\")");
}

/// What a session sees of its functions.
const SEEN: &str = "import builtins, host\n(sorted(host.__all__), sorted(n for n in ('earlier', 'same') if n in globals()), \
                    [hasattr(builtins, n) for n in ('earlier', 'same')])";

#[test]
fn a_session_has_its_own_functions_whichever_were_made_ahead() {
    let theirs = |name: &str| functions().into_iter().find(|spec| spec.name == name).expect("it is one of them");
    let same = vec![theirs("same")];
    let declared = String::from_utf8(ringfence_wire::declarations(&same)).expect("JSON");
    let want = "Tuple([List([Str(\"same\")]), List([Str(\"same\")]), List([Bool(false), Bool(true)])])";
    let mut as_expected = Guest::made_ahead(&declared, same.clone());
    as_expected.check(SEEN, want);
    as_expected.asks("same(1)", &["call same [Int(1)] []"]);
    let mut others = Guest::made_ahead(&declared.replace("\"same\"", "\"earlier\""), same);
    others.check(SEEN, want);
    others.asks("same(1)", &["call same [Int(1)] []"]);
}

#[test]
fn the_hosts_errors_are_pythons() {
    let mut guest = Guest::new();
    for (kind, want) in [
        ("KeyError", "KeyError: 'no luck'"),
        ("PermissionError", "PermissionError: no luck"),
        ("ApiError", "ApiError: no luck"),
        ("StopIteration", "RuntimeError: StopIteration: no luck"),
        ("SystemExit", "RuntimeError: SystemExit: no luck"),
        ("not a name", "RuntimeError: not a name: no luck"),
        ("print", "print: no luck"),
    ] {
        guest.check(&format!("fails('{kind}')"), &format!("{want} @main.py:1 <module> `fails('{kind}')`"));
    }
    guest.check("try:\n    fails('ValueError')\nexcept ValueError as e:\n    r = str(e)\nr", "Str(\"no luck\")");
    guest.check(
        "try:\n    fails('ApiError')\nexcept RuntimeError as e:\n    r = type(e).__name__\nr",
        "Str(\"ApiError\")",
    );
    guest.check(
        "import asyncio\nawait asyncio.gather(later(1), fails_later('KeyError'), return_exceptions=True)\nawait fails_later('KeyError')",
        "KeyError: 'no luck' @main.py:3 <module> `await fails_later('KeyError')`",
    );
}

#[test]
fn asynchronous_calls_run_side_by_side() {
    let mut guest = Guest::new();
    guest.asks(
        "import asyncio\nasync def main(): return await asyncio.gather(later(1), later(2), later(3))\nasyncio.run(main())",
        &[
            "defer later [Int(1)] []",
            "defer later [Int(2)] []",
            "defer later [Int(3)] []",
            "await 3",
            "await 2",
            "await 1",
        ],
    );
    guest.check("asyncio.run(main())", "List([Int(1), Int(2), Int(3)])");
    guest.check(
        "async def t():\n    try:\n        return await asyncio.wait_for(never(), 0.01)\n    except asyncio.TimeoutError:\n        return 'late'\nasyncio.run(t())",
        "Str(\"late\")",
    );
    guest.check(
        "async def t():\n    a = asyncio.create_task(later(1))\n    b = asyncio.create_task(later(2))\n    return await a + same(5) + await b\nasyncio.run(t())",
        "Int(8)",
    );
    guest.check("async def t(): return await asyncio.to_thread(same, 8)\nasyncio.run(t())", "Int(8)");
    guest.check(
        "async def t():\n    a = asyncio.create_task(later(1))\n    b = await asyncio.to_thread(same, 8)\n    return await a + b\nasyncio.run(t())",
        "Int(9)",
    );
    guest.check(
        "t = asyncio.ensure_future(later(1)) if False else None\nawait asyncio.gather(*(later(n) for n in range(20)))",
        &format!("List([{}])", (0..20).map(|n| format!("Int({n})")).collect::<Vec<_>>().join(", ")),
    );
    guest.check("c = later(4)\ntry:\n    c.send(None)\nexcept StopIteration as stop:\n    r = stop.value\nr", "Int(4)");
    guest.check(
        "l = asyncio.new_event_loop()\nl.run_until_complete(later(1)) + l.run_until_complete(later(2))",
        "Int(3)",
    );
}

#[test]
fn a_call_given_up_does_not_disturb_the_next() {
    let mut guest = Guest::new();
    guest.check("import asyncio\nt = asyncio.get_event_loop_policy().new_event_loop()\nl = t\nt = l.create_task(never())\nl.run_until_complete(asyncio.sleep(0))", "None");
    guest.check("await later(2)", "Int(2)");
    guest.check("same(3)", "Int(3)");
}

#[test]
fn any_thread_may_call() {
    let mut guest = Guest::new();
    guest.check(
        concat!(
            "import concurrent.futures\n",
            "with concurrent.futures.ThreadPoolExecutor(8) as pool: r = list(pool.map(same, range(200)))\n",
            "r == list(range(200))"
        ),
        "Bool(true)",
    );
    guest.check(
        concat!(
            "import asyncio, threading\nout = {}\n",
            "async def work(n): return sum(await asyncio.gather(*(later(n) for _ in range(5))))\n",
            "def run(n): out[n] = asyncio.run(work(n))\n",
            "ts = [threading.Thread(target=run, args=(n,)) for n in range(4)]\n",
            "[t.start() for t in ts]; [t.join() for t in ts]\nsorted(out.items())"
        ),
        "List([Tuple([Int(0), Int(0)]), Tuple([Int(1), Int(5)]), Tuple([Int(2), Int(10)]), Tuple([Int(3), Int(15)])])",
    );
    guest.check(
        "pool = concurrent.futures.ThreadPoolExecutor(2)\nlist(pool.map(same, [1, 2]))",
        "List([Int(1), Int(2)])",
    );
    guest.check("list(pool.map(same, [3]))", "List([Int(3)])");
}

#[test]
fn the_host_may_ask_for_files_and_snapshots_while_a_call_waits() {
    let mut guest = Guest::new();
    guest.asks("look()", &["call look [] []", "unsupported a snapshot None"]);
}

#[test]
fn other_processes_have_no_host() {
    let mut guest = Guest::new();
    guest.prints(
        concat!(
            "import os\npid = os.fork()\nif pid == 0:\n    try:\n        same(1)\n    except RuntimeError as e:\n",
            "        print(e, flush=True)\n    os._exit(0)\n_ = os.waitpid(pid, 0)"
        ),
        "`same` can be called in the session's first process only\n",
    );
}
