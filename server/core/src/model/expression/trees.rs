//! The language against a tree that says the same in the plainest way, and against noise.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::context::Values;
use super::Expression;

/// An expression in the plainest form.
#[derive(Clone, Debug)]
enum Tree {
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
    Not(Box<Tree>),
    Exists(&'static str),
    Text(&'static str, bool, String),
    Number(&'static str, &'static str, i16),
    In(&'static str, Vec<Result<String, i16>>),
}

/// Quarters, so that fractions are compared, and exactly.
fn quarters(n: i16) -> f64 {
    f64::from(n) / 4.0
}

impl Tree {
    fn holds(&self, values: &[(&str, String)]) -> bool {
        let get = |asked: &str| values.iter().find(|(n, _)| *n == asked).map(|(_, v)| v.clone());
        let number = |name| get(name).and_then(|v| v.parse::<f64>().ok()).filter(|n| n.is_finite());
        match self {
            Self::And(left, right) => left.holds(values) & right.holds(values),
            Self::Or(left, right) => left.holds(values) | right.holds(values),
            Self::Not(inner) => !inner.holds(values),
            Self::Exists(name) => get(name).is_some(),
            Self::Text(name, equal, text) => match get(name) {
                Some(value) => (value == *text) == *equal,
                None => false,
            },
            Self::Number(name, relation, to) => {
                let (Some(value), to) = (number(name), quarters(*to)) else { return false };
                let order = value.partial_cmp(&to).unwrap();
                match *relation {
                    "=" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                }
            }
            Self::In(name, list) => list.iter().any(|item| match item {
                Ok(text) => Self::Text(name, true, text.clone()).holds(values),
                Err(number) => Self::Number(name, "=", *number).holds(values),
            }),
        }
    }

    /// As text, with parentheses around everything that is joined.
    fn print(&self) -> String {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        match self {
            Self::And(left, right) => format!("({} and {})", left.print(), right.print()),
            Self::Or(left, right) => format!("({}\tOR {})", left.print(), right.print()),
            Self::Not(inner) => format!("not {}", inner.print()),
            Self::Exists(name) => format!("exists( {name} )"),
            Self::Text(name, true, text) => format!("{name}={}", quoted(text)),
            Self::Text(name, false, text) => format!("{name} != {}", quoted(text)),
            Self::Number(name, relation, to) => format!("{name}{relation}{}", quarters(*to)),
            Self::In(name, list) => {
                let items = list.iter().map(|item| match item {
                    Ok(text) => quoted(text),
                    Err(number) => quarters(*number).to_string(),
                });
                format!("{name} in ({})", items.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// As text, with only the parentheses that precedence asks for; `above`: 0 or, 1 and, 2 not.
    fn print_bare(&self, above: u8) -> String {
        let (own, text) = match self {
            Self::Or(left, right) => {
                (0, format!("{} or {}", left.print_bare(0), right.print_bare(0)))
            }
            Self::And(left, right) => {
                (1, format!("{} and {}", left.print_bare(1), right.print_bare(1)))
            }
            Self::Not(inner) => (2, format!("not {}", inner.print_bare(2))),
            leaf => (2, leaf.print()),
        };
        if own < above { format!("({text})") } else { text }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ab\"\\\\ ]{1,2}",
        (-8i16..8).prop_map(|n| quarters(n).to_string())
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let name = || prop::sample::select(vec!["a", "b", "c.d-e_f", "\u{e4}"]);
    let relation = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let item = prop_oneof![text().prop_map(Ok), (-8i16..8).prop_map(Err)];
    let leaf = prop_oneof![
        name().prop_map(Tree::Exists),
        (name(), any::<bool>(), text()).prop_map(|(n, equal, t)| Tree::Text(n, equal, t)),
        (name(), relation, -8i16..8).prop_map(|(n, relation, to)| Tree::Number(n, relation, to)),
        (name(), vec(item, 1..4)).prop_map(|(n, list)| Tree::In(n, list)),
    ];
    leaf.prop_recursive(8, 64, 2, |inner| {
        let pair = || (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            pair().prop_map(|(left, right)| Tree::And(left, right)),
            pair().prop_map(|(left, right)| Tree::Or(left, right)),
            inner.clone().prop_map(|inner| Tree::Not(Box::new(inner))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_tree_holds_as_the_tree_does(
        tree in tree(),
        visits in vec(vec((prop::sample::select(vec!["a", "b", "c.d-e_f"]), text()), 0..3), 1..8),
    ) {
        let forms = [tree.print(), tree.print_bare(0)].map(|t| Expression::parse(&t).unwrap());
        for visit in visits {
            let values = Values::new(visit.iter().map(|(name, value)| (*name, value.as_str())));
            let expected = tree.holds(&visit);
            for form in &forms {
                prop_assert_eq!(form.holds(&values), expected, "{} for {:?}", tree.print(), &visit);
            }
        }
    }

    #[test]
    fn no_text_panics_and_errors_stand_inside_it(text in any::<String>()) {
        if let Err(error) = Expression::parse(&text) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
        }
    }

    #[test]
    fn no_heap_of_words_panics(
        words in vec(prop::sample::select(vec![
            "a", "\"b\"", "\"", "\\", "1", "-", "and ", "or ", "not ", " in ", "exists", "(", ")",
            "=", "!=", "<", ",", "context.", "context.os", " ", "\u{2028}", "\u{e4}", "'",
        ]), 0..40),
    ) {
        let text = words.concat();
        match Expression::parse(&text) {
            Ok(expression) => { expression.holds(&Values::new([("a", "1")])); }
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.column)),
        }
    }
}
