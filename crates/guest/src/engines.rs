//! Both interpreters, warm where the zygote was asked to warm them.
//!
//! Answers to: the zygote and its workers. Must not: keep anything that two sessions would share.

use ringfence_types::Engine;

use crate::engine::Interpreter;
use crate::monty::Monty;
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
        if let Some(Err(_)) = self.rustpython.as_mut().map(RustPython::reseed) {
            sys::end(68);
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

fn cold() -> Result<RustPython, NotWarm> {
    Warm::lean().map(RustPython::new)
}
