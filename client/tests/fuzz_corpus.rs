//! What the fuzz targets assert of the files that the ops tool reads, of every file that is kept
//! of them (`server/fuzz`).

#![cfg(feature = "ctl")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "these functions are tests: they stop where something is not as promised"
)]

#[path = "../../server/fuzz/src/corpus.rs"]
mod corpus;
#[path = "../../server/fuzz/src/import_file.rs"]
mod import_file;
#[path = "../../server/fuzz/src/replay.rs"]
mod replay;

use slotwise_client::ctl::files::Form;

#[test]
fn each_line_of_an_import_file_is_judged_alone() {
    corpus::each("import_file", import_file::check);
}

#[test]
fn an_event_of_a_csv_file_that_is_written_again_is_read_as_itself() {
    corpus::each("replay_csv", |data| replay::check(data, Form::Csv));
}

#[test]
fn an_event_of_an_ndjson_file_that_is_written_again_is_read_as_itself() {
    corpus::each("replay_ndjson", |data| replay::check(data, Form::Ndjson));
}
