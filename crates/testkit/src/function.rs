//! A host function that leaves a trace when its body runs.
//!
//! Answers to: tests of the bridge's order. Must not: do anything else.

use std::sync::Arc;

use ringfence_bridge::{HostError, HostFunction, Permitted};
use ringfence_types::{FunctionSpec, Value};

use crate::Trace;

/// Adds `ran NAME` to the trace and gives a fixed answer.
pub struct Traced {
    spec: FunctionSpec,
    trace: Trace,
    answer: Result<Value, HostError>,
}

impl Traced {
    /// A function without parameters that gives `answer`.
    pub fn function(name: &str, trace: &Trace, answer: Result<Value, HostError>) -> Arc<dyn HostFunction> {
        Arc::new(Self { spec: FunctionSpec::new(name), trace: trace.clone(), answer })
    }
}

impl HostFunction for Traced {
    fn spec(&self) -> &FunctionSpec {
        &self.spec
    }

    fn call(&self, _: Permitted) -> ringfence_bridge::Boxed<'_, Result<Value, HostError>> {
        self.trace.add(format!("ran {}", self.spec.name));
        Box::pin(async { self.answer.clone() })
    }
}
