//! Which fields an object in JSON names: what a put of it changes, and nothing else.

use prost::{Message, Name};
use prost_reflect::{Kind, MessageDescriptor};
use serde_json::Value;
use slotwise_proto::{dynamic, json};

/// Reads one object, and lists the fields that its text names, as field mask paths. Fields at
/// their default count, so `"strictCaps": false` or `"caps": []` can be said.
pub(crate) fn read<M: Message + Name + Default>(text: &str) -> Result<(M, Vec<String>), String> {
    let message = json::from_str(text).map_err(|e| e.to_string())?;
    let value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut paths = Vec::new();
    walk(&dynamic::descriptor::<M>(), &value, "", &mut paths);
    Ok((message, paths))
}

/// Every field of a message: what a put that replaces the object changes. (`*` would do the same,
/// but leaves no field out.)
pub(crate) fn all<M: Name>() -> Vec<String> {
    dynamic::descriptor::<M>().fields().map(|field| field.name().to_owned()).collect()
}

fn walk(descriptor: &MessageDescriptor, value: &Value, prefix: &str, paths: &mut Vec<String>) {
    let Value::Object(entries) = value else { return };
    for (name, value) in entries {
        // JSON may use either name; what is unknown was refused before.
        let by_json_name = descriptor.get_field_by_json_name(name);
        let Some(field) = by_json_name.or_else(|| descriptor.get_field_by_name(name)) else {
            continue;
        };
        let path = format!("{prefix}{}", field.name());
        let one = !field.is_list() && !field.is_map();
        match field.kind() {
            Kind::Message(inner) if one && opens_up(&inner, value) => {
                walk(&inner, value, &format!("{path}."), paths);
            }
            _ => paths.push(path),
        }
    }
}

/// Whether the leaves of a message are named one by one: not those of an empty one, which is
/// cleared; not alternatives, of which naming one means leaving the others.
fn opens_up(inner: &MessageDescriptor, value: &Value) -> bool {
    let alternatives = inner.oneofs().any(|oneof| !oneof.is_synthetic());
    !alternatives && value.as_object().is_some_and(|entries| !entries.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotwise_proto::v1::Campaign;

    #[test]
    fn exactly_the_named_leaves_are_in_the_mask() {
        let text = r#"{
            "campaignId": "7:summer", "start_time": "2026-12-01T00:00:00Z", "strictCaps": false,
            "budget": {"dailyMicros": "5250000"}, "price": {"clickMicros": "1"}, "caps": [],
            "targeting": {}, "endTime": null
        }"#;
        let (campaign, mut paths) = read::<Campaign>(text).unwrap();
        paths.sort();
        assert_eq!(campaign.campaign_id, "7:summer");
        assert_eq!(
            paths,
            [
                "budget.daily_micros",
                "campaign_id",
                "caps",
                "end_time",
                "price",
                "start_time",
                "strict_caps",
                "targeting",
            ]
        );
    }

    #[test]
    fn an_unknown_field_is_named() {
        let refused = read::<Campaign>(r#"{"budgets": {}}"#).unwrap_err();
        assert!(refused.contains("budgets"), "{refused}");
    }
}
