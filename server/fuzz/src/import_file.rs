//! Import files, as the ops tool reads them: each line is judged alone, nothing is given out of a
//! bad file, and what is read can be written down and read again.

use slotwise_client::ctl::files::{Lines, catalogue};
use slotwise_client::v1::CatalogRecord;
use slotwise_proto::json;

/// So many problems are told.
const PROBLEMS_TOLD_MAX: usize = 100;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Holds `data` against the rules of import files.
pub fn check(data: &[u8]) {
    let whole = catalogue(data).unwrap();
    assert!(whole.is_whole);
    let text = data.strip_prefix(BYTE_ORDER_MARK).unwrap_or(data);
    let mut expected = Lines::default();
    for (line, alone) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        // Only the file may begin with the mark, and once.
        if alone.starts_with(BYTE_ORDER_MARK) {
            expected.problems.push((line, String::new()));
            continue;
        }
        let judged = catalogue(alone).unwrap();
        assert!(judged.sound.len() + judged.problems.len() <= 1, "{}", alone.escape_ascii());
        expected.sound.extend(judged.sound.into_iter().map(|(_, record)| (line, record)));
        expected.problems.extend(judged.problems.into_iter().map(|(_, what)| (line, what)));
    }
    expected.problems.truncate(PROBLEMS_TOLD_MAX);
    let lines =
        |problems: &[(u64, String)]| problems.iter().map(|(line, _)| *line).collect::<Vec<_>>();
    assert_eq!(lines(&whole.problems), lines(&expected.problems), "{}", data.escape_ascii());
    for (_, what) in &whole.problems {
        assert!(!what.is_empty() && !what.contains(" at line 1 column "), "{what}");
    }
    if !whole.problems.is_empty() {
        assert!(whole.sound.is_empty(), "nothing is given out of a bad file");
        return;
    }
    assert_eq!(whole.sound, expected.sound, "{}", data.escape_ascii());
    let records: Vec<CatalogRecord> = whole.sound.into_iter().map(|(_, record)| record).collect();
    let written: String = records.iter().map(|record| json::to_string(record) + "\n").collect();
    let again = catalogue(written.as_bytes()).unwrap();
    assert_eq!(again.problems, [], "{written}");
    assert_eq!(again.sound, (1..).zip(records).collect::<Vec<_>>(), "{written}");
}
