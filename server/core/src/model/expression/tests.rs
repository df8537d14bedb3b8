//! The language against its rules, one by one.

use super::super::context::{Country, DeviceType};
use super::*;

fn page() -> Values {
    Values::new([
        ("section", "sport"),
        ("team", "c"),
        ("age", "18"),
        ("price", "-2.5"),
        ("big", "1e400"),
        ("odd", "NaN"),
        ("empty", ""),
        ("quote", "say \"a\\b\""),
        ("and-then", "1"),
        ("gr\u{f6}\u{df}e.eu", "42"),
    ])
}

fn holds(text: &str) -> bool {
    Expression::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}")).holds(&page())
}

#[test]
fn comparisons_hold_as_the_language_says() {
    for text in [
        r#"section = "sport""#,
        r#"section="sport"and not(team in("a","b"))"#,
        r#"section != "Sport""#,
        r#"team in ("a", "b", "c")"#,
        r#"age in ("x", 18)"#,
        "age = 18",
        "age = 18.0",
        "age = 1.8e1",
        r#"age = "18""#,
        "age < 19 and age <= 18 and age > 17.5 and age >= 18 and age != 17",
        "price = -2.5",
        "price<-2",
        r#"quote = "say \"a\\b\"""#,
        r#"empty = """#,
        "exists(empty)",
        "EXISTS (section) AND NOT exists(nothing)",
        "and-then = 1",
        "gr\u{f6}\u{df}e.eu = 42",
        r#"odd = "NaN" and big = "1e400""#,
    ] {
        assert!(holds(text), "{text}");
    }
    for text in [
        r#"section = "Sport""#,
        r#"section = "sport ""#,
        r#"age = "18.0""#,
        "section = 0",
        "section != 0",
        "empty < 1",
        "empty != 1",
        "age < 18",
        "age > 18",
        "age != 18.0",
        "exists(nothing)",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn a_value_that_is_no_finite_number_fails_every_numeric_comparison() {
    for name in ["big", "odd", "section", "empty"] {
        for relation in ["=", "!=", "<", "<=", ">", ">="] {
            assert!(!holds(&format!("{name} {relation} 5")), "{name} {relation}");
        }
        assert!(!holds(&format!("{name} in (5, 6)")), "{name}");
    }
}

#[test]
fn a_comparison_with_an_unknown_value_does_not_hold_and_its_not_does() {
    for comparison in [
        r#"nothing = "a""#,
        r#"nothing != "a""#,
        "nothing = 1",
        "nothing != 1",
        "nothing < 1",
        "nothing <= 1",
        "nothing > 1",
        "nothing >= 1",
        r#"nothing in ("a", 1)"#,
        r#"context.city = "Wien""#,
        r#"context.city != "Wien""#,
    ] {
        assert!(!holds(comparison), "{comparison}");
        assert!(holds(&format!("not {comparison}")), "{comparison}");
    }
}

#[test]
fn not_binds_before_and_and_before_or() {
    let (yes, no) = ("age = 18", "age = 1");
    for (text, expected) in [
        (format!("{yes} or {yes} and {no}"), true),
        (format!("({yes} or {yes}) and {no}"), false),
        (format!("not {no} or {yes}"), true),
        (format!("not ({no} or {yes})"), false),
        (format!("not {yes} and {no}"), false),
        (format!("not ({yes} and {no})"), true),
        (format!("not not {yes}"), true),
        (format!("{no} and {no} or {yes}"), true),
    ] {
        assert_eq!(holds(&text), expected, "{text}");
    }
}

#[test]
fn fields_of_the_context_win_over_page_values_of_their_name() {
    let faked: Vec<(&str, &str)> = vec![("context.city", "Graz"), ("context.country", "DE")];
    let mut context = Context { values: Values::new(faked), ..Context::default() };
    let ask = |text: &str, context: &Context| Expression::parse(text).unwrap().holds_in(context);
    assert!(!ask("exists(context.city) or exists(context.country)", &context), "nor stand for it");
    context.country = Country::new("AT");
    context.region = "9".into();
    context.city = "Wien".into();
    context.device = Some(DeviceType::Tv);
    context.os = "tizen".into();
    context.browser = "chrome".into();
    context.language = "de-at".into();
    for (name, value) in [
        ("country", "AT"),
        ("region", "9"),
        ("city", "Wien"),
        ("device_type", "tv"),
        ("os", "tizen"),
        ("browser", "chrome"),
        ("language", "de-AT"),
    ] {
        assert!(ask(&format!("context.{name} = \"{value}\""), &context), "{name}");
        assert!(!ask(&format!("context.{name} = \"Graz\""), &context), "{name}");
        assert!(!ask(&format!("context.{name} = \"{value}\""), &Context::default()), "{name}");
    }
}

#[test]
fn errors_say_where_and_what_would_do() {
    for (text, column, part) in [
        ("", 1, "the expression ends here"),
        ("   ", 4, "the expression ends here"),
        ("section", 8, "exists(section)"),
        ("section = sport", 11, "double quotes: \"sport\""),
        ("section = 'sport'", 11, "double quotes"),
        ("section == \"a\"", 9, "`==` is written `=`"),
        ("section <> \"a\"", 9, "`<>` is written `!=`"),
        ("section = \"a\" && b = 1", 15, "`and` would do"),
        ("section = \"a\" || b = 1", 15, "`or` would do"),
        ("!(section = \"a\")", 1, "`not`"),
        ("section = \"a", 11, "no closing quote"),
        ("section = \"a\\n\"", 13, "backslash"),
        ("section < \"a\"", 11, "a number would do"),
        ("section = \"a\" team = 1", 15, "`and` or `or` would do before `team`"),
        ("(section = \"a\"", 15, "`(` at column 1"),
        ("section = \"a\")", 14, "closes nothing"),
        ("team in \"a\"", 9, "a list"),
        ("team in ()", 10, "a text or a number"),
        ("team in (\"a\",)", 14, "a text or a number"),
        ("team in (\"a\" \"b\")", 14, "`(` at column 9"),
        ("team not in (\"a\")", 6, "not (team in (...))"),
        ("exists team", 8, "`(`"),
        ("exists(\"team\")", 8, "a name"),
        ("exists(in)", 8, "a name"),
        ("7up = 1", 1, "no name begins so"),
        ("age > 1_000", 7, "no number"),
        ("age = -inf", 7, "no number"),
        ("id = 9007199254740992", 6, "as text"),
        ("id = 1e999", 6, "as text"),
        ("\u{f6}\u{df} = \u{e4}", 6, "double quotes"),
        ("a = 1 and", 10, "the expression ends here"),
        ("a = 1 and or b = 1", 11, "but not `or`"),
        ("context.town = \"Wien\"", 1, "city"),
        ("a = 1 ; b = 2", 7, "';'"),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{text}: {error:?}");
        assert!(error.message.contains(part), "{text}: {error:?}");
    }
}

#[test]
fn nesting_is_bounded_and_length_is_not() {
    let nested = |open: &str, close: &str, n: usize| {
        Expression::parse(&format!("{}a = 1{}", open.repeat(n), close.repeat(n)))
    };
    for (open, close) in [("(", ")"), ("not ", ""), ("not(", ")")] {
        let levels = if open == "not(" { 16 } else { 32 };
        assert!(nested(open, close, levels).is_ok(), "{open}");
        let error = nested(open, close, levels + 1).unwrap_err();
        assert_eq!(error.column, levels * open.len() + 1, "{open}");
        assert!(nested(open, close, 100_000).is_err(), "no deeper than the bound");
    }
    assert!(Expression::parse(&format!("a = 1{}", " and a = 1".repeat(10_000))).is_ok());
}
