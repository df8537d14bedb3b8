//! An import file, read and checked as a whole before anything is sent. Good records wait in an
//! unnamed temporary file, so that a file larger than memory imports, and standard input too.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};

use prost::Message;
use slotwise_proto::json;
use slotwise_proto::v1::CatalogRecord;

use crate::ctl::error::Error;

/// The largest record, an ad with 10,000 zones and 32 KiB of markup, fits twice.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// More would scroll away.
const PROBLEMS_SHOWN_MAX: usize = 100;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The records of a good file, in order.
#[derive(Debug)]
pub(crate) struct Spool {
    file: BufReader<File>,
    /// The line of each record, counted from 1.
    lines: Vec<u64>,
}

/// What is wrong with a file.
#[derive(Debug)]
pub(crate) struct Problems {
    /// Lines and what is wrong with them, at most 100.
    pub(crate) shown: Vec<(u64, String)>,
    /// How many there are in all.
    pub(crate) count: u64,
}

/// Reads NDJSON to its end: a [`CatalogRecord`] a line, blank lines skipped. `progress` hears of
/// each line. Every bad line is counted; nothing is given out unless all are good.
pub(crate) fn read(
    name: &str,
    mut source: impl BufRead,
    mut progress: impl FnMut(u64),
) -> Result<Result<Spool, Problems>, Error> {
    let spool_failed = || Error::io("temporary file");
    let mut spool = BufWriter::new(tempfile::tempfile().map_err(spool_failed())?);
    let mut lines = Vec::new();
    let mut problems = Problems { shown: Vec::new(), count: 0 };
    let (mut line, mut buffer) = (0, Vec::new());
    while read_line(&mut source, &mut buffer).map_err(Error::io(name))? {
        line += 1;
        progress(line);
        match parse(&buffer, line == 1) {
            Ok(None) => {}
            Ok(Some(record)) => {
                lines.push(line);
                spool.write_all(&frame(&record)).map_err(spool_failed())?;
            }
            Err(problem) => {
                problems.count += 1;
                if problems.shown.len() < PROBLEMS_SHOWN_MAX {
                    problems.shown.push((line, problem));
                }
            }
        }
    }
    if problems.count > 0 {
        return Ok(Err(problems));
    }
    let mut file = spool.into_inner().map_err(|e| e.into_error()).map_err(spool_failed())?;
    file.rewind().map_err(spool_failed())?;
    Ok(Ok(Spool { file: BufReader::new(file), lines }))
}

/// Reads the next line into `buffer`, at most one byte more than a line may have, and skips what
/// is left of it. False at the end.
fn read_line(source: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.clear();
    source.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', buffer)?;
    if buffer.len() as u64 > LINE_BYTES_MAX && buffer.last() != Some(&b'\n') {
        source.skip_until(b'\n')?;
    }
    Ok(!buffer.is_empty())
}

/// The record on a line; none on a blank one.
fn parse(mut bytes: &[u8], is_first: bool) -> Result<Option<CatalogRecord>, String> {
    if bytes.len() as u64 > LINE_BYTES_MAX {
        return Err(format!("longer than {LINE_BYTES_MAX} bytes: one record a line is wanted"));
    }
    if is_first {
        bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with('{') {
        return Err("not a JSON object: one record a line is wanted, such as \
                    {\"account\":{\"accountId\":\"acme\"}}"
            .to_owned());
    }
    // Each line is read alone, so it is always "line 1" to the parser.
    let record: CatalogRecord = json::from_str(text)
        .map_err(|e| e.to_string().replace(" at line 1 column ", " at column "))?;
    if record.record.is_none() {
        return Err("holds no record: account, site, zone, campaign or ad".to_owned());
    }
    Ok(Some(record))
}

/// A record behind its length in four bytes.
fn frame(record: &CatalogRecord) -> Vec<u8> {
    let body = record.encode_to_vec();
    // A line has at most 4 MiB, and the binary form is shorter than the JSON form.
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], &body].concat()
}

impl Spool {
    /// How many records it holds.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The line of each record, for the server's answer.
    pub(crate) fn lines(&self) -> Vec<u64> {
        self.lines.clone()
    }

    /// The next record; none when all were read.
    pub(crate) fn next(&mut self) -> io::Result<Option<CatalogRecord>> {
        let mut length = [0; 4];
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.file.read_exact(&mut length)?;
        let mut body = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap_or(0)];
        self.file.read_exact(&mut body)?;
        Ok(Some(CatalogRecord::decode(&body[..])?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &[u8]) -> Result<Spool, Problems> {
        read("test", text, |_| {}).unwrap()
    }

    #[test]
    fn records_come_back_in_order_with_their_lines() {
        let text = b"\xef\xbb\xbf{\"account\":{\"accountId\":\"a\"}}\r\n\n  \n\
                     {\"zone\":{\"siteId\":\"s\",\"zone_id\":\"z\"}}";
        let mut spool = read_text(text).unwrap();
        assert_eq!(spool.lines(), [1, 4]);
        let mut records = Vec::new();
        while let Some(record) = spool.next().unwrap() {
            records.push(json::to_string(&record));
        }
        let expected =
            [r#"{"account":{"accountId":"a"}}"#, r#"{"zone":{"siteId":"s","zoneId":"z"}}"#];
        assert_eq!(records, expected);
        assert_eq!(read_text(b"\n\n").unwrap().len(), 0);
    }

    #[test]
    fn each_bad_line_is_named() {
        let text =
            b"{\"account\":{}}\nnot json\n{\"account\":{\"acountId\":\"x\"}}\n{}\n\xff\xfe\n\
                     {\"account\":\n";
        let problems = read_text(text).unwrap_err();
        let lines: Vec<u64> = problems.shown.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6]);
        assert!(problems.shown[0].1.contains("not a JSON object"));
        assert!(problems.shown[1].1.contains("acountId"), "{}", problems.shown[1].1);
        assert!(problems.shown[2].1.contains("holds no record"));
        assert!(problems.shown[3].1.contains("UTF-8"));
    }

    #[test]
    fn a_file_of_another_kind_is_refused_in_bounded_memory() {
        let problems = read_text("x\n".repeat(1_000).as_bytes()).unwrap_err();
        assert_eq!((problems.shown.len(), problems.count), (100, 1_000));
        let mut endless = vec![b'{'; 6 << 20];
        endless.extend(b"\n{}\n");
        let problems = read_text(&endless).unwrap_err();
        assert!(problems.shown[0].1.contains("longer than"), "{}", problems.shown[0].1);
        assert_eq!((problems.shown[1].0, problems.count), (2, 2));
    }
}
