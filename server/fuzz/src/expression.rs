//! Targeting expressions: what compiles still answers the same when it is written in other ways
//! that mean the same, and what does not compile says where.

use slotwise_core::model::{Context, Country, DeviceType, Expression, Values};

/// Visits that an expression is asked about.
const VISITS_MAX: usize = 24;
/// How deep a text may be nested in another one and still compile: it may have nested itself.
const LAYERS: usize = 4;

/// Holds `data`, where it is text, against the rules of the language.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let expression = match Expression::parse(text) {
        Ok(expression) => expression,
        Err(error) => {
            let columns = 1..=text.chars().count() + 1;
            assert!(columns.contains(&error.column), "{text:?}: {error:?}");
            assert!(!error.message.is_empty() && !error.message.contains('\n'), "{error:?}");
            return;
        }
    };
    let visits = visits(text);
    for (written, means_not) in written_otherwise(text) {
        let other = match Expression::parse(&written) {
            Ok(other) => other,
            // It was as deep as may be.
            Err(error) if error.message.contains("nested") && depth(text) + LAYERS > 32 => continue,
            Err(error) => panic!("{text:?} compiles, and {written:?} does not: {error:?}"),
        };
        for visit in &visits {
            let (asked, expected) = (other.holds_in(visit), expression.holds_in(visit));
            assert_eq!(asked, expected != means_not, "{text:?} as {written:?} for {visit:?}");
        }
    }
    for Context { values, .. } in &visits {
        let without_fields = Context { values: values.clone(), ..Context::default() };
        assert_eq!(expression.holds(values), expression.holds_in(&without_fields), "{text:?}");
    }
    answers_like_the_comparison(text, &expression, &visits);
}

/// Other ways to write `text`, and whether they mean the opposite.
fn written_otherwise(text: &str) -> Vec<(String, bool)> {
    let pieces = pieces(text);
    let joined = |between: &str| pieces.join(between);
    let shouted = |piece: &&str| {
        let is_word =
            ["and", "or", "not", "in", "exists"].iter().any(|w| w.eq_ignore_ascii_case(piece));
        if is_word { piece.to_ascii_uppercase() } else { (*piece).to_owned() }
    };
    let loud: Vec<_> = pieces.iter().map(shouted).collect();
    vec![
        (format!("({text})"), false),
        (format!("not ({text})"), true),
        (format!("not (not ({text}))"), false),
        (format!("({text}) and ({text})"), false),
        (format!("({text}) or ({text})"), false),
        // One of the two always holds: what is known decides nothing here.
        (format!("({text}) and (exists(a) or not exists(a))"), false),
        (format!("({text}) or (exists(a) and not exists(a))"), false),
        (joined(" "), false),
        (joined("\n\t\u{a0}\u{3000}"), false),
        (loud.join(" "), false),
    ]
}

/// The words and signs of a text that compiles, by what they begin with.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => quoted_end(rest),
            '(' | ')' | ',' => 1,
            '=' | '!' | '<' | '>' => rest.find(|c| !"=!<>".contains(c)).unwrap_or(rest.len()),
            _ => {
                let is_part = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
                // A plus stands in numbers only.
                let is_number = first == '-' || first.is_ascii_digit();
                rest.find(|c| !is_part(c) || c == '+' && !is_number).unwrap_or(rest.len())
            }
        };
        let (piece, behind) = rest.split_at(end.max(first.len_utf8()));
        pieces.push(piece);
        rest = behind.trim_start();
    }
    pieces
}

/// Where the text ends that `rest` begins with.
fn quoted_end(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// How many parentheses and `not` it has, which is no less than how deep it is nested.
fn depth(text: &str) -> usize {
    let opens = |piece: &&&str| **piece == "(" || piece.eq_ignore_ascii_case("not");
    pieces(text).iter().filter(opens).count()
}

/// Visits of which the names that the text has are known, with the values that it has, others,
/// and none.
fn visits(text: &str) -> Vec<Context> {
    let pieces = pieces(text);
    let is_name = |piece: &&str| piece.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let names: Vec<&str> = pieces.iter().copied().filter(is_name).take(8).collect();
    let mut told: Vec<String> = vec!["".into(), "a".into(), "18.0".into(), "NaN".into()];
    for piece in pieces.iter().filter(|piece| piece.starts_with('"')).take(8) {
        let inside = piece.get(1..piece.len() - 1).unwrap_or_default();
        told.push(unescaped(inside));
    }
    let numbers = pieces.iter().filter_map(|piece| piece.parse::<f64>().ok()).take(8);
    told.extend(numbers.flat_map(|number| [number.to_string(), (number + 0.5).to_string()]));
    let visit = |(at, value): (usize, &String)| {
        let value = value.as_str();
        // Every other one leaves some of the names unknown.
        let known = names.iter().enumerate().filter(|(n, _)| at % 2 == 0 || (n + at) % 3 > 0);
        Context {
            country: Country::new(value).or(Country::new("AT")).filter(|_| at % 3 > 0),
            region: if at % 3 > 0 { value.into() } else { "".into() },
            city: value.into(),
            device: DeviceType::new(value),
            os: value.into(),
            browser: "chrome".into(),
            language: value.to_ascii_lowercase().into(),
            values: Values::new(known.map(|(_, name)| (*name, value))),
            ..Context::default()
        }
    };
    let mut visits: Vec<_> = told.iter().enumerate().map(visit).take(VISITS_MAX).collect();
    visits.push(Context::default());
    visits
}

/// A text of three pieces is a comparison, which is plain enough to be made a second time.
fn answers_like_the_comparison(text: &str, expression: &Expression, visits: &[Context]) {
    let pieces = pieces(text);
    let [name, relation, literal] = pieces[..] else { return };
    if name.starts_with("context.") {
        return;
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    for visit in visits {
        let expected = visit.values.get(name).is_some_and(|value| {
            if let Some(text) = literal.strip_prefix('"') {
                let text = text.strip_suffix('"').unwrap_or(text);
                let text = unescaped(text);
                return (value == text) == (relation == "=");
            }
            let (Some(value), Some(to)) = (number(value), number(literal)) else { return false };
            match relation {
                "=" => value == to,
                "!=" => value != to,
                "<" => value < to,
                "<=" => value <= to,
                ">" => value > to,
                ">=" => value >= to,
                other => panic!("{other} compiles"),
            }
        });
        assert_eq!(expression.holds_in(visit), expected, "{text:?} for {visit:?}");
    }
}

/// What stands in the quotes, with each backslash taken for what follows it.
fn unescaped(text: &str) -> String {
    let (mut plain, mut is_escaped) = (String::new(), false);
    for char in text.chars() {
        is_escaped = char == '\\' && !is_escaped;
        if !is_escaped {
            plain.push(char);
        }
    }
    plain
}
