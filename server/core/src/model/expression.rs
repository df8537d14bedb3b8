//! Boolean expressions over what is known of a visit, e.g. `section = "sport" and not (team in
//! ("a", "b"))`: parsed once, evaluated without allocating. The language is told in
//! `docs/targeting.md`.

mod lexer;
mod parser;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trees;

use super::context::{Context, Values};

/// How deep parentheses and `not` may be nested: deeper than people can read, and far from what a
/// thread's stack holds.
pub const EXPRESSION_NESTING_MAX: usize = 32;

/// Numbers of an expression go so far from 0: beyond it, different whole numbers can be the same
/// f64, and an id that was meant as text would hold for others.
const NUMBER_MAX: f64 = 9_007_199_254_740_991.0;

/// What stands before the name of a [`Field`].
const FIELD_PREFIX: &str = "context.";

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression(Node);

/// Why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is wrong there and what would do, in words.
    pub message: String,
}

impl Expression {
    /// Parses `text`.
    ///
    /// # Errors
    /// Where and why it is no expression.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        parser::parse(text).map(Self)
    }

    /// Whether it holds for a visit of which only `values` are known.
    pub fn holds(&self, values: &Values) -> bool {
        self.0.holds(&|name| match name {
            Name::Value(name) => values.get(name),
            Name::Field(_) => None,
        })
    }

    /// Whether it holds for the visit of which `context` is known.
    pub fn holds_in(&self, context: &Context) -> bool {
        self.0.holds(&|name| match name {
            Name::Value(name) => context.values.get(name),
            Name::Field(field) => field.of(context),
        })
    }
}

/// A part of an expression. A comparison with what is not known does not hold, whatever it is.
#[derive(Clone, Debug)]
enum Node {
    /// Each holds.
    All(Box<[Node]>),
    /// One holds.
    Any(Box<[Node]>),
    /// It does not hold.
    Not(Box<Node>),
    /// It is known.
    Exists(Name),
    /// It is one of the texts, or a number that is one of the numbers: `=` and `in`.
    IsOneOf(Name, Box<[Box<str>]>, Box<[f64]>),
    /// It is another text.
    IsOther(Name, Box<str>),
    /// It is a number, and so to this one.
    Compares(Name, Relation, f64),
}

/// How a number is to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Other,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// What a comparison asks for.
#[derive(Clone, Debug)]
enum Name {
    /// A value of the page's own.
    Value(Box<str>),
    /// Something that the contract has a field for.
    Field(Field),
}

/// A field of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Country,
    Region,
    City,
    DeviceType,
    Os,
    Browser,
    Language,
}

impl Field {
    /// All of them, with the contract's names.
    const ALL: [(Self, &'static str); 7] = [
        (Self::Country, "country"),
        (Self::Region, "region"),
        (Self::City, "city"),
        (Self::DeviceType, "device_type"),
        (Self::Os, "os"),
        (Self::Browser, "browser"),
        (Self::Language, "language"),
    ];

    /// What `context` says of it, if anything.
    fn of(self, context: &Context) -> Option<&str> {
        let text = match self {
            Self::Country => return context.country.as_ref().map(|country| country.as_str()),
            Self::DeviceType => return context.device.map(|device| device.word()),
            Self::Region => &context.region,
            Self::City => &context.city,
            Self::Os => &context.os,
            Self::Browser => &context.browser,
            Self::Language => &context.language,
        };
        (!text.is_empty()).then_some(text)
    }
}

impl Node {
    fn holds<'v>(&self, look_up: &impl Fn(&Name) -> Option<&'v str>) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.holds(look_up)),
            Self::Any(nodes) => nodes.iter().any(|node| node.holds(look_up)),
            Self::Not(node) => !node.holds(look_up),
            Self::Exists(name) => look_up(name).is_some(),
            Self::IsOneOf(name, texts, numbers) => look_up(name).is_some_and(|value| {
                texts.iter().any(|text| **text == *value)
                    || !numbers.is_empty()
                        && number(value).is_some_and(|value| numbers.contains(&value))
            }),
            Self::IsOther(name, text) => look_up(name).is_some_and(|value| **text != *value),
            Self::Compares(name, relation, to) => {
                look_up(name).and_then(number).is_some_and(|value| relation.holds(value, *to))
            }
        }
    }
}

impl Relation {
    fn holds(self, value: f64, to: f64) -> bool {
        match self {
            Self::Other => value != to,
            Self::Less => value < to,
            Self::AtMost => value <= to,
            Self::More => value > to,
            Self::AtLeast => value >= to,
        }
    }
}

/// The finite number that `value` is, if it is one.
fn number(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite())
}
