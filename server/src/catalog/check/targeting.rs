//! Whom a campaign is for: every value of every clause, as the decision needs it.

use slotwise_core::model::{
    Country, DeviceType, Expression, HOURS_OF_WEEK, Names, Targeting, is_language, is_region,
};
use slotwise_proto::v1;

use super::Checker;
use crate::limits::{EXPRESSION_BYTES_MAX, TARGETING_VALUES_MAX};

/// What is wrong with a country that is none, and what would do; the doors say the same.
pub const NO_COUNTRY: &str = "is no ISO 3166-1 alpha-2 code; \"AT\" would be one";
/// The same for a region.
pub const NO_REGION: &str = "is no ISO 3166-2 code without its country; \"CA\" would be one";
/// The same for a device type.
pub const NO_DEVICE_TYPE: &str = "is no device type; phone, tablet, desktop, tv or other would do";
/// The same for a language.
pub const NO_LANGUAGE: &str = "is no BCP 47 tag; \"de-AT\" would be one";

/// The clauses of `targeting`; nothing where none says anything.
pub(super) fn targeting(
    targeting: Option<&v1::Targeting>,
    checker: &mut Checker,
) -> Option<Box<Targeting>> {
    let clauses = targeting?;
    let country = |code: &str| Country::new(code).ok_or(NO_COUNTRY);
    let region = |code: &str| if is_region(code) { Ok(()) } else { Err(NO_REGION) };
    let device = |word: &str| DeviceType::new(word).ok_or(NO_DEVICE_TYPE);
    // Matched whatever the case of their letters: in lower case on both sides.
    let language = |tag: &str| match is_language(tag) {
        true => Ok(tag.to_ascii_lowercase().into_boxed_str()),
        false => Err(NO_LANGUAGE),
    };
    let mut countries = values("countries", &clauses.countries, country, checker);
    countries.sort_unstable();
    values("regions", &clauses.regions, region, checker);
    let devices = values("device_types", &clauses.device_types, device, checker);
    let languages = values("languages", &clauses.languages, language, checker);
    let mut model = Targeting::default();
    model.countries = countries.into();
    model.regions = set(&clauses.regions);
    model.languages = languages.into();
    model.segments_any = segments("segments_any", &clauses.segments_any, checker);
    model.segments_none = segments("segments_none", &clauses.segments_none, checker);
    model.set_devices(devices);
    model.set_hours(hours(&clauses.hours_of_week, checker));
    model.expression = expression(&clauses.expression, checker);
    (!model.is_empty()).then(|| Box::new(model))
}

/// What `convert` makes of each value of the clause `name`; those that it has a word against are
/// refused.
fn values<T>(
    name: &str,
    values: &[String],
    convert: impl Fn(&str) -> Result<T, &'static str>,
    checker: &mut Checker,
) -> Vec<T> {
    let field = format!("targeting.{name}");
    checker.len(&field, values.len(), TARGETING_VALUES_MAX);
    let mut converted = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        match convert(value) {
            Ok(value) => converted.push(value),
            Err(problem) => {
                checker.refuse(format!("{field}[{at}]"), format!("{value:?} {problem}"));
            }
        }
    }
    converted
}

fn segments(name: &str, values: &[String], checker: &mut Checker) -> Names {
    checker.names(&format!("targeting.{name}"), values, TARGETING_VALUES_MAX);
    set(values)
}

fn set(values: &[String]) -> Names {
    Names::new(values.iter().map(String::as_str))
}

fn hours(hours: &[u32], checker: &mut Checker) -> Vec<u8> {
    checker.len("targeting.hours_of_week", hours.len(), usize::from(HOURS_OF_WEEK));
    let mut converted = Vec::with_capacity(hours.len());
    for (at, hour) in hours.iter().enumerate() {
        match u8::try_from(*hour) {
            Ok(hour) if hour < HOURS_OF_WEEK => converted.push(hour),
            _ => {
                let last = HOURS_OF_WEEK - 1;
                let field = format!("targeting.hours_of_week[{at}]");
                checker.refuse(field, format!("is {hour}; 0 (Monday 00:00) to {last} would do"));
            }
        }
    }
    converted
}

fn expression(text: &str, checker: &mut Checker) -> Option<Expression> {
    const FIELD: &str = "targeting.expression";
    if text.is_empty() {
        return None;
    }
    if text.len() > EXPRESSION_BYTES_MAX {
        let len = text.len();
        checker.refuse(FIELD, format!("has {len} bytes; the limit is {EXPRESSION_BYTES_MAX}"));
        return None;
    }
    match Expression::parse(text) {
        Ok(expression) => Some(expression),
        Err(error) => {
            checker.refuse(FIELD, format!("column {}: {}", error.column, error.message));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use slotwise_core::model::{Clause, Context, Values};

    use super::*;

    fn check(clauses: v1::Targeting) -> Result<Option<Box<Targeting>>, Vec<(String, String)>> {
        let mut checker = Checker::default();
        let model = targeting(Some(&clauses), &mut checker);
        let pair = |problem: super::super::Problem| (problem.field, problem.message);
        checker.finish(model).map_err(|problems| problems.into_iter().map(pair).collect())
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_clause_reaches_the_model() {
        let clauses = v1::Targeting {
            countries: texts(&["DE", "AT"]),
            regions: texts(&["9"]),
            device_types: texts(&["tv", "phone"]),
            languages: texts(&["de-AT"]),
            segments_any: texts(&["b", "a"]),
            segments_none: texts(&["c"]),
            hours_of_week: vec![167, 0],
            expression: "age > 5".into(),
        };
        let model = check(clauses).unwrap().unwrap();
        let fits = Context {
            country: Country::new("AT"),
            region: "9".into(),
            device: Some(DeviceType::Phone),
            language: "de-at".into(),
            values: Values::new([("age", "6")]),
            ..Context::default()
        };
        assert_eq!(model.fails(&fits, 0), None);
        assert_eq!(model.fails(&fits, 167), None);
        assert_eq!(model.fails(&fits, 1), Some(Clause::HoursOfWeek));
        let country = Context { country: Country::new("CH"), ..fits.clone() };
        assert_eq!(model.fails(&country, 0), Some(Clause::Countries));
        let region = Context { region: "8".into(), ..fits.clone() };
        assert_eq!(model.fails(&region, 0), Some(Clause::Regions));
        let device = Context { device: Some(DeviceType::Tablet), ..fits.clone() };
        assert_eq!(model.fails(&device, 0), Some(Clause::DeviceTypes));
        let language = Context { language: "de".into(), ..fits.clone() };
        assert_eq!(model.fails(&language, 0), Some(Clause::Languages));
        let values = Context { values: Values::new([("age", "5")]), ..fits };
        assert_eq!(model.fails(&values, 0), Some(Clause::Expression));
        assert_eq!(model.segments_any.iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(model.segments_none.iter().collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn clauses_that_say_nothing_are_none() {
        assert!(check(v1::Targeting::default()).unwrap().is_none());
    }

    #[test]
    fn each_bad_value_is_named() {
        let clauses = v1::Targeting {
            countries: texts(&["AT", "at", "AUT"]),
            regions: texts(&["US-CA"]),
            device_types: texts(&["tv", "Phone"]),
            languages: texts(&["de_AT", "*"]),
            segments_any: texts(&["a", ""]),
            segments_none: texts(&["a\nb"]),
            hours_of_week: vec![168, 167, 256 + 5],
            expression: "age > 5 and section = sport".into(),
        };
        let problems = check(clauses).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "targeting.countries[1]",
                "targeting.countries[2]",
                "targeting.regions[0]",
                "targeting.device_types[1]",
                "targeting.languages[0]",
                "targeting.languages[1]",
                "targeting.segments_any[1]",
                "targeting.segments_none[0]",
                "targeting.hours_of_week[0]",
                "targeting.hours_of_week[2]",
                "targeting.expression",
            ]
        );
        let (_, message) = &problems[10];
        assert!(message.starts_with("column 23: "), "{message}");
    }

    #[test]
    fn what_is_too_much_is_refused_with_the_limit() {
        let long = |bytes: usize| {
            let expression = format!("a = \"{}\"", "x".repeat(bytes - 6));
            check(v1::Targeting { expression, ..v1::Targeting::default() })
        };
        assert!(long(2_048).is_ok());
        let problems = long(2_049).unwrap_err();
        assert_eq!(problems[0].0, "targeting.expression");
        assert!(problems[0].1.contains("2048"), "{problems:?}");
        let many = |n| {
            let segments_any = (0..n).map(|n| n.to_string()).collect();
            check(v1::Targeting { segments_any, ..v1::Targeting::default() })
        };
        assert!(many(256).is_ok());
        assert_eq!(many(257).unwrap_err()[0].0, "targeting.segments_any");
    }
}
