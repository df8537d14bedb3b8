//! What a Put changes: the fields that its mask names, or those that are set.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};
use prost_types::FieldMask;
use slotwise_proto::dynamic::{from_dynamic, to_dynamic};

use super::object::Object;
use super::problem::{CatalogError, Problem};
use crate::limits::MASK_PATHS_MAX;

const MASK: &str = "update_mask";

/// `current` (or an empty object) with what `patch` changes. With a mask the fields it names,
/// also those that the patch leaves empty; without one the fields that the patch sets, down to
/// the leaves (a list is a leaf); with `*` all of them.
///
/// # Errors
/// When the mask names a field that is not there.
pub fn merge<O: Object>(
    current: Option<O>,
    patch: O,
    mask: Option<&FieldMask>,
) -> Result<O, CatalogError> {
    let paths = mask.map_or(&[][..], |mask| &mask.paths);
    if paths.len() > MASK_PATHS_MAX {
        let message = format!("has {} paths; the limit is {MASK_PATHS_MAX}", paths.len());
        return Err(CatalogError::refused(Problem::invalid(MASK, message)));
    }
    if paths.iter().any(|path| path == "*") {
        return Ok(patch);
    }
    let Some(current) = current else {
        // A new object has nothing to keep: but a mask still says what is meant of the patch.
        if paths.is_empty() {
            return Ok(patch);
        }
        let mut named = O::default();
        copy_identity(&mut named, &patch);
        return merge(Some(named), patch, mask);
    };
    let (mut target, source) = (to_dynamic(&current), to_dynamic(&patch));
    if paths.is_empty() {
        copy_set(&mut target, &source);
    }
    for path in paths {
        copy_path(&mut target, Some(&source), path).map_err(|why| {
            CatalogError::refused(Problem::invalid(MASK, format!("{path:?} {why}")))
        })?;
    }
    from_dynamic(&target).map_err(|error| {
        CatalogError::refused(Problem::invalid(MASK, format!("cannot be applied: {error}")))
    })
}

/// The top-level fields in which both differ, as one line for a person.
pub fn changed_fields<O: Object>(before: &O, after: &O) -> String {
    let (before, after) = (to_dynamic(before), to_dynamic(after));
    let fields = before.descriptor();
    let changed = fields
        .fields()
        .filter(|field| field.name() != "version")
        .filter(|field| before.get_field(field) != after.get_field(field))
        .map(|field| field.name().to_owned());
    changed.collect::<Vec<_>>().join(", ")
}

fn copy_identity<O: Object>(target: &mut O, source: &O) {
    let (mut named, source) = (to_dynamic(target), to_dynamic(source));
    let owner = if O::ID_FIELD == "zone_id" { "site_id" } else { "campaign_id" };
    for name in [O::ID_FIELD, owner] {
        if let (Some(field), Some(value)) =
            (source.descriptor().get_field_by_name(name), source.get_field_by_name(name))
        {
            named.set_field(&field, value.into_owned());
        }
    }
    if let Ok(named) = from_dynamic(&named) {
        *target = named;
    }
}

fn copy_set(target: &mut DynamicMessage, source: &DynamicMessage) {
    for (field, value) in source.fields() {
        match value {
            Value::Message(inner) if !is_leaf(inner) => {
                if let Value::Message(into) = target.get_field_mut(&field) {
                    copy_set(into, inner);
                }
            }
            leaf => target.set_field(&field, leaf.clone()),
        }
    }
}

/// Instants and durations are one value; their parts mean nothing alone.
fn is_leaf(message: &DynamicMessage) -> bool {
    message.descriptor().package_name() == "google.protobuf"
}

fn copy_path(
    target: &mut DynamicMessage,
    source: Option<&DynamicMessage>,
    path: &str,
) -> Result<(), &'static str> {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let field = target.descriptor().get_field_by_name(name).ok_or("is no field of it")?;
    let value = source.filter(|source| source.has_field(&field));
    let Some(rest) = rest else {
        match value {
            Some(source) => target.set_field(&field, source.get_field(&field).into_owned()),
            None => target.clear_field(&field),
        }
        return Ok(());
    };
    if field.is_list() || field.kind().as_message().is_none() {
        return Err("goes into a field that has no fields");
    }
    let inner = value.map(|source| source.get_field(&field).into_owned());
    let inner = inner.as_ref().and_then(Value::as_message);
    if inner.is_none() && !target.has_field(&field) {
        // Nothing to clear; but the rest of the path must be right all the same.
        let kind = field.kind();
        let blank = kind.as_message().ok_or("goes into a field that has no fields")?;
        return copy_path(&mut DynamicMessage::new(blank.clone()), None, rest);
    }
    match target.get_field_mut(&field) {
        Value::Message(into) => copy_path(into, inner, rest),
        _ => Err("goes into a field that has no fields"),
    }
}

#[cfg(test)]
mod tests {
    use slotwise_proto::v1::{Budget, Campaign, FrequencyCap, Price, price};

    use super::*;

    fn campaign() -> Campaign {
        Campaign {
            campaign_id: "7:3".into(),
            tier: 2,
            budget: Some(Budget {
                daily_micros: Some(1),
                total_micros: Some(9),
                ..Budget::default()
            }),
            caps: vec![FrequencyCap { impressions_max: 3, ..FrequencyCap::default() }],
            price: Some(Price { per: Some(price::Per::ClickMicros(5)) }),
            ..Campaign::default()
        }
    }

    fn mask(paths: &[&str]) -> Option<FieldMask> {
        Some(FieldMask { paths: paths.iter().map(ToString::to_string).collect() })
    }

    #[test]
    fn only_a_new_daily_budget_leaves_the_rest() {
        let budget = Budget { daily_micros: Some(2), ..Budget::default() };
        let patch = Campaign { budget: Some(budget), ..Campaign::default() };
        let mut expected = campaign();
        expected.budget.as_mut().unwrap().daily_micros = Some(2);
        assert_eq!(merge(Some(campaign()), patch.clone(), None).unwrap(), expected);
        let daily = mask(&["budget.daily_micros"]);
        assert_eq!(merge(Some(campaign()), patch, daily.as_ref()).unwrap(), expected);
    }

    #[test]
    fn a_mask_clears_what_the_patch_leaves_empty() {
        let named = mask(&["caps", "tier", "budget.total_micros"]);
        let merged = merge(Some(campaign()), Campaign::default(), named.as_ref()).unwrap();
        assert!(merged.caps.is_empty());
        assert_eq!(merged.tier, 0);
        assert_eq!(merged.budget.unwrap().total_micros, None);
        assert_eq!(merged.campaign_id, "7:3");
    }

    #[test]
    fn another_kind_of_price_replaces_the_old_one() {
        let price = Price { per: Some(price::Per::ThousandImpressionsMicros(7)) };
        let patch = Campaign { price: Some(price), ..Campaign::default() };
        assert_eq!(merge(Some(campaign()), patch, None).unwrap().price, Some(price));
    }

    #[test]
    fn a_star_replaces_the_whole() {
        let patch = Campaign { campaign_id: "7:3".into(), ..Campaign::default() };
        assert_eq!(merge(Some(campaign()), patch.clone(), mask(&["*"]).as_ref()).unwrap(), patch);
    }

    /// Each copies its field: many times a long list would take minutes.
    #[test]
    fn a_mask_of_too_many_paths_is_refused() {
        let paths = vec!["caps"; MASK_PATHS_MAX];
        assert!(merge(Some(campaign()), campaign(), mask(&paths).as_ref()).is_ok());
        let paths = vec!["caps"; MASK_PATHS_MAX + 1];
        let refused = merge(Some(campaign()), campaign(), mask(&paths).as_ref());
        assert!(refused.unwrap_err().to_string().contains(MASK));
    }

    #[test]
    fn a_path_that_is_not_there_is_named() {
        for path in ["teir", "budget.dayly", "caps.level", "tier.x", "targeting.nope", ""] {
            let refused = merge(Some(campaign()), campaign(), mask(&[path]).as_ref());
            assert!(refused.unwrap_err().to_string().contains(path), "{path}");
        }
    }

    #[test]
    fn a_mask_over_nothing_takes_only_what_it_names() {
        let merged = merge(None, campaign(), mask(&["tier"]).as_ref()).unwrap();
        let expected = Campaign { campaign_id: "7:3".into(), tier: 2, ..Campaign::default() };
        assert_eq!(merged, expected);
    }
}
