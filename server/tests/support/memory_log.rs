//! A log in memory: batches in order, for each partition. It can be written to a file and read
//! back, for another process.

#![allow(dead_code, clippy::cast_possible_truncation)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use async_trait::async_trait;
use slotwise_server::events::{Event, Partition, batch};
use slotwise_server::ports::{EventLog, LogBatch, Position, StoreError};

#[derive(Default)]
pub struct MemoryLog {
    partitions: Mutex<BTreeMap<Partition, Vec<LogBatch>>>,
    /// When it takes what is appended.
    pub now_us: AtomicI64,
    /// How many batches it gives at once; 0: as many as there are.
    pub at_once: AtomicUsize,
}

impl MemoryLog {
    /// Appends a batch of `events`.
    pub fn put(&self, partition: Partition, events: &[Event]) {
        self.put_bytes(partition, batch::encode(events));
    }

    /// Appends whatever `bytes` are.
    pub fn put_bytes(&self, partition: Partition, bytes: Vec<u8>) {
        let mut partitions = self.partitions.lock().unwrap();
        let batches = partitions.entry(partition).or_default();
        let position = Position(batches.last().map_or(0, |last| last.position.0) + 1);
        let appended_at_us = self.now_us.load(Ordering::SeqCst);
        batches.push(LogBatch { position, appended_at_us, bytes });
    }

    /// Batches that are still there.
    pub fn batches(&self) -> usize {
        self.partitions.lock().unwrap().values().map(Vec::len).sum()
    }

    /// The last batch of a partition.
    pub fn end(&self, partition: Partition) -> Position {
        let partitions = self.partitions.lock().unwrap();
        let last = partitions.get(&partition).and_then(|batches| batches.last());
        last.map(|last| last.position).unwrap_or_default()
    }

    pub fn save(&self, path: &Path) {
        let mut out = Vec::new();
        for (partition, batches) in &*self.partitions.lock().unwrap() {
            for batch in batches {
                out.push(partition.0);
                out.extend(batch.appended_at_us.to_le_bytes());
                out.extend((batch.bytes.len() as u32).to_le_bytes());
                out.extend(&batch.bytes);
            }
        }
        std::fs::write(path, out).unwrap();
    }

    pub fn load(path: &Path) -> Self {
        let (log, bytes) = (Self::default(), std::fs::read(path).unwrap());
        let mut rest = &bytes[..];
        while let [partition, after @ ..] = rest {
            let (appended, after) = after.split_first_chunk().unwrap();
            let (length, after) = after.split_first_chunk().unwrap();
            let (batch, after) = after.split_at(u32::from_le_bytes(*length) as usize);
            log.now_us.store(i64::from_le_bytes(*appended), Ordering::SeqCst);
            log.put_bytes(Partition(*partition), batch.to_vec());
            rest = after;
        }
        log
    }
}

#[async_trait]
impl EventLog for MemoryLog {
    async fn append(&self, batches: Vec<(Partition, Vec<u8>)>) -> Result<(), StoreError> {
        batches.into_iter().for_each(|(partition, bytes)| self.put_bytes(partition, bytes));
        Ok(())
    }

    async fn read(
        &self,
        partition: Partition,
        after: Position,
        bytes_max: usize,
    ) -> Result<Vec<LogBatch>, StoreError> {
        let partitions = self.partitions.lock().unwrap();
        let batches = partitions.get(&partition).into_iter().flatten();
        let (mut found, mut bytes) = (Vec::new(), 0);
        let at_once = match self.at_once.load(Ordering::SeqCst) {
            0 => usize::MAX,
            at_once => at_once,
        };
        for batch in batches.filter(|batch| batch.position > after).take(at_once) {
            bytes += batch.bytes.len();
            if !found.is_empty() && bytes > bytes_max {
                break;
            }
            found.push(batch.clone());
        }
        Ok(found)
    }

    async fn trim(
        &self,
        partition: Partition,
        counted: Position,
        before_us: i64,
    ) -> Result<u64, StoreError> {
        let mut partitions = self.partitions.lock().unwrap();
        let batches = partitions.entry(partition).or_default();
        let before = batches.len();
        batches.retain(|batch| batch.position > counted || batch.appended_at_us >= before_us);
        Ok((before - batches.len()) as u64)
    }
}
