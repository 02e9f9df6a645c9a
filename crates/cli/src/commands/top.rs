//! `ringfence top`: what every running cell of this user uses now, and a key that ends one.
//!
//! Answers to: `lib`. Must not: need an engine; the processes that have one are asked, as by `ps` and `kill`.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use console::{Key, Term};
use ringfence_session::Target;
use ringfence_types::SessionId;
use serde_json::json;

use crate::args::TopArgs;
use crate::control::{Reply, Request, SessionRow, Wanted, ask_all};
use crate::fault::Fault;
use crate::printer::Printer;
use crate::table::table;

/// Between the two looks of `--once`.
const BETWEEN: Duration = Duration::from_millis(250);

const HELP: &str = "arrows: choose   k: kill the chosen session   q: quit";
/// Another screen, from which the first comes back, and no cursor.
const OTHER_SCREEN: &str = "\x1b[?1049h\x1b[?25l";
const FIRST_SCREEN: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";
const REVERSE: &str = "\x1b[7m";
const PLAIN: &str = "\x1b[0m";

/// Shows it until `q`, or once.
pub fn top(args: &TopArgs, printer: &mut Printer) -> Result<u8, Fault> {
    let mut view = View::default();
    let every = args.interval.duration();
    if args.once || args.json {
        view.look()?;
        std::thread::sleep(BETWEEN);
        view.look()?;
        view.faults.iter().for_each(|why| printer.complaint(why, None));
        match args.json {
            true => printer.line(&view.json().to_string()),
            false => printer.text(&view.table()),
        }
        return Ok(0);
    }
    let term = Term::stdout();
    if !term.is_term() {
        let fault = Fault::usage("standard output is no terminal");
        return Err(fault.hint("`ringfence top --once` prints one table, `--json` the same as JSON"));
    }
    printer.text(OTHER_SCREEN);
    let done = live(&mut view, every, &term, printer);
    printer.text(FIRST_SCREEN);
    done.map(|()| 0)
}

/// Until `q`, or until the terminal is gone.
fn live(view: &mut View, every: Duration, term: &Term, printer: &mut Printer) -> Result<(), Fault> {
    let keys = Keys::of(term.clone())?;
    keys.next();
    let mut due = Instant::now();
    loop {
        if Instant::now() >= due {
            view.look()?;
            due = Instant::now() + every;
        }
        let (height, width) = term.size();
        printer.text(&view.screen(height.into(), width.into()));
        if printer.lost_output().is_some() {
            return Ok(());
        }
        match keys.pressed.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(key) => {
                match view.key(&key)? {
                    Next::GoOn => {}
                    Next::LookNow => due = Instant::now(),
                    Next::Quit => return Ok(()),
                }
                keys.next();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Keys, one for each time that one is asked for: while none is waited for, the terminal is as it was.
struct Keys {
    wanted: Sender<()>,
    pressed: Receiver<Key>,
}

impl Keys {
    fn of(term: Term) -> Result<Self, Fault> {
        let ((wanted, asked), (sender, pressed)) = (channel::<()>(), channel());
        let read = move || {
            while asked.recv().is_ok() {
                let Ok(key) = term.read_key_raw() else { return };
                if sender.send(key).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("ringfence-keys".to_owned());
        thread.spawn(read).map_err(|error| Fault::usage(format!("no thread for keys: {error}")))?;
        Ok(Self { wanted, pressed })
    }

    /// Waits for the next one.
    fn next(&self) {
        // Where the thread is gone, the next wait tells.
        let _ = self.wanted.send(());
    }
}

enum Next {
    GoOn,
    LookNow,
    Quit,
}

/// What was found at the last look, and what the person at the terminal is at.
#[derive(Default)]
struct View {
    rows: Vec<Row>,
    faults: Vec<String>,
    /// Processor time at the look before, for what was used since.
    before: HashMap<SessionId, u64>,
    looked: Option<Instant>,
    chosen: usize,
    asking: Option<SessionId>,
    said: String,
}

struct Row {
    pid: u32,
    session: SessionRow,
    cpu_percent: Option<u64>,
}

impl View {
    fn look(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        let since = self.looked.replace(now).map(|last| now.saturating_duration_since(last));
        self.faults.clear();
        let mut rows = Vec::new();
        for answered in ask_all(&Request::List)? {
            match answered.reply {
                Ok(Reply::Sessions { sessions }) => rows.extend(sessions.into_iter().map(|row| (answered.pid, row))),
                Ok(Reply::Failed { why }) | Err(why) => self.faults.push(format!("process {}: {why}", answered.pid)),
                Ok(_) => self.faults.push(format!("process {}: it answered something else", answered.pid)),
            }
        }
        let chosen = self.rows.get(self.chosen).map(|row| row.session.session.clone());
        self.rows = rows.into_iter().map(|(pid, session)| self.row(pid, session, since)).collect();
        let cpu = |row: &Row| Some((row.session.session.clone(), row.session.cpu_ms?));
        self.before = self.rows.iter().filter_map(cpu).collect();
        // The busiest first; the same session stays chosen wherever it stands now.
        self.rows.sort_by(|one, other| {
            (other.cpu_percent, &one.session.session).cmp(&(one.cpu_percent, &other.session.session))
        });
        let at = chosen.and_then(|chosen| self.rows.iter().position(|row| row.session.session == chosen));
        self.chosen = at.unwrap_or(self.chosen).min(self.rows.len().saturating_sub(1));
        Ok(())
    }

    fn row(&self, pid: u32, session: SessionRow, since: Option<Duration>) -> Row {
        let used =
            session.cpu_ms.zip(self.before.get(&session.session)).map(|(now, before)| now.saturating_sub(*before));
        let millis = since.map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1));
        let cpu_percent = used.zip(millis).map(|(used, millis)| (used.saturating_mul(100) + millis / 2) / millis);
        Row { pid, session, cpu_percent }
    }

    fn table(&self) -> String {
        // What is looked at first comes first: a narrow terminal cuts the ids.
        let heads =
            ["PID", "TIER", "AGE", "CPU%", "MEMORY", "PROCS", "IO", "NOTE", "TENANT", "SESSION", "RUN", "CALLS"];
        table(&heads, self.rows.iter().map(Row::cells).collect())
    }

    fn json(&self) -> serde_json::Value {
        let row = |row: &Row| {
            let session = &row.session;
            json!({"pid": row.pid, "session": session.session, "run": session.run, "tenant": session.tenant,
                "tier": session.tier, "age_ms": session.age_ms, "cpu_percent": row.cpu_percent, "cpu_ms": session.cpu_ms,
                "memory": session.memory, "processes": session.processes, "io": session.io, "frozen": session.frozen, "crossed": session.crossed,
                "calls": session.calls})
        };
        json!(self.rows.iter().map(row).collect::<Vec<_>>())
    }

    /// The whole screen, drawn over the last one. Rows that have no room are left out.
    fn screen(&self, height: usize, width: usize) -> String {
        let count = self.rows.len();
        let mut lines = vec![format!("ringfence top: {count} {}", if count == 1 { "session" } else { "sessions" })];
        lines.extend(self.faults.iter().map(|why| ringfence_audit::escape(why, 200)));
        let first = lines.len() + 1;
        lines.extend(self.table().lines().map(str::to_owned));
        let room = height.saturating_sub(2);
        lines.truncate(room.max(1));
        let mut screen = HOME.to_owned();
        for (at, line) in lines.iter().enumerate() {
            let line: String = line.chars().take(width.max(1)).collect();
            let (on, off) = if at == first + self.chosen && count > 0 { (REVERSE, PLAIN) } else { ("", "") };
            screen.push_str(&format!("{on}{line}{off}{REST_OF_LINE}\r\n"));
        }
        let last = match &self.asking {
            Some(session) => format!("end {session}? y or n"),
            None if self.said.is_empty() => HELP.to_owned(),
            None => format!("{}   {HELP}", self.said),
        };
        let last: String = last.chars().take(width.max(1)).collect();
        screen.push_str(&format!("{REST_OF_LINE}\r\n{last}{REST_OF_LINE}{REST_OF_SCREEN}"));
        screen
    }

    fn key(&mut self, key: &Key) -> Result<Next, Fault> {
        if let Some(session) = self.asking.take() {
            if *key == Key::Char('y') {
                self.said = kill(session)?;
                return Ok(Next::LookNow);
            }
            return Ok(Next::GoOn);
        }
        match key {
            Key::Char('q') | Key::Escape | Key::CtrlC => return Ok(Next::Quit),
            Key::ArrowUp => self.chosen = self.chosen.saturating_sub(1),
            Key::ArrowDown => self.chosen = (self.chosen + 1).min(self.rows.len().saturating_sub(1)),
            Key::Char('k') => self.asking = self.rows.get(self.chosen).map(|row| row.session.session.clone()),
            _ => {}
        }
        Ok(Next::GoOn)
    }
}

fn kill(session: SessionId) -> Result<String, Fault> {
    let target = Wanted(Target::Session(session.clone()));
    let by = "`ringfence top`".to_owned();
    let count: usize = ask_all(&Request::Kill { target, by, reason: None, hold: None })?
        .into_iter()
        .filter_map(|answered| match answered.reply {
            Ok(Reply::Killed { count }) => Some(count),
            _ => None,
        })
        .sum();
    Ok(if count > 0 { format!("ended {session}") } else { format!("{session} is gone already") })
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let row = &self.session;
        let calls = if row.calls.is_empty() { dash() } else { row.calls.join(",") };
        vec![
            self.pid.to_string(),
            row.tier.map_or_else(dash, |tier| tier.to_string()),
            format!("{}.{}s", row.age_ms / 1000, row.age_ms % 1000 / 100),
            self.cpu_percent.map_or_else(dash, |percent| percent.to_string()),
            row.memory.map_or_else(dash, size),
            row.processes.map_or_else(dash, |count| count.to_string()),
            row.io.map_or_else(dash, |io| size(io.total())),
            note(row).unwrap_or_else(dash),
            row.tenant.to_string(),
            row.session.to_string(),
            row.run.as_ref().map_or_else(dash, ToString::to_string),
            calls,
        ]
    }
}

/// That it stands still, or of what it uses more than its policy's thresholds.
fn note(row: &SessionRow) -> Option<String> {
    let crossed = row.crossed.iter().map(|measure| format!("{measure}!"));
    let notes: Vec<String> = row.frozen.then(|| "frozen".to_owned()).into_iter().chain(crossed).collect();
    (!notes.is_empty()).then(|| notes.join(","))
}

/// In the largest unit that leaves a digit before the point.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{}.{}{unit}", bytes >> shift, ((bytes >> (shift - 10)) & 1023) * 10 / 1024),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use ringfence_types::{Io, Measure};

    use super::*;

    fn row(session: [u8; 16], cpu_ms: u64, memory: u64) -> SessionRow {
        SessionRow {
            session: SessionId::from_random(session),
            run: None,
            tenant: ringfence_types::Tenant::local(),
            tier: Some(ringfence_types::TierName::Process),
            calls: Vec::new(),
            age_ms: 1234,
            cpu_ms: Some(cpu_ms),
            memory: Some(memory),
            processes: Some(3),
            io: Some(Io { read: 1024, written: 512 }),
            crossed: vec![Measure::Memory, Measure::Io],
            frozen: true,
        }
    }

    fn view() -> View {
        let before = HashMap::from([(SessionId::from_random([1; 16]), 1000)]);
        let mut view = View { before, ..View::default() };
        view.rows = vec![view.row(7, row([1; 16], 1500, 5 << 20), Some(Duration::from_secs(1)))];
        view
    }

    #[test]
    fn what_was_used_since_the_last_look_is_told() {
        let id = SessionId::from_random([1; 16]);
        let want = format!(
            "PID  TIER     AGE   CPU%  MEMORY  PROCS  IO      NOTE                TENANT  SESSION                               RUN  CALLS\n\
             7    process  1.2s  50    5.0MiB  3      1.5KiB  frozen,memory!,io!  local   {id}  -    -\n"
        );
        assert_eq!(view().table(), want);
    }

    #[test]
    fn sizes_have_a_digit_before_the_point() {
        let check = |bytes: u64, want: &str| assert_eq!(size(bytes), want);
        check(0, "0B");
        check(1023, "1023B");
        check(1536, "1.5KiB");
        check(5 << 20, "5.0MiB");
        check((1 << 30) + (1 << 29), "1.5GiB");
    }

    #[test]
    fn the_screen_has_no_more_than_its_room_and_marks_what_is_chosen() {
        let check = |height: usize, width: usize, lines: usize| {
            let screen = view().screen(height, width);
            assert_eq!(screen.matches("\r\n").count() + 1, lines, "{screen:?}");
            assert_eq!(screen.contains(REVERSE), lines == 5, "{screen:?}");
        };
        check(24, 200, 5);
        check(4, 200, 4);
        check(1, 1, 3);
    }

    #[test]
    fn a_kill_is_asked_about_first() {
        let mut view = view();
        assert!(matches!(view.key(&Key::Char('k')), Ok(Next::GoOn)));
        assert!(view.screen(24, 200).contains("end ses_01010101010101010101010101010101? y or n"));
        assert!(matches!(view.key(&Key::Char('n')), Ok(Next::GoOn)));
        assert!(view.screen(24, 200).contains(HELP));
        assert!(matches!(view.key(&Key::Char('q')), Ok(Next::Quit)));
    }
}
