//! What a host function looks like from outside: one declaration, from which all else is made.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A host function's declaration. From it come the schemas, the Python stub and the text for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FunctionSpec {
    /// A Python identifier.
    pub name: String,
    /// The docstring; empty where there is none.
    #[serde(default)]
    pub doc: String,
    /// In order of declaration.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// The return annotation as Python source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<String>,
    /// JSON Schema of the result; absent: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns_schema: Option<Json>,
    /// Whether the guest awaits it.
    #[serde(default)]
    pub is_async: bool,
}

/// One parameter of a host function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// How it may be passed.
    #[serde(default)]
    pub kind: ParameterKind,
    /// Its annotation as Python source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotation: Option<String>,
    /// JSON Schema of one value of it; absent: anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Json>,
    /// Its default; absent: the parameter is required (or variadic).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Default>,
}

/// A parameter's default. The host fills it in by leaving the argument out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Default {
    /// As Python source, for the stub: `10`, `'C'`, or `...` where it can't be written.
    pub source: String,
}

/// How a parameter may be passed, as Python's `inspect` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema, std::default::Default)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// Before `/`.
    PositionalOnly,
    /// An ordinary parameter.
    #[default]
    PositionalOrKeyword,
    /// `*args`.
    VarPositional,
    /// After `*`.
    KeywordOnly,
    /// `**kwargs`.
    VarKeyword,
}

impl FunctionSpec {
    /// A function without parameters that returns anything; add to it with struct update syntax.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            doc: String::new(),
            parameters: Vec::new(),
            returns: None,
            returns_schema: None,
            is_async: false,
        }
    }

    /// The parameter list as Python source: `city: str, days: int = 1`.
    pub fn signature(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut starred = false;
        for (index, parameter) in self.parameters.iter().enumerate() {
            match parameter.kind {
                ParameterKind::VarPositional => starred = true,
                ParameterKind::KeywordOnly if !starred => {
                    parts.push("*".to_owned());
                    starred = true;
                }
                _ => {}
            }
            parts.push(parameter.declaration());
            let next = self.parameters.get(index + 1).map(|next| next.kind);
            if parameter.kind == ParameterKind::PositionalOnly && next != Some(ParameterKind::PositionalOnly) {
                parts.push("/".to_owned());
            }
        }
        parts.join(", ")
    }

    /// The function's head as Python source, without a body: `async def f(x: int) -> str`.
    pub fn head(&self) -> String {
        let keyword = if self.is_async { "async def" } else { "def" };
        let returns = self.returns.as_ref().map(|source| format!(" -> {source}")).unwrap_or_default();
        format!("{keyword} {}({}){returns}", self.name, self.signature())
    }
}

impl Parameter {
    fn declaration(&self) -> String {
        let stars = match self.kind {
            ParameterKind::VarPositional => "*",
            ParameterKind::VarKeyword => "**",
            _ => "",
        };
        let annotation = self.annotation.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
        let equals = if self.annotation.is_some() { " = " } else { "=" };
        let default = self.default.as_ref().map(|default| format!("{equals}{}", default.source)).unwrap_or_default();
        format!("{stars}{}{annotation}{default}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_python() {
        let parameter = |name: &str, kind, default: Option<&str>| Parameter {
            name: name.to_owned(),
            kind,
            annotation: None,
            schema: None,
            default: default.map(|source| Default { source: source.to_owned() }),
        };
        let spec = FunctionSpec {
            parameters: vec![
                parameter("a", ParameterKind::PositionalOnly, None),
                parameter("b", ParameterKind::PositionalOrKeyword, Some("10")),
                parameter("scale", ParameterKind::KeywordOnly, Some("1")),
                parameter("extra", ParameterKind::VarKeyword, None),
            ],
            returns: Some("int".to_owned()),
            ..FunctionSpec::new("add")
        };
        assert_eq!(spec.head(), "def add(a, /, b=10, *, scale=1, **extra) -> int");
    }
}
