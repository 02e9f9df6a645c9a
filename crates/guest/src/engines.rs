//! Both interpreters, warm where the zygote was asked to warm them.
//!
//! Answers to: the zygote and its workers. Must not: keep anything that two sessions would share.

use ringfence_types::{Engine, Source};

use crate::engine::Interpreter;
use crate::files::Files;
use crate::monty::Monty;
use crate::rustpython::rehearsal::Nobody;
use crate::rustpython::{NotWarm, RustPython, Warm};
use crate::sys;
use crate::zygote::Warmth;

/// What a zygote warms.
#[derive(Default)]
pub struct Engines {
    rustpython: Option<RustPython>,
}

impl Engines {
    /// Warms the engine that this zygote is for; `lean` where it will serve a single session.
    pub fn warm(engine: Engine, lean: bool) -> Result<Self, NotWarm> {
        let rustpython = match engine {
            Engine::Rustpython => Some(RustPython::new(if lean { Warm::lean()? } else { Warm::new()? })),
            // It starts in microseconds: there is nothing to warm.
            Engine::Monty => None,
        };
        Ok(Self { rustpython })
    }
}

impl Warmth for Engines {
    fn reseed(&mut self) {
        match self.rustpython.as_mut().map(RustPython::reseed) {
            Some(Ok(())) => {}
            Some(Err(_)) => sys::end(68),
            None => rehearse_monty(),
        }
    }

    fn interpreter(&mut self, engine: Engine) -> Box<dyn Interpreter> {
        match engine {
            Engine::Monty => Box::new(Monty::new()),
            Engine::Rustpython => match self.rustpython.take().map_or_else(cold, Ok) {
                Ok(interpreter) => Box::new(interpreter),
                Err(_) => sys::end(69),
            },
        }
    }
}

/// Touches the pages that a first snippet needs, ahead of need: they are shared with the zygote until then.
fn rehearse_monty() {
    let mut nobody = Nobody(Files::new(0));
    let mut throwaway = Monty::new();
    for code in ["print(1)\nx = [n * 2 for n in range(3)]\nlen(x)", "1 +"] {
        let _ = throwaway.run(&Source::new(code), &mut nobody);
    }
}

fn cold() -> Result<RustPython, NotWarm> {
    Warm::lean().map(RustPython::new)
}
