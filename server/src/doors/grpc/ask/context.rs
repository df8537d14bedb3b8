//! What is known of the visit on its way in. What the catalogue would refuse in a clause is refused
//! here too: a code that no clause can hold for is a caller's mistake, and silence would hide it.

use std::collections::HashMap;

use slotwise_core::model::{Context, Country, DeviceType, Names, Values, is_language, is_region};
use slotwise_proto::v1::RequestContext;

use super::checks::problem_of_name;
use super::{Refusal, check_id, check_len};
use crate::catalog::{NO_COUNTRY, NO_DEVICE_TYPE, NO_LANGUAGE, NO_REGION};
use crate::limits::{CONTEXT_SEGMENTS_MAX, CONTEXT_VALUE_BYTES_MAX, CONTEXT_VALUES_MAX};

/// The checked context. What is absent costs nothing.
///
/// # Errors
/// The first field that is wrong, e.g. `context.country`.
pub(in crate::doors::grpc) fn context(raw: &RequestContext) -> Result<Context, Refusal> {
    let device = known("context.device_type", &raw.device_type, NO_DEVICE_TYPE, DeviceType::new)?;
    let region = |code: &str| is_region(code).then(|| code.into());
    let language = |tag: &str| is_language(tag).then(|| tag.to_ascii_lowercase().into());
    Ok(Context {
        country: known("context.country", &raw.country, NO_COUNTRY, Country::new)?,
        region: known("context.region", &raw.region, NO_REGION, region)?.unwrap_or_default(),
        city: name("context.city", &raw.city)?,
        device,
        os: name("context.os", &raw.os)?,
        browser: name("context.browser", &raw.browser)?,
        language: known("context.language", &raw.language, NO_LANGUAGE, language)?
            .unwrap_or_default(),
        segments: segments(&raw.segments)?,
        values: values(&raw.values)?,
    })
}

/// What `convert` makes of `text`; nothing where it is empty.
fn known<T>(
    field: &str,
    text: &str,
    otherwise: &str,
    convert: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    // Not repeated: it may be as long as a message.
    convert(text).map(Some).ok_or_else(|| Refusal::invalid(field, otherwise))
}

/// A name that nobody has a list of.
fn name(field: &str, text: &str) -> Result<Box<str>, Refusal> {
    check_id(field, text)?;
    Ok(text.into())
}

fn segments(names: &[String]) -> Result<Names, Refusal> {
    check_len("context.segments", names.len(), CONTEXT_SEGMENTS_MAX)?;
    for (at, name) in names.iter().enumerate() {
        if let Some(problem) = problem_of_name(name) {
            return Err(Refusal::invalid(&format!("context.segments[{at}]"), problem));
        }
    }
    Ok(Names::new(names.iter().map(String::as_str)))
}

fn values(values: &HashMap<String, String>) -> Result<Values, Refusal> {
    const FIELD: &str = "context.values";
    check_len(FIELD, values.len(), CONTEXT_VALUES_MAX)?;
    for (name, value) in values {
        if let Some(problem) = problem_of_name(name) {
            return Err(Refusal::invalid(FIELD, format!("a name {problem}")));
        }
        if value.len() > CONTEXT_VALUE_BYTES_MAX {
            let len = value.len();
            let problem =
                format!("{name:?} has {len} bytes; the limit is {CONTEXT_VALUE_BYTES_MAX}");
            return Err(Refusal::invalid(FIELD, problem));
        }
    }
    Ok(Values::new(values.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spoil: impl Fn(&mut RequestContext)) -> (String, String) {
        let mut raw = RequestContext::default();
        spoil(&mut raw);
        let error = context(&raw).unwrap_err().into_request_error();
        assert_eq!(error.code, i32::from(tonic::Code::InvalidArgument));
        (error.field, error.message)
    }

    #[test]
    fn every_field_reaches_the_model() {
        let raw = RequestContext {
            country: "AT".into(),
            region: "9".into(),
            city: "Wien".into(),
            device_type: "tv".into(),
            os: "tizen".into(),
            browser: "chrome".into(),
            language: "de-AT".into(),
            values: [("section".to_owned(), "sport".to_owned()), ("empty".into(), String::new())]
                .into(),
            segments: vec!["auto/in-market".into(), "b".into()],
        };
        let found = context(&raw).unwrap();
        assert_eq!(found.country, Country::new("AT"));
        assert_eq!((&*found.region, &*found.city, &*found.os), ("9", "Wien", "tizen"));
        assert_eq!(found.device, Some(DeviceType::Tv));
        assert_eq!((&*found.browser, &*found.language), ("chrome", "de-at"));
        assert_eq!(found.values.get("section"), Some("sport"));
        assert_eq!(found.values.get("empty"), Some(""));
        assert!(found.segments.has("auto/in-market") && found.segments.has("b"));
        let nothing = context(&RequestContext::default()).unwrap();
        assert_eq!((nothing.country, nothing.device), (None, None));
        assert!(nothing.segments.is_empty() && nothing.language.is_empty());
    }

    #[test]
    fn what_is_ill_formed_is_refused_by_name() {
        for (field, code) in [
            ("country", "at"),
            ("country", "T1"),
            ("region", "US-CA"),
            ("device_type", "mobile"),
            ("language", "de_AT"),
            ("language", "de-AT,de;q=0.9"),
            ("city", "a\nb"),
            ("os", "\u{7}"),
            ("browser", &"x".repeat(129)),
        ] {
            let (found, message) = refused(|raw| {
                let place = match field {
                    "country" => &mut raw.country,
                    "region" => &mut raw.region,
                    "device_type" => &mut raw.device_type,
                    "language" => &mut raw.language,
                    "city" => &mut raw.city,
                    "os" => &mut raw.os,
                    _ => &mut raw.browser,
                };
                code.clone_into(place);
            });
            assert_eq!(found, format!("context.{field}"), "{message}");
        }
    }

    #[test]
    fn the_limits_are_64_values_and_256_segments_and_their_sizes() {
        let pairs = |n| (0..n).map(|n| (format!("k{n}"), String::new())).collect();
        let segments = |n| (0..n).map(|n: usize| n.to_string()).collect();
        let fits = RequestContext {
            values: pairs(64),
            segments: segments(256),
            city: "x".repeat(128),
            ..RequestContext::default()
        };
        assert!(context(&fits).is_ok());
        let (field, message) = refused(|raw| raw.values = pairs(65));
        assert_eq!(field, "context.values");
        assert!(message.contains("64"), "{message}");
        let (field, message) = refused(|raw| raw.segments = segments(257));
        assert_eq!(field, "context.segments");
        assert!(message.contains("256"), "{message}");
        let value = |name: &str, value: &str| {
            let (name, value) = (name.to_owned(), value.to_owned());
            move |raw: &mut RequestContext| raw.values = [(name.clone(), value.clone())].into()
        };
        for (name, text) in [("", "a"), ("a\nb", "a"), (&*"x".repeat(129), "a")] {
            assert_eq!(refused(value(name, text)).0, "context.values", "{name:?}");
        }
        let (field, message) = refused(value("k", &"x".repeat(1_025)));
        assert_eq!(field, "context.values");
        assert!(message.contains("\"k\"") && message.contains("1024"), "{message}");
        for segment in ["", "a\nb", &"x".repeat(129)] {
            let (field, _) = refused(|raw| raw.segments = vec!["a".into(), segment.into()]);
            assert_eq!(field, "context.segments[1]", "{segment:?}");
        }
    }
}
