//! What the fuzz targets assert, of every file that is kept of them (`server/fuzz`): the hard cases
//! that we thought of, and those that fuzzing found. Files of the ops tool are with the client
//! (`client/tests/fuzz_corpus.rs`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these functions are tests: they stop where something is not as promised"
)]

#[path = "../fuzz/src/catalogue.rs"]
mod catalogue;
#[path = "../fuzz/src/corpus.rs"]
mod corpus;
#[path = "../fuzz/src/event_door.rs"]
mod event_door;
#[path = "../fuzz/src/expression.rs"]
mod expression;
#[path = "../fuzz/src/token_keys.rs"]
mod token_keys;
#[path = "../fuzz/src/tokens.rs"]
mod tokens;

#[test]
fn a_token_is_read_as_the_table_says_and_only_under_its_own_key() {
    corpus::each("tokens", tokens::check);
}

#[test]
fn a_file_of_keys_that_is_refused_is_not_repeated() {
    corpus::each("token_keys", token_keys::check);
}

#[test]
fn a_request_of_the_event_door_does_what_the_rules_say_and_nothing_else() {
    let doors = event_door::Doors::new();
    corpus::each("event_door", |data| doors.check(data));
}

#[test]
fn an_import_is_there_as_it_was_sent_or_changes_nothing() {
    let imports = catalogue::Imports::new();
    corpus::each("catalogue_json", |data| imports.check_json(data));
}

#[test]
fn an_import_from_the_wire_is_there_as_it_was_sent_or_changes_nothing() {
    let imports = catalogue::Imports::new();
    corpus::each("catalogue_wire", |data| imports.check_wire(data));
}

#[test]
fn an_expression_answers_the_same_however_it_is_written() {
    corpus::each("expression", expression::check);
}
