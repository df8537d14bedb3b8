//! Each clause by itself, and all together.

use super::super::context::Values;
use super::super::profile::Segment;
use super::*;

fn country(code: &str) -> Country {
    Country::new(code).unwrap()
}

/// Vienna, on a phone, in Austrian German.
fn vienna() -> Context {
    Context {
        country: Some(country("AT")),
        region: "9".into(),
        device: Some(DeviceType::Phone),
        language: "de-at".into(),
        values: Values::new([("section", "sport")]),
        ..Context::default()
    }
}

/// Each clause alone, once so that it holds in Vienna on Monday at 00:30, once so that it
/// does not.
fn clauses() -> Vec<(Clause, Targeting, Targeting)> {
    let with = |set: &dyn Fn(&mut Targeting)| {
        let mut targeting = Targeting::default();
        set(&mut targeting);
        targeting
    };
    let asks = |text| with(&|t| t.expression = Some(Expression::parse(text).unwrap()));
    vec![
        (
            Clause::Countries,
            with(&|t| t.countries = ["AT", "CH", "DE"].map(country).into()),
            with(&|t| t.countries = ["CH", "DE"].map(country).into()),
        ),
        (
            Clause::Regions,
            with(&|t| t.regions = Names::new(["9", "CA"])),
            with(&|t| t.regions = Names::new(["8", "90"])),
        ),
        (
            Clause::DeviceTypes,
            with(&|t| t.set_devices([DeviceType::Tv, DeviceType::Phone])),
            with(&|t| t.set_devices([DeviceType::Tv, DeviceType::Other])),
        ),
        (
            Clause::Languages,
            with(&|t| t.languages = ["en", "de"].map(Into::into).into()),
            with(&|t| t.languages = ["en", "de-ch", "d", "de-at-1996"].map(Into::into).into()),
        ),
        (
            Clause::HoursOfWeek,
            with(&|t| t.set_hours([0, 64, 167])),
            with(&|t| t.set_hours([1, 64, 128, 167])),
        ),
        (Clause::Expression, asks("section = \"sport\""), asks("section = \"news\"")),
    ]
}

#[test]
fn a_clause_alone_decides() {
    for (clause, holds, fails) in clauses() {
        assert_eq!(holds.fails(&vienna(), 0), None, "{clause:?}");
        assert_eq!(fails.fails(&vienna(), 0), Some(clause));
        assert!(!holds.is_empty() && !holds.asks_segments(), "{clause:?}");
    }
    assert!(Targeting::default().is_empty());
    assert_eq!(Targeting::default().fails(&Context::default(), 0), None, "all are empty");
}

#[test]
fn what_is_not_known_holds_for_no_clause() {
    for (clause, holds, _) in clauses() {
        let expected = (clause != Clause::HoursOfWeek).then_some(clause);
        assert_eq!(holds.fails(&Context::default(), 0), expected);
    }
}

#[test]
fn every_clause_must_hold() {
    let mut all = Targeting {
        countries: [country("AT")].into(),
        regions: Names::new(["9"]),
        languages: ["de".into()].into(),
        expression: Some(Expression::parse("section != \"news\"").unwrap()),
        ..Targeting::default()
    };
    all.set_devices([DeviceType::Phone]);
    all.set_hours([5]);
    assert_eq!(all.fails(&vienna(), 5), None);
    assert_eq!(all.fails(&vienna(), 6), Some(Clause::HoursOfWeek));
    let elsewhere = Context { country: Some(country("DE")), ..vienna() };
    assert_eq!(all.fails(&elsewhere, 5), Some(Clause::Countries));
    let nowhere = Context { country: None, ..vienna() };
    assert_eq!(all.fails(&nowhere, 5), Some(Clause::Countries));
}

#[test]
fn a_region_counts_whatever_its_country() {
    let california = Targeting { regions: Names::new(["CA"]), ..Targeting::default() };
    for place in [Some(country("US")), Some(country("IT")), None] {
        let context = Context { country: place, region: "CA".into(), ..Context::default() };
        assert_eq!(california.fails(&context, 0), None, "{place:?}");
    }
}

#[test]
fn a_language_holds_for_what_lies_under_it() {
    for (range, tag, expected) in [
        ("de", "de", true),
        ("de", "de-at", true),
        ("de", "de-latn-at", true),
        ("de-at", "de-at", true),
        ("de-at", "de", false),
        ("de-at", "de-latn-at", false),
        ("de", "den", false),
        ("zh-hant", "zh-hant-tw", true),
        ("zh-hant", "zh-hans-tw", false),
        ("de", "", false),
    ] {
        assert_eq!(is_under(tag, range), expected, "{tag} under {range}");
    }
}

#[test]
fn each_hour_of_the_week_is_its_own() {
    let mut targeting = Targeting::default();
    for hour in 0..HOURS_OF_WEEK {
        targeting.set_hours([hour]);
        let holds = (0..=u8::MAX).filter(|h| targeting.fails(&vienna(), *h).is_none());
        assert_eq!(holds.collect::<Vec<_>>(), [hour]);
    }
    targeting.set_hours([HOURS_OF_WEEK, u8::MAX]);
    assert!(targeting.is_empty(), "hours that do not exist say nothing");
}

#[test]
fn its_countries_have_its_bits() {
    assert_eq!(Targeting::default().country_bits(), u64::MAX);
    let countries = ["AT", "DE"].map(country);
    let targeting = Targeting { countries: countries.into(), ..Targeting::default() };
    let [at, de] = countries.map(Country::bit);
    assert_eq!(targeting.country_bits(), at | de);
}

/// A visitor who is `a` until 10 and `b` until 20.
fn profile() -> Profile {
    let mut profile = Profile::default();
    let segment = |name: &str, expires_us| Segment { name: name.to_owned(), expires_us };
    profile.set_segments(vec![segment("a", 10), segment("b", 20)]);
    profile
}

#[test]
fn segments_come_from_the_caller_and_from_the_profile() {
    let asks = |any: &[&str], none: &[&str]| Targeting {
        segments_any: Names::new(any.iter().copied()),
        segments_none: Names::new(none.iter().copied()),
        ..Targeting::default()
    };
    let (fits, later) = (Segmented::Fits, Segmented::AsksProfile);
    let (no_any, bad) =
        (Segmented::Fails(Clause::SegmentsAny), Segmented::Fails(Clause::SegmentsNone));
    // Any of, none of, given; what holds with the profile at 9, at 10 and without it.
    for (any, none, given, expected) in [
        (&[][..], &[][..], &["a"][..], [fits, fits, fits]),
        (&["a"], &[], &[], [fits, no_any, later]),
        (&["a", "b"], &[], &[], [fits, fits, later]),
        (&["c"], &[], &[], [no_any, no_any, later]),
        (&["c", "d"], &[], &["x", "c"], [fits, fits, fits]),
        (&[], &["a"], &[], [bad, fits, later]),
        (&[], &["c"], &[], [fits, fits, later]),
        (&[], &["c"], &["c"], [bad, bad, bad]),
        (&["c"], &["c"], &["c"], [bad, bad, bad]),
        (&["c"], &["a"], &["c"], [bad, fits, later]),
        (&["a"], &["d"], &["x"], [fits, no_any, later]),
    ] {
        let targeting = asks(any, none);
        let given = Names::new(given.iter().copied());
        let profile = profile();
        let found = [
            targeting.segmented(&given, Some(&profile), 9),
            targeting.segmented(&given, Some(&profile), 10),
            targeting.segmented(&given, None, 9),
        ];
        assert_eq!(found, expected, "any {any:?}, none {none:?}, given {given:?}");
        assert_eq!(targeting.asks_segments(), !any.is_empty() || !none.is_empty());
    }
}
