//! Protobuf's canonical JSON form of the contract's messages, strict on the way in.

use prost::{Message, Name};
use prost_reflect::{DeserializeOptions, DynamicMessage, SerializeOptions};

use crate::dynamic;

/// Why a text is not the JSON form of a message.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON at all; the text says where.
    #[error("{0}")]
    NotJson(#[from] serde_json::Error),
    /// An unknown field, or a value of the wrong type.
    #[error("{field}: {error}")]
    Field {
        /// Where, as a path such as `ad.zones[3].ecpmMicros`.
        field: String,
        /// What is wrong, and at which line and column.
        error: serde_json::Error,
    },
    /// The fields do not form the wanted message.
    #[error("{0}")]
    Decode(#[from] prost::DecodeError),
}

/// Reads one message from the whole of `text`. Unknown fields are refused, and named.
///
/// # Errors
/// See [`JsonError`].
pub fn from_str<M: Message + Name + Default>(text: &str) -> Result<M, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let mut track = serde_path_to_error::Track::new();
    let message = DynamicMessage::deserialize_with_options(
        dynamic::descriptor::<M>(),
        serde_path_to_error::Deserializer::new(&mut reader, &mut track),
        &options,
    );
    let message = message.map_err(|error| match track.path() {
        // Not even the outermost object could be read.
        path if path.iter().next().is_none() || !error.is_data() => JsonError::NotJson(error),
        path => JsonError::Field { field: path.to_string(), error },
    })?;
    reader.end()?;
    Ok(dynamic::from_dynamic(&message)?)
}

/// `message` on one line, fields in camelCase, fields at their default left out.
pub fn to_string<M: Message + Name>(message: &M) -> String {
    to_value(message).to_string()
}

/// `message` as a JSON value; see [`to_string`].
pub fn to_value<M: Message + Name>(message: &M) -> serde_json::Value {
    // Only a map key that is no string could fail, and protobuf's JSON form has none.
    #[allow(clippy::expect_used)]
    dynamic::to_dynamic(message)
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .expect("a message of the contract has a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Account, CatalogRecord, catalog_record::Record};

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let account = Account { account_id: "acme".into(), version: 7, ..Account::default() };
        let record = CatalogRecord { record: Some(Record::Account(account)) };
        let text = to_string(&record);
        assert_eq!(text, r#"{"account":{"accountId":"acme","version":"7"}}"#);
        assert_eq!(from_str::<CatalogRecord>(&text).unwrap(), record);
    }

    #[test]
    fn unknown_fields_and_wrong_values_are_named() {
        let unknown = from_str::<CatalogRecord>(r#"{"account":{"acountId":"x"}}"#).unwrap_err();
        assert!(unknown.to_string().contains("acountId"), "{unknown}");
        let nan = from_str::<CatalogRecord>(r#"{"ad":{"ecpmMicros":"NaN"}}"#).unwrap_err();
        assert!(nan.to_string().starts_with("ad.ecpmMicros: "), "{nan}");
        assert!(nan.to_string().contains("line 1"), "{nan}");
        let deep = from_str::<CatalogRecord>(r#"{"ad":{"zones":[{},{"ecpmMicros":"2,5"}]}}"#);
        assert!(deep.unwrap_err().to_string().starts_with("ad.zones[1].ecpmMicros: "));
        assert!(from_str::<CatalogRecord>("{} {}").is_err(), "one message and nothing after it");
        assert!(from_str::<CatalogRecord>("not json").is_err());
    }
}
