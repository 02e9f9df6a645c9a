//! The answer for one effect. A permit is proof that the policy said yes; effects demand one.
//!
//! Answers to: `bridge` and whoever serves mounted files. Must not: be built elsewhere.
//! INVARIANT: what a permit carries is what was checked, in its normal form.

use ringfence_types::{GuestPath, Value};

use crate::denial::{Denial, Refusal, shown};
use crate::grant::Grant;

/// Something the guest wants done outside its cell.
#[derive(Debug, Clone, Copy)]
pub enum Effect<'a> {
    /// A host-function call, its arguments already bound by name.
    Call {
        /// The name the guest gave.
        function: &'a str,
        /// Arguments by parameter name; variadic ones as a tuple or dict under the parameter's name.
        arguments: &'a [(String, Value)],
    },
    /// Reading a file of a mount or of the workspace.
    ReadMount {
        /// Which.
        path: &'a GuestPath,
    },
}

/// The policy's yes to one effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Permit(Permitted);

#[derive(Debug, Clone, PartialEq)]
enum Permitted {
    Call { function: String, arguments: Vec<(String, Value)>, approval: ApprovalNeed },
    Read { path: GuestPath },
}

/// Whether a human must agree before the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalNeed {
    /// No.
    None,
    /// Only where this session has not yet been given one for this function.
    First,
    /// Yes.
    Each,
}

impl Permit {
    /// The declared name of the function; absent for a read. Also the key of its rate limit.
    pub fn function(&self) -> Option<&str> {
        match &self.0 {
            Permitted::Call { function, .. } => Some(function),
            Permitted::Read { .. } => None,
        }
    }
    /// The arguments to call it with: those that were checked, paths in their normal form.
    pub fn arguments(&self) -> &[(String, Value)] {
        match &self.0 {
            Permitted::Call { arguments, .. } => arguments,
            Permitted::Read { .. } => &[],
        }
    }
    /// The arguments, taken out.
    pub fn into_arguments(self) -> Vec<(String, Value)> {
        match self.0 {
            Permitted::Call { arguments, .. } => arguments,
            Permitted::Read { .. } => Vec::new(),
        }
    }
    /// Whether a human must agree first.
    pub fn approval(&self) -> ApprovalNeed {
        match &self.0 {
            Permitted::Call { approval, .. } => *approval,
            Permitted::Read { .. } => ApprovalNeed::None,
        }
    }
    /// The path that may be read; absent for a call.
    pub fn path(&self) -> Option<&GuestPath> {
        match &self.0 {
            Permitted::Read { path } => Some(path),
            Permitted::Call { .. } => None,
        }
    }
}

impl Grant {
    /// Asks for one effect.
    pub fn permit(&self, effect: &Effect<'_>) -> Result<Permit, Denial> {
        match effect {
            Effect::Call { function, arguments } => self.permit_call(function, arguments),
            Effect::ReadMount { path } => self.permit_read(path),
        }
    }

    fn permit_call(&self, function: &str, arguments: &[(String, Value)]) -> Result<Permit, Denial> {
        let spec = self.function(function).ok_or_else(|| self.unlisted(function))?;
        let mut arguments = arguments.to_vec();
        let approval = match self.guard(function) {
            Some(guard) => guard.admit(spec, &mut arguments, &|argument| self.redact(&spec.name, argument))?,
            None => ApprovalNeed::None,
        };
        Ok(Permit(Permitted::Call { function: spec.name.clone(), arguments, approval }))
    }

    fn unlisted(&self, function: &str) -> Denial {
        let message = format!("policy does not allow host function `{}`", shown(function));
        let listed = self.listed(function);
        let hint = if listed { "the caller must declare it" } else { "add it under `[functions]`" };
        Denial::Function(Refusal::new(message, hint))
    }

    fn permit_read(&self, path: &GuestPath) -> Result<Permit, Denial> {
        let in_workspace = self.workspace().is_some() && path.is_under("/workspace");
        if in_workspace || self.mounts().iter().any(|mount| path.is_under(mount.at.as_str())) {
            return Ok(Permit(Permitted::Read { path: (*path).clone() }));
        }
        let message = format!("policy does not allow reading `{}`", shown(path.as_str()));
        Err(Denial::Path(Refusal::new(message, "add a mount that holds it under `[filesystem]`")))
    }
}
